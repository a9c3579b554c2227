"""What the machines themselves have written down, judged without asking anybody.

The audits of all sites together show every time that machines came up, ran and went. Each contradiction is an
AssertionError.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain, pairwise

from tests.service.crash.federation import REFERENCE_MIPS, SLOTS, SPEED_MIPS, Place

from leasehold.service.commands import Submit
from leasehold.service.drivers.emulated.record import (
    BRINGS_UP,
    Action,
    AuditLine,
    brought_up_twice,
    read_audit,
)

_GOES = frozenset({Action.STOP, Action.SEND})
_ENDS_WORK = frozenset({Action.SAVE, Action.END, Action.FAIL}) | _GOES

Audits = Mapping[str, list[AuditLine]]
"""The lines of each site."""


def audits(place: Place) -> Audits:
    """Read what every site has written down."""
    return {site: read_audit(place.ledger(site)) for site in SLOTS}


@dataclass(frozen=True, slots=True)
class Span:
    """A time in which machines of a lease were up at a site; None: they still are."""

    lease_id: int
    site: str
    from_ms: int
    until_ms: int | None


def tale(found: Audits, lease_id: int) -> str:
    """Everything that machines have written down of a lease, for whoever has to find out what went wrong."""
    lines = [(line.at_ms, site, line) for site, lines in found.items() for line in lines]
    mine = sorted((*entry[:2], str(entry[2])) for entry in lines if entry[2].lease_id == lease_id)
    return "\n".join([f"lease {lease_id}", *(f"{site}: {line}" for _, site, line in mine)])


def nothing_came_up_twice(found: Audits) -> None:
    """Each incarnation came up once in all the federation, and each lease was booted once."""
    lines = list(chain(*found.values()))
    assert not brought_up_twice(lines), f"(lease, incarnation) that came up twice: {brought_up_twice(lines)}"
    boots = Counter(line.lease_id for line in lines if line.action is Action.BOOT)
    twice = [lease_id for lease_id, count in boots.items() if count > 1]
    assert not twice, f"leases that were booted more than once: {twice}"


def nothing_came_up_after_it_was_stopped(found: Audits) -> None:
    """What was stopped or sent away stays away, unless a later incarnation comes."""
    for site, lines in found.items():
        gone: dict[int, int] = {}
        for line in lines:
            if line.action in BRINGS_UP:
                last = gone.get(line.lease_id, 0)
                assert line.incarnation > last, f"{site}: {line} came up after incarnation {last} was gone"
            elif line.action in _GOES:
                gone[line.lease_id] = max(line.incarnation, gone.get(line.lease_id, 0))


def nobody_was_in_two_places(found: Audits) -> None:
    """No lease had machines up at two sites at a time."""
    by_lease: dict[int, list[Span]] = defaultdict(list)
    for span in _spans(found):
        by_lease[span.lease_id].append(span)
    for spans in by_lease.values():
        for earlier, later in pairwise(sorted(spans, key=lambda span: (span.from_ms, span.until_ms or 0))):
            apart = earlier.until_ms is not None and earlier.until_ms <= later.from_ms
            assert apart, f"in two places at once: {tale(found, earlier.lease_id)}"


def nobody_had_more_than_there_is(found: Audits, requests: Mapping[int, Submit]) -> None:
    """At no time were more VMs up at a site than it has room for."""
    for site, slots in SLOTS.items():
        change: Counter[tuple[int, bool]] = Counter()
        for span in _spans({site: found[site]}):
            change[span.from_ms, True] += requests[span.lease_id].request.vms
            if span.until_ms is not None:
                change[span.until_ms, False] -= requests[span.lease_id].request.vms  # who goes, goes first
        up_vms = 0
        for (at_ms, _), vms in sorted(change.items()):
            up_vms += vms
            assert up_vms <= slots, f"{site}: {up_vms} VMs on {slots} slots at {at_ms} ms"


def whoever_completed_did_its_work(found: Audits, requests: Mapping[int, Submit], completed: Iterable[int]) -> None:
    """A lease that is said to be completed has run as long as its command takes, all times taken together."""
    done = _work_done(found)
    for lease_id in completed:
        command = requests[lease_id].metadata.command
        if command:
            work = round(float(command[1]) * 1000) * REFERENCE_MIPS
            assert done[lease_id] >= work, f"completed after {done[lease_id]} of {work} units: {tale(found, lease_id)}"


def _work_done(found: Audits) -> Counter[int]:
    done: Counter[int] = Counter()
    for site, lines in found.items():
        running_since_ms: dict[int, int] = {}
        for line in lines:
            if line.action is Action.RUN:
                running_since_ms[line.lease_id] = line.at_ms
            elif line.action in _ENDS_WORK and line.lease_id in running_since_ms:
                ran_ms = line.at_ms - running_since_ms.pop(line.lease_id)
                done[line.lease_id] += ran_ms * SPEED_MIPS[site]
    return done


def _spans(found: Audits) -> Iterator[Span]:
    """The times at which machines were up and used room."""
    for site, lines in found.items():
        up: dict[int, int] = {}
        for line in lines:
            if line.action in BRINGS_UP:
                up[line.lease_id] = line.at_ms
            elif line.action in _ENDS_WORK and line.lease_id in up:
                yield Span(line.lease_id, site, up.pop(line.lease_id), line.at_ms)
        for lease_id, from_ms in up.items():
            yield Span(lease_id, site, from_ms, None)
