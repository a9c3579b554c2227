"""What several routes show: leases, the journal, explanations, each computed from what is stored."""

import json
from collections.abc import Callable, Iterable, Mapping
from operator import attrgetter
from typing import Any, cast

from pydantic import TypeAdapter

from leasehold.forecasting.estimates import Foreseen
from leasehold.gateway import planning as core
from leasehold.gateway.planning import Alternative, Brokered, ComponentView, Plan, Prospect
from leasehold.gateway.planning import Elsewhere as Decider
from leasehold.jobs.job import JobReason
from leasehold.jobs.job import sentence as job_sentence
from leasehold.matching.verdict import Why
from leasehold.matching.verdict import sentence as matching_sentence
from leasehold.model.agreement import MILLION, Breach
from leasehold.model.lease import LeaseState
from leasehold.model.reason import Reason, sentence
from leasehold.model.request import LeaseType
from leasehold.model.resources import gpus_text
from leasehold.protocol.explanations import ExplainedPreemption, ExplainedStep, LeaseExplanation, SparedAs
from leasehold.protocol.fields import LeaseTypeName, moment_at, planned, show_duration, show_moment
from leasehold.protocol.leases import Change, ExpectedStart, JournalEntry, Lease
from leasehold.protocol.plans import (
    AnswerElsewhere,
    BlockedSite,
    CoAllocationPlan,
    ComponentEnvironment,
    DomainOffer,
    Elsewhere,
    ForeseenStart,
    LeasePlan,
    PlannedAlternative,
    PlannedDelay,
    PlannedOutcome,
    PlannedVictim,
    PreemptionHistory,
    RuleReading,
)
from leasehold.service.engine.journal import JOB
from leasehold.service.explaining import Account, PreemptionRecord
from leasehold.service.federation import Federation
from leasehold.service.forecasts import Estimated
from leasehold.service.messages.about_plans import Planned
from leasehold.service.messages.endpoints import gateways_passed
from leasehold.service.store.reading import Preempted
from leasehold.service.store.rows import JournalRow, LeaseRow
from leasehold.sharing.offers import BrokerOffer, BrokerReading
from leasehold.sharing.wording import in_words

_BREACH = TypeAdapter(Breach)
_REASONS = frozenset(Reason)
_CLOCK_RUNS = (LeaseState.RUNNING, LeaseState.RESUMING, LeaseState.MIGRATING)
"""The states in which the end of a lease is known, or planned; it is not before its machines were seen."""


_HAS_ALL_OF_IT = (LeaseState.STARTING, LeaseState.RUNNING)
"""The states in which a lease that was not disturbed holds machines for all of its time."""


def show_expected(found: Estimated | None) -> ExpectedStart | None:
    """Show when a lease is expected to start or to continue; None where that is not known."""
    times = None if found is None else found.of.starts
    if found is None or times is None:
        return None
    return ExpectedStart(
        earliest_at=moment_at(times.low_ms),
        expected_at=moment_at(times.median_ms),
        latest_at=moment_at(times.high_ms),
        made_at=moment_at(found.made_ms),
    )


def show_lease(row: LeaseRow, estimated: Estimated | None = None) -> Lease:
    """Show a lease as it is in the store."""
    request, state = row.lease.request, LeaseState(row.lease.state)
    held_ms = row.lease.held_since_ms
    has_all_of_it = held_ms >= 0 and state in _HAS_ALL_OF_IT and not row.lease.preemptions and not row.lease.migrations
    wall_ms = row.lease.span_ms - row.lease.overhead_ms if has_all_of_it else 0
    return Lease.of(
        row.lease,
        request,
        row.metadata,
        type=request.lease_type.label,
        asked_duration_s=show_duration(row.lease.wanted_ms) if row.lease.wanted_ms >= 0 else None,
        walltime_s=show_duration(wall_ms) if wall_ms > 0 else None,
        local=request.is_local,
        home=request.site,
        came_by=gateways_passed(request.consumer),
        explanation=explain(row.metadata.reason, row.metadata.breach),
        submitted_at=moment_at(request.submit_ms),
        planned_start_at=planned(row.lease.reserved_ms) if state is LeaseState.WAITING else None,
        expected=show_expected(estimated if held_ms < 0 and not state.is_final else None),
        started_at=planned(row.lease.first_start_ms),
        ends_at=moment_at(held_ms + row.lease.span_ms) if held_ms >= 0 and state in _CLOCK_RUNS else None,
        ended_at=planned(row.metadata.end_ms),
        checkpointed_at=planned(row.lease.checkpointed_ms),
        claims=dict(request.claims),
        gpus=gpus_text(request.gpu_model, request.gpu_milli),
        nodes=[_on_node(*one) for one in row.lease.placed],
        coallocation=row.metadata.coallocation_id,
        job=row.metadata.job_id,
    )


def _on_node(name: str, machines: int, devices: tuple[int, ...]) -> str:
    several = f"*{machines}" if machines > 1 else ""
    return f"{name}{several}[{','.join(map(str, devices))}]" if devices else f"{name}{several}"


def explain(reason: str, breach: Breach | None = None) -> str:
    """Explain a reason in a sentence, with the numbers of the agreement that it concerns; empty without one."""
    if not reason:
        return ""
    text = sentence(Reason(reason)) if reason in _REASONS else job_sentence(JobReason(reason))
    return text if breach is None else f"{text}: {in_words(breach, show_moment)}"


_NOT_NAMED = 0
"""Stands for leases that a line does not name: only a reader who may see all may see these."""

ANOTHERS = "another consumer's lease"
"""Stands for the number of a lease that the reader may not see."""


def leases_named(rows: Iterable[JournalRow]) -> set[int]:
    """Return the leases that these lines name besides their own."""
    named: set[int] = set()
    for row in rows:
        if _PREEMPTION in row.detail:
            preemption = json.loads(row.detail).get(_PREEMPTION, {})
            for key in ("for_lease", "victims", "runner_up"):
                named |= set(_numbers(preemption.get(key)))
    return named


def show_entry(row: JournalRow, may_see: Callable[[int], bool]) -> JournalEntry:
    """Show a line of one lease's journal to a caller who may see these leases."""
    return JournalEntry.of(row, **_explained(row, may_see))


def show_change(row: JournalRow, may_see: Callable[[int], bool]) -> Change:
    """Show a line of the journal to a follower who may see these leases."""
    return Change.of(row, lease=row.lease_id, job=row.job_id, **_explained(row, may_see))


_PREEMPTION = "preemption"
_SIZES = {
    "for_lease": ("needed_vms",),
    "victims": ("freed_vms", "cost_vm_ms"),
    "runner_up": ("runner_up_cost_vm_ms",),
}
"""The fields that disclose the sizes of leases, by the field that names the leases."""


def _numbers(value: object) -> list[int]:
    values = value if isinstance(value, list) else [value]
    return [one for one in values if isinstance(one, int)]


def _concealed(preemption: dict[str, Any], may_see: Callable[[int], bool]) -> dict[str, Any]:
    """Leave out numbers and sizes of leases that the reader may not see."""
    shown = {key: value for key, value in preemption.items() if key != "candidates"}
    for key, sizes in _SIZES.items():
        value = preemption.get(key)
        is_known_whole = f"{key}_not_named" not in preemption or may_see(_NOT_NAMED)
        if is_known_whole and all(map(may_see, _numbers(value))):
            continue
        if isinstance(value, list):
            shown[key] = [one if may_see(one) else ANOTHERS for one in value]
        else:
            shown[key] = ANOTHERS
        shown |= dict.fromkeys(sizes)
    return shown


def _explained(row: JournalRow, may_see: Callable[[int], bool]) -> dict[str, Any]:
    detail = json.loads(row.detail)
    if _PREEMPTION in detail:
        detail[_PREEMPTION] = _concealed(detail[_PREEMPTION], may_see)
    breach = _BREACH.validate_python(detail["breach"]) if "breach" in detail else None
    return {"explanation": explain(row.reason, breach), "detail": detail}


def leases_in_plan(plan: Plan) -> set[int]:
    """Return the leases of others that a plan names."""
    prospect = plan.prospect
    return {one.lease_id for one in prospect.victims} | {one.lease_id for one in prospect.delays}


def show_plan(
    plan: Plan,
    history: Iterable[Preempted],
    foreseen: Iterable[Foreseen],
    may_see: Callable[[int], bool],
    there: Elsewhere | None,
) -> LeasePlan:
    """Show what would happen to a lease to a caller who may see these leases; ``history`` is of its site.

    ``there``  who decides instead of this gateway
    """
    prospect = plan.prospect
    return LeasePlan(
        **outcome_of(prospect),
        victims=tuple(
            PlannedVictim.of(one, lease=one.lease_id, type=one.lease_type.label)
            for one in prospect.victims
            if may_see(one.lease_id)
        ),
        delays=tuple(PlannedDelay.of(one, lease=one.lease_id) for one in prospect.delays if may_see(one.lease_id)),
        penalised=prospect.penalised,
        elsewhere=there,
        risk=tuple(PreemptionHistory.of(one, type=one.lease_type.label) for one in history),
        foreseen=tuple(map(_foreseen, foreseen)),
        sites=tuple(plan.view.extended.sites),
        blocked=_all_blocked(plan.view),
        domains=_domains(plan.brokered.offers),
        readings=_readings(plan.brokered),
        alternatives=tuple(map(show_alternative, plan.alternatives)),
        untried=plan.untried,
    )


def elsewhere_of(federation: Federation, prospect: Prospect, told: Planned | None) -> Elsewhere | None:
    """Show who would decide on a request instead of this gateway, and what they say; None where nobody would."""
    there = prospect.elsewhere
    if there is None:
        return None
    return _elsewhere(there, federation.messages.last_heard_ms(there.name), told, federation.clock())


def _elsewhere(there: Decider, heard_ms: int | None, told: Planned | None, now_ms: int) -> Elsewhere:
    """Show who decides instead of this gateway, when they last reported, and what they say now."""
    answer = None
    if told is not None:
        answer = AnswerElsewhere(
            **told.model_dump(include=AnswerElsewhere.model_fields.keys() & Planned.model_fields.keys()),
            explanation=sentence(told.reason),
            starts_at=None if told.starts_in_ms < 0 else moment_at(now_ms + told.starts_in_ms),
            ends_at=None if told.ends_in_ms < 0 else moment_at(now_ms + told.ends_in_ms),
        )
    return Elsewhere.of(there, peer=there.is_peer, reported_at=planned(heard_ms), answer=answer)


def _foreseen(one: Foreseen) -> ForeseenStart:
    times = one.start
    return ForeseenStart.of(
        one,
        type=_type_name(one.lease_type),
        earliest_at=None if times is None else moment_at(times.low_ms),
        expected_at=None if times is None else moment_at(times.median_ms),
        latest_at=None if times is None else moment_at(times.high_ms),
    )


def _type_name(kind: LeaseType) -> LeaseTypeName:
    return cast("LeaseTypeName", kind.label)


_SAME: dict[str, Any] = {"type": None, "vms": None, "duration_s": None, "ready": None, "domain": ""}
"""What an alternative shows of a request that is not different."""


def show_alternative(alternative: Alternative) -> PlannedAlternative:
    """Show a better request by what is different in it."""
    request, outcome = alternative.prospect.request, PlannedOutcome(**outcome_of(alternative.prospect))
    differs: dict[str, Any] = {}
    match alternative.change:
        case core.Change.TYPE:
            differs = {"type": _type_name(request.lease_type)}
        case core.Change.VMS:
            differs = {"vms": request.vms}
        case core.Change.DURATION:
            differs = {"duration_s": show_duration(request.duration_ms)}
        case core.Change.READY:
            differs = {"ready": moment_at(request.ready_ms)}
        case core.Change.SITE:
            differs = {"domain": request.domain}
    return PlannedAlternative(**_SAME | differs, change=alternative.change.value, outcome=outcome)


def outcome_of(prospect: Prospect) -> dict[str, Any]:
    """Give what a `PlannedOutcome` shows."""
    consequences = tuple(one.value for one in prospect.consequences)
    verdict = "refused" if prospect.is_refused else "with-consequences" if consequences else "as-asked"
    return {
        "verdict": verdict,
        "consequences": consequences,
        "state": prospect.state,
        "site": prospect.site,
        "starts_at": planned(prospect.start_ms),
        "ends_at": planned(prospect.end_ms),
        "walltime_s": None if prospect.wall_ms is None else show_duration(prospect.wall_ms),
        "reason": prospect.reason.value,
        "explanation": explain(prospect.reason.value, prospect.breach),
        "preempted_leases": len(prospect.victims),
        "preempted_vms": prospect.preempted_vms,
        "delayed_leases": len(prospect.delays),
    }


def show_steps(lines: Iterable[JournalRow]) -> tuple[ExplainedStep, ...]:
    """Show lines of the journal, those that say the same in a row once."""
    steps: list[ExplainedStep] = []
    for line in lines:
        step = _step(line)
        last = steps[-1] if steps else None
        if last is not None and _SAID(last) == _SAID(step):
            steps[-1] = step.model_copy(update={"times": last.times + 1})
        else:
            steps.append(step)
    return tuple(steps)


_SAID = attrgetter("what", "state", "site", "lease", "reason", "explanation", "sites")


def _step(line: JournalRow) -> ExplainedStep:
    detail = json.loads(line.detail)
    breach = _BREACH.validate_python(detail["breach"]) if "breach" in detail else None
    return ExplainedStep.of(
        line,
        lease=line.lease_id,
        explanation=explain_job(JobReason(line.reason), str(detail.get("what", "")))
        if line.what == JOB and line.reason
        else explain(line.reason, breach),
        planned_at=planned(detail.get("planned_ms")),
        times=1,
        sites=tuple(_site_refusal(one) for one in detail.get("sites", ())),
    )


_AT_A_SITE = {
    Reason.NO_CAPABLE_SITE: "cannot suspend or move machines",
    Reason.NO_SUCH_IMAGE: "does not have its image",
    Reason.NO_LOGIN: "lets nobody log in by a key",
    Reason.SITE_DRAINED: "is drained, and takes no new guests",
    Reason.SITE_UNREACHABLE: "does not answer",
    Reason.NEVER_STARTED: "was given the request, and its machines never started",
}
"""Why a site does not take a request, where the sentence of the reason speaks of all of them."""


def _site_refusal(told: Mapping[str, Any]) -> BlockedSite:
    reason = Reason(told["reason"])
    breach = _BREACH.validate_python(told["breach"]) if "breach" in told else None
    words = _AT_A_SITE.get(reason) or (sentence(reason) if breach is None else in_words(breach, show_moment))
    agreement = "" if breach is None else breach.agreement
    return BlockedSite(site=told["site"], reason=reason.value, agreement=agreement, explanation=words)


def show_lease_explanation(row: LeaseRow, account: Account, may_see: Callable[[int], bool]) -> LeaseExplanation:
    """Show what happened to a lease to a caller who may see it, and these others."""
    again = account.again
    return LeaseExplanation(
        lease=show_lease(row),
        steps=show_steps(account.lines),
        preemptions=show_preemptions(account, may_see),
        now=None if again is None else PlannedOutcome(**outcome_of(again)),
        alternatives=tuple(map(show_alternative, account.better)),
        untried=account.untried,
    )


def show_preemptions(account: Account, may_see: Callable[[int], bool]) -> tuple[ExplainedPreemption, ...]:
    """Show the preemptions of leases that a caller may see."""
    return tuple(_preemption(one, may_see) for one in account.preemptions)


def _preemption(one: PreemptionRecord, may_see: Callable[[int], bool]) -> ExplainedPreemption:
    line, detail, mine = one.line, one.detail, one.line.lease_id or 0
    taker_id, victims = detail.get("for_lease"), _numbers(detail.get("victims")) or [mine]
    sees_taker = isinstance(taker_id, int) and may_see(taker_id)
    seen = [number for number in victims if number == mine or may_see(number)]
    hidden = len(victims) - len(seen) + int(detail.get("victims_not_named", 0))
    runner_up, cost, other_cost = detail.get("runner_up"), detail.get("cost_vm_ms"), detail.get("runner_up_cost_vm_ms")
    candidates, replayed = detail.get("candidates"), one.replay
    own_ms = replayed.mine.cost_vm_ms if replayed is not None else cost if len(victims) == 1 else None
    return ExplainedPreemption(
        at=moment_at(line.at_ms),
        lease=mine,
        site=line.site,
        reason=line.reason,
        explanation=explain(line.reason),
        rule=line.rule,
        for_whom=_for_whom(one, sees_taker=sees_taker),
        for_lease=taker_id if sees_taker else None,
        needed_vms=detail.get("needed_vms") if sees_taker and not hidden else None,
        victims=tuple(seen),
        victims_hidden=hidden,
        cost_vm_s=None if own_ms is None else show_duration(own_ms),
        candidates=len(candidates) if candidates else None,
        considered=detail.get("considered", 0),
        exact=bool(detail.get("exact")),
        runner_up="none" if not runner_up else "with-this-lease" if mine in runner_up else "without-this-lease",
        runner_up_cost=round(other_cost / cost, 3) if cost and other_cost is not None else None,
        spared_as=tuple(
            SparedAs(by=spared.by.value, type=_type_name(spared.lease_type), vms=spared.vms)
            for spared in (() if replayed is None else replayed.spared)
        ),
        tried=replayed is not None,
    )


def _for_whom(one: PreemptionRecord, *, sees_taker: bool) -> str:
    """Say for whom a lease was preempted, without a name that the reader may not know."""
    if one.line.reason == Reason.SITE_SHRANK:
        return f"nobody: {one.line.site} has fewer VMs than before"
    taker = one.taker
    if taker is None:
        return "a lease that is not kept any more"
    is_local, vms = taker.lease.request.is_local, taker.lease.vms
    if not sees_taker:
        return f"a local user of {one.line.site}" if is_local else "a Non-preemptable guest"
    what = f"local request of {one.line.site}" if is_local else "Non-preemptable guest"
    return f"lease {taker.lease.id} of {taker.lease.request.consumer}, a {what} for {vms} VM{'s' if vms != 1 else ''}"


def show_coallocation_plan(explanation: core.CoAllocationPlan) -> CoAllocationPlan:
    """Show what would become of a co-allocation."""
    return CoAllocationPlan(
        state=explanation.state.value,
        sites=tuple(explanation.sites),
        starts_at=planned(explanation.start_ms),
        reason=explanation.reason.value,
        explanation=sentence(explanation.reason),
        components=tuple(
            ComponentEnvironment(
                virtual=tuple(one.virtual.sites), extended=tuple(one.extended.sites), blocked=_all_blocked(one)
            )
            for one in explanation.components
        ),
        domains=_domains(explanation.brokered.offers),
        readings=_readings(explanation.brokered),
    )


def _all_blocked(view: ComponentView) -> tuple[BlockedSite, ...]:
    return tuple(_blocked(site, breach) for site, breach in view.extended.breaches.items())


def _domains(offers: Iterable[BrokerOffer]) -> tuple[DomainOffer, ...]:
    return tuple(
        DomainOffer.of(offer, sites=tuple(offer.sites), used_share=offer.used_ppm / MILLION) for offer in offers
    )


def _readings(brokered: Brokered) -> tuple[RuleReading, ...]:
    return tuple(_reading(site, one) for site, all_ in (brokered.readings or {}).items() for one in all_)


def _blocked(site: str, breach: Breach) -> BlockedSite:
    return BlockedSite(
        site=site,
        reason=breach.reason.value,
        agreement=breach.agreement,
        explanation=in_words(breach, show_moment),
    )


def _reading(site: str, reading: BrokerReading) -> RuleReading:
    return RuleReading.of(
        reading,
        site=site,
        used_share=reading.used_ppm / MILLION,
        limit_share=reading.limit_ppm / MILLION,
        left_share=reading.left_ppm / MILLION,
    )


_ABOUT_NODES = frozenset(
    {
        Why.SOFTWARE_NOT_THERE,
        Why.SOFTWARE_OTHER_VERSION,
        Why.TAKES_NO_FILES,
        Why.TOO_FEW_CORES,
        Why.TOO_LITTLE_MEMORY,
        Why.CPU_TOO_SLOW,
        Why.TOO_LITTLE_DISK,
        Why.TOO_FEW_GPUS,
        Why.GPUS_LENT_WHOLE,
        Why.FACTS_TOO_OLD,
        Why.CORES_IN_USE,
        Why.MEMORY_IN_USE,
        Why.DISK_IN_USE,
        Why.GPUS_IN_USE,
    }
)
"""Their sentences say something of a node, those of the others of the job."""

_WHYS = frozenset(Why)
_AT_SITE = frozenset({JobReason.WAITS_AT_SITE, JobReason.SUSPENDED})
"""What is beside them is the reason of the site."""

_WITH_DETAIL = frozenset({JobReason.NODES_DOWN, JobReason.NODE_FULL, JobReason.SITE_SAID_NOT_NOW})
"""What is beside them says which nodes, or what was said."""


def explain_job(reason: JobReason, what: str) -> str:
    """Say why, in words; ``what`` is one of `Why`, with what is missing after a colon, or something else."""
    if reason in _AT_SITE and what in _REASONS:
        return f"{job_sentence(reason)}: it {sentence(Reason(what))}"
    name, _, missing = what.partition(": ")
    if reason is JobReason.WAITS_ITS_TURN:
        return job_sentence(reason)  # what matching says of it is the same
    if name not in _WHYS:
        return f"{job_sentence(reason)} ({what})" if what and reason in _WITH_DETAIL else job_sentence(reason)
    why = Why(name)
    subject = "the nearest node" if why in _ABOUT_NODES else "it"
    return f"{job_sentence(reason)}: {subject} {matching_sentence(why)}" + (f" ({missing})" if missing else "")
