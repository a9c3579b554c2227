"""What would become of a request: a lease or a co-allocation that is not made."""

from pydantic import Field

from leasehold.model.lease import LeaseState
from leasehold.protocol.base import ResponseModel
from leasehold.protocol.fields import AnyNumberOf, Moment, OrEmpty, OrNone, OrZero, Seconds


class Barred(ResponseModel):
    """A site that agreements close to the request."""

    site: str
    reason: str
    agreement: str = Field(description="The agreement that says so; empty where there is none at all.")
    explanation: str = Field(description="With the numbers.")


class ComponentEnvironment(ResponseModel):
    """The sites that there are for a component, and those that are open to it."""

    virtual: tuple[str, ...] = Field(description="The sites that there are for it.")
    extended: tuple[str, ...] = Field(description="Of these, those at which agreements let it run now.")
    barred: tuple[Barred, ...] = Field(description="The others, and why.")


class DomainOffer(ResponseModel):
    """How the broker sees a virtual domain; a site in none is one of its own."""

    domain: str
    sites: tuple[str, ...]
    free_vms: int
    used_share: float = Field(description="What the consumer used, the most in any window of a rule.")
    penalty: int = Field(description="Of the gravest rule that the request would break and may.")
    score: int = Field(description="By the broker policy; the higher, the better.")


class RuleReading(ResponseModel):
    """How much of one rule is used up at a site, over one of its windows."""

    site: str
    agreement: str
    provider: str
    consumer: str
    resource: str
    window_s: Seconds
    used_share: float
    limit_share: float


class Elsewhere(ResponseModel):
    """Who would be asked to take the request, and decides by itself: a site with a manager, or a peer."""

    name: str
    peer: bool
    free_vms: int = Field(description="How many VMs were free there when it was last heard of.")


class LeaseExplanation(ResponseModel):
    """What would become of a lease right after it was asked for; nothing was asked for."""

    state: LeaseState
    site: OrEmpty = Field(description="Where it would start or wait; empty: at no site.")
    starts_at: OrNone[Moment] = Field(description="Now, or the planned start; null: nobody can know yet.")
    ends_at: OrNone[Moment] = Field(description="When its time would be over, if it is not preempted before.")
    walltime_s: OrNone[Seconds] = Field(
        description="How long its duration is by the clock at that site; null: nobody can know yet."
    )
    reason: str = Field(description="The last one that it would be given.")
    explanation: str = Field(description="The reason as a sentence, with the numbers of the agreement.")
    preempted_leases: OrZero = Field(description="How many leases would be preempted for it.")
    preempted_vms: OrZero = Field(description="How many VMs those have.")
    elsewhere: OrNone[Elsewhere] = Field(description="Who would be asked, where that is not decided here.")
    sites: AnyNumberOf[str] = Field(description="The sites that can take it, lend, and are open to it.")
    barred: AnyNumberOf[Barred] = Field(description="Those that agreements close to it, and why.")
    domains: AnyNumberOf[DomainOffer] = Field(description="The virtual domains that are open to it, the best first.")
    readings: AnyNumberOf[RuleReading]


class CoAllocationExplanation(ResponseModel):
    """What would become of a co-allocation right after it was asked for; nothing was asked for."""

    state: str
    sites: tuple[str, ...] = Field(description="The site of each component; empty: none yet.")
    starts_at: OrNone[Moment] = Field(description="The common start; null: there is none yet.")
    reason: str
    explanation: str
    components: tuple[ComponentEnvironment, ...]
    domains: AnyNumberOf[DomainOffer] = Field(description="Those open to the first component, the best first.")
    readings: AnyNumberOf[RuleReading]
