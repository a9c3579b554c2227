"""The same jobs and the same turmoil for a simulated gateway and a live one, and what each says of them."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import groupby
from random import Random
from typing import Any

from tests.gateway.random_worlds import QUICK, REFERENCE_MIPS, SLOTS, SPEEDS, Chronicle, three_sites
from tests.gateway.turbulence import NOW, Turmoil

from leasehold.gateway.gateway import Gateway, Routing
from leasehold.model.effect import (
    Decision,
    Effect,
    LeaseClosed,
    MigrateLease,
    Preemption,
    ResumeLease,
    SuspendLease,
)
from leasehold.model.event import CancelRequested, Event, ExtendRequested, LeaseFailed, LendingChanged
from leasehold.model.reason import Outcome
from leasehold.routing.policy import RoutingPolicy
from leasehold.routing.registry import routing_policy
from leasehold.service.commands import Cancel, Command, Drain, Extend, Submit, Undrain
from leasehold.service.drivers.emulated.fault_injection import FaultInjector, Faults
from leasehold.service.drivers.emulated.machines import EmulatedMachines
from leasehold.service.drivers.emulated.options import Hardware
from leasehold.service.store.rows import JournalRow
from leasehold.service.store.store import Store
from leasehold.simulation.workload.job import WorkloadJob
from leasehold.testing.live import BEGIN_MS, Live
from leasehold.testing.rows import submit

Said = tuple[Any, ...]
"""One thing that was decided: when (ms since the begin), about whom, what, where, why, and the rest."""

OUTCOMES = frozenset(Outcome)
NEVER_MS = BEGIN_MS + 1_000_000_000


def machines(faults: Faults | None = None) -> dict[str, EmulatedMachines]:
    """The machines of the three sites, as the planner thinks that they are."""
    return {
        name: EmulatedMachines(
            Hardware(SLOTS[name], SPEEDS[name], REFERENCE_MIPS, QUICK), FaultInjector(faults or Faults(), name)
        )
        for name in SLOTS
    }


def gateways(
    policy: str | Callable[[], RoutingPolicy] = "most-free", depth: str = "conservative", **site: Any
) -> Callable[[], Gateway]:
    """What makes the gateway of the three sites."""

    def make() -> Gateway:
        chosen = routing_policy(policy)(Random(0)) if isinstance(policy, str) else policy()
        return Gateway(three_sites(depth, confirms_starts=True, **site), Routing(chosen), REFERENCE_MIPS)

    return make


def live_three(store: Store, make: Callable[[], Gateway] | None = None, **options: Any) -> Live:
    """A live gateway of the three sites."""
    faults = options.get("faults")
    return Live(store, make or gateways(), machines(faults), **options)


# --- the same for both ----------------------------------------------------------------------------


def submission(job: WorkloadJob, begin_ms: int = BEGIN_MS) -> Submit:
    """A job as somebody would ask for it."""
    return submit(
        consumer="physics",
        lease_type=job.lease_type,
        vms=job.vms,
        duration_ms=job.requested_ms,
        memory_mib=job.memory_mib,
        ready_ms=begin_ms + job.ready_ms,
        deadline_ms=None if job.deadline_ms is None else begin_ms + job.deadline_ms,
        site=job.site,
        command=("sleep", f"{job.actual_ms // 1000}.{job.actual_ms % 1000:03d}"),
    )


def play_live(turmoil: Turmoil, live: Live, watch: Callable[[Live], None] | None = None) -> None:
    """Let all of it happen to a live gateway; ``watch`` is called after every instant."""
    for at_ms, jobs, changes in _by_instant(turmoil):
        for _ in live.instants(BEGIN_MS + at_ms - 1):
            _look_at(live, watch)
        live.now_ms = BEGIN_MS + at_ms
        for change in changes:
            if isinstance(change, LeaseFailed):
                _crash(live, change)
        live.do(*_commands(jobs, changes))
        _look_at(live, watch)
    for _ in live.instants(NEVER_MS):
        _look_at(live, watch)


def commands_by_instant(turmoil: Turmoil) -> Iterator[tuple[int, list[Command]]]:
    """What is asked for, and when (Unix ms); machines do not break here."""
    for at_ms, jobs, changes in _by_instant(turmoil):
        yield BEGIN_MS + at_ms, _commands(jobs, changes)


def _commands(jobs: Iterable[WorkloadJob], changes: Iterable[Event]) -> list[Command]:
    asked = [_command(change) for change in changes if not isinstance(change, LeaseFailed)]
    return [*(submission(job) for job in jobs), *asked]


def _look_at(live: Live, watch: Callable[[Live], None] | None) -> None:
    if watch is not None:
        watch(live)


def _by_instant(turmoil: Turmoil) -> Iterator[tuple[int, list[WorkloadJob], list[Event]]]:
    happenings: list[tuple[int, WorkloadJob | Event]] = [(job.submit_ms, job) for job in turmoil.jobs]
    happenings += turmoil.to_the_end()
    for at_ms, some in groupby(sorted(happenings, key=lambda one: one[0]), key=lambda one: one[0]):
        together = [what for _, what in some]
        yield (
            at_ms,
            [what for what in together if isinstance(what, WorkloadJob)],
            [what for what in together if not isinstance(what, WorkloadJob)],
        )


def _crash(live: Live, change: LeaseFailed) -> None:
    """Break the machines, if they are those that the change speaks of."""
    lease = live.gateway.leases.get(change.lease_id)
    if lease is not None and lease.site and change.incarnation in (NOW, lease.incarnation):
        live.sites[lease.site].machines.crash(lease.id, live.now_ms)


def _command(change: Event) -> Command:
    match change:
        case CancelRequested(lease_id):
            return Cancel(lease_id)
        case ExtendRequested(lease_id, by_ms):
            return Extend(lease_id, by_ms)
        case LendingChanged(site, True):
            return Undrain(site, "operator")
        case LendingChanged(site, False):
            return Drain(site, "operator")
    raise AssertionError(change)


# --- what is said ---------------------------------------------------------------------------------


def said_in_journal(lines: Iterable[JournalRow], begin_ms: int = BEGIN_MS) -> list[Said]:
    """Everything that a live gateway decided, as its journal tells it."""
    told = [one for one in lines if one.what in OUTCOMES or one.what in _SAYS.values()]
    return sorted(
        (
            line.at_ms - begin_ms,
            line.lease_id,
            line.what,
            line.site,
            line.reason,
            line.rule,
            _rest(json.loads(line.detail), begin_ms),
        )
        for line in told
    )


def _rest(detail: dict[str, Any], begin_ms: int) -> str:
    detail.pop("cause", None)  # what machines say of themselves
    detail.get("preemption", {}).pop("candidates", None)  # in the line of the first victim alone
    if "planned_ms" in detail:
        detail["planned_ms"] -= begin_ms
    return json.dumps(detail, sort_keys=True)


_SAYS: Mapping[type, str] = {
    SuspendLease: "suspending",
    ResumeLease: "resuming",
    MigrateLease: "migrating",
    LeaseClosed: "closed",
}


class Listener(Chronicle):
    """A chronicle in the words of a journal."""

    def __init__(self) -> None:
        super().__init__()
        self.said: list[Said] = []

    def _happened(self, effect: Effect, now_ms: int) -> None:
        super()._happened(effect, now_ms)
        if isinstance(effect, Decision):
            self._decided(effect, now_ms)
        elif type(effect) in _SAYS:
            self._done(effect, now_ms)  # type: ignore[arg-type]

    def _decided(self, decision: Decision, now_ms: int) -> None:
        lease, detail = decision.lease, {}
        if decision.planned_ms is not None:
            detail["planned_ms"] = decision.planned_ms
        if decision.duration_ms is not None:
            detail["duration_ms"] = decision.duration_ms
        if decision.preemption is not None:
            detail["preemption"] = _preempted(decision.preemption)  # type: ignore[assignment]
        if decision.sites:
            detail["sites"] = [{"site": one.site, "reason": one.reason.value} for one in decision.sites]  # type: ignore[assignment]
        where = decision.site or lease.site
        words = (decision.outcome.value, where, decision.reason.value, decision.rule)
        self.said.append((now_ms, lease.id, *words, json.dumps(detail, sort_keys=True)))

    def _done(self, effect: SuspendLease | ResumeLease | MigrateLease | LeaseClosed, now_ms: int) -> None:
        lease, detail, reason = effect.lease, {}, ""
        match effect:
            case SuspendLease(save_ms=save_ms):
                detail = {"save_ms": save_ms}
            case ResumeLease(resume_ms=resume_ms):
                detail = {"resume_ms": resume_ms}
            case MigrateLease(source=source, transfer_ms=transfer_ms):
                detail = {"source": source, "transfer_ms": transfer_ms}  # type: ignore[dict-item]
            case LeaseClosed(reason=why):
                reason = why.value
        words = (_SAYS[type(effect)], lease.site, reason, "")
        self.said.append((now_ms, lease.id, *words, json.dumps(detail, sort_keys=True)))


def _preempted(preemption: Preemption) -> dict[str, object]:
    told = {field: getattr(preemption, field) for field in preemption.__slots__}
    del told["candidates"]
    return {"for_lease": told.pop("beneficiary"), **told}
