"""A breach in words: ``atlas used 31.2% of its 30% over 20 min at das3; next room 14:05``."""

from collections.abc import Callable
from itertools import pairwise

from leasehold.model.agreement import CPUS, EVERYBODY, MEMORY, Breach
from leasehold.model.reason import Reason

_UNITS = ((86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1_000, "s"))
_SHORT = 100


def in_words(breach: Breach, said_at: Callable[[int], str]) -> str:
    """Return one sentence without its full stop; ``said_at`` formats a moment (ms) for the reader."""
    sentence = _TELLERS[breach.reason](breach)
    return sentence if breach.next_ms is None else f"{sentence}; next room {said_at(breach.next_ms)}"


def _subject(breach: Breach) -> str:
    return "all guests together" if breach.consumer == EVERYBODY else breach.consumer


def _where(breach: Breach) -> str:
    return "in the federation" if breach.provider == EVERYBODY else f"at {breach.provider}"


def _of(breach: Breach) -> str:
    return "" if breach.resource == CPUS else f" of {breach.resource}"


def _share(breach: Breach) -> str:
    used, limit = percent(breach.used), percent(breach.limit)
    over = f"over {span(breach.window_ms)} {_where(breach)}"
    return f"{_subject(breach)} used {used} of its {limit}{_of(breach)} {over}"


def _at_a_time(breach: Breach) -> str:
    return f"{_subject(breach)} has {_units(breach, breach.used)} of its {breach.limit} at a time {_where(breach)}"


def _too_much(breach: Breach) -> str:
    requested = _units(breach, breach.used)
    return f"asks for {requested}, and {_subject(breach)} may have {breach.limit} at a time {_where(breach)}"


def _too_long(breach: Breach) -> str:
    requested, allowed = span(breach.used), span(breach.limit)
    return f"takes {requested}, and {_subject(breach)} may run for {allowed} {_where(breach)}"


def _hours(breach: Breach) -> str:
    return f"{_too_long(breach)} at these hours"


def _reserved(breach: Breach) -> str:
    return f"{breach.used} VMs would be reserved in advance {_where(breach)}, and at most {breach.limit} may be"


def _no_agreement(breach: Breach) -> str:
    return f"{breach.consumer} has no agreement {_where(breach)}"


def _not_there(breach: Breach) -> str:
    return f"asks for {breach.used}{_of(breach)}, and {breach.provider} has {breach.limit}"


def _in_use(breach: Breach) -> str:
    return f"{breach.used} of {breach.limit}{_of(breach)} are in use {_where(breach)}"


def _behind(breach: Breach) -> str:
    return f"{_subject(breach)} may have only so much {_where(breach)}"


_TELLERS: dict[Reason, Callable[[Breach], str]] = {
    Reason.SHARE_EXHAUSTED: _share,
    Reason.CONCURRENCY_LIMIT_REACHED: _at_a_time,
    Reason.EXCEEDS_AGREEMENT: _too_much,
    Reason.EXCEEDS_AGREED_DURATION: _too_long,
    Reason.OUTSIDE_AGREED_HOURS: _hours,
    Reason.RESERVATION_LIMIT_REACHED: _reserved,
    Reason.NO_AGREEMENT: _no_agreement,
    Reason.PREEMPTABLE_ONLY: _no_agreement,
    Reason.NOT_A_MEMBER: _no_agreement,
    Reason.RESOURCE_UNAVAILABLE: _not_there,
    Reason.RESOURCE_IN_USE: _in_use,
    Reason.BEHIND_OWN_REQUEST: _behind,
}


def _units(breach: Breach, units: int) -> str:
    if breach.resource == CPUS:
        return f"{units} VMs" if units != 1 else "1 VM"
    return f"{units} MiB" if breach.resource == MEMORY else f"{units} of {breach.resource}"


def percent(ppm: int) -> str:
    """Say a share to a tenth of a percent."""
    return f"{ppm / 10_000:.1f}%".replace(".0%", "%")


def span(duration_ms: int) -> str:
    """Say a duration in one unit where that is exact and short, else in two."""
    for size_ms, unit in _UNITS:
        if duration_ms % size_ms == 0 and 0 < duration_ms // size_ms < _SHORT:
            return f"{duration_ms // size_ms} {unit}"
    for (size_ms, unit), (part_ms, part) in pairwise(_UNITS):
        if duration_ms >= size_ms:
            return f"{duration_ms // size_ms} {unit} {duration_ms % size_ms // part_ms} {part}"
    return f"{duration_ms / 1000:g} s"
