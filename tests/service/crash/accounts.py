"""What leases used, told a second time: by the journal, as it was received from outside."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from leasehold.service.store.filters import EVERYTHING, UsageFilter
from leasehold.service.store.rows import JournalRow, LeaseRow, UsageRow
from leasehold.service.store.store import open_store

_ORDERED = frozenset({"start", "resuming", "migrating"})
_TAKES = frozenset({"started", "continues"})
"""Its machines were seen: what comes before, orders and boots, is not the guest's."""

_LEAVES = frozenset({"suspending", "migrating", "closed"})
_FOR_EVER_MS = 1 << 62


@dataclass(frozen=True, slots=True)
class Time:
    """A time in which a lease used the machines of a site.

    It began when its machines say that it did: after it was ordered, and before they were heard.
    """

    lease_id: int
    site: str
    ordered_ms: int
    heard_ms: int
    end_ms: int

    def is_that_of(self, row: UsageRow) -> bool:
        """Whether a row of the table of usage is about it."""
        same = (row.lease_id, row.site, row.end_ms) == (self.lease_id, self.site, self.end_ms)
        return same and self.ordered_ms <= row.begin_ms <= self.heard_ms


def told(lines: Iterable[JournalRow]) -> Iterator[Time]:
    """Every time in which a lease used machines, as the journal tells of it."""
    ordered: dict[int, tuple[str, int]] = {}
    held: dict[int, tuple[str, int, int]] = {}
    for line in sorted(lines, key=lambda line: line.seq):
        lease_id, what, at_ms = line.lease_id, line.what, line.at_ms
        if lease_id is None or what not in _ORDERED | _TAKES | _LEAVES:
            continue
        if lease_id in held and what in _LEAVES:
            yield Time(lease_id, *held.pop(lease_id), at_ms)
        elif what in _LEAVES and lease_id in ordered:  # it may have been heard only as it ended
            yield Time(lease_id, *ordered[lease_id], at_ms, at_ms)
        if what in _LEAVES:
            ordered.pop(lease_id, None)
        if what in _ORDERED:
            ordered[lease_id] = (line.site, at_ms)
        if what in _TAKES:
            # Where it was ordered: what was heard in the instant in which it moves on names the other site.
            held.setdefault(lease_id, (*ordered[lease_id], at_ms))
    assert not held, f"never let go of: {held}"


def use_is_what_the_journal_tells(store_url: str, lines: Iterable[JournalRow], leases: Iterable[LeaseRow]) -> None:
    """Each time is in the table of usage once, with what the lease is; and there is nothing else."""
    with open_store(store_url) as store:
        rows = list(store.usage(UsageFilter(EVERYTHING, 0, _FOR_EVER_MS)))
    kept = list(rows)
    for time in told(lines):
        found = [row for row in kept if time.is_that_of(row)]
        assert found or time.heard_ms == time.end_ms, f"not accounted for: {time}"
        for row in found[:1]:
            kept.remove(row)
    assert not kept, f"not told of: {kept}"
    by_id = {lease.lease.id: lease for lease in leases}
    for row in rows:
        _is_of(row, by_id[row.lease_id])


def _is_of(row: UsageRow, lease: LeaseRow) -> None:
    used = (row.consumer, row.vms, row.memory_mib, bool(row.is_local))
    asked = (
        lease.lease.request.consumer,
        lease.lease.vms,
        lease.lease.request.memory_mib,
        lease.lease.request.site is not None,
    )
    assert used == asked, f"lease {lease.lease.id}: used {used}, asked for {asked}"
