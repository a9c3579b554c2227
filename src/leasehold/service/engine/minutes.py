"""What one step of the engine has to write: effects become journal lines and orders, leases become rows."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from leasehold.jobs.job import JobReason, JobRecord
from leasehold.model.effect import (
    CoAllocationClosed,
    CoAllocationStarted,
    Decision,
    Effect,
    LeaseClosed,
    MigrateLease,
    OfferLease,
    PartLeased,
    PenaltyImposed,
    Preemption,
    RecallLease,
    ResumeLease,
    StartLease,
    StopLease,
    SuspendLease,
    Used,
    WakeAt,
    WithdrawLease,
)
from leasehold.model.event import (
    Event,
    LeaseContinues,
    LeaseIsLate,
    LeaseSaved,
    LeaseStarted,
    OverheadMeasured,
    SiteReported,
    Tick,
)
from leasehold.model.lease import Lease
from leasehold.model.reason import PREEMPTED, Outcome, Reason
from leasehold.model.request import Request
from leasehold.service.drivers.protocol import Order, Verb, order_id
from leasehold.service.engine.agenda import Agenda
from leasehold.service.engine.outbox import Outbox
from leasehold.service.engine.use import usage_row
from leasehold.service.store.rows import JournalRow, LeaseMetadata, OrderRow, UsageRow

if TYPE_CHECKING:
    from leasehold.service.engine.agreements import AgreementBook
    from leasehold.service.engine.coallocation_book import CoAllocationBook
    from leasehold.service.engine.correspondence import Correspondence

Handler = Callable[[Any, int], None]
REPORTED = "reported"
JOB = "job"
"""What is written of a line that is about a job, and no lease of it."""
_MACHINES_ARE_THE_CAUSE = frozenset({Reason.NEVER_STARTED, Reason.SITE_UNREACHABLE})
_PLANNED_ANEW = frozenset({Reason.LOCAL_PLAN_CHANGED, Reason.DELAYED_BY_SLOW_START})
_HEARD: dict[type, str] = {LeaseSaved: "saved", LeaseStarted: "started", LeaseContinues: "continues"}


class Minutes:
    """Takes down what happens, for all steps; ``journal`` and ``leases`` hold what is not written yet.

    ``about_jobs``    what was decided about jobs: why, and at which site, "" for none
    ``extensions``    what was decided about them in this step, by lease, in the order of the requests
    ``causes``        what machines said about their failure, by lease
    ``measured``      what was learnt of how long operations take
    ``failing``       orders that machines did not take on, at the first time and at the last
    ``usage``         the times for which leases held machines that are over
    """

    def __init__(
        self,
        about: Mapping[int, LeaseMetadata],
        outbox: Outbox,
        agenda: Agenda,
        reference_mips: int,
        last_seq: int,
    ) -> None:
        self.journal: list[JournalRow] = []
        self.leases: dict[int, Lease] = {}
        self.decisions: list[Decision] = []
        self.about_jobs: list[tuple[JobReason, str]] = []
        self.extensions: dict[int, list[Decision]] = {}
        self.causes: dict[int, str] = {}
        self.measured: list[OverheadMeasured] = []
        self.failing: list[OrderRow] = []
        self.last_seq = last_seq
        self.usage: list[UsageRow] = []
        self.correspondence: Correspondence
        self.agreements: AgreementBook
        self.coallocations: CoAllocationBook
        self._about = about
        self._outbox = outbox
        self._agenda = agenda
        self._reference_mips = reference_mips
        self._handlers: dict[type, Handler] = {
            StartLease: self._start,
            SuspendLease: self._suspend,
            ResumeLease: self._resume,
            MigrateLease: self._migrate,
            StopLease: self._nothing,  # every lease that is stopped is closed too
            WithdrawLease: self._withdraw,
            LeaseClosed: self._close,
            OfferLease: lambda effect, now_ms: self.correspondence.offer(effect.lease, effect.wait, now_ms),
            RecallLease: self._recall,
            Used: self._used,
            PenaltyImposed: self._punish,
            PartLeased: self._lease_part,
            CoAllocationStarted: self._nothing,
            CoAllocationClosed: self._nothing,
            WakeAt: self._wake,
            Decision: self._decide,
        }

    def take_down(self, effects: Iterable[Effect], moved: Mapping[int, Lease], now_ms: int) -> None:
        """Write down what an instant brought."""
        self.leases.update(moved)
        for effect in effects:
            if not isinstance(effect, WakeAt | CoAllocationStarted | CoAllocationClosed):
                self.leases[effect.lease.id] = effect.lease
            self._handlers[type(effect)](effect, now_ms)

    def heard(
        self, events: Sequence[Event], effects: Iterable[Effect], moved: Mapping[int, Lease], now_ms: int
    ) -> None:
        """Write down the news of machines that changed a lease, and where: it may have moved on since."""
        self.measured += [event for event in events if isinstance(event, OverheadMeasured)]
        for event in events:
            if isinstance(event, SiteReported) and event.lease_id in moved:
                self._about[event.lease_id].say(event.reason)
                planned = {"planned_ms": event.planned_ms}
                self.line(moved[event.lease_id], REPORTED, now_ms, planned, site=event.site)
                self.journal[-1].state = event.state.value  # it may have gone on since
        for event in events:
            if isinstance(event, LeaseStarted | LeaseContinues | LeaseIsLate) and event.lease_id in moved:
                self._mind_end_of(moved[event.lease_id], now_ms)
        news = [event for event in events if isinstance(event, LeaseSaved | LeaseStarted | LeaseContinues)]
        told = dict.fromkeys((event.lease_id, _HEARD[type(event)]) for event in news)
        left: dict[int, str] = {}
        for effect in effects:
            if isinstance(effect, MigrateLease):
                left.setdefault(effect.lease.id, effect.source)
        for lease_id, what in told:  # each once: machines may say so twice
            if lease_id in moved:
                self.step(moved[lease_id], what, now_ms, site=left.get(lease_id, ""))

    def submitted(self, request: Request, now_ms: int) -> None:
        """Write down that a request came."""
        lease = Lease(request.id, request, request.vms, 0, 0, site=request.site or "")
        self.line(lease, "submitted", now_ms)

    def step(self, lease: Lease, what: str, now_ms: int, *, site: str = "", **detail: object) -> None:
        """Add a line about what follows from a decision, and has no reason of its own."""
        self.line(lease, what, now_ms, detail, site=site)
        self.journal[-1].reason = ""

    def line(
        self,
        lease: Lease,
        what: str,
        now_ms: int,
        detail: Mapping[str, object] | None = None,
        *,
        site: str = "",
        rule: str = "",
    ) -> None:
        """Add a line about a lease."""
        about = self._about[lease.id]
        self.last_seq += 1
        self.journal.append(
            JournalRow(
                seq=self.last_seq,
                at_ms=now_ms,
                lease_id=lease.id,
                consumer=lease.request.consumer,
                group=lease.request.group,
                site=site or lease.site,
                what=what,
                state=lease.state.value,
                reason=about.reason,
                rule=rule,
                detail=json.dumps(detail) if detail else "{}",
                job_id=about.job_id,
            )
        )

    def line_about_site(self, site: str, what: str, now_ms: int, **detail: object) -> None:
        """Add a line about a site."""
        self.last_seq += 1
        self.journal.append(
            JournalRow(
                seq=self.last_seq,
                at_ms=now_ms,
                lease_id=None,
                consumer="",
                group="",
                site=site,
                what=what,
                state="",
                reason="",
                rule="",
                detail=json.dumps(detail),
                job_id=None,
            )
        )

    def line_about_job(
        self, job: JobRecord, reason: JobReason, now_ms: int, site: str, detail: Mapping[str, object]
    ) -> None:
        """Add a line about a job, which says with `leasehold.jobs.job` how it stands."""
        self.about_jobs.append((reason, site))
        self.last_seq += 1
        self.journal.append(
            JournalRow(
                seq=self.last_seq,
                at_ms=now_ms,
                lease_id=None,
                consumer=job.request.consumer,
                group=job.request.group,
                site=site,
                what=JOB,
                state=job.state.value,
                reason=reason.value,
                rule="",
                detail=json.dumps(detail),
                job_id=job.id,
            )
        )

    def written(self) -> None:
        """Everything is in the store."""
        self.about_jobs.clear()
        self.journal.clear()
        self.leases.clear()
        self.decisions.clear()
        self.causes.clear()
        self.measured.clear()
        self.failing.clear()
        self.usage.clear()

    # Effects

    def _decide(self, effect: Decision, now_ms: int) -> None:
        self.decisions.append(effect)
        if effect.outcome in (Outcome.EXTEND, Outcome.DENY):
            self.extensions.setdefault(effect.lease.id, []).append(effect)
        if effect.outcome is Outcome.EXTEND:
            self._mind_end_of(effect.lease, now_ms)
        about = self._about[effect.lease.id]
        before, breach_before = about.reason, about.breach
        about.say(effect.reason, effect.breach)
        detail = _detail(effect)
        if effect.reason in _MACHINES_ARE_THE_CAUSE:
            detail |= self._cause_of(effect.lease)
        self.line(effect.lease, effect.outcome, now_ms, detail, site=effect.site, rule=effect.rule)
        if effect.outcome is Outcome.DENY or (effect.reason in _PLANNED_ANEW and before in PREEMPTED):
            # Why it gave way is still why it does not run, however often its return is planned anew.
            about.reason, about.breach = before, breach_before

    def _start(self, effect: StartLease, now_ms: int) -> None:
        self._order(effect.lease, Verb.START, now_ms)
        self._agenda.mind_end_of(effect.lease, now_ms)
        self._agenda.mind_start_of(effect.lease, now_ms)

    def _mind_end_of(self, lease: Lease, now_ms: int) -> None:
        if lease.held_since_ms >= 0:
            self._agenda.mind_end_of(lease, now_ms)

    def _withdraw(self, effect: WithdrawLease, now_ms: int) -> None:
        """Stop what was ordered of a lease that is not over: its end may be ordered of this start too."""
        lease = effect.lease
        if not self._about[lease.id].native_job:
            stop = self._order_for(lease, Verb.STOP, effect.incarnation)
            self._outbox.give(effect.site, replace(stop, id=f"{stop.id}~withdrawn"), now_ms)

    def _cause_of(self, lease: Lease) -> dict[str, object]:
        cause = self.causes.get(lease.id, "")
        return {"cause": cause} if cause else {}

    def _suspend(self, effect: SuspendLease, now_ms: int) -> None:
        self._order(effect.lease, Verb.SUSPEND, now_ms)
        self.step(effect.lease, "suspending", now_ms, save_ms=effect.save_ms)

    def _resume(self, effect: ResumeLease, now_ms: int) -> None:
        self._order(effect.lease, Verb.RESUME, now_ms)
        self._agenda.mind_end_of(effect.lease, now_ms)
        self.step(effect.lease, "resuming", now_ms, resume_ms=effect.resume_ms)

    def _migrate(self, effect: MigrateLease, now_ms: int) -> None:
        lease = effect.lease
        away = self._order_for(lease, Verb.SEND, lease.incarnation - 1, lease.site)
        self._outbox.give(effect.source, away, now_ms)
        here = self._order_for(lease, Verb.RECEIVE, lease.incarnation, effect.source)
        self._outbox.give(lease.site, here, now_ms)
        self._agenda.mind_end_of(lease, now_ms)
        self.step(lease, "migrating", now_ms, source=effect.source, transfer_ms=effect.transfer_ms)

    def _close(self, effect: LeaseClosed, now_ms: int) -> None:
        lease = effect.lease
        about = self._about[lease.id]
        if effect.reason.value != about.reason:
            about.say(effect.reason)
        about.end_ms = now_ms
        if lease.incarnation > 0 and lease.site:
            self._order(lease, Verb.STOP, now_ms)
        cause = self._cause_of(lease)
        self.causes.pop(lease.id, None)
        self.line(lease, "closed", now_ms, cause)

    def _recall(self, effect: RecallLease, now_ms: int) -> None:
        self.correspondence.recall(effect.lease, now_ms)
        self.step(effect.lease, "recalled", now_ms)

    def _used(self, effect: Used, now_ms: int) -> None:  # noqa: ARG002 - all effects are taken down alike
        if effect.end_ms > effect.begin_ms:
            self.usage.append(usage_row(effect, self.agreements.domain_of(effect.site)))

    def _punish(self, effect: PenaltyImposed, now_ms: int) -> None:
        self.agreements.penalties.imposed(effect.penalty, effect.lease.id)
        penalty = effect.penalty
        self.step(effect.lease, "punished", now_ms, agreement=penalty.agreement, until_ms=penalty.until_ms)

    def _wake(self, effect: WakeAt, now_ms: int) -> None:
        self._agenda.add(max(effect.at_ms, now_ms + 1), Tick(effect.site))

    def _lease_part(self, effect: PartLeased, now_ms: int) -> None:
        self.coallocations.leased(effect, now_ms)

    def _nothing(self, effect: Effect, now_ms: int) -> None:
        pass

    def _order(self, lease: Lease, verb: Verb, now_ms: int) -> None:
        if self._about[lease.id].native_job:
            return  # its own scheduler looks after it
        self._outbox.give(lease.site, self._order_for(lease, verb, lease.incarnation), now_ms)

    def _order_for(self, lease: Lease, verb: Verb, incarnation: int, other_site: str = "") -> Order:
        request = lease.request
        work_done = request.duration_ms * self._reference_mips - lease.work_left
        return Order(
            order_id(lease.id, incarnation, verb),
            verb,
            lease.id,
            incarnation,
            lease.vms,
            request.memory_mib,
            self._about[lease.id].command,
            work_done,
            other_site,
            self._about[lease.id].constraints,
            request.path,
        )


def _detail(decision: Decision) -> dict[str, object]:
    detail: dict[str, object] = {}
    if decision.planned_ms is not None:
        detail["planned_ms"] = decision.planned_ms
    if decision.breach is not None:
        detail["breach"] = asdict(decision.breach)
    if decision.preemption is not None:
        detail["preemption"] = _told(decision.preemption)
    return detail


def _told(preemption: Preemption) -> dict[str, object]:
    return {
        "for_lease": preemption.beneficiary,
        "victims": preemption.victims,
        "needed_vms": preemption.needed_vms,
        "freed_vms": preemption.freed_vms,
        "cost_vm_ms": preemption.cost_vm_ms,
        "runner_up": preemption.runner_up,
        "runner_up_cost_vm_ms": preemption.runner_up_cost_vm_ms,
        "exact": preemption.exact,
    }
