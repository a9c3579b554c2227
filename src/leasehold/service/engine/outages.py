"""Nodes that are down, as the gateway learns them: VMs that no plan may count on, and until when.

Of a node on which nothing new can start, those VMs are lost that no lease holds and that the node does not report as
busy; what still runs there runs on, and its VMs are lost when it has ended. If the nodes of a site have room for more
VMs than its slots, only what is missing of the slots is lost. No more is ever lost than no lease holds: a lease that
runs has its room, whatever a look says that is older than the news of it.

It is expected that a node is down for as long again as it was until now, and for ten minutes at least.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from leasehold.gateway.site import Site
from leasehold.model.event import (
    CancelRequested,
    Event,
    LeaseEnded,
    LeaseFailed,
    LeaseNotStarted,
    Outage,
    OutagesChanged,
)
from leasehold.model.lease import Lease
from leasehold.service.engine.context import DecisionCore
from leasehold.service.engine.timers import OutageOver, TimerQueue

LEAST_MS = 600_000
"""A node that has just failed is not expected back before this."""


@dataclass(slots=True)
class _Down:
    """A node that is down; ``held_vms`` and ``idle_vms`` are of the last look."""

    vms: int
    idle_vms: int
    held_vms: int
    since_ms: int
    until_ms: int


class NodeOutages:
    """Knows how many VMs the nodes of sites have room for, which nodes are down, and which leases are on them.

    ``is_on``  whether a site has nodes that are down, or the gateway believes so: else there is nothing to tell
    """

    def __init__(self, core: DecisionCore, timers: TimerQueue) -> None:
        self._core = core
        self._timers = timers
        self._vms: dict[str, dict[str, int]] = {}
        self._all_vms: dict[str, int] = {}
        self._down: dict[str, dict[str, _Down]] = {}
        self._told: dict[str, tuple[Outage, ...]] = {}
        self._nodes_of: dict[int, tuple[str, ...]] = {}
        self._leases_on: dict[str, dict[int, int]] = {}

    @property
    def is_on(self) -> bool:
        """Whether the gateway may have to be told of nodes."""
        return bool(self._down or self._told)

    def gateway_is_new(self) -> None:
        """Tell everything again: another gateway decides, which knows of no node that is down."""
        self._told.clear()

    # What is seen

    def see(self, site: str, node: str, vms: int, idle_vms: int | None, since_ms: int) -> None:
        """Note a node; ``idle_vms`` are those that cannot be used because it is down, None while it is up."""
        self._count(site, node, vms)
        down = self._down.setdefault(site, {})
        if idle_vms is None:
            down.pop(node, None)
            if not down:
                del self._down[site]
        elif (before := down.get(node)) is None:
            down[node] = _Down(vms, idle_vms, self._held_on(site, node), since_ms, 0)
        else:
            before.vms, before.idle_vms, before.held_vms = vms, idle_vms, self._held_on(site, node)

    def told(self, site: str) -> tuple[Outage, ...]:
        """Give the outages of a site that the gateway knows of."""
        return self._told.get(site, ())

    def forget(self, site: str, node: str) -> None:
        """Forget a node that will not come back."""
        self._count(site, node, 0)
        self.see(site, node, 0, None, 0)

    def _count(self, site: str, node: str, vms: int) -> None:
        known = self._vms.setdefault(site, {})
        self._all_vms[site] = self._all_vms.get(site, 0) + vms - known.get(node, 0)
        known[node] = vms

    def place(self, site: str, lease_id: int, incarnation: int, nodes: tuple[str, ...]) -> None:
        """Note on which node each VM of a lease was seen."""
        place = self._core.gateway.sites.get(site)
        lease = None if place is None else place.allocations.held.get(lease_id)
        is_there = lease is not None and lease.incarnation == incarnation
        if nodes and is_there and self._nodes_of.get(lease_id) != nodes:
            self.leave(lease_id)
            self._nodes_of[lease_id] = nodes
            for node in nodes:
                there = self._leases_on.setdefault(node, {})
                there[lease_id] = there.get(lease_id, 0) + 1

    def leave(self, lease_id: int) -> None:
        """Note that a lease holds no machines any more."""
        for node in set(self._nodes_of.pop(lease_id, ())):
            del self._leases_on[node][lease_id]
            if not self._leases_on[node]:
                del self._leases_on[node]

    def follow(self, moved: Iterable[Lease]) -> None:
        """Note which of these leases hold machines no more."""
        for lease in moved:
            if lease.held_since_ms < 0:
                self.leave(lease.id)

    # What the gateway is told

    def changes(self, events: Sequence[Event], now_ms: int) -> list[Event]:
        """Give what is new of outages, to be told after these events: leases that they end are on no node any more."""
        found: list[Event] = []
        for name in sorted(self._down.keys() | self._told.keys()):
            site = self._core.gateway.sites.get(name)
            if site is None:
                continue
            outages = self._outages(site, self._leaving(site, events), now_ms) if name in self._down else ()
            if outages != self._told.get(name, ()):
                found.append(OutagesChanged(name, outages))
                if outages:
                    self._told[name] = outages
                else:
                    del self._told[name]
        return found

    def _leaving(self, site: Site, events: Sequence[Event]) -> set[int]:
        held = site.allocations.held
        return {
            event.lease_id
            for event in events
            if isinstance(event, LeaseEnded | LeaseFailed | LeaseNotStarted | CancelRequested)
            and (lease := held.get(event.lease_id)) is not None
            and (isinstance(event, CancelRequested) or event.incarnation == lease.incarnation)
        }

    def _outages(self, site: Site, leaving: set[int], now_ms: int) -> tuple[Outage, ...]:
        """Divide what a site has lost among the times at which nodes are expected back.

        What nodes have room for beyond the slots makes up for those first that are down for longest.
        """
        if site.settings.nodes:
            return self._nodes_out(site, now_ms)
        allocations, slots = site.allocations, site.settings.slots
        lost: dict[int, int] = {}
        for name, node in self._down[site.name].items():
            if node.until_ms <= now_ms:
                node.until_ms = now_ms + max(LEAST_MS, now_ms - node.since_ms)
                self._timers.add(node.until_ms, OutageOver())
            held_vms = self._held_on(site.name, name, leaving)
            vms = min(node.vms - held_vms, node.idle_vms + max(0, node.held_vms - held_vms))
            lost[node.until_ms] = lost.get(node.until_ms, 0) + max(0, vms)
        most_vms = min(slots, all_vms := self._all_vms[site.name])
        lost_vms = most_vms - min(most_vms, all_vms - sum(lost.values()))
        left_vms = allocations.local_vms + allocations.guest_vms - sum(allocations.held[one].vms for one in leaving)
        rest_vms = min(lost_vms, max(0, slots - left_vms))
        outages: list[Outage] = []
        for until_ms, vms in sorted(lost.items()):
            if min(vms, rest_vms) > 0:
                outages.append(Outage(min(vms, rest_vms), until_ms))
                rest_vms -= min(vms, rest_vms)
        return tuple(outages)

    def _nodes_out(self, site: Site, now_ms: int) -> tuple[Outage, ...]:
        """At a site that is planned by nodes, each that is down is lost with all that it has."""
        cores = {node.name: node.cores for node in site.settings.nodes}
        found: list[Outage] = []
        for name, node in self._down[site.name].items():
            if node.until_ms <= now_ms:
                node.until_ms = now_ms + max(LEAST_MS, now_ms - node.since_ms)
                self._timers.add(node.until_ms, OutageOver())
            short = name.removeprefix(f"{site.name}/")
            if short in cores:
                found.append(Outage(cores[short], node.until_ms, short))
        return tuple(sorted(found, key=lambda one: (one.until_ms, one.node)))

    def _held_on(self, site: str, node: str, leaving: Iterable[int] = ()) -> int:
        """Count the VMs on a node of leases that hold machines, without those that leave."""
        place = self._core.gateway.sites.get(site)
        there = self._leases_on.get(node)
        if place is None or there is None:
            return 0
        held = place.allocations.held
        return sum(vms for lease_id, vms in there.items() if lease_id in held and lease_id not in leaving)
