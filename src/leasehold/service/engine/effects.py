"""What follows from the effects of an instant: journal lines, orders, messages, timers and use."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, astuple, replace
from functools import partial

from leasehold.gateway.extensions import EXTENSION
from leasehold.model.effect import (
    AlarmCalledOff,
    CoAllocationClosed,
    CoAllocationStarted,
    CommitLease,
    Decision,
    Effect,
    ExtendLease,
    LeaseClosed,
    MigrateLease,
    OfferLease,
    PartLeased,
    PenaltyImposed,
    Preemption,
    RecallLease,
    ResumeLease,
    SiteRefusal,
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
from leasehold.model.lease import Lease, LeaseState
from leasehold.model.reason import PREEMPTED, Outcome, Reason
from leasehold.service.drivers.protocol import NOTICE_FILE, SIGNAL, Order, PlacementConstraints, Verb, order_id
from leasehold.service.engine.agreements import AgreementRepository
from leasehold.service.engine.coallocations import CoAllocationRepository
from leasehold.service.engine.context import EngineContext
from leasehold.service.engine.remote_sites import RemoteSiteProtocol
from leasehold.service.engine.usage import usage_row
from leasehold.service.store.rows import LEASES, USAGE, LeaseMetadata, LeaseRow

REPORTED, EXTENSION_ASKED = "reported", "extension-asked"
_MACHINES_ARE_THE_CAUSE = frozenset({Reason.NEVER_STARTED, Reason.SITE_UNREACHABLE, Reason.MACHINES_LOST_RESTARTED})
_GIVES_WAY = frozenset({Verb.SUSPEND, Verb.STOP})
_OVER_THERE = (LeaseState.FAILED, LeaseState.CANCELLED)
_REPLANNED = frozenset({Reason.LOCAL_PLAN_CHANGED, Reason.DELAYED_BY_SLOW_START})
_ACTIONS: dict[type, str] = {LeaseSaved: "saved", LeaseStarted: "started", LeaseContinues: "continues"}


class EffectRecorder:
    """Turns events and effects of an instant into what the step writes."""

    def __init__(
        self,
        context: EngineContext,
        agreements: AgreementRepository,
        coallocations: CoAllocationRepository,
        remote_sites: RemoteSiteProtocol,
    ) -> None:
        self._unit = context.unit
        self._metadata = context.metadata
        self._journal = context.journal
        self._outbox = context.outbox
        self._timers = context.timers
        self._telemetry = context.telemetry
        self._agreements = agreements
        self._coallocations = coallocations
        self._remote_sites = remote_sites
        self._core = context.core
        self._notices: dict[int, int] = {}
        self._room_from_ms: dict[int, int] = {}
        self._reference_mips = context.core.gateway.reference_mips

    def record(
        self, events: Sequence[Event], effects: Sequence[Effect], moved: Mapping[int, Lease], now_ms: int
    ) -> None:
        """Record an instant: its news of machines, what was decided, and the leases that are not as they were."""
        self._record_news(events, effects, moved, now_ms)
        self._give_notice(effects, now_ms)
        touched = dict(moved)
        for effect in effects:
            if not isinstance(effect, WakeAt | AlarmCalledOff | CoAllocationStarted | CoAllocationClosed):
                touched[effect.lease.id] = effect.lease
            self._record(effect, now_ms)
        for lease in touched.values():
            self._unit.put(LEASES, LeaseRow(lease, self._metadata[lease.id]))

    def _record_news(
        self, events: Sequence[Event], effects: Sequence[Effect], moved: Mapping[int, Lease], now_ms: int
    ) -> None:
        """Record the news that changed a lease, and where: it may have moved on since."""
        for event in events:
            if isinstance(event, OverheadMeasured):
                took_s = event.took_ms / 1000
                self._unit.after_commit(partial(self._telemetry.took, event.site, event.operation, took_s))
            elif isinstance(event, SiteReported) and event.lease_id in moved:
                lease, planned = moved[event.lease_id], {"planned_ms": event.planned_ms}
                if event.state in _OVER_THERE and not lease.state.is_final:
                    continue  # it goes on elsewhere: the decision tells so
                self._metadata[lease.id].say(event.reason)
                self._metadata[lease.id].onward = event.onward
                self._journal.lease(lease, REPORTED, now_ms, planned, site=event.site, state=event.state.value)
        for event in events:
            if isinstance(event, LeaseStarted | LeaseContinues | LeaseIsLate) and event.lease_id in moved:
                self._schedule_end(moved[event.lease_id], now_ms)
        news = [event for event in events if isinstance(event, LeaseSaved | LeaseStarted | LeaseContinues)]
        if news:
            sources = {one.lease.id: one.source for one in reversed(effects) if isinstance(one, MigrateLease)}
            # Each once: machines may say so twice.
            for lease_id, what in dict.fromkeys((event.lease_id, _ACTIONS[type(event)]) for event in news):
                if lease_id in moved:
                    self._step(moved[lease_id], what, now_ms, site=sources.get(lease_id, ""))

    def _record(self, effect: Effect, now_ms: int) -> None:  # noqa: C901, PLR0912 - one case for each effect
        match effect:
            case Decision():
                self._decision(effect, now_ms)
            case StartLease(lease):
                self._order(lease, Verb.START, now_ms, not_before_ms=self._room_from_ms.get(lease.id, 0))
                self._timers.schedule_end(lease, now_ms)
                self._timers.schedule_start(lease, now_ms)
            case SuspendLease(lease, save_ms):
                self._order(lease, Verb.SUSPEND, now_ms)
                self._step(lease, "suspending", now_ms, save_ms=save_ms)
            case ResumeLease(lease, resume_ms):
                self._order(lease, Verb.RESUME, now_ms)
                self._timers.schedule_end(lease, now_ms)
                self._step(lease, "resuming", now_ms, resume_ms=resume_ms)
            case MigrateLease():
                self._migrate(effect, now_ms)
            case WithdrawLease(lease, site, incarnation):
                # Stop what was ordered of a lease that is not over: its end may be ordered of this start too.
                if not self._metadata[lease.id].native_job:
                    stop = self._order_for(lease, Verb.STOP, incarnation)
                    self._outbox.give(site, replace(stop, id=f"{stop.id}~withdrawn"), now_ms)
            case LeaseClosed():
                self._close(effect, now_ms)
            case OfferLease(lease, wait):
                self._remote_sites.offer(lease, wait=wait, now_ms=now_ms)
            case RecallLease(lease):
                self._remote_sites.recall(lease, now_ms)
                self._step(lease, "recalled", now_ms)
            case ExtendLease(lease, duration_ms):
                self._unit.extensions.append(effect)
                self._remote_sites.extend(lease, duration_ms, now_ms)
                self._step(lease, EXTENSION_ASKED, now_ms, duration_ms=duration_ms)
            case CommitLease(lease):
                self._remote_sites.commit(lease, now_ms)
                self._step(lease, "committed", now_ms)
            case Used():
                if effect.end_ms > effect.begin_ms:
                    self._unit.add(USAGE, usage_row(effect, self._agreements.domain_of(effect.site)))
            case PenaltyImposed(lease, penalty):
                self._agreements.penalties.impose(penalty, lease.id)
                self._step(lease, "punished", now_ms, agreement=penalty.agreement, until_ms=penalty.until_ms)
            case PartLeased():
                self._coallocations.leased(effect, now_ms)
            case WakeAt(site, at_ms):
                self._timers.add(max(at_ms, now_ms + 1), Tick(site))
            case AlarmCalledOff(at_ms):
                self._timers.call_off_tick(at_ms)
            case StopLease() | CoAllocationStarted() | CoAllocationClosed():
                pass  # every lease that is stopped is closed too, and co-allocations are written as they are

    def _give_notice(self, effects: Sequence[Effect], now_ms: int) -> None:
        """Find the guests that are preempted now and told before, and the leases that get their room after that."""
        self._notices.clear()
        self._room_from_ms.clear()
        for effect in effects:
            if type(effect) is not Decision or effect.outcome is not Outcome.PREEMPT:
                continue
            lease, notice_ms = effect.lease, self._notice_ms(effect)
            if notice_ms:
                self._notices[lease.id] = notice_ms
                notify = self._metadata[lease.id].notify
                self._step(lease, "notified", now_ms, site=effect.site, notice_s=notice_ms / 1000, by=notify)
                if effect.preemption is not None:
                    self._room_from_ms[effect.preemption.beneficiary] = now_ms + notice_ms

    def _notice_ms(self, preempted: Decision) -> int:
        """How long a guest is told before: as the owner's terms say, if it asked for that and has begun to run."""
        site, metadata = self._core.gateway.sites[preempted.site].settings, self._metadata[preempted.lease.id]
        if not metadata.notify or not site.notice_ms or preempted.lease.first_start_ms < 0:
            return 0
        is_told_there = metadata.notify == NOTICE_FILE or metadata.notify.startswith(SIGNAL)
        return site.notice_ms if site.can_notify or not is_told_there else 0

    def _step(self, lease: Lease, what: str, now_ms: int, *, site: str = "", **detail: object) -> None:
        self._journal.lease(lease, what, now_ms, detail, site=site, has_reason=False)

    def _decision(self, effect: Decision, now_ms: int) -> None:
        self._unit.decisions.append(effect)
        if effect.outcome is Outcome.EXTEND:
            self._schedule_end(effect.lease, now_ms)
        if effect.duration_ms is not None:
            if effect.rule == EXTENSION:
                self._unit.extensions.append(effect)
            self._remote_sites.decided_to_extend(effect, now_ms)
        metadata = self._metadata[effect.lease.id]
        before, breach_before = metadata.reason, metadata.breach
        metadata.say(effect.reason, effect.breach)
        detail = _detail(effect)
        if effect.reason in _MACHINES_ARE_THE_CAUSE:
            detail |= self._cause_of(effect.lease)
        self._journal.lease(effect.lease, effect.outcome, now_ms, detail, site=effect.site, rule=effect.rule)
        if effect.outcome is Outcome.DENY or (effect.reason in _REPLANNED and before in PREEMPTED):
            # Why it gave way is still why it does not run, however often its return is replanned.
            metadata.reason, metadata.breach = before, breach_before

    def _migrate(self, effect: MigrateLease, now_ms: int) -> None:
        lease = effect.lease
        notice_ms = self._notices.get(lease.id, 0)
        is_own = effect.source in self._core.gateway.sites
        if is_own:  # else its manager has saved its memory, and stopped it
            away = self._order_for(lease, Verb.SEND, lease.incarnation - 1, lease.site, notice_ms=notice_ms)
            self._outbox.give(effect.source, away, now_ms, now_ms + notice_ms)
        here = self._order_for(lease, Verb.RECEIVE, lease.incarnation, effect.source if is_own else "")
        self._outbox.give(lease.site, here, now_ms)
        self._timers.schedule_end(lease, now_ms)
        self._step(lease, "migrating", now_ms, source=effect.source, transfer_ms=effect.transfer_ms)

    def _close(self, effect: LeaseClosed, now_ms: int) -> None:
        lease = effect.lease
        metadata = self._metadata[lease.id]
        if effect.reason.value != metadata.reason:
            metadata.say(effect.reason)
        metadata.end_ms = now_ms
        if lease.incarnation > 0 and lease.site:
            self._order(lease, Verb.STOP, now_ms)
        cause = self._cause_of(lease)
        self._unit.causes.pop(lease.id, None)
        self._journal.lease(lease, "closed", now_ms, cause)

    def _schedule_end(self, lease: Lease, now_ms: int) -> None:
        if lease.held_since_ms >= 0:
            self._timers.schedule_end(lease, now_ms)

    def _cause_of(self, lease: Lease) -> dict[str, object]:
        cause = self._unit.causes.get(lease.id, "")
        return {"cause": cause} if cause else {}

    def _order(self, lease: Lease, verb: Verb, now_ms: int, *, not_before_ms: int = 0) -> None:
        if self._metadata[lease.id].native_job:  # its own scheduler looks after that
            return
        notice_ms = self._notices.get(lease.id, 0) if verb in _GIVES_WAY else 0
        order = self._order_for(lease, verb, lease.incarnation, notice_ms=notice_ms)
        self._outbox.give(lease.site, order, now_ms, max(not_before_ms, now_ms + notice_ms))

    def _order_for(
        self, lease: Lease, verb: Verb, incarnation: int, other_site: str = "", *, notice_ms: int = 0
    ) -> Order:
        request, metadata = lease.request, self._metadata[lease.id]
        return Order(
            order_id(lease.id, incarnation, verb),
            verb,
            lease.id,
            incarnation,
            lease.vms,
            request.memory_mib,
            metadata.command,
            work_done=request.duration_ms * self._reference_mips - lease.work_left,
            other_site=other_site,
            constraints=_constraints(lease, metadata),
            files=metadata.files,
            account=request.path,
            notify=metadata.notify,
            notice_ms=notice_ms,
            ssh_key=metadata.ssh_key,
        )


def _constraints(lease: Lease, metadata: LeaseMetadata) -> PlacementConstraints:
    """Say on which nodes machines are made: as matching has chosen, or as the plan of the site has."""
    request, constraints = lease.request, metadata.constraints
    if request.image:
        constraints = replace(constraints, image=request.image)
    if not lease.placed:
        return constraints
    return replace(
        constraints,
        cores=request.cores,
        gpu_model=request.gpu_model,
        gpu_milli=request.gpu_milli,
        placed=lease.placed,
    )


def _detail(decision: Decision) -> dict[str, object]:
    detail: dict[str, object] = {}
    if decision.planned_ms is not None:
        detail["planned_ms"] = decision.planned_ms
    if decision.duration_ms is not None:
        detail["duration_ms"] = decision.duration_ms
    if decision.breach is not None:
        detail["breach"] = asdict(decision.breach)
    if decision.preemption is not None:
        detail["preemption"] = _preemption(decision.preemption, decision.lease)
    if decision.sites:
        detail["sites"] = [_site_refusal(one) for one in decision.sites]
    return detail


def _site_refusal(one: SiteRefusal) -> dict[str, object]:
    return {"site": one.site, "reason": one.reason} | ({} if one.breach is None else {"breach": asdict(one.breach)})


MOST_NAMED = 100
"""How many victims a line of the journal names; each of the others has such a line, too.

Each line of a preemption of thousands would name thousands.
"""


def _preemption(preemption: Preemption, victim: Lease) -> dict[str, object]:
    """Show a preemption as a victim's line has it; who could have given way is in the line of the first alone."""
    fields = {name: getattr(preemption, name) for name in preemption.__slots__}
    candidates = fields.pop("candidates")
    if candidates and victim.id == preemption.victims[0]:
        fields["candidates"] = [astuple(one) for one in candidates]
    found: dict[str, object] = {"for_lease": fields.pop("beneficiary"), **fields}
    for name in ("victims", "runner_up"):
        numbers = fields[name] or ()
        if len(numbers) > MOST_NAMED:
            found |= {name: numbers[:MOST_NAMED], f"{name}_not_named": len(numbers) - MOST_NAMED}
    return found
