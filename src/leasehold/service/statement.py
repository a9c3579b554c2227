"""The statement of a consumer for a time: what was agreed, used and punished, by virtual domain.

An agreement counts for the time in which it was in force: from the second signature on, not while it, or what
it is a part of, was suspended, and not after its end. What is passed on counts as it reads beneath that.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from leasehold.model.agreement import CPUS, EVERYBODY, MILLION, Agreement, NoLimit
from leasehold.service.store.rows import PenaltyRow, UsageRow
from leasehold.service.usage import Use, Window, account
from leasehold.sharing.delegation import shares_ppm, under
from leasehold.sharing.records import Record, Records, Span, lineage


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

    ``capacity_vm_ms``  what it could have given to anybody in that time; 0 of one that is not there any more
    """

    domain: str
    shares: tuple[Share, ...]
    used_vm_ms: int
    capacity_vm_ms: int
    peak_vms: int
    leases: int
    penalties: tuple[PenaltyRow, ...]


@dataclass(frozen=True, slots=True)
class Ground:
    """Who provides what: CPUs by provider, and the virtual domain of each site that is in one."""

    cpus: Mapping[str, int]
    domain_of: Mapping[str, str]

    def line_of(self, provider: str) -> str:
        """Name the line of a statement that a provider belongs to."""
        return self.domain_of.get(provider) or provider


def statement(
    consumer: str,
    time: Window,
    rows: Sequence[UsageRow],
    records: Iterable[Record],
    penalties: Iterable[PenaltyRow],
    ground: Ground,
    *,
    known: Records,
) -> list[Line]:
    """Draw up the lines of a statement by domain, and last the sum; ``rows`` are the consumer's use.

    ``records`` are the agreements that whoever asks may see, ``known`` all that there are, those included.
    """
    of_guests = [row for row in rows if not row.is_local]
    found = [
        _share(record, time, ground, known)
        for record in records
        if record.agreement.consumer == consumer and record.agreement.resource == CPUS
    ]
    shares = [share for share in found if share is not None]
    punished = [row for row in penalties if row.consumer == consumer and _lies_in(row.since_ms, time)]
    used = {use.domain: use for use in account(of_guests, [time])}
    named = {ground.line_of(share.provider) for share in shares} | used.keys()
    named |= {ground.line_of(row.provider) for row in punished}
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
        tuple(row for row in penalties if ground.line_of(row.provider) == domain),
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
    )


def _share(record: Record, time: Window, ground: Ground, known: Records) -> Share | None:
    """Add up what an agreement gave in the time; None if it was in force at no moment of it."""
    cpus = ground.cpus.get(record.agreement.provider, 0)
    vm_ms_ppm, last = 0, None
    for begin_ms, end_ms, agreement in _in_force(record, time, known):
        last = shares_ppm(agreement.limit)
        vm_ms_ppm += cpus * last[0] * (end_ms - begin_ms)
    if last is None:
        return None
    return Share(record.name, record.agreement.provider, *last, vm_ms_ppm // MILLION)


def _in_force(record: Record, time: Window, known: Records) -> list[tuple[int, int, Agreement]]:
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
