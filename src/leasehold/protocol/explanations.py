"""Dry runs: the outcome a lease or co-allocation request would have, without submitting it."""

from pydantic import Field

from leasehold.model.lease import LeaseState
from leasehold.protocol.base import ResponseModel
from leasehold.protocol.fields import AnyNumberOf, Moment, OrEmpty, OrNone, OrZero, Seconds


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


class Elsewhere(ResponseModel):
    """Where the request would be forwarded for decision: a site with its own manager, or a peer."""

    name: str
    peer: bool
    free_vms: int = Field(description="VMs free there at its last report.")


class LeaseExplanation(ResponseModel):
    """The state a lease would have right after submission; nothing is submitted."""

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
    elsewhere: OrNone[Elsewhere] = Field(description="Where it would be forwarded; null: decided here.")
    sites: AnyNumberOf[str] = Field(description="Sites that can take it, lend, and allow it.")
    blocked: AnyNumberOf[BlockedSite] = Field(description="Sites blocked by agreements, with the reason.")
    domains: AnyNumberOf[DomainOffer] = Field(description="The virtual domains it may use, best first.")
    readings: AnyNumberOf[RuleReading]


class CoAllocationExplanation(ResponseModel):
    """The state a co-allocation would have right after submission; nothing is submitted."""

    state: str
    sites: tuple[str, ...] = Field(description="The site of each component; empty: not placed yet.")
    starts_at: OrNone[Moment] = Field(description="The common start; null: not determined yet.")
    reason: str
    explanation: str
    components: tuple[ComponentEnvironment, ...]
    domains: AnyNumberOf[DomainOffer] = Field(description="Those the first component may use, best first.")
    readings: AnyNumberOf[RuleReading]
