"""Co-allocations through the real decision code, in a simulated world, with every invariant checked."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

from tests.by_slots import slots

from leasehold.gateway.gateway import Gateway, Routing
from leasehold.gateway.invariants import Invariants
from leasehold.gateway.settings import SiteSettings
from leasehold.leasing.overhead import OverheadModel
from leasehold.model.coallocation import Claim, CoAllocation, CoAllocationRequest, Component
from leasehold.model.effect import CoAllocationClosed, CoAllocationStarted, Effect, LeaseClosed, StartLease
from leasehold.model.event import CoAllocationCancelled, CoAllocationSubmitted, Event, LeaseFailed
from leasehold.model.reason import Reason
from leasehold.routing.registry import routing_policy
from leasehold.sharing.enforcement import Sharing
from leasehold.simulation.kernel import SimulatedWorld
from leasehold.simulation.workload.job import WorkloadJob
from leasehold.testing.worlds import History, site

FIRST_LEASE = 1_000
"""Leases of co-allocations have numbers from here on: jobs are numbered from 1."""

LEASES_EACH_COALLOCATION = 100


def two_sites(**settings: Any) -> list[SiteSettings]:
    """Sites a (4 VMs) and b (6 VMs), with 8 Mbit/s: one MiB takes 1.048576 s."""
    network = OverheadModel(network_mbps=8)
    return [site("a", 4, overhead=network, **settings), site("b", 6, overhead=network, **settings)]


def part(vms: int, duration_s: float = 10, at: str = "", *files: tuple[str, int]) -> Component:
    """A component; its files are (site, MiB)."""
    return Component(vms, round(duration_s * 1000), at, files)


def coallocation(number: int, *components: Component, submit_s: float = 0, **fields: Any) -> CoAllocationRequest:
    """A co-allocation of these components; times in seconds."""
    for name in ("ready", "deadline", "margin"):
        if f"{name}_s" in fields:
            fields[f"{name}_ms"] = round(fields.pop(f"{name}_s") * 1000)
    submit_ms = round(submit_s * 1000)
    fields.setdefault("ready_ms", submit_ms)
    fields["claim"] = Claim(fields.get("claim", "incremental"))
    first = FIRST_LEASE + LEASES_EACH_COALLOCATION * number
    return CoAllocationRequest(number, components, submit_ms, first_lease_id=first, **fields)


@dataclass(slots=True)
class Together(History):
    """What happened, of co-allocations too."""

    coallocations: dict[int, CoAllocation] = field(default_factory=dict)

    def began_s(self, coallocation_id: int) -> float | None:
        """When a co-allocation began; None if it never did."""
        found = [at for at, one in self._about(CoAllocationStarted) if one.coallocation.id == coallocation_id]
        assert len(found) <= 1
        return found[0] if found else None

    def closed(self, coallocation_id: int) -> tuple[float, Reason, int]:
        """When and why it was over, and its idle VM-ms."""
        ((at, one),) = [
            (at, one) for at, one in self._about(CoAllocationClosed) if one.coallocation.id == coallocation_id
        ]
        return at, one.reason, one.idle_vm_ms

    def starts_s(self, coallocation_id: int) -> list[tuple[float, str, int]]:
        """When and where each of its leases began to hold machines, and how many."""
        first = FIRST_LEASE + LEASES_EACH_COALLOCATION * coallocation_id
        numbers = range(first, first + LEASES_EACH_COALLOCATION)
        found = [(at, one.lease) for at, one in self._about(StartLease) if one.lease.id in numbers]
        return [(at, lease.site, lease.vms) for at, lease in found]

    def _about(self, kind: type) -> list[tuple[float, Any]]:
        return [(now_ms / 1000, effect) for now_ms, effect in self.effects if isinstance(effect, kind)]


@dataclass(slots=True)
class IdleOracle:
    """Counts idle time anew, from nothing but starts and ends of leases and of co-allocations."""

    coallocations: dict[int, CoAllocationRequest]
    idle_vm_ms: dict[int, int] = field(default_factory=dict)
    _since: dict[int, dict[int, tuple[int, int]]] = field(default_factory=dict)
    _begun: set[int] = field(default_factory=set)

    def see(self, effects: Iterable[Effect], now_ms: int) -> None:
        """Take note of an instant."""
        for effect in effects:
            if isinstance(effect, StartLease):
                self._started(effect, now_ms)
            elif isinstance(effect, LeaseClosed):
                self._ended(effect.lease.id, now_ms)
        for effect in effects:
            if isinstance(effect, CoAllocationStarted):
                self._begun.add(effect.coallocation.id)
                for lease_id in list(self._since.get(effect.coallocation.id, {})):
                    self._ended(lease_id, now_ms)

    def _started(self, effect: StartLease, now_ms: int) -> None:
        owner = self._owner(effect.lease.id)
        if owner is not None and owner not in self._begun:
            self._since.setdefault(owner, {})[effect.lease.id] = (now_ms, effect.lease.vms)

    def _ended(self, lease_id: int, now_ms: int) -> None:
        owner = self._owner(lease_id)
        since = self._since.get(-1 if owner is None else owner, {}).pop(lease_id, None)
        if owner is not None and since is not None:
            begin_ms, vms = since
            self.idle_vm_ms[owner] = self.idle_vm_ms.get(owner, 0) + vms * (now_ms - begin_ms)

    def _owner(self, lease_id: int) -> int | None:
        return next((one.id for one in self.coallocations.values() if lease_id in one.lease_ids), None)


class CoAllocationWorld(SimulatedWorld):
    """A world in which co-allocations come too, and machines are lost."""

    def __init__(self, gateway: Gateway, jobs: Iterable[WorkloadJob], history: Together, oracle: IdleOracle) -> None:
        super().__init__(gateway, iter(enumerate(jobs, 1)), history, Invariants(gateway))
        self._oracle = oracle
        self._history = history

    def _apply(self, effects: list[Effect], now_ms: int) -> None:
        self._oracle.see(effects, now_ms)
        super()._apply(effects, now_ms)
        for effect in effects:
            if isinstance(effect, CoAllocationClosed):
                self._nothing_is_left_of(effect)

    def _nothing_is_left_of(self, closed: CoAllocationClosed) -> None:
        numbers = closed.coallocation.request.lease_ids
        assert not [id_ for id_ in self.gateway.leases if id_ in numbers], "a component outlives its co-allocation"
        for one in self.gateway.sites.values():
            assert not [id_ for id_ in one.allocations.held if id_ in numbers]
        assert closed.idle_vm_ms == self._oracle.idle_vm_ms.get(closed.coallocation.id, 0)


def run_together(
    coallocations: Sequence[CoAllocationRequest],
    sites: Sequence[SiteSettings],
    jobs: Sequence[WorkloadJob] = (),
    changes: Sequence[tuple[float, Event]] = (),
    sharing: Sharing | None = None,
) -> Together:
    """Run these to their end, and see that nothing is left."""
    gateway = Gateway(sites, Routing(routing_policy("most-free")(Random(0))), sharing=sharing)
    history = Together(unfinished=gateway.leases)
    world = CoAllocationWorld(gateway, jobs, history, IdleOracle({one.id: one for one in coallocations}))
    for request in coallocations:
        world._at(request.submit_ms, CoAllocationSubmitted(request))
    for at_s, change in changes:
        world._at(round(at_s * 1000), change)
    for _ in world.run():
        pass
    assert not gateway.coallocations.open, "a co-allocation was forgotten"
    assert not gateway.leases, "somebody was forgotten"
    for one in gateway.sites.values():
        full = slots(one.open_to_guests(world.now_ms).full)
        full.trim(world.now_ms)
        assert full.free == [one.settings.slots], "a slot has leaked"
        assert slots(one.home).free_at(world.now_ms) == one.settings.slots
    return history


def lose(lease_id: int, incarnation: int = 1) -> LeaseFailed:
    """The machines of a lease are lost."""
    return LeaseFailed(lease_id, incarnation)


def take_back(coallocation_id: int) -> CoAllocationCancelled:
    """Its user takes a co-allocation back."""
    return CoAllocationCancelled(coallocation_id)
