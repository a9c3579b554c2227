"""What is asked of agreements, and rules about single requests: how long, in which hours, how much in advance.

Dumitrescu et al. 2007, section 2.1, has those of DAS: nothing longer than 15 minutes from 08:00 to 20:00;
larger projects reserve at most half of the resources in advance, for at most two weeks.

A request keeps a rule about hours if what it runs within them is at most that long, whenever that is: one of four
hours may start at a quarter to eight in the evening. Hours are those of clocks on walls: on the two days of a
year when these are changed, a span of hours is an hour shorter or longer.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from functools import lru_cache
from zoneinfo import ZoneInfo

from leasehold.model.agreement import CPUS, GPUS, MEMORY, MILLION, DailyHours, Rules
from leasehold.model.reason import Reason
from leasehold.model.request import GPU_MILLI, Request
from leasehold.model.resources import NodeResources, gpus_of
from leasehold.model.use import Holding


@dataclass(frozen=True, slots=True)
class UsageRequest:
    """One question.

    ``path``            on whose account
    ``amounts``         units of each resource
    ``duration_ms``     how long, on the machines that it is about
    ``start_ms``        from when on, at the earliest
    ``is_reservation``  whether room is booked for a time in the future
    ``may_be_preempted``  whether requests with precedence can preempt it
    ``is_foreign``      whether another token issuer, or a peer, vouches for its consumer
    """

    path: str
    amounts: Mapping[str, int]
    duration_ms: int
    start_ms: int
    is_reservation: bool = False
    may_be_preempted: bool = True
    is_foreign: bool = False

    def at(self, site: str) -> Holding:
        """What would be held at a site."""
        return Holding(self.path, site, self.amounts)


def amounts_of(request: Request) -> dict[str, int]:
    """Give the units of each resource that a request takes while it holds machines."""
    amounts = {CPUS: request.slots, MEMORY: request.vms * request.memory_mib, **dict(request.claims)}
    return amounts | gpu_amounts(request) if request.gpu_milli else amounts


def gpu_amounts(request: Request) -> dict[str, int]:
    """Give what it takes of GPUs: of all, and of the model that it names."""
    milli = request.vms * request.gpu_milli
    return {GPUS: milli, f"{GPUS}:{request.gpu_model}": milli} if request.gpu_model else {GPUS: milli}


def gpus_had(nodes: Iterable[NodeResources]) -> dict[str, int]:
    """Give what a provider has of GPUs, in thousandths: of all, and of each model; nothing without any."""
    models = gpus_of(nodes)
    if not models:
        return {}
    by_model = {f"{GPUS}:{model}": count * GPU_MILLI for model, count in models.items()}
    return {GPUS: sum(by_model.values()), **by_model}


DAYS_AHEAD = 8
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def earliest_start_ms(duration_ms: int, hours: DailyHours, longest_ms: int, from_ms: int) -> int | None:
    """When something may start at the earliest so that it keeps the rule; None where it never does.

    Times are Unix milliseconds.
    """
    for start_ms in _candidates(hours, longest_ms, from_ms):
        if _longest_within_ms(start_ms, start_ms + duration_ms, hours) <= longest_ms:
            return start_ms
    return None


def _candidates(hours: DailyHours, longest_ms: int, from_ms: int) -> Iterator[int]:
    """Now, or as late in some day's hours as just keeps the rule; what is sooner in them does not."""
    yield from_ms
    for _, end_ms in _spans(hours, from_ms, from_ms + DAYS_AHEAD * 86_400_000):
        if end_ms - longest_ms > from_ms:
            yield end_ms - longest_ms


def _longest_within_ms(begin_ms: int, end_ms: int, hours: DailyHours) -> int:
    """How long it runs within any one day's hours."""
    spans = _spans(hours, begin_ms, min(end_ms, begin_ms + DAYS_AHEAD * 86_400_000))
    overlaps = (min(end_ms, last_ms) - max(begin_ms, first_ms) for first_ms, last_ms in spans)
    return max((overlap for overlap in overlaps if overlap > 0), default=0)


def _spans(hours: DailyHours, from_ms: int, to_ms: int) -> Iterator[tuple[int, int]]:
    """Give begin and end of these hours on each day that may touch an interval, in order."""
    zone = _zone(hours.zone)
    day = (_EPOCH + timedelta(milliseconds=from_ms)).astimezone(zone).date() - timedelta(days=1)
    over_night = 1 if hours.end_min <= hours.begin_min else 0
    while True:
        midnight = datetime(day.year, day.month, day.day, tzinfo=zone)
        begin_ms = _unix_ms(midnight, hours.begin_min)
        if begin_ms >= to_ms:
            return
        yield begin_ms, _unix_ms(midnight + timedelta(days=over_night), hours.end_min)
        day += timedelta(days=1)


def _unix_ms(midnight: datetime, minutes: int) -> int:
    """When a clock on the wall shows so many minutes after midnight."""
    wall = midnight.replace(tzinfo=None) + timedelta(minutes=minutes)
    moment = wall.replace(tzinfo=midnight.tzinfo)
    return int((moment - _EPOCH) / timedelta(milliseconds=1))


@lru_cache(maxsize=64)
def _zone(name: str) -> tzinfo:
    return UTC if name == "UTC" else ZoneInfo(name)


@dataclass(frozen=True, slots=True)
class Broken:
    """A rule that is broken: why, what was asked and what is allowed, and when it would not be broken."""

    reason: Reason
    asked: int
    allowed: int
    next_ms: int | None = None


def broken_by_length(rules: Rules, ask: UsageRequest, starts_at_ms: int) -> Broken | None:
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


def broken_by_reservation(rules: Rules, ask: UsageRequest, reserved: int, capacity: int) -> Broken | None:
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
