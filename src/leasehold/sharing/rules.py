"""Rules about single requests: how long, in which hours, and how much may be reserved in advance.

Dumitrescu et al. 2007, section 2.1, has those of DAS: nothing longer than 15 minutes from 08:00 to 20:00;
larger projects reserve at most half of the resources in advance, for at most two weeks.
"""

from dataclasses import dataclass

from leasehold.model.agreement import CPUS, MILLION, Rules
from leasehold.model.reason import Reason
from leasehold.sharing.asking import Ask
from leasehold.sharing.hours import earliest_start_ms


@dataclass(frozen=True, slots=True)
class Broken:
    """A rule that is broken: why, what was asked and what is allowed, and when it would not be broken."""

    reason: Reason
    asked: int
    allowed: int
    next_ms: int | None = None


def broken_by_length(rules: Rules, ask: Ask, starts_at_ms: int) -> Broken | None:
    """Say whether a request is too long, always or at these hours; ``starts_at_ms`` is time 0, Unix ms."""
    longest_ms = rules.longest_ms
    if longest_ms is None or ask.duration_ms <= longest_ms:
        return None
    if rules.hours is None:
        return Broken(Reason.EXCEEDS_AGREED_DURATION, ask.duration_ms, longest_ms)
    from_ms = starts_at_ms + ask.start_ms
    start_ms = earliest_start_ms(ask.duration_ms, rules.hours, longest_ms, from_ms)
    if start_ms is None:
        return Broken(Reason.EXCEEDS_AGREED_DURATION, ask.duration_ms, longest_ms)
    if start_ms == from_ms:
        return None
    return Broken(Reason.OUTSIDE_AGREED_HOURS, ask.duration_ms, longest_ms, start_ms - starts_at_ms)


def broken_by_reservation(rules: Rules, ask: Ask, reserved: int, capacity: int) -> Broken | None:
    """Say whether more would be reserved in advance than may be; ``reserved`` CPUs of ``capacity`` are."""
    if not ask.is_reservation:
        return None
    if rules.reserved_longest_ms is not None and ask.duration_ms > rules.reserved_longest_ms:
        return Broken(Reason.EXCEEDS_AGREED_DURATION, ask.duration_ms, rules.reserved_longest_ms)
    if rules.reserved_ppm is None:
        return None
    most = capacity * rules.reserved_ppm // MILLION
    if ask.amounts[CPUS] > most:
        return Broken(Reason.EXCEEDS_AGREEMENT, ask.amounts[CPUS], most)
    if reserved + ask.amounts[CPUS] > most:
        return Broken(Reason.RESERVATION_LIMIT_REACHED, reserved + ask.amounts[CPUS], most)
    return None
