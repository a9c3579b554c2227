"""The nodes of an emulated site: which VM is on which, and how much of each is taken.

VMs that name nodes are placed there, if these have the cores and the memory. VMs that name none are admitted as long as
there are slots, and are placed on a node with a free core if there is one: a site without declared nodes knows no more,
and guests that ask for nothing are never refused because of a node.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from heapq import heappop, heappush

from leasehold.matching.devices import free_milli, in_order, shares_of
from leasehold.model.request import GPU_MILLI
from leasehold.service.drivers.emulated.fault_injection import NodeFaults, describe
from leasehold.service.drivers.emulated.options import EmulatedNode
from leasehold.service.drivers.facts import NodeFacts, not_one_per_node
from leasehold.service.drivers.protocol import PlacementConstraints, Problem


class NodeInventory:
    """The nodes, and what is taken of each: cores, and MiB."""

    def __init__(self, nodes: Iterable[EmulatedNode], faults: NodeFaults) -> None:
        self.nodes: Mapping[str, EmulatedNode] = {node.name: node for node in nodes}
        self._faults = faults
        self._taken: dict[str, tuple[int, int]] = dict.fromkeys(self.nodes, (0, 0))
        self._names = list(self.nodes)
        self._numbers = {name: number for number, name in enumerate(self._names)}
        self._perhaps_free = list(range(len(self._names)))
        self._listed = set(self._perhaps_free)
        self._gpus_taken: dict[tuple[str, int], int] = {}
        """Shares of each device, by node and number."""
        self._seen: dict[str, NodeFacts] = {}
        """Of sound nodes, until something is taken of them or given back: there may be thousands."""

    def take(self, nodes: Iterable[str], cores: int, memory_mib: int) -> None:
        """Take so much of each node, once for each time that it is named; negative numbers give it back."""
        for name in nodes:
            if name in self._taken:  # the configuration may have changed since
                taken_cores, taken_mib = self._taken[name]
                self._taken[name] = (taken_cores + cores, taken_mib + memory_mib)
                self._seen.pop(name, None)
                if cores < 0:
                    self._may_be_free(self._numbers[name])

    def take_gpus(self, gpus: Iterable[tuple[str, int, int]], sign: int) -> None:
        """Take so many shares of each device, or give them back."""
        for name, device, shares in gpus:
            self._gpus_taken[name, device] = self._gpus_taken.get((name, device), 0) + sign * shares
            self._seen.pop(name, None)

    def gpus_of(self, constraints: PlacementConstraints) -> tuple[tuple[str, int, int], ...]:
        """Say what machines hold of devices that are placed so, in shares."""
        milli = min(constraints.gpu_milli, GPU_MILLI)
        return tuple(
            (name, device, shares_of(milli, self.nodes[name].shares))
            for name, _, devices in constraints.placed
            if name in self.nodes
            for device in devices
        )

    # placement

    def problem_with_placed(self, constraints: PlacementConstraints, memory_mib: int, now_ms: int) -> Problem | None:
        """Say why machines cannot be where a plan has put them: what they need is not there, or in use."""
        for name, machines, devices in constraints.placed:
            node = self.nodes.get(name)
            if node is None:
                return Problem(f"there is no node {name} here", again=False)
            if devices and (constraints.gpu_model not in ("", node.gpu_model) or max(devices) >= node.gpus):
                return Problem(f"node {name} has no such GPU: {constraints.gpu_model or 'any'}", again=False)
            cores, mib = machines * max(1, constraints.cores), machines * memory_mib
            too_small = self._too_small(name, cores, mib)
            if too_small is not None:
                return too_small
        wanted: Counter[tuple[str, int]] = Counter()
        for name, device, shares in self.gpus_of(constraints):
            wanted[name, device] += shares
        for (name, device), shares in wanted.items():
            if shares > self._free_shares(name, device):
                return Problem(f"GPU {device} of node {name} is in use now", full=True, nodes=(name,))
        return self._faults.problem_of([name for name, _, _ in constraints.placed], now_ms)

    def problem_with(self, constraints: PlacementConstraints, vms: int, memory_mib: int, now_ms: int) -> Problem | None:
        """Say why VMs cannot be on the nodes that they name, or on any: never, or not now."""
        if not constraints.nodes:
            some_node_is_up = any(self._is_up(name, now_ms) for name in self._names)
            return None if some_node_is_up else Problem("no node is up now")
        not_each = not_one_per_node(constraints, vms)
        if not_each is not None:
            return not_each
        problems = (self._too_small(name, constraints.cores or 1, memory_mib) for name in constraints.nodes)
        too_small = next((problem for problem in problems if problem is not None), None)
        return too_small or self._faults.problem_of(constraints.nodes, now_ms)

    def _too_small(self, name: str, cores: int, memory_mib: int) -> Problem | None:
        node = self.nodes.get(name)
        if node is None:
            return Problem(f"there is no node {name} here", again=False)
        if cores > node.cores or memory_mib > node.memory_mib:
            has = f"{node.cores} cores and {node.memory_mib} MiB"
            return Problem(f"node {name} has {has}, and no {cores} and {memory_mib}", again=False)
        free_cores, free_mib = self._free_of(name)
        if cores > free_cores or memory_mib > free_mib:
            text = f"node {name} has {free_cores} cores and {free_mib} MiB free now"
            return Problem(text, full=True, nodes=(name,))
        return None

    def any_nodes(self, vms: int, now_ms: int) -> tuple[str, ...]:
        """Choose nodes for VMs that may go anywhere; there has to be one that is up.

        It depends on nothing but which VM is on which node, so that a restart changes no choice.
        """
        chosen: Counter[str] = Counter()
        down: list[int] = []
        for _ in range(vms):
            chosen[self._any_node(chosen, lambda name: self._is_up(name, now_ms), down)] += 1
        for number in down:
            self._may_be_free(number)
        return tuple(chosen.elements())

    def _any_node(self, chosen: Mapping[str, int], is_up: Callable[[str], bool], down: list[int]) -> str:
        """Choose the first node with a free core; where there is none, the one that has the fewest too few."""
        while self._perhaps_free:
            name = self._names[self._perhaps_free[0]]
            if is_up(name) and self._free_of(name)[0] > chosen[name]:
                return name
            number = heappop(self._perhaps_free)
            self._listed.discard(number)
            if not is_up(name):
                down.append(number)
        return max(filter(is_up, self._names), key=lambda name: self._spare_cores(name) - chosen[name])

    def _may_be_free(self, number: int) -> None:
        if number not in self._listed:
            self._listed.add(number)
            heappush(self._perhaps_free, number)

    def _spare_cores(self, name: str) -> int:
        return self.nodes[name].cores - self._taken[name][0]

    def _is_up(self, name: str, now_ms: int) -> bool:
        return self._faults.fault_of(name, now_ms) is None

    # what can be seen

    def facts(self, now_ms: int) -> list[NodeFacts]:
        """Observe all nodes."""
        for name in self._faults.known():
            self._seen.pop(name, None)  # what is wrong with it ends by itself
        for name, node in self.nodes.items():
            if name not in self._seen:
                self._seen[name] = self._facts(node, now_ms)
        return [self._seen[name] for name in self.nodes]

    def _facts(self, node: EmulatedNode, now_ms: int) -> NodeFacts:
        fault = self._faults.fault_of(node.name, now_ms)
        lost = self._faults.lost_from(node.name, now_ms)
        free_cores, free_mib = self._free_of(node.name)
        return NodeFacts(
            name=node.name,
            cores=node.cores,
            memory_mib=node.memory_mib,
            disk_mib=node.disk_mib,
            free_cores=free_cores,
            free_memory_mib=free_mib,
            free_disk_mib=node.disk_mib,
            cpu_mhz=node.cpu_mhz,
            software=frozenset(pair for pair in node.software if pair[0] not in lost),
            is_host=node.is_host,
            runs=not node.is_host,
            problem="" if fault is None else describe(fault),
            fault="" if fault is None else fault.value,
            gpu_model=node.gpu_model if node.gpus else "",
            gpus=node.gpus,
            gpu_shares=node.gpu_shares,
            free_gpus=in_order(
                free_milli(self._free_shares(node.name, device), node.shares) for device in range(node.gpus)
            ),
        )

    def _free_shares(self, name: str, device: int) -> int:
        return max(0, self.nodes[name].shares - self._gpus_taken.get((name, device), 0))

    def _free_of(self, name: str) -> tuple[int, int]:
        node, (cores, memory_mib) = self.nodes[name], self._taken[name]
        return max(0, node.cores - cores), max(0, node.memory_mib - memory_mib)
