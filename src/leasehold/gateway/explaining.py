"""What would become of a request now? It is really made, by the very code, and then all of it is undone.

So an answer cannot differ from what follows when the request is made at the same time: the same sites, rules,
agreements and peers, the same turn of a routing policy. Nothing is changed by asking: `undone` sees to that.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from random import Random

from leasehold.gateway.gateway import Gateway
from leasehold.gateway.snapshot import undone
from leasehold.model.agreement import Breach
from leasehold.model.coallocation import CoAllocation, CoAllocationRequest, CoAllocationState
from leasehold.model.effect import CoAllocationClosed, Decision, Effect, LeaseClosed, PartLeased, StartLease
from leasehold.model.event import CoAllocationSubmitted, Submitted
from leasehold.model.lease import Lease, LeaseState
from leasehold.model.reason import Reason
from leasehold.model.request import Request
from leasehold.sharing.broker import Broker, ExtendedVirtualEnvironment, VirtualEnvironment, extend, readings, virtual
from leasehold.sharing.offers import BrokerOffer, BrokerReading


@dataclass(frozen=True, slots=True)
class ComponentView:
    """The sites that there are for a component, and those that agreements open to it."""

    virtual: VirtualEnvironment
    extended: ExtendedVirtualEnvironment


@dataclass(frozen=True, slots=True)
class Brokered:
    """How the broker scores the virtual domains of a request, best first, and how each rule there reads."""

    offers: tuple[BrokerOffer, ...] = ()
    readings: Mapping[str, tuple[BrokerReading, ...]] | None = None


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """The site or peer that would be asked, and decides for itself; ``free_vms`` as last reported."""

    name: str
    is_peer: bool
    free_vms: int


@dataclass(frozen=True, slots=True)
class Explanation:
    """What would become of a request right after it was made.

    ``state``      in which the lease would be
    ``site``       where it would start or wait, "" for nowhere or at the gateway
    ``elsewhere``  the site or peer that would be asked, where that is not decided here
    ``start_ms``   now, or when it is planned to start; None where that cannot be known
    ``end_ms``     when its requested time would be over, if it is not preempted before
    ``wall_ms``    how long its duration is by the clock at that site
    ``reason``     the last one that it would be given, with the ``breach`` of an agreement that it is about
    ``preempted``  the VMs of each lease that would be preempted for it
    ``view``       which sites there are for a guest
    """

    state: LeaseState
    site: str
    start_ms: int | None
    end_ms: int | None
    wall_ms: int | None
    reason: Reason
    breach: Breach | None
    preempted: tuple[int, ...]
    elsewhere: Elsewhere | None
    view: ComponentView
    brokered: Brokered


@dataclass(frozen=True, slots=True)
class CoAllocationExplanation:
    """What would become of a co-allocation right after it was made.

    ``sites``  those of its components, "" for none
    """

    state: CoAllocationState
    sites: tuple[str, ...]
    start_ms: int | None
    reason: Reason
    components: tuple[ComponentView, ...]
    brokered: Brokered


def explain_request(gateway: Gateway, request: Request, now_ms: int) -> Explanation:
    """Say what would become of a request that came now; raises what `Gateway.handle` raises."""
    with undone(gateway, gateway.leases.values()):
        view, brokered = _no_view(request), Brokered()
        if not request.is_local:
            view = _view(gateway, request, now_ms)
            brokered = _brokered(gateway, request, view.virtual.sites, now_ms)
        effects = gateway.handle([Submitted(request)], now_ms)
        lease = _lease_in(effects, request.id) or gateway.leases[request.id]
        return _outcome(gateway, lease, effects, view, brokered)


def _outcome(
    gateway: Gateway, lease: Lease, effects: Iterable[Effect], view: ComponentView, brokered: Brokered
) -> Explanation:
    decisions = [one for one in effects if isinstance(one, Decision)]
    reason, breach = _last_reason(lease, effects)
    remote = gateway.registry.remotes.get(lease.site)
    start_ms = _start_ms(lease, effects) if remote is None else None
    preempted = {
        decision.lease.id: decision.lease.vms
        for decision in decisions
        if decision.preemption is not None and decision.preemption.beneficiary == lease.id
    }
    return Explanation(
        lease.state,
        lease.site,
        start_ms,
        None if start_ms is None else start_ms + lease.span_ms,
        None if start_ms is None else lease.span_ms - lease.overhead_ms,
        reason,
        breach,
        tuple(preempted.values()),
        None if remote is None else Elsewhere(remote.name, remote.is_peer, remote.live.free_vms),
        view,
        brokered,
    )


def _lease_in(effects: Iterable[Effect], lease_id: int) -> Lease | None:
    """Find the lease of a request in what was decided about it; it may be over already."""
    found = (one.lease for one in effects if isinstance(one, Decision) and one.lease.id == lease_id)
    return next(found, None)


def _last_reason(lease: Lease, effects: Iterable[Effect]) -> tuple[Reason, Breach | None]:
    """Give the reason that a record would have of it: the last decision's, or of its end."""
    reason, breach = Reason.ROUTED, None
    for effect in effects:
        if isinstance(effect, Decision) and effect.lease is lease:
            reason, breach = effect.reason, effect.breach
        elif isinstance(effect, LeaseClosed) and effect.lease is lease and effect.reason is not reason:
            reason, breach = effect.reason, None
    return reason, breach


def _start_ms(lease: Lease, effects: Iterable[Effect]) -> int | None:
    if lease.state.is_final:
        return None
    if any(isinstance(effect, StartLease) and effect.lease is lease for effect in effects):
        return lease.held_since_ms
    return lease.reserved_ms if lease.reserved_ms >= 0 else None


def explain_coallocation(gateway: Gateway, request: CoAllocationRequest, now_ms: int) -> CoAllocationExplanation:
    """Say what would become of a co-allocation that came now; raises what `Gateway.handle` raises."""
    with undone(gateway, gateway.leases.values()):
        gateway.coallocations.check(request)
        planner, start_ms = gateway.coallocations.planner, max(now_ms, request.ready_ms)
        components = tuple(
            ComponentView(
                planner.virtual(request, index),
                planner.extended(request, index, _probe(gateway, request.request(index, 0)), start_ms, now_ms),
            )
            for index in range(len(request.components))
        )
        brokered = _brokered(gateway, request.request(0, 0), components[0].virtual.sites, now_ms)
        effects = gateway.handle([CoAllocationSubmitted(request)], now_ms)
        parts = (one.coallocation for one in effects if isinstance(one, PartLeased))
        coallocation = next(coallocation for coallocation in parts if coallocation.id == request.id)
        return CoAllocationExplanation(
            coallocation.state,
            tuple(part.site for part in coallocation.parts),
            coallocation.start_ms if coallocation.start_ms >= 0 else None,
            _reason_of(coallocation, effects),
            components,
            brokered,
        )


def _reason_of(coallocation: CoAllocation, effects: Iterable[Effect]) -> Reason:
    """Give the reason of its end, or the last one that it was given."""
    for effect in effects:
        if isinstance(effect, CoAllocationClosed) and effect.coallocation is coallocation:
            return effect.reason
    return coallocation.reason


def _probe(gateway: Gateway, request: Request) -> Lease:
    """A lease that is not known to any part."""
    return Lease(request.id, request, request.vms, 0, request.duration_ms * gateway.reference_mips)


def _no_view(request: Request) -> ComponentView:
    """A local request has its home, and no choice."""
    sites = () if request.site is None else (request.site,)
    return ComponentView(VirtualEnvironment(sites), ExtendedVirtualEnvironment(sites, {}))


def _view(gateway: Gateway, request: Request, now_ms: int) -> ComponentView:
    """Give the sites that are wide enough for a guest, able to serve it and lend, and what agreements say."""
    registry, lease = gateway.registry, _probe(gateway, request)
    able = registry.open(gateway.dispatcher.able(lease, registry.federation.wide_enough(lease.vms)))

    def why_not(site: str) -> Breach | None:
        return gateway.quotas.why_not_there(lease, site, registry.speed_of(site), now_ms)

    sites = virtual(site.name for site in able)
    return ComponentView(sites, extend(sites, why_not))


def _brokered(gateway: Gateway, request: Request, sites: Collection[str], now_ms: int) -> Brokered:
    """Say what the broker thinks of the domains, and how each rule there reads."""
    sharing = gateway.quotas.sharing
    if sharing is None:
        return Brokered()
    ask = gateway.quotas.ask(_probe(gateway, request), gateway.reference_mips, now_ms)

    def room(site: str) -> int:
        return gateway.knowledge.live(site, now_ms).free_vms

    recommended = Broker(sharing, Random(0)).recommend(ask, sites, room, now_ms)
    read = {site: tuple(readings(sharing, request.path, site, now_ms)) for site in sites}
    return Brokered((*recommended.offers, *recommended.others), read)
