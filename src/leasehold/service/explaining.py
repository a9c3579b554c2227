"""What happened to a lease or a job and why: read from the journal, and tried again where that tells more.

The journal has each decision with its reason, in the order in which they were made. For preemptions the policy that
chose the victims chooses once more (`leasehold.gateway.explaining`); for a lease that waits or was refused, requests
that would be better off are tried (`leasehold.gateway.planning`).
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from leasehold.gateway.explaining import Replay, replay
from leasehold.gateway.planning import Alternative, Prospect, plan_instead, plan_request
from leasehold.leasing.victims.candidate import Candidate
from leasehold.model.errors import LeaseholdError
from leasehold.model.lease import LeaseState
from leasehold.model.reason import Outcome
from leasehold.model.request import LeaseType, check_request
from leasehold.service.engine.engine import Engine
from leasehold.service.store.rows import JournalRow, LeaseRow
from leasehold.service.store.store import Store

MOST_LINES = 1_000
"""How many lines of the journal, the latest, an explanation is made from."""

MOST_REPLAYED = 5
"""How many preemptions, the latest, are decided once more."""

_BEFORE_MACHINES = frozenset({LeaseState.SUBMITTED, LeaseState.HELD, LeaseState.WAITING})


@dataclass(frozen=True, slots=True)
class PreemptionRecord:
    """One preemption of a lease: its line, what was recorded, for which lease, and what came of deciding it again.

    ``taker``   the lease that it was for; None where that is not kept any more
    ``replay``  None where it was not decided again: its candidates were too many, or the policy is another by now
    """

    line: JournalRow
    detail: Mapping[str, Any]
    taker: LeaseRow | None
    replay: Replay | None


@dataclass(frozen=True, slots=True)
class Account:
    """What is known of one lease, or of the attempts of one job.

    ``again``   what would become of the same request now, where it was refused
    ``better``  requests that would be better off now, each tried; ``untried`` others were not
    """

    lines: Sequence[JournalRow]
    preemptions: Sequence[PreemptionRecord]
    again: Prospect | None = None
    better: Sequence[Alternative] = ()
    untried: int = 0

    def leases_named(self) -> set[int]:
        """Return the leases of others that are named in it."""
        named = {one.taker.lease.id for one in self.preemptions if one.taker is not None}
        for one in self.preemptions:
            for key in ("victims", "runner_up"):
                named |= {number for number in one.detail.get(key) or () if isinstance(number, int)}
        return named


def preemptions_in(store: Store, lines: Iterable[JournalRow]) -> list[PreemptionRecord]:
    """Read the preemptions of these lines, not decided again yet."""
    found: list[PreemptionRecord] = []
    for line in lines:
        if line.what == Outcome.PREEMPT:
            detail = json.loads(line.detail).get("preemption", {})
            first = (detail.get("victims") or [line.lease_id])[0]
            if "candidates" not in detail and first != line.lease_id:
                of_first = store.line_at(first, Outcome.PREEMPT, line.at_ms)
                there = {} if of_first is None else json.loads(of_first.detail).get("preemption", {})
                if there.get("for_lease") == detail.get("for_lease"):
                    detail["candidates"] = there.get("candidates", [])
            taker = store.lease(detail["for_lease"]) if "for_lease" in detail else None
            found.append(PreemptionRecord(line, detail, taker, None))
    return found


def explain_lease(
    engine: Engine, row: LeaseRow, lines: Sequence[JournalRow], found: Sequence[PreemptionRecord]
) -> Account:
    """Explain a lease; raises Unavailable where too many leases are open."""
    preemptions = decided_again(engine, {row.lease.id: row}, found)
    again, better, untried = None, tuple[Alternative, ...](), 0
    lease = engine.gateway.leases.get(row.lease.id)
    if row.metadata.coallocation_id is not None or row.metadata.job_id is not None or row.metadata.native_job:
        return Account(lines, preemptions)
    if lease is not None and lease.state in _BEFORE_MACHINES and lease.site not in engine.gateway.registry.remotes:
        with engine.committed_state():
            better, untried = plan_instead(engine.gateway, lease, engine.now_ms)
    elif lease is None and row.lease.state is LeaseState.REFUSED:
        with engine.committed_state():
            again, better, untried = _again(engine, row)
    return Account(lines, preemptions, again, better, untried)


def _again(engine: Engine, row: LeaseRow) -> tuple[Prospect | None, tuple[Alternative, ...], int]:
    now_ms, request = engine.now_ms, row.lease.request
    try:
        ready_ms = max(now_ms, request.ready_ms)
        asked = check_request(replace(request, id=engine.leases.last_id + 1, submit_ms=now_ms, ready_ms=ready_ms))
        plan = plan_request(engine.gateway, asked, now_ms)
    except LeaseholdError:  # its deadline is over, or its home is not here any more
        return None, (), 0
    return plan.prospect, plan.alternatives, plan.untried


def decided_again(
    engine: Engine, rows: Mapping[int, LeaseRow], found: Sequence[PreemptionRecord]
) -> list[PreemptionRecord]:
    """Decide the latest of these preemptions of these leases once more."""
    older, latest = found[:-MOST_REPLAYED], found[-MOST_REPLAYED:]
    return [*older, *(replace(one, replay=_replayed(engine, rows, one)) for one in latest)]


def _replayed(engine: Engine, rows: Mapping[int, LeaseRow], one: PreemptionRecord) -> Replay | None:
    site, row = engine.gateway.sites.get(one.line.site), rows.get(one.line.lease_id or 0)
    candidates = [_candidate(values) for values in one.detail.get("candidates", ())]
    if site is None or row is None or site.settings.victims.name != one.line.rule or not candidates:
        return None
    memory_mib = row.lease.request.memory_mib

    def cost_vm_ms(kind: LeaseType, vms: int) -> int:
        return site.allocations.overheads.cost_vm_ms(kind, memory_mib, vms)

    found = partial(replay, site.settings.victims, candidates, one.detail["needed_vms"], one.detail["victims"])
    try:
        again = found(row.lease.id, cost_vm_ms)
    except LeaseholdError:
        return None
    return again if again is not None and again.agrees else None


def _candidate(values: Sequence[int]) -> Candidate:
    number, kind, *others = values
    return Candidate(number, LeaseType(kind), *others)
