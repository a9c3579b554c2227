"""How much an agreement gives: ``kind`` and the keys that go with it.

A share is a number from 0 to 1 of what the provider has, as every share in Leasehold's files: ``0.3`` is 30%.
It is kept to the millionth.
"""

from collections.abc import Callable

from leasehold.configuration.declaration import Plain, seconds
from leasehold.configuration.keys import Keys
from leasehold.model.agreement import MILLION, Commitment, Limit, NoLimit, TimeDecay, UsageDecay
from leasehold.model.errors import InvalidField
from leasehold.sharing.limits.over import reach_ms

_DECAY, _UDECAY = TimeDecay(0, 1), UsageDecay(0, 1)
"""What is as usual unless a file says otherwise."""

MOST_WINDOWS = 366
"""The most windows that a limit looks at: a year of days. Each is summed up for each window to come."""

LEAST_WINDOW_MS = 1_000
MOST_REACH_MS = 10 * 366 * 86_400_000
"""The longest window, and all windows of a limit together: ten years."""

_MOST_STEPS = 100
_A_PAIR = 2
_STEPS = (
    f"1 to {_MOST_STEPS} pairs of a utilisation and its factor, each from 0 to 1, "
    "as in [[0.5, 0.5], [0.2, 0.2]]"
)


def read_limit(keys: Keys) -> Limit:
    """Take ``kind`` and what belongs to it; raises InvalidField or UnknownName with the place of the key."""
    limit = _READERS[keys.name_of("kind", _READERS)](keys)
    if reach_ms(limit) > MOST_REACH_MS:
        expected = f"windows of at most {MOST_REACH_MS // 1000} s (ten years) together"
        raise InvalidField(keys.where("window_s"), reach_ms(limit) / 1000, expected)
    return limit


def _no_limit(keys: Keys) -> NoLimit:  # noqa: ARG001 - one form for all kinds
    return NoLimit()


def _commitment(keys: Keys) -> Commitment:
    return Commitment(
        epoch_ppm=read_share(keys, "epoch_share"),
        epoch_ms=_window(keys, "epoch_s"),
        burst_ppm=read_share(keys, "burst_share"),
        burst_ms=_window(keys, "burst_s"),
    )


def _decay(keys: Keys) -> TimeDecay:
    return TimeDecay(
        share_ppm=read_share(keys, "share"),
        window_ms=_window(keys, "window_s"),
        factors_ppm=_factors(keys),
        normalise=keys.flag("normalise", default=False),
    )


def _udecay(keys: Keys) -> UsageDecay:
    return UsageDecay(
        share_ppm=read_share(keys, "share"),
        window_ms=_window(keys, "window_s"),
        windows=keys.whole("windows", _UDECAY.windows, most=MOST_WINDOWS - 1),
        steps=_steps(keys),
        normalise=keys.flag("normalise", default=False),
    )


_READERS: dict[str, Callable[[Keys], Limit]] = {
    "no-limit": _no_limit,
    "commitment": _commitment,
    "decay": _decay,
    "udecay": _udecay,
}
KINDS = tuple(_READERS)
"""The names of the four kinds (Dumitrescu et al. 2007, section 4.1)."""


def read_share(keys: Keys, key: str) -> int:
    """Take a share and give it in ppm."""
    return ppm(keys.number(key, least=0, most=1))


def ppm(share: float) -> int:
    """Give a number from 0 to 1 in whole parts per million."""
    return round(share * MILLION)


def share_of(share_ppm: int) -> float:
    """Give ppm as a number from 0 to 1, whole where it is one."""
    return share_ppm // MILLION if share_ppm % MILLION == 0 else share_ppm / MILLION


def _window(keys: Keys, key: str) -> int:
    return keys.milliseconds(key, least_ms=LEAST_WINDOW_MS, most_ms=MOST_REACH_MS)


def _factors(keys: Keys) -> tuple[int, ...]:
    """Take ``factors``: the weight of the present window first."""
    value = keys.take("factors", None)
    if value is None:
        return _DECAY.factors_ppm
    if not _is_list(value, MOST_WINDOWS) or not all(map(_is_share, value)):
        expected = f"1 to {MOST_WINDOWS} numbers from 0 to 1, as in [1, 0.5, 0.2, 0.1]"
        raise InvalidField(keys.where("factors"), value, expected)
    return tuple(map(ppm, value))


def _steps(keys: Keys) -> tuple[tuple[int, int], ...]:
    """Take ``steps``, in any order; they are kept with the highest utilisation first."""
    value = keys.take("steps", None)
    if value is None:
        return _UDECAY.steps
    if not _is_list(value, _MOST_STEPS) or not all(map(_is_step, value)):
        raise InvalidField(keys.where("steps"), value, _STEPS)
    steps = sorted(((ppm(at), ppm(factor)) for at, factor in value), reverse=True)
    if len({at for at, _ in steps}) < len(steps):
        raise InvalidField(keys.where("steps"), value, "each utilisation once")
    return tuple(steps)


def _is_list(value: object, most: int) -> bool:
    return isinstance(value, list) and 1 <= len(value) <= most


def _is_share(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= 1


def _is_step(value: object) -> bool:
    return isinstance(value, list) and len(value) == _A_PAIR and all(map(_is_share, value))


def limit_to_dict(limit: Limit) -> Plain:
    """Give ``kind`` and its keys, complete."""
    match limit:
        case NoLimit():
            return {"kind": "no-limit"}
        case Commitment():
            epoch = {"epoch_share": share_of(limit.epoch_ppm)} | seconds("epoch_s", limit.epoch_ms)
            burst = {"burst_share": share_of(limit.burst_ppm)} | seconds("burst_s", limit.burst_ms)
            return {"kind": "commitment"} | epoch | burst
        case TimeDecay():
            told = {"kind": "decay", "share": share_of(limit.share_ppm)} | seconds(
                "window_s", limit.window_ms
            )
            return told | {"factors": list(map(share_of, limit.factors_ppm)), "normalise": limit.normalise}
        case UsageDecay():
            told = {"kind": "udecay", "share": share_of(limit.share_ppm)} | seconds(
                "window_s", limit.window_ms
            )
            steps = [[share_of(at), share_of(factor)] for at, factor in limit.steps]
            return told | {"windows": limit.windows, "steps": steps, "normalise": limit.normalise}
