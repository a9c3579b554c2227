"""The stages of a request on the wire: the sites that there are, those open to it, where it would run."""

from pydantic import Field

from leasehold.gateway.explaining import Explanation
from leasehold.model.agreement import MILLION, Breach
from leasehold.model.reason import sentence
from leasehold.service.api.models.base import Asked, Shown, examples
from leasehold.service.api.models.joints import JointLeaseRequest
from leasehold.service.api.models.leases import LeaseRequest
from leasehold.service.api.moments import show_duration, show_moment, show_planned
from leasehold.sharing.offers import Reading
from leasehold.sharing.wording import in_words

_ASKED = {"lease": {"type": "suspendable", "vms": 2, "duration_s": 3600}}
_ASKED_TOGETHER = {"joint": {"components": [{"vms": 4}, {"vms": 8}], "duration_s": 3600}}


class EnvironmentQuestion(Asked):
    """What would be asked for: a lease or a joint lease, exactly one of the two."""

    model_config = examples(_ASKED, _ASKED_TOGETHER)

    lease: LeaseRequest | None = None
    joint: JointLeaseRequest | None = None


class Barred(Shown):
    """A site that agreements close to the request."""

    site: str
    reason: str
    agreement: str = Field(description="The agreement that says so; empty where there is none at all.")
    explanation: str = Field(description="With the numbers.")


class ComponentEnvironment(Shown):
    """The first two stages of a component; a single lease is one component."""

    virtual: list[str] = Field(description="The sites that there are for it.")
    extended: list[str] = Field(description="Of these, those at which agreements let it run now.")
    barred: list[Barred] = Field(description="The others, and why.")


class Execution(Shown):
    """Where it would run."""

    sites: list[str] = Field(description="The site of each component; empty: nowhere now.")
    starts_at: str | None


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


class Environments(Shown):
    """All stages of a request that was not made."""

    components: list[ComponentEnvironment]
    execution: Execution
    reason: str
    explanation: str
    domains: list[DomainOffer] = Field(description="Those open to the first component, the best first.")
    readings: list[RuleReading]


def show_environments(told: Explanation) -> Environments:
    """Show an explanation."""
    return Environments(
        components=[
            ComponentEnvironment(
                virtual=list(one.virtual.sites),
                extended=list(one.extended.sites),
                barred=[_barred(site, breach) for site, breach in one.extended.breaches.items()],
            )
            for one in told.components
        ],
        execution=Execution(
            sites=list(told.execution.sites), starts_at=show_planned(told.execution.start_ms)
        ),
        reason=told.reason.value,
        explanation=sentence(told.reason),
        domains=[
            DomainOffer(
                domain=offer.domain,
                sites=list(offer.sites),
                free_vms=offer.free_vms,
                used_share=offer.used_ppm / MILLION,
                penalty=offer.penalty,
                score=offer.score,
            )
            for offer in told.offers
        ],
        readings=[_reading(site, one) for site, all_ in (told.readings or {}).items() for one in all_],
    )


def _barred(site: str, breach: Breach) -> Barred:
    return Barred(
        site=site,
        reason=breach.reason.value,
        agreement=breach.agreement,
        explanation=in_words(breach, show_moment),
    )


def _reading(site: str, reading: Reading) -> RuleReading:
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
