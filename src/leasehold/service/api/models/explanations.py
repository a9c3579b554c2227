"""What would become of a request, on the wire: a lease or a co-allocation that is not made."""

from collections.abc import Iterable

from pydantic import Field

from leasehold.gateway import explaining as core
from leasehold.gateway.explaining import Brokered, ComponentView, Explanation
from leasehold.model.agreement import MILLION, Breach
from leasehold.model.lease import LeaseState
from leasehold.model.reason import sentence
from leasehold.service.api.models.base import Shown
from leasehold.service.api.models.leases import explain
from leasehold.service.api.moments import show_duration, show_moment, show_planned
from leasehold.sharing.offers import BrokerOffer, BrokerReading
from leasehold.sharing.wording import in_words


class Barred(Shown):
    """A site that agreements close to the request."""

    site: str
    reason: str
    agreement: str = Field(description="The agreement that says so; empty where there is none at all.")
    explanation: str = Field(description="With the numbers.")


class ComponentEnvironment(Shown):
    """The sites that there are for a component, and those that are open to it."""

    virtual: list[str] = Field(description="The sites that there are for it.")
    extended: list[str] = Field(description="Of these, those at which agreements let it run now.")
    barred: list[Barred] = Field(description="The others, and why.")


class DomainOffer(Shown):
    """How the broker sees a virtual domain; a site in none is one of its own."""

    domain: str
    sites: list[str]
    free_vms: int
    used_share: float = Field(description="What the consumer used, the most in any window of a rule.")
    penalty: int = Field(description="Of the gravest rule that the request would break and may.")
    score: int = Field(description="By the broker policy; the higher, the better.")


class RuleReading(Shown):
    """How much of one rule is used up at a site, over one of its windows."""

    site: str
    agreement: str
    provider: str
    consumer: str
    resource: str
    window_s: int | float
    used_share: float
    limit_share: float


class Elsewhere(Shown):
    """Who would be asked to take the request, and decides by itself: a site with a manager, or a peer."""

    name: str
    peer: bool
    free_vms: int = Field(description="How many VMs were free there when it was last heard of.")


class LeaseExplanation(Shown):
    """What would become of a lease right after it was asked for; nothing was asked for."""

    state: LeaseState
    site: str = Field(description="Where it would start or wait; empty: at no site.")
    starts_at: str | None = Field(description="Now, or the planned start; null: nobody can know yet.")
    ends_at: str | None = Field(description="When its time would be over, if it is not preempted before.")
    walltime_s: int | float | None = Field(
        description="How long its duration is by the clock at that site; null: nobody can know yet."
    )
    reason: str = Field(description="The last one that it would be given.")
    explanation: str = Field(description="The reason as a sentence, with the numbers of the agreement.")
    preempted_leases: int = Field(description="How many leases would be preempted for it.")
    preempted_vms: int = Field(description="How many VMs those have.")
    elsewhere: Elsewhere | None = Field(description="Who would be asked, where that is not decided here.")
    sites: list[str] = Field(description="The sites that can take it, lend, and are open to it.")
    barred: list[Barred] = Field(description="Those that agreements close to it, and why.")
    domains: list[DomainOffer] = Field(description="The virtual domains that are open to it, the best first.")
    readings: list[RuleReading]


class CoAllocationExplanation(Shown):
    """What would become of a co-allocation right after it was asked for; nothing was asked for."""

    state: str
    sites: list[str] = Field(description="The site of each component; empty: none yet.")
    starts_at: str | None = Field(description="The common start; null: there is none yet.")
    reason: str
    explanation: str
    components: list[ComponentEnvironment]
    domains: list[DomainOffer] = Field(description="Those open to the first component, the best first.")
    readings: list[RuleReading]


def show_explanation(told: Explanation) -> LeaseExplanation:
    """Show what would become of a lease."""
    there = told.elsewhere
    return LeaseExplanation(
        state=told.state,
        site=told.site,
        starts_at=show_planned(told.start_ms),
        ends_at=show_planned(told.end_ms),
        walltime_s=None if told.wall_ms is None else show_duration(told.wall_ms),
        reason=told.reason.value,
        explanation=explain(told.reason.value, told.breach),
        preempted_leases=len(told.preempted),
        preempted_vms=sum(told.preempted),
        elsewhere=None if there is None else Elsewhere(name=there.name, peer=there.is_peer, free_vms=there.free_vms),
        sites=list(told.view.extended.sites),
        barred=_all_barred(told.view),
        domains=_domains(told.brokered.offers),
        readings=_readings(told.brokered),
    )


def show_coallocation_explanation(told: core.CoAllocationExplanation) -> CoAllocationExplanation:
    """Show what would become of a co-allocation."""
    return CoAllocationExplanation(
        state=told.state.value,
        sites=list(told.sites),
        starts_at=show_planned(told.start_ms),
        reason=told.reason.value,
        explanation=sentence(told.reason),
        components=[
            ComponentEnvironment(
                virtual=list(one.virtual.sites), extended=list(one.extended.sites), barred=_all_barred(one)
            )
            for one in told.components
        ],
        domains=_domains(told.brokered.offers),
        readings=_readings(told.brokered),
    )


def _all_barred(view: ComponentView) -> list[Barred]:
    return [_barred(site, breach) for site, breach in view.extended.breaches.items()]


def _domains(offers: Iterable[BrokerOffer]) -> list[DomainOffer]:
    return [
        DomainOffer(
            domain=offer.domain,
            sites=list(offer.sites),
            free_vms=offer.free_vms,
            used_share=offer.used_ppm / MILLION,
            penalty=offer.penalty,
            score=offer.score,
        )
        for offer in offers
    ]


def _readings(brokered: Brokered) -> list[RuleReading]:
    return [_reading(site, one) for site, all_ in (brokered.readings or {}).items() for one in all_]


def _barred(site: str, breach: Breach) -> Barred:
    return Barred(
        site=site,
        reason=breach.reason.value,
        agreement=breach.agreement,
        explanation=in_words(breach, show_moment),
    )


def _reading(site: str, reading: BrokerReading) -> RuleReading:
    return RuleReading(
        site=site,
        agreement=reading.agreement,
        provider=reading.provider,
        consumer=reading.consumer,
        resource=reading.resource,
        window_s=show_duration(reading.window_ms),
        used_share=reading.used_ppm / MILLION,
        limit_share=reading.limit_ppm / MILLION,
    )
