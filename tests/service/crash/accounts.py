"""What leases used, told a second time: by the journal, as it was received from outside."""

from collections import Counter
from collections.abc import Iterable, Iterator

from leasehold.service.store.filters import EVERYTHING, UsageFilter
from leasehold.service.store.rows import JournalRow, LeaseRow, UsageRow
from leasehold.service.store.store import open_store

Time = tuple[int, str, int, int]
"""A lease, the site whose machines it held, and from when until when."""

_TAKES = frozenset({"start", "resuming", "migrating"})
_LEAVES = frozenset({"suspending", "closed"})
_FOR_EVER_MS = 1 << 62


def told(lines: Iterable[JournalRow]) -> Iterator[Time]:
    """Every time in which a lease held machines, as the journal tells of it."""
    held: dict[int, tuple[str, int]] = {}
    for line in sorted(lines, key=lambda line: line["seq"]):
        lease_id, what, at_ms = line["lease_id"], line["what"], line["at_ms"]
        if lease_id is None or what not in _TAKES | _LEAVES:
            continue
        if lease_id in held and (what in _LEAVES or held[lease_id][0] != line["site"]):
            site, since_ms = held.pop(lease_id)
            if since_ms < at_ms:
                yield lease_id, site, since_ms, at_ms
        if what in _TAKES:
            held.setdefault(lease_id, (line["site"], at_ms))
    assert not held, f"never let go of: {held}"


def use_is_what_the_journal_tells(
    store_url: str, lines: Iterable[JournalRow], leases: Iterable[LeaseRow]
) -> None:
    """Each time is in the table of usage once, with what the lease is; and there is nothing else."""
    with open_store(store_url) as store:
        rows = store.usage(UsageFilter(EVERYTHING, 0, _FOR_EVER_MS))
    kept = Counter((row["lease_id"], row["site"], row["begin_ms"], row["end_ms"]) for row in rows)
    expected = Counter(told(lines))
    assert kept == expected, f"not told of: {kept - expected}; not accounted for: {expected - kept}"
    by_id = {lease["id"]: lease for lease in leases}
    for row in rows:
        _is_of(row, by_id[row["lease_id"]])


def _is_of(row: UsageRow, lease: LeaseRow) -> None:
    used = (row["consumer"], row["vms"], row["memory_mib"], bool(row["is_local"]))
    asked = (lease["consumer"], lease["vms"], lease["memory_mib"], lease["home"] is not None)
    assert used == asked, f"lease {lease['id']}: used {used}, asked for {asked}"
