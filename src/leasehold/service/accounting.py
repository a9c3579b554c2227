"""What was used between two moments, by consumer and virtual domain, in all or window by window; and statements.

Everything is summed from the times for which leases held machines, and exact to the VM-millisecond. A statement
says what was agreed, used and punished. An agreement counts for the time in which it was in force: from the second
signature on, not while it, or what it is a part of, was suspended, and not after its end. What is passed on counts
as it reads beneath that.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

from leasehold.model.agreement import CPUS, EVERYBODY, GPUS, MILLION, Agreement, NoLimit
from leasehold.model.errors import InvalidField
from leasehold.protocol.usage import By
from leasehold.service.store.filters import UsageFilter, Visible
from leasehold.service.store.reading import UseChange
from leasehold.service.store.rows import PenaltyRow, UsageRow
from leasehold.sharing.book import shares_ppm, under
from leasehold.sharing.records import AgreementRecord, Records, Span, lineage

MOST_WINDOWS = 1_000
MOST_PARTS = 2_000_000
"""Into how many parts by windows all use together may fall that is summed up for one answer."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_HOUR_MS, _DAY_MS = 3_600_000, 86_400_000


Window = tuple[int, int]
"""From a moment until before another, Unix milliseconds."""


@dataclass(frozen=True, slots=True)
class Use:
    """What one consumer used of one virtual domain in one window.

    ``consumer``   a path, as deep as was asked for
    ``domain``     a virtual domain, or a site that is in none
    ``is_local``   by the site's own users: no agreement is about that
    ``vm_ms``      VMs times milliseconds
    ``peak_vms``   the most that were held at a time
    """

    window: Window
    consumer: str
    domain: str
    is_local: bool
    vm_ms: int
    leases: int
    peak_vms: int
    gpu_milli_ms: int = 0
    """Thousandths of a GPU times milliseconds."""


# Which rows


def together(finished: Sequence[UsageRow], open_: Iterable[UsageRow]) -> list[UsageRow]:
    """Join finished and open usage; a lease that has just ended counts once."""
    known = {(row.lease_id, row.begin_ms) for row in finished}
    return [*finished, *(row for row in open_ if (row.lease_id, row.begin_ms) not in known)]


def is_about(which: UsageFilter, consumer: str, path: str, site: str, domain: str) -> bool:
    """Whether a filter asks for use of this consumer, on account of this path, at this site.

    The store says the same in `leasehold.service.store.reading`.
    """
    return (
        _is_visible(which.visible, consumer, path, site)
        and (which.consumer is None or _is_under(path, which.consumer))
        and (which.domain is None or which.domain in (domain, site))
    )


def _is_visible(visible: Visible, consumer: str, path: str, site: str) -> bool:
    return (
        visible.everything
        or (bool(visible.consumer) and consumer == visible.consumer)
        or site in visible.sites
        or any(group and _is_under(path, group) for group in visible.groups)
    )


def _is_under(path: str, above: str) -> bool:
    return path == above or path.startswith(f"{above}/")  # here no name stands for all consumers


# Windows


def windows(from_ms: int, to_ms: int, by: By) -> list[Window]:
    """Part a time into windows; the first and the last may be shorter. Raises InvalidField for too many."""
    bounds = [from_ms]
    while (next_ms := _next_bound(bounds[-1], by)) < to_ms and by is not By.TOTAL:
        bounds.append(next_ms)
        if len(bounds) > MOST_WINDOWS:
            expected = f"longer windows, or less time: at most {MOST_WINDOWS} windows"
            raise InvalidField("by", by.value, expected)
    return list(zip(bounds, [*bounds[1:], to_ms], strict=True))


def _next_bound(at_ms: int, by: By) -> int:
    if by is By.MONTH:
        return month_of(at_ms)[1]
    length_ms = _HOUR_MS if by is By.HOUR else _DAY_MS
    return at_ms - at_ms % length_ms + length_ms


def month_of(at_ms: int) -> Window:
    """Give the month, in UTC, that a moment lies in."""
    moment = _EPOCH + timedelta(milliseconds=at_ms)
    begin = moment.replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    end = (begin + timedelta(days=31)).replace(day=1)
    return _unix_ms(begin), _unix_ms(end)


def read_month(text: str) -> Window:
    """Read a month such as ``2026-10``; raises InvalidField."""
    try:
        moment = datetime.strptime(text, "%Y-%m").replace(tzinfo=UTC)
        return month_of(_unix_ms(moment))
    except (ValueError, OverflowError):
        raise InvalidField("month", text, "a year and a month, such as 2026-10") from None


def _unix_ms(moment: datetime) -> int:
    return (moment - _EPOCH) // timedelta(milliseconds=1)


# Sums


@dataclass(slots=True)
class _Sum:
    vm_ms: int = 0
    gpu_milli_ms: int = 0
    leases: set[int] = field(default_factory=set)
    changes: list[tuple[int, int]] = field(default_factory=list)

    def add(self, row: UsageRow, begin_ms: int, end_ms: int) -> None:
        self.vm_ms += row.vms * (end_ms - begin_ms)
        if row.claims:
            self.gpu_milli_ms += dict(row.claims).get(GPUS, 0) * (end_ms - begin_ms)
        self.leases.add(row.lease_id)
        self.changes += [(begin_ms, row.vms), (end_ms, -row.vms)]

    def peak_vms(self) -> int:
        """The most at a time; at one moment, VMs are released before others are taken."""
        level = most = 0
        for _, change in sorted(self.changes):
            level += change
            most = max(most, level)
        return most


StepUse = dict[tuple[str, str, bool], list[int]]
"""VM-milliseconds in each step, by provider, consumer (the first part of its path) and whether by own users."""


def use_by_step(changes: Iterable[UseChange], steps: Sequence[Window]) -> StepUse:
    """Integrate changes of what is held over steps of equal length, of which the last may be shorter.

    Exact: until a moment, each change counts for the time since it happened, and none is later than its step ends.
    """
    first_ms = steps[0][0]
    sums: dict[tuple[str, str, bool], dict[int, list[int]]] = {}
    for change in changes:
        key = (change.provider, change.path.partition("/")[0], change.is_local)
        found = sums.setdefault(key, {}).setdefault(change.step, [0, 0])
        found[0] += change.vms
        found[1] += change.vm_ms
    used: StepUse = {}
    for key, by_step in sums.items():
        vms = vm_ms = until_now = 0
        used[key] = []
        for index, (_, end_ms) in enumerate(steps):
            more = by_step.get(index, (0, 0))
            vms, vm_ms = vms + more[0], vm_ms + more[1]
            until_end = vms * (end_ms - first_ms) - vm_ms
            used[key].append(until_end - until_now)
            until_now = until_end
    return used


@dataclass(frozen=True, slots=True)
class Pair:
    """What a creditor lent to a debtor, and what it used of the debtor's machines in return, VM-milliseconds."""

    creditor: str
    debtor: str
    lent_vm_ms: int
    returned_vm_ms: int


def balances(used: StepUse) -> list[Pair]:
    """Say who owes whom: a pair for any two of whom one lent to the other, the largest debt first.

    A consumer stands for the provider whose name it has, or else whose own user it is in this use; one that is an
    own user at several providers stands for itself, and so does one that is it at none.
    """
    homes: dict[str, set[str]] = {}
    for provider, consumer, is_local in used:
        if is_local:
            homes.setdefault(consumer, set()).add(provider)
    homes |= {provider: {provider} for provider, _, _ in used}
    lent: dict[tuple[str, str], int] = {}
    for (provider, consumer, is_local), by_step in used.items():
        at_home = homes.get(consumer, ())
        debtor = next(iter(at_home)) if len(at_home) == 1 else consumer
        if not is_local and debtor != provider:
            lent[provider, debtor] = lent.get((provider, debtor), 0) + sum(by_step)
    pairs = (Pair(*key, vm_ms, lent.get(key[::-1], 0)) for key, vm_ms in lent.items())
    owed = [one for one in pairs if (one.lent_vm_ms, one.debtor) > (one.returned_vm_ms, one.creditor)]
    return sorted(owed, key=lambda one: (one.returned_vm_ms - one.lent_vm_ms, one.creditor, one.debtor))


Key = tuple[int, str, str, bool]


def account(rows: Iterable[UsageRow], parts: Sequence[Window], depth: int = 1) -> list[Use]:
    """Sum use up by window, consumer (its first ``depth`` parts) and virtual domain, in this order.

    Raises InvalidField where it is used in more than `MOST_PARTS` windows, counted for each row.
    """
    sums: dict[Key, _Sum] = {}
    left = MOST_PARTS
    for row in rows:
        account = "/".join(row.path.split("/")[:depth])
        where = row.domain or row.site
        for index, begin_ms, end_ms in _shares_of(row, parts):
            left -= 1
            if left < 0:
                raise InvalidField("by", f"{len(parts)} windows", "longer windows, or less time: it is too much")
            key = (index, account, where, bool(row.is_local))
            sums.setdefault(key, _Sum()).add(row, begin_ms, end_ms)
    return [_use(key, sums[key], parts) for key in sorted(sums)]


def _use(key: Key, found: _Sum, parts: Sequence[Window]) -> Use:
    index, account, where, is_local = key
    return Use(
        parts[index], account, where, is_local, found.vm_ms, len(found.leases), found.peak_vms(), found.gpu_milli_ms
    )


def _shares_of(row: UsageRow, parts: Sequence[Window]) -> Iterator[tuple[int, int, int]]:
    """In which windows it was used, and from when until when in each."""
    first = max(0, bisect_right(parts, (row.begin_ms, 1 << 63)) - 1)
    for index in range(first, len(parts)):
        begin_ms, end_ms = max(row.begin_ms, parts[index][0]), min(row.end_ms, parts[index][1])
        if parts[index][0] >= row.end_ms:
            return
        if begin_ms < end_ms:
            yield index, begin_ms, end_ms


@dataclass(frozen=True, slots=True)
class Share:
    """What an agreement gave: shares in the long run and in bursts, ppm of the CPUs that its provider has.

    Shares are those of the last moment in force; ``vm_ms`` are the VM-milliseconds that it came to.
    """

    agreement: str
    provider: str
    share_ppm: int
    burst_ppm: int
    vm_ms: int


@dataclass(frozen=True, slots=True)
class Line:
    """What concerns one virtual domain, or a site that is in none; EVERYBODY: all of them together.

    ``capacity_vm_ms``  what it could have given in that time; 0 for one that no longer exists
    """

    domain: str
    shares: tuple[Share, ...]
    used_vm_ms: int
    capacity_vm_ms: int
    peak_vms: int
    leases: int
    penalties: tuple[PenaltyRow, ...]
    gpu_milli_ms: int = 0


@dataclass(frozen=True, slots=True)
class Ground:
    """The capacity: CPUs by provider, and the virtual domain of each site that is in one."""

    cpus: Mapping[str, int]
    domain_of: Mapping[str, str]

    def line_of(self, provider: str) -> str:
        """Name the line of a statement that a provider belongs to."""
        return self.domain_of.get(provider) or provider


def statement(
    consumer: str,
    time: Window,
    rows: Sequence[UsageRow],
    records: Iterable[AgreementRecord],
    penalties: Iterable[PenaltyRow],
    ground: Ground,
    *,
    known: Records,
) -> list[Line]:
    """Draw up the lines of a statement by domain, and last the sum; ``rows`` are the consumer's use.

    ``records`` are the agreements that the caller may see, ``known`` all agreements.
    """
    of_guests = [row for row in rows if not row.is_local]
    found = [
        _share(record, time, ground, known)
        for record in records
        if record.agreement.consumer == consumer and record.agreement.resource == CPUS
    ]
    shares = [share for share in found if share is not None]
    punished = [row for row in penalties if row.penalty.consumer == consumer and _lies_in(row.penalty.since_ms, time)]
    used = {use.domain: use for use in account(of_guests, [time])}
    named = {ground.line_of(share.provider) for share in shares} | used.keys()
    named |= {ground.line_of(row.penalty.provider) for row in punished}
    lines = [_line(name, time, used.get(name), shares, punished, ground) for name in sorted(named - {EVERYBODY})]
    return [*lines, _sum(time, of_guests, shares, punished, ground)]


def _line(
    domain: str,
    time: Window,
    use: Use | None,
    shares: Iterable[Share],
    penalties: Iterable[PenaltyRow],
    ground: Ground,
) -> Line:
    return Line(
        domain,
        tuple(share for share in shares if ground.line_of(share.provider) == domain),
        0 if use is None else use.vm_ms,
        ground.cpus.get(domain, 0) * (time[1] - time[0]),
        0 if use is None else use.peak_vms,
        0 if use is None else use.leases,
        tuple(row for row in penalties if ground.line_of(row.penalty.provider) == domain),
        0 if use is None else use.gpu_milli_ms,
    )


def _sum(
    time: Window,
    rows: Iterable[UsageRow],
    shares: Iterable[Share],
    penalties: Sequence[PenaltyRow],
    ground: Ground,
) -> Line:
    together = account([replace(row, domain=EVERYBODY) for row in rows], [time])
    use = together[0] if together else None
    line = _line(EVERYBODY, time, use, shares, (), ground)
    return Line(
        EVERYBODY,
        line.shares,
        line.used_vm_ms,
        line.capacity_vm_ms,
        line.peak_vms,
        line.leases,
        tuple(penalties),
        line.gpu_milli_ms,
    )


def _share(record: AgreementRecord, time: Window, ground: Ground, known: Records) -> Share | None:
    """Add up what an agreement gave in the time; None if it was in force at no moment of it."""
    cpus = ground.cpus.get(record.agreement.provider, 0)
    vm_ms_ppm, last = 0, None
    for begin_ms, end_ms, agreement in _in_force(record, time, known):
        last = shares_ppm(agreement.limit)
        vm_ms_ppm += cpus * last[0] * (end_ms - begin_ms)
    if last is None:
        return None
    return Share(record.name, record.agreement.provider, *last, vm_ms_ppm // MILLION)


def _in_force(record: AgreementRecord, time: Window, known: Records) -> list[tuple[int, int, Agreement]]:
    """When an agreement was in force, in order, and how it read then beneath those that it is a part of."""
    names = lineage(known, record.name)
    if not all(name in known for name in names):
        return []
    spans: list[tuple[int, int, Agreement]] = [(*time, Agreement("", EVERYBODY, "", NoLimit()))]
    for name in reversed(names):
        held = [_span(span, time) for span in known[name].held]
        spans = [
            (max(begin_ms, since_ms), min(end_ms, until_ms), under(agreement, above))
            for since_ms, until_ms, above in spans
            for begin_ms, end_ms, agreement in held
            if max(begin_ms, since_ms) < min(end_ms, until_ms)
        ]
    return spans


def _span(span: Span, time: Window) -> tuple[int, int, Agreement]:
    """Cut a span to the time, and to that which the terms themselves name."""
    agreement = span.agreement
    begins = (time[0], span.begin_ms, agreement.begin_ms)
    ends = (time[1], span.end_ms, agreement.end_ms)
    return (
        max(at_ms for at_ms in begins if at_ms is not None),
        min(at_ms for at_ms in ends if at_ms is not None),
        agreement,
    )


def _lies_in(at_ms: int, time: Window) -> bool:
    return time[0] <= at_ms < time[1]
