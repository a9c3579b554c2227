"""Plans: the outcome a lease or co-allocation request would have, without submitting it."""

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from leasehold.model.lease import LeaseState
from leasehold.protocol.base import RequestModel, ResponseModel
from leasehold.protocol.fields import (
    AnyNumberOf,
    LeaseTypeName,
    Moment,
    OrEmpty,
    OrFalse,
    OrNone,
    OrZero,
    Seconds,
    plain_digits,
)

MAX_WITHIN_S = 30


class BlockedSite(ResponseModel):
    """A site the request may not use, by an agreement."""

    site: str
    reason: str
    agreement: str = Field(description="The agreement that bars it; empty: there is no agreement at all.")
    explanation: str = Field(description="The reason as a sentence, with the figures.")


class ComponentEnvironment(ResponseModel):
    """The sites suitable for a component, and those it may use."""

    virtual: tuple[str, ...] = Field(description="All suitable sites.")
    extended: tuple[str, ...] = Field(description="Those where agreements allow it now.")
    blocked: tuple[BlockedSite, ...] = Field(description="The others, with the reason.")


class DomainOffer(ResponseModel):
    """A virtual domain as scored by the broker; a site outside all domains is its own."""

    domain: str
    sites: tuple[str, ...]
    free_vms: int
    used_share: float = Field(description="The consumer's used share, the highest over all windows of the rules.")
    penalty: int = Field(description="The highest penalty among the rules the request would exceed and may.")
    score: int = Field(description="Score under the broker policy; higher is better.")


class RuleReading(ResponseModel):
    """Consumption of one rule's limit at a site, over one of its windows."""

    site: str
    agreement: str
    provider: str
    consumer: str
    resource: str
    window_s: Seconds
    used_share: float
    limit_share: float
    left_share: float = Field(description="What is left of the limit.")


class AnswerElsewhere(ResponseModel):
    """What a site with its own manager, or a peer, says would become of the request there; nothing is submitted."""

    state: LeaseState
    reason: str = Field(description="The reason code it would have there.")
    explanation: str = Field(description="The reason as a sentence.")
    starts_at: OrNone[Moment] = Field(description="Now, or the planned start; null: not known.")
    ends_at: OrNone[Moment] = Field(description="When its requested time would end, if it is not preempted.")
    preempted_leases: OrZero = Field(description="How many leases would be preempted for it there.")
    preempted_vms: OrZero = Field(description="The total number of their VMs.")
    delayed_leases: OrZero = Field(description="How many waiting leases would start later by it there.")
    onward: AnyNumberOf[str] = Field(description="The peers beyond it that the request would go on to.")
    passed_on: OrFalse = Field(description="Whether the last of these would pass it on, and has no answer in time.")


class Elsewhere(ResponseModel):
    """Where the request would be forwarded for decision: a site with its own manager, or a peer."""

    name: str
    peer: bool = Field(description="Whether it is a peer.")
    free_vms: int = Field(description="VMs free there at its last report.")
    hops: OrZero = Field(description="How many gateways beyond that peer these VMs are.")
    reported_at: OrNone[Moment] = Field(description="When it last reported; null: not since this gateway was started.")
    answer: OrNone[AnswerElsewhere] = Field(
        description="What it says when asked; null: it does not answer within two seconds."
    )


class PlannedVictim(ResponseModel):
    """A lease that would be preempted, and its fate."""

    lease: int
    type: LeaseTypeName
    vms: int
    site: str
    then: LeaseState = Field(description="Its state right after that.")
    resumes_at: OrNone[Moment] = Field(description="When it would continue by its plan; null: unknown, or never.")


class PlannedDelay(ResponseModel):
    """A waiting lease whose planned start would be later."""

    lease: int
    vms: int
    site: str
    from_at: Moment = Field(description="Its planned start now.")
    to_at: OrNone[Moment] = Field(description="Its planned start then; null: unknown.")


class PlannedOutcome(ResponseModel):
    """The state a lease would have right after submission."""

    verdict: Literal["as-asked", "with-consequences", "refused"] = Field(
        description="`as-asked`: it would start when it is ready, at nobody's cost."
    )
    consequences: AnyNumberOf[str] = Field(
        description="`waits`, `preempts` (running leases), `delays` (waiting ones), `decided-elsewhere`, `penalised`."
    )
    state: LeaseState
    site: OrEmpty = Field(description="The site where it would start or wait; empty: none.")
    starts_at: OrNone[Moment] = Field(description="Now, or the planned start; null: not known yet.")
    ends_at: OrNone[Moment] = Field(description="When its requested time would end, if it is not preempted.")
    walltime_s: OrNone[Seconds] = Field(
        description="Its duration in wall-clock time at that site; null: not known yet."
    )
    reason: str = Field(description="The reason code it would have.")
    explanation: str = Field(description="The reason as a sentence, with the figures of the agreement.")
    preempted_leases: OrZero = Field(description="How many leases would be preempted for it.")
    preempted_vms: OrZero = Field(description="The total number of their VMs.")
    delayed_leases: OrZero = Field(description="How many waiting leases would start later by it.")


class PreemptionHistory(ResponseModel):
    """How often leases of one type were preempted at a site, of the latest that ran there and have ended."""

    site: str
    type: LeaseTypeName
    ended: int = Field(description="How many ended, among the last 10,000 leases of the federation.")
    preempted: int = Field(description="How many of those were preempted at least once.")


class PlanQuery(RequestModel):
    """How much a plan is worth."""

    within_s: Annotated[int, Field(ge=0, le=MAX_WITHIN_S), BeforeValidator(plain_digits)] = Field(
        default=0,
        description="For about how many seconds of a processor to simulate futures, which give the start its 90 % "
        "interval and the risk of preemption; 0: not at all.",
    )


ENOUGH_FUTURES = 5
"""Of fewer, the share in which something happens says too little to be shown."""


class ForeseenStart(ResponseModel):
    """What becomes of a request in simulated futures, as one lease type."""

    type: LeaseTypeName
    earliest_at: OrNone[Moment] = Field(
        description="Begin of the 90 % interval of its start. null: it may not start, or not be known when."
    )
    expected_at: OrNone[Moment] = Field(description="It starts as often earlier as later.")
    latest_at: OrNone[Moment] = Field(description="End of the 90 % interval.")
    refused_share: float = Field(description="The share of futures in which it ends without having run.")
    preempted_share: float = Field(description="The share of those in which it runs in which it is preempted.")
    futures: int = Field(description="How many futures were simulated.")


class PlannedAlternative(ResponseModel):
    """Another request, different in one thing, that would be better off. It was tried, and undone."""

    change: Literal["type", "vms", "duration", "ready", "site"] = Field(description="What is different.")
    type: OrNone[LeaseTypeName] = Field(description="The other type; null: the same.")
    vms: OrNone[int] = Field(description="The other number of VMs; null: the same.")
    duration_s: OrNone[Seconds] = Field(description="The other duration; null: the same.")
    ready: OrNone[Moment] = Field(description="The other earliest start; null: the same.")
    domain: OrEmpty = Field(description="The site that it would be bound to; empty: the same.")
    outcome: PlannedOutcome


class LeasePlan(PlannedOutcome):
    """The outcome of a lease submitted now, and better alternatives; nothing is submitted."""

    victims: AnyNumberOf[PlannedVictim] = Field(description="Those of the preempted leases that the caller may see.")
    delays: AnyNumberOf[PlannedDelay] = Field(description="Those of the delayed leases that the caller may see.")
    penalised: AnyNumberOf[str] = Field(description="Agreements for breaking which its consumer would be punished.")
    elsewhere: OrNone[Elsewhere] = Field(description="Where it would be forwarded; null: decided here.")
    risk: AnyNumberOf[PreemptionHistory] = Field(description="At its site, by type.")
    foreseen: AnyNumberOf[ForeseenStart] = Field(
        description="Its start and risk in simulated futures, as its own type first, then as others; empty: not asked "
        "for, or too many leases are open."
    )
    sites: AnyNumberOf[str] = Field(description="Sites that can take it, lend, and allow it.")
    blocked: AnyNumberOf[BlockedSite] = Field(description="Sites blocked by agreements, with the reason.")
    domains: AnyNumberOf[DomainOffer] = Field(description="The virtual domains it may use, best first.")
    readings: AnyNumberOf[RuleReading] = Field(description="The agreements that apply to it, and what is left of each.")
    alternatives: AnyNumberOf[PlannedAlternative] = Field(
        description="Requests that would not be refused, start earlier, or preempt fewer VMs; each was tried."
    )
    untried: OrZero = Field(description="How many alternatives were not tried, since too many leases are open.")


class CoAllocationPlan(ResponseModel):
    """The state a co-allocation would have right after submission; nothing is submitted."""

    state: str
    sites: tuple[str, ...] = Field(description="The site of each component; empty: not placed yet.")
    starts_at: OrNone[Moment] = Field(description="The common start; null: not determined yet.")
    reason: str
    explanation: str
    components: tuple[ComponentEnvironment, ...]
    domains: AnyNumberOf[DomainOffer] = Field(description="Those the first component may use, best first.")
    readings: AnyNumberOf[RuleReading]
