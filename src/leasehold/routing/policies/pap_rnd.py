"""Preemption-aware allocation with random dispatch (PAP-RND): from what a gateway knows to PAP's shares."""

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, ClassVar

from leasehold.routing.moments import StreamMoments
from leasehold.routing.policy import Information
from leasehold.routing.proportional import LEARNT_GOOD_FOR, ProportionalPolicy, Shares, shares_by_computing_power
from leasehold.routing.queueing import (
    ClusterLoad,
    Infeasible,
    Saturated,
    ServiceMoments,
    allocate,
    spare_capacity_proportions,
    vm_service_time_s,
)
from leasehold.routing.view import RoutingView, SiteFacts

ENOUGH_SEEN = 30
"""External requests after which their learnt moments are believed."""

BY_COMPUTING_POWER = "too few external requests seen: by computing power"
BY_SPARE_CAPACITY = "more external load than room: by spare capacity"
ALL_SATURATED = "all sites saturated by their own users: by computing power"

PAPER_EXTERNAL_CV = 0.5
PAPER_LOCAL_CV = 0.1


@dataclass(frozen=True, slots=True)
class Spread:
    """Coefficients of variation of the service times (alpha and beta of JPDC 2012, eqs 18 and 19).

    ``external_cv``  of external requests
    ``local_cv``     of local ones

    None takes the measured one, and the paper's where none was measured.
    """

    external_cv: float | None = PAPER_EXTERNAL_CV
    local_cv: float | None = PAPER_LOCAL_CV


PAPER_SPREAD = Spread()
MEASURED_SPREAD = Spread(external_cv=None, local_cv=None)


def pap_shares(view: RoutingView, spread: Spread) -> Shares:
    """Work out the shares that make the mean response time of external requests least.

    Where PAP has no answer the rule of the shares says which of these was used instead:

    * no moments configured and fewer than 30 external requests seen: by computing power, as BCF does;
    * more external load than the sites have room for: by spare capacity, (1 - rho) / theta;
    * no room anywhere beside the local load: by computing power.
    """
    sites, external = view.federation.sites, view.external
    if not _is_known(external):
        return shares_by_computing_power(sites, rule=BY_COMPUTING_POWER, good_for=ENOUGH_SEEN)
    locals_ = [view.local(site.name) for site in sites]
    good_for = None if external.was_told and all(local.was_told for local in locals_) else LEARNT_GOOD_FOR
    loads = [cluster_load(s, local, external, spread) for s, local in zip(sites, locals_, strict=True)]
    try:
        return Shares.of(sites, allocate(loads, external.rate_per_s).proportions, good_for=good_for)
    except Infeasible:
        return _shares_beyond_room(sites, loads, good_for)


def _is_known(external: StreamMoments) -> bool:
    enough = external.seen is None or external.seen >= ENOUGH_SEEN
    return enough and external.rate_per_s > 0 and external.mean_vm_s > 0


def _shares_beyond_room(sites: Sequence[SiteFacts], loads: Sequence[ClusterLoad], good_for: int | None) -> Shares:
    try:
        proportions = spare_capacity_proportions(loads)
    except Saturated:
        return shares_by_computing_power(sites, rule=ALL_SATURATED, good_for=good_for)
    return Shares.of(sites, proportions, rule=BY_SPARE_CAPACITY, good_for=good_for)


def cluster_load(site: SiteFacts, local: StreamMoments, external: StreamMoments, spread: Spread) -> ClusterLoad:
    """Describe a site of many VMs as one queue (JPDC 2012, section 4.1, eqs 16 to 19)."""
    external_cv = _first_known(spread.external_cv, external.cv_vm_s, PAPER_EXTERNAL_CV)
    local_cv = _first_known(spread.local_cv, local.cv_vm_s, PAPER_LOCAL_CV)
    return ClusterLoad(
        site.name, local.rate_per_s, _service(site, local, local_cv), _service(site, external, external_cv)
    )


def _service(site: SiteFacts, stream: StreamMoments, cv: float) -> ServiceMoments:
    mean_s = vm_service_time_s(stream.mean_vm_s, site.reference_mips, site.total_mips)
    return ServiceMoments.from_cv(mean_s, cv)


def _first_known(stated: float | None, measured: float | None, otherwise: float) -> float:
    if stated is not None:
        return stated
    return otherwise if measured is None else measured


class PapRandom(ProportionalPolicy):
    """Where are guests least likely to be disturbed, on average?

    Rule: drawn at random; the shares make the mean response time of external requests least in a
        queueing model of the sites, in which local requests preempt.
    Source: JPDC 2012, section 4.1, Algorithm 1 (corrected), eqs 3 to 19.
    """

    name: ClassVar[str] = "pap-rnd"
    information: ClassVar[Information] = Information.STATIC
    parameters: ClassVar[type[Any] | None] = Spread

    def __init__(self, random: Random, spread: Spread = PAPER_SPREAD) -> None:
        super().__init__(random)
        self.spread = spread

    def shares(self, view: RoutingView) -> Shares:
        """Compute them from the streams' moments, configured or learnt."""
        return pap_shares(view, self.spread)
