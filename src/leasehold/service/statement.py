"""The statement of a consumer for a time: what was agreed, used and punished, by virtual domain."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from leasehold.model.agreement import CPUS, EVERYBODY, MILLION, Agreement
from leasehold.service.store.rows import PenaltyRow, UsageRow
from leasehold.service.usage import Use, Window, account
from leasehold.sharing.delegation import shares_ppm
from leasehold.sharing.records import OVER, Record


@dataclass(frozen=True, slots=True)
class Share:
    """What an agreement gives: shares in the long run and in bursts, ppm of the CPUs that its provider has.

    ``vm_ms``  VM-milliseconds that the share comes to over the time of the statement
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
) -> list[Line]:
    """Draw up the lines of a statement by domain, and last the sum; ``rows`` are the consumer's use."""
    of_guests = [row for row in rows if not row["is_local"]]
    shares = [
        _share(record.agreement, time, ground)
        for record in records
        if record.agreement.consumer == consumer and _held_in(record, time)
    ]
    punished = [row for row in penalties if row["consumer"] == consumer and _lies_in(row["since_ms"], time)]
    used = {use.domain: use for use in account(of_guests, [time])}
    named = {ground.line_of(share.provider) for share in shares} | used.keys()
    named |= {ground.line_of(row["provider"]) for row in punished}
    lines = [
        _line(name, time, used.get(name), shares, punished, ground) for name in sorted(named - {EVERYBODY})
    ]
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
        tuple(row for row in penalties if ground.line_of(row["provider"]) == domain),
    )


def _sum(
    time: Window,
    rows: Iterable[UsageRow],
    shares: Iterable[Share],
    penalties: Sequence[PenaltyRow],
    ground: Ground,
) -> Line:
    together = account([{**row, "domain": EVERYBODY} for row in rows], [time])
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


def _share(agreement: Agreement, time: Window, ground: Ground) -> Share:
    share_ppm, burst_ppm = shares_ppm(agreement.limit)
    cpus = ground.cpus.get(agreement.provider, 0)
    begin_ms = max(time[0], agreement.begin_ms or time[0])
    end_ms = min(time[1], agreement.end_ms or time[1])
    vm_ms = cpus * share_ppm * max(0, end_ms - begin_ms) // MILLION
    return Share(agreement.name, agreement.provider, share_ppm, burst_ppm, vm_ms)


def _held_in(record: Record, time: Window) -> bool:
    """Whether an agreement about CPUs was in force for some of this time, as far as is still known."""
    agreement, signed = record.agreement, record.current.consumer
    if signed is None or not record.current.is_signed or agreement.resource != CPUS:
        return False
    begin_ms = agreement.begin_ms or 0
    end_ms = time[1] if agreement.end_ms is None else agreement.end_ms
    if record.standing in OVER:
        end_ms = min(end_ms, record.since.at_ms)
    return begin_ms < time[1] and record.current.drawn_up.at_ms < time[1] and end_ms > time[0]


def _lies_in(at_ms: int, time: Window) -> bool:
    return time[0] <= at_ms < time[1]
