"""Nodes that fail and are repaired, and the leases that fail with them.

The nodes of a cluster fail and are repaired by times of their own: drawn from random streams that no job and no
decision advances, so that a run with guests and one without see the same failures. Where a lease is on the nodes is
known here alone; a gateway plans VMs, not nodes. Local leases take the lowest free slots of their cluster and keep
them; guests fill the others from the top. Which local leases a failure hits does therefore not depend on guests.
"""

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from random import Random

from leasehold.forecasting.world import Handler
from leasehold.gateway.gateway import Gateway
from leasehold.gateway.site import Site
from leasehold.model.effect import LeaseClosed, StartLease, WithdrawLease
from leasehold.model.event import Event, LeaseFailed, Outage, OutagesChanged
from leasehold.model.lease import Lease
from leasehold.model.request import NEVER_MS, Request
from leasehold.simulation.scenario.events import NodeFailureRates, TimelineEntry
from leasehold.simulation.workload.job import WorkloadJob
from leasehold.simulation.workload.streams import random_stream

FAILS, IS_LATE, IS_BACK, TOLD = "fails", "is-late", "is-back", "told"
"""What can happen next to a node: it fails, it is not back when it was expected, it is back; or an entry of the
timeline fails some."""


@dataclass(slots=True)
class _Down:
    """A node that is down: when it is back, when the gateway expects it, and after how long it expects it again."""

    back_ms: int
    expected_ms: int
    again_ms: int


class ClusterNodes:
    """The nodes of one cluster: which are down, and which slots its local leases have."""

    def __init__(
        self,
        slots: int,
        vms_per_node: int,
        rates: NodeFailureRates | None,
        timeline: Iterable[TimelineEntry],
        random: Random,
    ) -> None:
        """Begin with all nodes up; ``timeline`` are failures that the timeline says."""
        self._slots = slots
        self._vms_per_node = vms_per_node
        self._rates = rates
        self._random = random
        self._nodes = -(-slots // vms_per_node)
        self._down: dict[int, _Down] = {}
        self._free = list(range(slots))
        self._held: dict[int, list[int]] = {}
        self._timeline = list(timeline)
        self._next: list[tuple[int, str, int]] = [(entry.at_ms, TOLD, i) for i, entry in enumerate(self._timeline)]
        self._fails_ms: dict[int, int] = {}
        heapify(self._next)
        for node in range(self._nodes):
            self._plan_failure(node, 0)

    # Time

    def next_ms(self, *, idle: bool) -> int:
        """When something happens next; of idle nodes only what is certain."""
        if not idle:
            return self._next[0][0] if self._next else NEVER_MS
        return min((at_ms for at_ms, what, _ in self._next if what != FAILS), default=NEVER_MS)

    def pass_time(self, now_ms: int) -> tuple[bool, set[int], int]:
        """Let nodes fail and come back until now.

        Returns whether anything has changed, which nodes failed and are still down, and how many failed in all.
        """
        has_changed, failed, count = False, set[int](), 0
        while self._next and self._next[0][0] <= now_ms:
            at_ms, what, index = heappop(self._next)
            match what:
                case "told":
                    nodes = self._choose(self._timeline[index].nodes or 1)
                    lasts_ms = self._timeline[index].lasts_ms or 1
                    for node in nodes:
                        self._fail(node, at_ms, lasts_ms, lasts_ms)
                    failed.update(nodes)
                    count += len(nodes)
                    has_changed |= bool(nodes)
                case "fails":
                    if self._fails_ms.get(index) == at_ms and self._rates is not None:
                        lasts_ms = max(1, round(self._random.expovariate(1.0) * self._rates.mttr_ms))
                        self._fail(index, at_ms, lasts_ms, self._rates.mttr_ms)
                        failed.add(index)
                        count += 1
                        has_changed = True
                case "is-back":
                    self._come_back(index, at_ms)
                    failed.discard(index)
                    has_changed = True
                case _:
                    down = self._down.get(index)
                    if down is not None and down.expected_ms == at_ms:
                        self._expect(index, down, at_ms + down.again_ms)
                        has_changed = True
        return has_changed, failed, count

    def outages(self) -> tuple[Outage, ...]:
        """Give the nodes that are down, as the gateway learns them."""
        return tuple(Outage(len(self._slots_of(node)), down.expected_ms) for node, down in sorted(self._down.items()))

    def _choose(self, count: int) -> list[int]:
        up = [node for node in range(self._nodes) if node not in self._down]
        return sorted(self._random.sample(up, min(count, len(up))))

    def _plan_failure(self, node: int, now_ms: int) -> None:
        if self._rates is None:
            return
        mean_ms, shape = self._rates.mtbf_ms, self._rates.shape
        if self._rates.distribution == "weibull":
            gap_ms = self._random.weibullvariate(mean_ms / math.gamma(1 + 1 / shape), shape)
        else:
            gap_ms = self._random.expovariate(1.0) * mean_ms
        self._fails_ms[node] = fails_ms = now_ms + max(1, round(gap_ms))
        heappush(self._next, (fails_ms, FAILS, node))

    def _fail(self, node: int, at_ms: int, lasts_ms: int, expected_after_ms: int) -> None:
        self._fails_ms.pop(node, None)
        self._down[node] = down = _Down(at_ms + lasts_ms, at_ms, expected_after_ms)
        heappush(self._next, (down.back_ms, IS_BACK, node))
        self._expect(node, down, at_ms + expected_after_ms)

    def _expect(self, node: int, down: _Down, expected_ms: int) -> None:
        down.expected_ms = expected_ms
        if expected_ms < down.back_ms:
            heappush(self._next, (expected_ms, IS_LATE, node))

    def _come_back(self, node: int, at_ms: int) -> None:
        del self._down[node]
        self._give_back(set(self._slots_of(node)).difference(self._free, *self._held.values()))
        self._plan_failure(node, at_ms)

    # Places

    def _slots_of(self, node: int) -> range:
        first = node * self._vms_per_node
        return range(first, min(first + self._vms_per_node, self._slots))

    def place(self, lease: Lease) -> None:
        """A local lease starts: it takes the lowest free slots."""
        self._held[lease.id] = [heappop(self._free) for _ in range(lease.vms)]

    def leave(self, lease_id: int) -> None:
        """A local lease has ended, or gave its room back."""
        self._give_back(self._held.pop(lease_id, ()))

    def _give_back(self, slots: Iterable[int]) -> None:
        for slot in slots:
            if slot // self._vms_per_node not in self._down:
                heappush(self._free, slot)

    def hit(self, nodes: set[int], site: Site) -> list[Lease]:
        """List the leases that are on these nodes, which have just failed; their slots are free no more."""
        holding = sorted(site.allocations.held.values(), key=lambda lease: lease.place)
        free = sorted(self._free)
        found: list[Lease] = []
        for lease in holding:
            slots = self._held.get(lease.id)
            if slots is None:
                slots = [free.pop() for _ in range(min(lease.vms, len(free)))]
            if any(slot // self._vms_per_node in nodes for slot in slots):
                found.append(lease)
        self._free = [slot for slot in self._free if slot // self._vms_per_node not in nodes]
        heapify(self._free)
        return found


class NodeFailures:
    """Failures and repairs at all clusters whose nodes may fail; ``counts`` says how many there were."""

    def __init__(self, gateway: Gateway, clusters: Mapping[str, ClusterNodes]) -> None:
        """Begin with all nodes up."""
        self.counts = Counter[str]()
        self._gateway = gateway
        self._clusters = clusters
        self._reported: dict[str, tuple[Outage, ...]] = dict.fromkeys(clusters, ())
        self.handlers: Mapping[type, Handler] = {
            StartLease: self._started,
            WithdrawLease: self._withdrawn,
            LeaseClosed: self._closed,
        }

    is_busy = False

    def submitted(self, request: Request, job: WorkloadJob) -> None:
        """Nodes fail whatever is asked for."""

    def next_ms(self, *, idle: bool) -> int:
        """When a node fails, is late or is back; of idle nodes only when one is back."""
        return min(cluster.next_ms(idle=idle) for cluster in self._clusters.values())

    def events(self, now_ms: int) -> list[Event]:
        """Say which leases have failed with their nodes, and which nodes are down from now on."""
        found: list[Event] = []
        for name, cluster in self._clusters.items():
            has_changed, failed, count = cluster.pass_time(now_ms)
            if not has_changed:
                continue
            self.counts["node-failure"] += count
            hit = cluster.hit(failed, self._gateway.sites[name]) if failed else []
            found += [LeaseFailed(lease.id, lease.incarnation) for lease in hit]
            outages = cluster.outages()
            if outages != self._reported[name]:
                self._reported[name] = outages
                found.append(OutagesChanged(name, outages))
        return found

    def _started(self, effect: StartLease, now_ms: int) -> None:  # noqa: ARG002 - one signature for all handlers
        lease = effect.lease
        if lease.request.is_local and lease.site in self._clusters:
            self._clusters[lease.site].place(lease)

    def _withdrawn(self, effect: WithdrawLease, now_ms: int) -> None:  # noqa: ARG002 - as above
        if effect.site in self._clusters:
            self._clusters[effect.site].leave(effect.lease.id)

    def _closed(self, effect: LeaseClosed, now_ms: int) -> None:  # noqa: ARG002 - as above
        if effect.lease.site in self._clusters:
            self._clusters[effect.lease.site].leave(effect.lease.id)


def cluster_nodes(
    slots: int,
    vms_per_node: int,
    rates: NodeFailureRates | None,
    timeline: Iterable[TimelineEntry],
    seed: int,
    name: str,
) -> ClusterNodes:
    """Make the nodes of a cluster of a scenario, with the random streams that its seed gives."""
    return ClusterNodes(slots, vms_per_node, rates, timeline, random_stream(seed, "failures", name))
