"""What must hold after every instant, whatever happened: Leasehold's promises, in one place.

Run after every event in tests and, where asked for, in simulations; on a timer in a service. Each check
recomputes from the leases themselves what the planner keeps in its profiles, and raises InvariantBroken
with what it found.
"""

from collections.abc import Iterable

from leasehold.gateway.coallocation.co_allocator import CoAllocator
from leasehold.gateway.gateway import Gateway
from leasehold.gateway.site import Site
from leasehold.leasing.kernel import Profile
from leasehold.leasing.vectors import NodeRoom, VectorBackfiller, VectorProfile
from leasehold.model.coallocation import CoAllocation, CoAllocationState, Promise
from leasehold.model.effect import Decision, Effect
from leasehold.model.errors import InvariantBroken
from leasehold.model.lease import Lease, LeaseState
from leasehold.model.reason import Outcome
from leasehold.model.request import LeaseType


class Invariants:
    """Checks a gateway; keeps the promises that it has seen, to notice when one is broken."""

    def __init__(self, gateway: Gateway) -> None:
        """Begin without promises."""
        self._gateway = gateway
        self._promised_ms: dict[int, int] = {}

    def check(self, effects: Iterable[Effect], now_ms: int) -> None:
        """Raise InvariantBroken if anything is not as it must be after these effects."""
        for site in self._gateway.sites.values():
            self._no_slot_is_given_twice(site)
            self._plans_are_what_the_leases_say(site, now_ms)
            self._nothing_is_overdue(site, now_ms)
            self._guests_step_aside(site, now_ms)
            self._use_is_accounted_for(site)
        self._every_lease_is_in_one_place()
        self._requests_do_not_go_in_circles()
        _all_or_nothing(self._gateway.coallocations, now_ms)
        self._promises_are_kept(effects)

    def _no_slot_is_given_twice(self, site: Site) -> None:
        held_vms = sum(site.settings.slots_of(lease) for lease in site.allocations.held.values())
        counted_vms = site.allocations.local_vms + site.allocations.guest_vms
        if held_vms != counted_vms:
            raise InvariantBroken(f"{site.name}: {held_vms} VMs held, {counted_vms} counted")
        up_vms = site.settings.slots - site.allocations.down_vms
        if held_vms > up_vms and not site.allocations.held.keys() <= site.allocations.outlasting:
            held = ", ".join(f"{one.id} ({one.state}, {one.vms})" for one in site.allocations.held.values())
            raise InvariantBroken(f"{site.name}: {held_vms} VMs held on {up_vms} slots, by leases {held}")

    def _plans_are_what_the_leases_say(self, site: Site, now_ms: int) -> None:
        local_leases = [lease for lease in _booked(site) if _counts_at_home(lease)]
        if isinstance(site.home, VectorProfile):
            self._nodes_are_what_the_leases_say(site, site.home, local_leases, now_ms)
            return
        _compare(site, "home", site.home, local_leases, now_ms)
        if _is_overbooked(site, site.home, local_leases, now_ms):
            raise InvariantBroken(f"{site.name}: the home profile is over-booked")
        if site.guests is not None:
            assert isinstance(site.guests.full, Profile)
            _compare(site, "full", site.guests.full, _booked(site), now_ms)

    def _nodes_are_what_the_leases_say(
        self, site: Site, home: VectorProfile, local_leases: list[Lease], now_ms: int
    ) -> None:
        """The same at a site of nodes: nothing of a node, and no share of a device, is given twice."""
        _compare_nodes(site, "home", home, local_leases, now_ms)
        for lease in local_leases:
            end_ms = max(lease.end_ms, now_ms + 1)
            outlasts = lease.id in site.allocations.outlasting
            if not outlasts and home.is_over(_room(site, lease), max(now_ms, lease.reserved_ms), end_ms):
                raise InvariantBroken(f"{site.name}: the home profile is over-booked")
        if site.guests is not None and isinstance(site.guests.full, VectorProfile):
            _compare_nodes(site, "full", site.guests.full, _booked(site), now_ms)

    def _nothing_is_overdue(self, site: Site, now_ms: int) -> None:
        """A local request never waits for a preemptable guest: due means started."""
        for lease in site.locals.reserved():
            if lease.reserved_ms <= now_ms:
                raise InvariantBroken(f"{site.name}: local lease {lease.id} is due and has not started")

    def _guests_step_aside(self, site: Site, now_ms: int) -> None:
        """No waiting guest is promised room that is booked for another lease."""
        if site.guests is None:
            return
        full = site.guests.full
        is_over = bool(full.short_at(now_ms)) if isinstance(full, VectorProfile) else full.free_at(now_ms) < 0
        if is_over and not site.allocations.held.keys() <= site.allocations.outlasting:
            raise InvariantBroken(f"{site.name}: more VMs booked now than there are")
        for lease in site.guests.queue.reserved():
            if site.guests.queue.is_promised_too_much(lease):
                raise InvariantBroken(f"{site.name}: guest {lease.id} is promised room that is taken")

    def _use_is_accounted_for(self, site: Site) -> None:
        """The ledger has the leases that use machines of this site, and no others."""
        sharing = self._gateway.quotas.sharing
        if sharing is None:
            return
        accounted = {id_ for id_, holding in sharing.ledger.holdings.items() if holding.site == site.name}
        in_use = {lease.id for lease in site.allocations.held.values() if site.allocations.is_in_use(lease)}
        if accounted != in_use:
            raise InvariantBroken(f"{site.name}: {accounted} are accounted for, {in_use} are in use")

    def _every_lease_is_in_one_place(self) -> None:
        gateway = self._gateway
        waiting = [*gateway.pending.held, *gateway.pending.unschedulable, *gateway.coallocations.held()]
        places: dict[int, int] = dict.fromkeys(waiting, 1)
        for lease in gateway.pending.queues.waiting():
            places[lease.id] = places.get(lease.id, 0) + 1
        for remote in gateway.registry.remotes.values():
            for lease_id in remote.leases:
                places[lease_id] = places.get(lease_id, 0) + 1
        for site in gateway.sites.values():
            for lease in _present(site):
                places[lease.id] = places.get(lease.id, 0) + 1
        for lease_id, lease in gateway.leases.items():
            if places.get(lease_id, 0) != 1:
                count = places.get(lease_id, 0)
                raise InvariantBroken(f"lease {lease_id} ({lease.state}) is in {count} places")
        for lease_id in places.keys() - gateway.leases.keys():
            raise InvariantBroken(f"lease {lease_id} is over and still holds a place")

    def _requests_do_not_go_in_circles(self) -> None:
        """What came by a path is at no peer on it, and is here once; what peers have here is counted.

        No local request leaves, nor what may pass no further gateway.
        """
        for remote in self._gateway.registry.remotes.values():
            for lease in remote.leases.values():
                request = lease.request
                if request.is_local or (remote.is_peer and request.via and not request.hop_limit):
                    raise InvariantBroken(f"lease {lease.id} must not leave, and is at {remote.name}")
                if remote.name == request.from_peer or remote.gateway_id in request.via:
                    raise InvariantBroken(f"lease {lease.id} is at {remote.name} again")
        known = [one.request.global_id for one in self._gateway.leases.values() if one.request.from_peer]
        twice = {id_ for id_ in known if id_ and known.count(id_) > 1} if len(set(known)) < len(known) else set()
        if twice:
            raise InvariantBroken(f"requests {sorted(twice)} are here more than once")
        counted = {lease_id for leases in self._gateway.peering.here.values() for lease_id in leases}
        there = {lease.id for lease in self._gateway.leases.values() if lease.request.from_peer}
        if counted != there:
            raise InvariantBroken(f"peers have leases {sorted(there)} here, {sorted(counted)} are counted")

    def _promises_are_kept(self, effects: Iterable[Effect]) -> None:
        """A reservation moves later only with a decision that names the cause."""
        named = {e.lease.id for e in effects if isinstance(e, Decision) and e.outcome is not Outcome.START}
        promised_ms = {
            lease.id: lease.reserved_ms
            for site in self._gateway.sites.values()
            for lease in _waiting(site)
            if lease.reserved_ms >= 0
        }
        for lease_id, start_ms in promised_ms.items():
            if start_ms > self._promised_ms.get(lease_id, start_ms) and lease_id not in named:
                raise InvariantBroken(f"lease {lease_id}: its promise moved later without a cause")
        self._promised_ms = promised_ms


def _waiting(site: Site) -> list[Lease]:
    guests = [] if site.guests is None else site.guests.waiting()
    return [*site.locals.waiting(), *guests]


def _present(site: Site) -> list[Lease]:
    return [*_waiting(site), *site.allocations.held.values()]


def _booked(site: Site) -> list[Lease]:
    return [lease for lease in _present(site) if lease.reserved_ms >= 0]


def _counts_at_home(lease: Lease) -> bool:
    return lease.request.lease_type is LeaseType.NON_PREEMPTABLE


def _is_overbooked(site: Site, profile: Profile, booked: list[Lease], now_ms: int) -> bool:
    """Whether more is booked at some time than there is, not counting what outlasts a site that shrank."""
    over = [at for at in (now_ms, *(t for t in profile.times if t > now_ms)) if profile.free_at(at) < 0]
    return any(
        lease.id not in site.allocations.outlasting
        for at_ms in over
        for lease in booked
        if lease.reserved_ms <= at_ms < lease.end_ms
    )


def _room(site: Site, lease: Lease) -> NodeRoom:
    assert isinstance(site.locals, VectorBackfiller)
    return site.locals.room_of(lease)


def _compare_nodes(site: Site, name: str, kept: VectorProfile, leases: Iterable[Lease], now_ms: int) -> None:
    """Book all again in an empty plan, and compare it with the plan that is kept."""
    again = VectorProfile(kept.nodes, now_ms)
    for lease in leases:
        again.take(max(now_ms, lease.reserved_ms), lease.end_ms, _room(site, lease))
        machines = sum(machines for _, machines, _ in lease.placed)
        if machines != lease.vms:
            raise InvariantBroken(f"{site.name}: lease {lease.id} has {lease.vms} VMs, and {machines} are placed")
    for outage in site.allocations.outages:
        again.take(now_ms, outage.until_ms, again.outage_room(outage.node))
    for node, one, other in zip(kept.nodes, kept.plans, again.plans, strict=True):
        for at_ms in {now_ms, *one.times, *other.times}:
            if at_ms >= now_ms and one.low(at_ms, at_ms + 1) != other.low(at_ms, at_ms + 1):
                raise InvariantBroken(
                    f"{site.name}: the {name} plan of node {node.name} has {one.low(at_ms, at_ms + 1)} free at "
                    f"{at_ms} ms, the leases leave {other.low(at_ms, at_ms + 1)}"
                )


def _compare(site: Site, name: str, kept: Profile, leases: Iterable[Lease], now_ms: int) -> None:
    """Add up what the leases leave, and compare it with the profile that is kept, from now on."""
    change: dict[int, int] = {at_ms: 0 for at_ms in (now_ms, *kept.times) if at_ms >= now_ms}
    for lease in leases:
        begin_ms, end_ms = max(now_ms, lease.reserved_ms), lease.end_ms
        if begin_ms < end_ms:
            change[begin_ms] = change.get(begin_ms, 0) - lease.vms
            change[end_ms] = change.get(end_ms, 0) + lease.vms
    for outage in site.allocations.outages:
        if now_ms < outage.until_ms:
            change[now_ms] -= outage.vms
            change[outage.until_ms] = change.get(outage.until_ms, 0) + outage.vms
    free = site.settings.slots
    for at_ms in sorted(change):
        free += change[at_ms]
        if free != kept.free_at(at_ms):
            raise InvariantBroken(
                f"{site.name}: the {name} profile has {kept.free_at(at_ms)} VMs free at {at_ms} ms, "
                f"the leases leave {free}"
            )


_BEGUN = (LeaseState.RUNNING, LeaseState.STARTING)
"""The states of components that have their machines, or wait for them to start."""

_HOLDS = (Promise.COMMITTING, Promise.COMMITTED)


def _all_or_nothing(coallocations: CoAllocator, now_ms: int) -> None:
    """Raise InvariantBroken if a component holds something that the others do not agree with."""
    for coallocation in coallocations.open.values():
        leases = [lease for _, lease in coallocations.leases.open_leases(coallocation)]
        problem = _problem(coallocation, leases, now_ms)
        if problem:
            raise InvariantBroken(f"co-allocation {coallocation.id} ({coallocation.state}): {problem}")


def _problem(coallocation: CoAllocation, leases: list[Lease], now_ms: int) -> str:
    if len(leases) + sum(part.has_ended for part in coallocation.parts) != len(coallocation.parts):
        return "a component has neither a lease nor ended"
    match coallocation.state:
        case CoAllocationState.HELD:
            return "" if _all_are(leases, LeaseState.HELD) else "a component holds or was promised something"
        case CoAllocationState.PLACED:
            return _problem_while_placed(coallocation, leases, now_ms)
        case CoAllocationState.RESERVED | CoAllocationState.PREPARING:
            return _problem_while_reserved(coallocation, leases, now_ms)
        case CoAllocationState.RUNNING:
            here = [lease for lease in leases if not _is_elsewhere(coallocation, lease)]
            return "" if _all_are(here, *_BEGUN) else "a component does not run beside the others"
        case _:
            return "it is over, and still open"


def _problem_while_placed(coallocation: CoAllocation, leases: list[Lease], now_ms: int) -> str:
    if coallocation.start_ms <= now_ms:
        return "its start has come, and it has neither begun nor given back what it claimed"
    for lease in leases:
        part = coallocation.parts[coallocation.request.index_of(lease.id)]
        expected = _BEGUN if part.claimed_ms >= 0 else (LeaseState.HELD,)
        if lease.state not in expected:
            return f"lease {lease.id} is {lease.state}, not {expected[0]}"
        if part.claimed_ms >= 0 and lease.held_since_ms + lease.overhead_ms != coallocation.start_ms:
            return f"lease {lease.id} does not wait for the common start"
    return ""


def _problem_while_reserved(coallocation: CoAllocation, leases: list[Lease], now_ms: int) -> str:
    for lease in leases:
        part = coallocation.parts[coallocation.request.index_of(lease.id)]
        is_committed = part.promise is Promise.COMMITTED
        if lease.state is not LeaseState.WAITING and not (is_committed and lease.state in _BEGUN):
            return f"lease {lease.id} is not promised its room"
        if part.promise and (lease.request.prepared_until_ms is None) != (part.promise in _HOLDS):
            return f"lease {lease.id} is {part.promise}, and its promise ends at {lease.request.prepared_until_ms} ms"
    if coallocation.state is CoAllocationState.RESERVED and any(
        part.promise not in (Promise.NONE, Promise.COMMITTED) for part in coallocation.parts
    ):
        return "a site has not confirmed its promise"
    if {lease.reserved_ms for lease in leases} != {coallocation.start_ms} or coallocation.start_ms <= now_ms:
        return "its components are not promised one start to come"
    return ""


def _is_elsewhere(coallocation: CoAllocation, lease: Lease) -> bool:
    return bool(coallocation.parts[coallocation.request.index_of(lease.id)].promise)


def _all_are(leases: list[Lease], *states: LeaseState) -> bool:
    return all(lease.state in states for lease in leases)
