"""Cold copies: a backup starts when a node fails, and goes on where that one stopped.

This is what the paper's RPC backup does (Thamarai Selvi et al., section 4.6.2), while its formulas and
figures are those of hot copies. Who stands by does not fail. A job that has to begin anew is
`leasehold.matching.reliability.restart`.
"""

import math
from collections.abc import Sequence

from leasehold.matching.reliability.lifetimes import Lifetime, require_k_of_m, require_positive
from leasehold.matching.reliability.quadrature import integrate


def cold_of_like(needed: int, nodes: int, rate_per_s: float, time_s: float) -> float:
    """How likely do k of m like exponential nodes last, of which m - k stand by?

    Rule: k run at any time, so failures come at rate k lambda, and m - k of them are survived:
    ``sum over i from 0 to m - k of (k lambda t)^i exp(-k lambda t) / i!``.
    Source: the Poisson process; for k = 1 the usual formula of cold standby.

    Raises InvalidField.
    """
    require_k_of_m(needed, nodes)
    require_positive("rate_per_s", rate_per_s)
    expected = needed * rate_per_s * time_s
    return math.fsum(_poisson(failures, expected) for failures in range(nodes - needed + 1))


def mean_life_of_cold_s(needed: int, nodes: int, rate_per_s: float) -> float:
    """How long do they last, in seconds? ``(m - k + 1) / (k lambda)``. Raises InvalidField."""
    require_k_of_m(needed, nodes)
    require_positive("rate_per_s", rate_per_s)
    return (nodes - needed + 1) / (needed * rate_per_s)


def cold_of_unlike(rates_per_s: Sequence[float], time_s: float) -> float:
    """How likely does one of these exponential nodes, one after the other, last?

    Rule: the time is a sum of exponential ones. Steps come at the greatest rate, and at each the node at
    work fails with its share of it; that so many steps have come is Poisson. All terms are positive, so
    that nothing is lost where rates are equal or nearly so, as in the closed form with its differences of
    rates.
    Source: uniformization (Jensen 1953). Terms below 1e-15 in all are left out.

    Raises InvalidField.
    """
    require_k_of_m(1, len(rates_per_s))
    for rate in rates_per_s:
        require_positive("rate_per_s", rate)
    fastest = max(rates_per_s)
    expected, shares = fastest * time_s, [rate / fastest for rate in rates_per_s]
    at_work, survival = [1.0, *[0.0] * (len(rates_per_s) - 1)], 0.0
    for steps in range(_most_steps(expected)):
        survival += _poisson(steps, expected) * math.fsum(at_work)
        at_work = _step(at_work, shares)
    return survival


def _most_steps(expected: float) -> int:
    """Give so many steps that more come less often than once in 1e15 times."""
    return math.ceil(expected + 10 * math.sqrt(expected) + 30)


def _step(at_work: Sequence[float], fails: Sequence[float]) -> list[float]:
    stays = [chance * (1 - fail) for chance, fail in zip(at_work, fails, strict=True)]
    comes = [0.0, *(chance * fail for chance, fail in zip(at_work, fails, strict=True))]
    return [stay + come for stay, come in zip(stays, comes, strict=False)]


def _poisson(count: int, expected: float) -> float:
    if expected == 0:
        return 1.0 if count == 0 else 0.0
    return math.exp(count * math.log(expected) - expected - math.lgamma(count + 1))


def cold_by_quadrature(lifetimes: Sequence[Lifetime], time_s: float) -> float:
    """How likely does one of these nodes, one after the other, last, whatever their lifetimes are?

    Rule: ``R_1(t) = S_1(t)``; with more, ``S_1(t) + integral from 0 to F_1(t) of R_rest(t - Q_1(u)) du``: the
    first lasts, or fails at its u-quantile. The steps multiply with each node: meant for up to four.
    Source: the convolution, with the quantile put in, so that a density that is infinite at 0 does no harm.
    """
    first, *rest = lifetimes
    lasts = first.survival(time_s)
    if not rest:
        return lasts
    return lasts + integrate(
        lambda failed: cold_by_quadrature(rest, max(0.0, time_s - first.quantile(failed))), 0.0, 1.0 - lasts
    )
