"""What would become of a request now, and what would go better? Each is really made, by the very code, and undone.

So an answer cannot differ from what follows when the request is made at the same time: the same sites, rules,
agreements and peers, the same turn of a routing policy. Nothing is changed by asking: `undone` sees to that.

Alternatives are requests that differ in one thing. Where to look for them is read off the sites' plans; what becomes
of each is tried like the request itself, and those that are no better are left out.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from random import Random

from leasehold.gateway.gateway import Gateway
from leasehold.gateway.site import Site
from leasehold.gateway.sites import RemoteSite
from leasehold.gateway.snapshot import Branch
from leasehold.leasing.kernel import Profile
from leasehold.leasing.vectors import VectorProfile
from leasehold.model.agreement import Breach
from leasehold.model.coallocation import CoAllocation, CoAllocationRequest, CoAllocationState
from leasehold.model.effect import (
    CoAllocationClosed,
    Decision,
    Effect,
    LeaseClosed,
    PartLeased,
    PenaltyImposed,
    StartLease,
)
from leasehold.model.event import CancelRequested, CoAllocationSubmitted, Event, Submitted
from leasehold.model.lease import UNPLANNED, Lease, LeaseState
from leasehold.model.reason import Outcome as Verdict
from leasehold.model.reason import Reason
from leasehold.model.request import LeaseType, Request
from leasehold.model.resources import MachineShape
from leasehold.sharing.broker import Broker, ExtendedVirtualEnvironment, VirtualEnvironment, extend, readings, virtual
from leasehold.sharing.offers import BrokerOffer, BrokerReading

MOST_TRIES = 8
"""How many alternatives of a request are tried at most."""

_LEASES_TRIED = 150_000
"""Each try takes time for each open lease: with many of them, fewer alternatives are tried, but at least one."""

_ABOUT_TYPES = frozenset(
    {
        Reason.NO_CAPABLE_SITE,
        Reason.PREEMPTABLE_ONLY,
        Reason.NON_PREEMPTABLE_NOT_ALLOWED,
        Reason.WIDER_THAN_NON_PREEMPTABLE_SHARE,
        Reason.NON_PREEMPTABLE_SHARE_EXHAUSTED,
        Reason.NON_PREEMPTABLE_TOO_LONG,
    }
)
"""Reasons that another type of lease may not have."""

_WORTH_IT = 20
_LEAST_MS = 1_000
"""No lease that is shorter is proposed."""


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
    """The site or peer that would be asked, and decides for itself; ``free_vms`` as last reported.

    ``hops``  how many gateways beyond a peer the machines would be
    """

    name: str
    is_peer: bool
    free_vms: int
    hops: int = 0


class Consequence(StrEnum):
    """What besides the start of a request would follow from it, or become of it."""

    WAITS = "waits"
    PREEMPTS = "preempts"
    DELAYS = "delays"
    DECIDED_ELSEWHERE = "decided-elsewhere"
    PENALISED = "penalised"


@dataclass(frozen=True, slots=True)
class Victim:
    """A lease that would be preempted for a request, and what would become of it.

    ``then``        its state right after that
    ``resumes_ms``  when it would go on by its plan, None where that is not known, or it would not
    """

    lease_id: int
    lease_type: LeaseType
    vms: int
    site: str
    then: LeaseState
    resumes_ms: int | None


@dataclass(frozen=True, slots=True)
class Delay:
    """A waiting lease whose planned start a request would move, in milliseconds; ``to_ms`` None: to an unknown time."""

    lease_id: int
    vms: int
    site: str
    from_ms: int
    to_ms: int | None


@dataclass(frozen=True, slots=True)
class Prospect:
    """What would become of a request right after it was made.

    ``state``      in which the lease would be
    ``site``       where it would start or wait, "" for nowhere or at the gateway
    ``elsewhere``  the site or peer that would be asked, where that is not decided here
    ``start_ms``   now, or when it is planned to start; None where that cannot be known
    ``end_ms``     when its requested time would be over, if it is not preempted before
    ``wall_ms``    how long its duration is by the clock at that site
    ``reason``     the last one that it would be given, with the ``breach`` of an agreement that it is about
    ``victims``    the leases that would be preempted for it
    ``delays``     the waiting leases that would start later by it
    ``penalised``  the agreements for breaking which its consumer would be punished
    """

    request: Request
    state: LeaseState
    site: str
    start_ms: int | None
    end_ms: int | None
    wall_ms: int | None
    reason: Reason
    breach: Breach | None
    victims: tuple[Victim, ...]
    delays: tuple[Delay, ...]
    penalised: tuple[str, ...]
    elsewhere: Elsewhere | None

    @property
    def is_refused(self) -> bool:
        """Whether it would be over at once."""
        return self.state.is_final

    @property
    def preempted_vms(self) -> int:
        """How many VMs would be taken from others."""
        return sum(one.vms for one in self.victims)

    @property
    def consequences(self) -> tuple[Consequence, ...]:
        """What would be otherwise than asked for, or at the cost of others; empty for a refusal."""
        if self.is_refused:
            return ()
        late = self.start_ms is None or self.start_ms > self.request.ready_ms
        found = {
            Consequence.WAITS: late and self.elsewhere is None,
            Consequence.PREEMPTS: bool(self.victims),
            Consequence.DELAYS: bool(self.delays),
            Consequence.DECIDED_ELSEWHERE: self.elsewhere is not None,
            Consequence.PENALISED: bool(self.penalised),
        }
        return tuple(one for one, holds in found.items() if holds)

    def is_better_than(self, other: "Prospect") -> bool:
        """Whether this one is not refused where the other is, starts earlier, or takes fewer VMs from others.

        A wait that is shorter by a twentieth or less is no reason to ask for something else.
        """
        if self.is_refused or self.elsewhere is not None:
            return False
        if other.is_refused:
            return True
        sooner = self.start_ms is not None
        if self.start_ms is not None and other.start_ms is not None:
            wait_ms = max(0, other.start_ms - other.request.ready_ms)
            sooner = self.start_ms < other.start_ms - wait_ms // _WORTH_IT
        return (sooner and self.preempted_vms <= other.preempted_vms) or self.preempted_vms < other.preempted_vms


class Change(StrEnum):
    """The one thing in which an alternative differs from a request."""

    TYPE = "type"
    VMS = "vms"
    DURATION = "duration"
    READY = "ready"
    SITE = "site"


@dataclass(frozen=True, slots=True)
class Alternative:
    """Another request that would be better off, and what would become of it."""

    change: Change
    prospect: Prospect


@dataclass(frozen=True, slots=True)
class Plan:
    """What would become of a request, and what would go better.

    ``view``          which sites there are for a guest
    ``alternatives``  better ones, as they were tried
    ``untried``       how many others were not tried, since too many leases are open
    """

    prospect: Prospect
    view: ComponentView
    brokered: Brokered
    alternatives: tuple[Alternative, ...] = ()
    untried: int = 0


@dataclass(frozen=True, slots=True)
class CoAllocationPlan:
    """What would become of a co-allocation right after it was made.

    ``sites``  those of its components, "" for none
    """

    state: CoAllocationState
    sites: tuple[str, ...]
    start_ms: int | None
    reason: Reason
    components: tuple[ComponentView, ...]
    brokered: Brokered


def plan_request(gateway: Gateway, request: Request, now_ms: int) -> Plan:
    """Say what would become of a request that came now; raises what `Gateway.handle` raises."""
    with Branch(gateway, gateway.leases.values()) as branch:
        view, brokered = _no_view(request), Brokered()
        if not request.is_local:
            view = _view(gateway, request, now_ms)
            brokered = _brokered(gateway, request, view.virtual.sites, now_ms)
        attempt = _Attempt(gateway, branch, now_ms)
        prospect = attempt.make(request)
        better, untried = attempt.better(prospect)
        return Plan(prospect, view, brokered, better, untried)


def outlook(gateway: Gateway, request: Request, now_ms: int) -> tuple[Prospect, tuple[Request, ...]]:
    """Say what would become of a request that came now, and which smaller ones may do better: these are not tried.

    Raises what `Gateway.handle` raises.
    """
    with Branch(gateway, gateway.leases.values()) as branch:
        prospect = _Attempt(gateway, branch, now_ms).make(request)
        if prospect.elsewhere is not None or not (prospect.is_refused or prospect.consequences):
            return prospect, ()
        branch.undo()
        return prospect, tuple(smaller for _, smaller in _Proposals(gateway, prospect, now_ms).smaller())


def most_tried(gateway: Gateway) -> int:
    """Say how many alternatives are tried: fewer where many leases are open, but at least one."""
    return max(1, min(MOST_TRIES, _LEASES_TRIED // (len(gateway.leases) + 1)))


def plan_instead(gateway: Gateway, lease: Lease, now_ms: int) -> tuple[tuple[Alternative, ...], int]:
    """Say which other requests would be better off than a lease that waits: it is withdrawn, and each is made.

    Returns those, and how many others were not tried. The place of the lease in its queue is lost by that.
    """
    with Branch(gateway, gateway.leases.values()) as branch:
        present = _as_it_waits(gateway, lease, now_ms)
        return _Attempt(gateway, branch, now_ms, [CancelRequested(lease.id)]).better(present)


def _as_it_waits(gateway: Gateway, lease: Lease, now_ms: int) -> Prospect:
    start_ms = lease.reserved_ms if lease.state is LeaseState.WAITING and lease.reserved_ms >= 0 else None
    request = replace(
        lease.request, id=_free_number(gateway), submit_ms=now_ms, ready_ms=max(now_ms, lease.earliest_ms)
    )
    state = LeaseState.HELD if lease.state is LeaseState.SUBMITTED else lease.state
    return Prospect(request, state, lease.site, start_ms, None, None, Reason.ROOM_IN_USE, None, (), (), (), None)


def _free_number(gateway: Gateway) -> int:
    return max(gateway.leases, default=0) + 1


class _Attempt:
    """Makes requests on a branch of a gateway, one after the other, and undoes each before the next."""

    def __init__(self, gateway: Gateway, branch: Branch, now_ms: int, before: Sequence[Event] = ()) -> None:
        """Begin; ``before`` happens before each request, in an instant of its own."""
        self._gateway = gateway
        self._branch = branch
        self._now_ms = now_ms
        self._before = before
        self._is_begun = False

    def make(self, request: Request) -> Prospect:
        """Make a request, and see what becomes of it."""
        if self._is_begun:
            self._branch.undo()
        self._is_begun = True
        if self._before:
            self._gateway.handle(self._before, self._now_ms)
        effects = self._gateway.handle([Submitted(request)], self._now_ms)
        lease = _lease_in(effects, request.id) or self._gateway.leases[request.id]
        return _prospect(self._gateway, lease, effects, self._branch)

    def better(self, prospect: Prospect) -> tuple[tuple[Alternative, ...], int]:
        """Try other requests; returns those that are better, and how many were not tried."""
        if prospect.elsewhere is not None or not (prospect.is_refused or prospect.consequences):
            return (), 0
        if self._is_begun:
            self._branch.undo()
        self._is_begun = False
        proposed = list(_Proposals(self._gateway, prospect, self._now_ms).all())
        most = most_tried(self._gateway)
        tried = [Alternative(change, self.make(request)) for change, request in proposed[:most]]
        return tuple(one for one in tried if one.prospect.is_better_than(prospect)), max(0, len(proposed) - most)


class _Proposals:
    """Requests that differ in one thing from one that is not as asked for: where it may be worth looking."""

    def __init__(self, gateway: Gateway, prospect: Prospect, now_ms: int) -> None:
        """Look at the sites that are open to the request."""
        self._gateway = gateway
        self._prospect = prospect
        self._now_ms = now_ms
        self._request = request = prospect.request
        lease = _probe(gateway, request)
        self._lease = lease
        if request.is_local:
            self._sites = [gateway.sites[str(request.site)]]
        else:
            self._sites = self._able(lease)
        self._plans = [(site, site.home if site.guests is None else site.guests.full) for site in self._sites]

    def all(self) -> Iterator[tuple[Change, Request]]:
        """Give each with what it changes: what is likeliest to help first."""
        is_guest, is_about_type = not self._request.is_local, self._prospect.reason in _ABOUT_TYPES
        if is_guest and is_about_type:
            yield from self._other_types()
        yield from self._fewer()
        yield from self._later()
        yield from self._shorter()
        if is_guest and not is_about_type:
            yield from self._other_types()
        if is_guest:
            yield from self._elsewhere()

    def smaller(self) -> Iterator[tuple[Change, Request]]:
        """Give those for fewer VMs, or for less time."""
        yield from self._fewer()
        yield from self._shorter()

    def _fewer(self) -> Iterator[tuple[Change, Request]]:
        """As many VMs as are free for the whole time from its ready time on."""
        begin_ms = self._begin_ms
        room = [_free_vms(plan, self._request, begin_ms, begin_ms + self._span_ms(site)) for site, plan in self._plans]
        most = min(max(room, default=0), self._request.vms - 1)
        if most > 0:
            yield Change.VMS, replace(self._request, vms=most)

    def _later(self) -> Iterator[tuple[Change, Request]]:
        """When the present plans have room for it without taking any from others."""
        starts = [
            _earliest(plan, self._request, self._begin_ms, self._span_ms(site))
            for site, plan in self._plans
            if self._request.slots <= site.settings.slots
        ]
        start_ms = min(starts, default=self._begin_ms)
        may_help = self._prospect.is_refused or self._prospect.victims
        if may_help and start_ms > self._begin_ms:
            yield Change.READY, replace(self._request, ready_ms=start_ms)

    def _shorter(self) -> Iterator[tuple[Change, Request]]:
        """For as long as enough VMs are free from its ready time on, in whole seconds."""
        longest_ms = 0
        for site, plan in self._plans:
            wall_ms = _free_for_ms(plan, self._begin_ms, self._request) - site.allocations.start_ms()
            longest_ms = max(longest_ms, wall_ms * site.settings.speed_mips // self._gateway.reference_mips)
        longest_ms -= longest_ms % 1_000
        if _LEAST_MS <= longest_ms < self._request.duration_ms:
            yield Change.DURATION, replace(self._request, duration_ms=longest_ms)

    def _other_types(self) -> Iterator[tuple[Change, Request]]:
        """The other types of guests, as far as they are treated otherwise, and can promise the same deadline."""
        mine, has_deadline = self._request.lease_type, self._request.deadline_ms is not None
        needs_no_saving = self._prospect.reason is Reason.NO_CAPABLE_SITE
        for kind in LeaseType:
            is_alike = kind.is_best_effort and mine.is_best_effort
            if kind is LeaseType.CANCELABLE or is_alike:
                is_worth_it = needs_no_saving and mine is not LeaseType.CANCELABLE
            else:
                is_worth_it = kind is not mine
            if is_worth_it and not (has_deadline and kind.is_best_effort):
                yield Change.TYPE, replace(self._request, lease_type=kind)

    def _elsewhere(self) -> Iterator[tuple[Change, Request]]:
        """The other sites, also those that it is bound not to run at, those with most room first."""
        unbound = _probe(self._gateway, replace(self._request, domain=""))
        there = [
            (-site.free_vms, site.name)
            for site in self._able(unbound)
            if site.name != self._prospect.site and site.settings.slots >= self._request.slots
        ]
        for _, name in sorted(there):
            yield Change.SITE, replace(self._request, domain=name)

    def _able(self, lease: Lease) -> list[Site]:
        """List the gateway's own sites that take guests now, and can take this one."""
        able = {one.name for one in self._gateway.dispatcher.able(lease, self._gateway.registry.federation.sites)}
        return [site for site in self._gateway.registry.own_open() if site.name in able]

    @property
    def _begin_ms(self) -> int:
        return max(self._now_ms, self._request.ready_ms)

    def _span_ms(self, site: Site) -> int:
        return site.allocations.start_ms() + site.allocations.wall_ms(self._lease.work_left)


def _free_vms(plan: Profile | VectorProfile, request: Request, begin_ms: int, end_ms: int) -> int:
    """How many VMs such as those of a request have room in [begin_ms, end_ms)."""
    if isinstance(plan, Profile):
        return plan.lowest(begin_ms, end_ms)
    return plan.count(MachineShape.of(request), begin_ms, end_ms)


def _earliest(plan: Profile | VectorProfile, request: Request, from_ms: int, span_ms: int) -> int:
    if isinstance(plan, Profile):
        return plan.earliest(from_ms, span_ms, request.vms)
    return plan.earliest(MachineShape.of(request), request.vms, from_ms, span_ms)


def _free_for_ms(plan: Profile | VectorProfile, begin_ms: int, request: Request) -> int:
    """For how long the VMs of a request have room from then on; 0 where they have none, and no end is far away."""
    vms = request.vms
    if isinstance(plan, VectorProfile):
        changes = sorted({at_ms for node in plan.plans for at_ms in node.times if at_ms > begin_ms})
        if _free_vms(plan, request, begin_ms, begin_ms + 1) < vms:
            return 0
        ends = [at_ms for at_ms in changes if _free_vms(plan, request, begin_ms, at_ms + 1) < vms]
        return (ends[0] if ends else begin_ms + (1 << 40)) - begin_ms
    times, free = plan.times, plan.free
    ends = [at_ms for at_ms, vms_free in zip(times, free, strict=True) if vms_free < vms and at_ms > begin_ms]
    if plan.lowest(begin_ms, begin_ms + 1) < vms:
        return 0
    return (ends[0] if ends else begin_ms + (1 << 40)) - begin_ms


def _prospect(gateway: Gateway, lease: Lease, effects: Sequence[Effect], branch: Branch) -> Prospect:
    reason, breach = _last_reason(lease, effects)
    remote = gateway.registry.remotes.get(lease.site)
    start_ms = _start_ms(lease, effects) if remote is None else None
    return Prospect(
        lease.request,
        lease.state,
        lease.site,
        start_ms,
        None if start_ms is None else start_ms + lease.span_ms,
        None if start_ms is None else lease.span_ms - lease.overhead_ms,
        reason,
        breach,
        tuple(_victims(lease, effects)),
        tuple(_delays(lease, effects, branch)),
        tuple(one.penalty.agreement for one in effects if isinstance(one, PenaltyImposed) and one.lease is lease),
        None if remote is None else _elsewhere(gateway, lease.request, remote),
    )


def _elsewhere(gateway: Gateway, request: Request, remote: RemoteSite) -> Elsewhere:
    if not remote.is_peer:
        return Elsewhere(remote.name, is_peer=False, free_vms=remote.live.free_vms)
    hops, place = next((one for one in gateway.peering.places(request, remote) if one[1].lends), (0, None))
    free_vms = remote.live.free_vms if place is None else place.free_vms
    return Elsewhere(remote.name, is_peer=True, free_vms=free_vms, hops=hops)


def _victims(lease: Lease, effects: Iterable[Effect]) -> Iterator[Victim]:
    """Give those that are preempted for a lease."""
    for one in effects:
        if isinstance(one, Decision) and one.preemption is not None and one.preemption.beneficiary == lease.id:
            victim = one.lease
            has_plan = not victim.state.is_final and victim.held_since_ms < 0 and victim.reserved_ms >= 0
            resumes_ms = victim.held_since_ms if victim.held_since_ms >= 0 else victim.reserved_ms if has_plan else None
            kind = victim.request.lease_type
            yield Victim(victim.id, kind, victim.vms, one.site, victim.state, resumes_ms)


def _delays(lease: Lease, effects: Iterable[Effect], branch: Branch) -> Iterator[Delay]:
    """Give the waiting leases of which the planned start is later than before, or is not known any more."""
    moved = {one.lease.id: one.lease for one in effects if isinstance(one, Decision) and one.outcome is Verdict.MOVE}
    for other in moved.values():
        before_ms = branch.before(other, "reserved_ms")
        if other is lease or before_ms == UNPLANNED or other.held_since_ms >= 0:
            continue
        if other.reserved_ms > before_ms or other.reserved_ms == UNPLANNED:
            after_ms = None if other.reserved_ms == UNPLANNED else other.reserved_ms
            yield Delay(other.id, other.vms, other.site, before_ms, after_ms)


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


def plan_coallocation(gateway: Gateway, request: CoAllocationRequest, now_ms: int) -> CoAllocationPlan:
    """Say what would become of a co-allocation that came now; raises what `Gateway.handle` raises."""
    with Branch(gateway, gateway.leases.values()):
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
        return CoAllocationPlan(
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
