"""What would become of a request now? The stages of `leasehold.sharing.environments`; nothing is changed.

The routing policy is asked as a copy of it, since some remember what they were asked.
"""

from collections.abc import Collection, Mapping
from copy import deepcopy
from dataclasses import dataclass, replace
from random import Random

from leasehold.gateway.coallocation.assigning import Assigner
from leasehold.gateway.coallocation.placement.registry import placement_policy
from leasehold.gateway.coallocation.windows import all_from, room_now
from leasehold.gateway.gateway import Gateway
from leasehold.model.agreement import Breach
from leasehold.model.joint import Claim, JointRequest
from leasehold.model.lease import Lease
from leasehold.model.reason import Reason
from leasehold.model.request import Request
from leasehold.routing.facts import SiteFacts
from leasehold.routing.policy import Dispatch, Hold
from leasehold.routing.view import RoutingView
from leasehold.sharing.asking import Ask, amounts_of
from leasehold.sharing.broker import Broker
from leasehold.sharing.environments import (
    ExecutionEnvironment,
    ExtendedVirtualEnvironment,
    VirtualEnvironment,
    execute,
    extend,
    virtual,
)
from leasehold.sharing.offers import Offer, Reading
from leasehold.sharing.readings import readings


@dataclass(frozen=True, slots=True)
class ComponentView:
    """The first two stages of one component; an ordinary request is one component."""

    virtual: VirtualEnvironment
    extended: ExtendedVirtualEnvironment


@dataclass(frozen=True, slots=True)
class Explanation:
    """All stages of a request.

    ``offers``     how the broker scores the virtual domains of the first component, best first
    ``readings``   how much of each rule at those is used up, by site
    ``execution``  where it would run; incomplete if it would not run now
    ``reason``     why it would run there, would wait, or be refused
    """

    components: tuple[ComponentView, ...]
    execution: ExecutionEnvironment
    reason: Reason
    offers: tuple[Offer, ...] = ()
    readings: Mapping[str, tuple[Reading, ...]] | None = None


def explain_request(gateway: Gateway, request: Request, now_ms: int) -> Explanation:
    """Say what would become of an ordinary request that came now."""
    lease = _probe(gateway, request)
    lenders = gateway.desk.lenders
    wide_enough = lenders.federation.wide_enough(lease.vms)
    sites = lenders.open(gateway.desk.able(lease, wide_enough))
    view = _view(gateway, lease, [site.name for site in sites], now_ms)
    open_ = [site for site in sites if site.name in view.extended.sites]
    site, reason = _routed(gateway, request, open_, now_ms)
    if not site:
        reason = _why_nowhere(view, reason if open_ else Reason.NO_SITE_LENDS)
        if not wide_enough:
            reason = Reason.WIDER_THAN_ANY_SITE
    start_ms = _start_ms(gateway, site, request, now_ms) if site else None
    execution = execute([view.extended], {0: site} if site else {}, start_ms)
    return _with_broker(gateway, request, Explanation((view,), execution, reason), now_ms)


def _routed(gateway: Gateway, request: Request, sites: list[SiteFacts], now_ms: int) -> tuple[str, Reason]:
    """Ask a copy of the routing policy."""
    if not sites:
        return "", Reason.NO_SITE_LENDS
    policy, knowledge = deepcopy(gateway.desk.routing.policy), gateway.knowledge
    view = RoutingView(gateway.desk.lenders.federation, sites, knowledge, policy.information, now_ms)
    match policy.route(request, view, now_ms):
        case Dispatch(site):
            return site, Reason.ROUTED
        case Hold():
            return "", Reason.HELD_AT_GATEWAY
        case refused:
            return "", refused.reason


def _start_ms(gateway: Gateway, site: str, request: Request, now_ms: int) -> int | None:
    ask = gateway.knowledge.live(site, now_ms).earliest_start_ms
    start_ms = None if ask is None else ask(request.vms, request.duration_ms)
    return None if start_ms is None else max(start_ms, request.ready_ms)


def explain_joint(gateway: Gateway, request: JointRequest, now_ms: int) -> Explanation:
    """Say what would become of a joint request that came now."""
    gateway.joints.check(request)
    leases = {index: _probe(gateway, request.request(index, 0)) for index in range(len(request.components))}
    planner = gateway.joints.planner
    views = tuple(
        ComponentView(
            planner.virtual(request, index),
            planner.extended(request, index, lease, max(now_ms, request.ready_ms), now_ms),
        )
        for index, lease in leases.items()
    )
    places, start_ms = _places(gateway, request, leases, now_ms)
    execution = execute([view.extended for view in views], places, start_ms)
    reason = Reason.PLACED_TOGETHER
    if not execution.is_complete:
        breaches = [
            one for view in views if not view.extended.sites for one in view.extended.breaches.values()
        ]
        reason = breaches[0].reason if breaches else Reason.AWAITS_ITS_PARTS
    reason = planner.why_never(request) or reason
    return _with_broker(gateway, request.request(0, 0), Explanation(views, execution, reason), now_ms)


def _places(
    gateway: Gateway, request: JointRequest, leases: Mapping[int, Lease], now_ms: int
) -> tuple[Mapping[int, str], int | None]:
    """Place the components as they would be placed now, without asking the sites to hold anything."""
    planner, policy = gateway.joints.planner, placement_policy(request.place)
    rooms = planner.rooms(now_ms)
    if request.claim is Claim.INCREMENTAL:
        at_ms = max(now_ms, request.ready_ms)
        window = room_now(at_ms, request.margin_ms, request.deadline_ms)
        found = planner.find(request, leases, Assigner(rooms, policy, window), now_ms)
        if found.places is None:
            return {}, None
        waits = [rooms[site].transfer_ms(request.components[i]) for i, site in found.places.items()]
        return found.places, at_ms + max(waits) + request.margin_ms
    for start_ms in planner.starts(request, rooms, now_ms):
        window = all_from(start_ms, now_ms, request.deadline_ms)
        found = planner.find(request, leases, Assigner(rooms, policy, window), now_ms, (), start_ms)
        if found.places is not None:
            return found.places, start_ms
    return {}, None


def _probe(gateway: Gateway, request: Request) -> Lease:
    """A lease that nobody knows of."""
    return Lease(request.id, request, request.vms, 0, request.duration_ms * gateway.reference_mips)


def _view(gateway: Gateway, lease: Lease, sites: Collection[str], now_ms: int) -> ComponentView:
    def why_not(site: str) -> Breach | None:
        speed_mips = gateway.desk.lenders.speed_of(site)
        return gateway.agreed.why_not_there(lease, site, speed_mips, now_ms)

    all_sites = virtual(sites)
    return ComponentView(all_sites, extend(all_sites, why_not))


def _why_nowhere(view: ComponentView, otherwise: Reason) -> Reason:
    """The breach that is to blame, if agreements are."""
    breaches = list(view.extended.breaches.values())
    return breaches[0].reason if breaches and not view.extended.sites else otherwise


def _with_broker(gateway: Gateway, request: Request, explanation: Explanation, now_ms: int) -> Explanation:
    """Add what the broker says of the domains, and how each rule there reads."""
    sharing = gateway.agreed.sharing
    if sharing is None:
        return explanation
    sites = explanation.components[0].virtual.sites
    start_ms = max(now_ms, request.ready_ms)
    ask = Ask(request.path, amounts_of(request), request.duration_ms, start_ms)

    def room(site: str) -> int:
        return gateway.knowledge.live(site, now_ms).free_vms

    told = Broker(sharing, Random(0)).recommend(ask, sites, room, now_ms)
    read = {site: tuple(readings(sharing, request.path, site, now_ms)) for site in sites}
    return replace(explanation, offers=(*told.offers, *told.others), readings=read)
