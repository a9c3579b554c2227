"""The integral of a function, by adaptive Simpson's rule: for lifetimes that have no closed form."""

from collections.abc import Callable

_DEPTH = 40


def integrate(function: Callable[[float], float], begin: float, end: float, tolerance: float = 1e-9) -> float:
    """Give the integral to within about the tolerance.

    Rule: Simpson's rule on an interval and on its halves; where they differ by more than 15 times the
    tolerance, each half on its own with half the tolerance.
    Source: Kuncir 1962 (ACM algorithm 103), with Lyness's correction.
    """
    middle = (begin + end) / 2
    values = (function(begin), function(middle), function(end))
    return _refine(function, (begin, end), values, tolerance, _DEPTH)


def _refine(
    function: Callable[[float], float],
    ends: tuple[float, float],
    values: tuple[float, float, float],
    tolerance: float,
    depth: int,
) -> float:
    begin, end = ends
    middle = (begin + end) / 2
    left = (values[0], function((begin + middle) / 2), values[1])
    right = (values[1], function((middle + end) / 2), values[2])
    whole = _simpson(values, end - begin)
    halves = _simpson(left, middle - begin) + _simpson(right, end - middle)
    if depth == 0 or abs(halves - whole) <= 15 * tolerance:
        return halves + (halves - whole) / 15
    return _refine(function, (begin, middle), left, tolerance / 2, depth - 1) + _refine(
        function, (middle, end), right, tolerance / 2, depth - 1
    )


def _simpson(values: tuple[float, float, float], width: float) -> float:
    return width * (values[0] + 4 * values[1] + values[2]) / 6


def mean_life_by_quadrature_s(survival: Callable[[float], float], scale_s: float) -> float:
    """Give the integral of a survival function from 0 to infinity, in seconds.

    ``scale_s`` is about how long it lasts; time is ``scale * x / (1 - x)`` for x from 0 to 1. What is to come
    must fall faster than 1 / time squared.
    """

    def stretched(x: float) -> float:
        return 0.0 if x >= 1 else survival(scale_s * x / (1 - x)) / (1 - x) ** 2

    return scale_s * integrate(stretched, 0.0, 1.0)
