"""The nodes under the machines of an emulated site: who is where, what befalls them, and what can be seen."""

from collections.abc import Iterator
from heapq import heapify, heappop, heappush

from leasehold.jobs.job import Fault
from leasehold.model.errors import UnknownName
from leasehold.service.drivers.emulated.faults import Faults
from leasehold.service.drivers.emulated.floor import Floor
from leasehold.service.drivers.emulated.hardware import Hardware
from leasehold.service.drivers.emulated.holding import Becoming, Holding
from leasehold.service.drivers.emulated.mishaps import Mishaps
from leasehold.service.drivers.emulated.nodes import EmulatedNode, default_nodes
from leasehold.service.drivers.emulated.troubles import says
from leasehold.service.drivers.facts import NodeFacts
from leasehold.service.drivers.protocol import NO_WISHES, MachineWishes, Phase, Problem

_ALL_DOWN = "no node is up now"


class NodeFloor:
    """The nodes of one site."""

    def __init__(self, floor: Floor, hardware: Hardware, mishaps: Mishaps) -> None:
        self._floor = floor
        self._mishaps = mishaps
        nodes = hardware.nodes or default_nodes(hardware.slots)
        self._nodes = {node.name: node for node in nodes}
        floor.stand_on(nodes)
        self._fates: list[tuple[int, str, Fault]] = []
        self._fates_of: Faults | None = None

    # what befalls nodes

    def pass_time(self, now_ms: int) -> None:
        """Let everything happen by then, on nodes and to them, each at its time."""
        for at_ms, node, fault in self._fates_until(now_ms):
            self.befall(node, fault, at_ms, at_ms + self._mishaps.faults.node_down_ms)
            self._floor.troubles.settled_ms = at_ms
        self._floor.let_happen(now_ms)

    def next_fate_ms(self) -> int | None:
        """When something befalls a node by chance; None: never, as far as is known."""
        return self._fates[0][0] if self._fates else None

    def _fates_until(self, now_ms: int) -> Iterator[tuple[int, str, Fault]]:
        self._know_fates(now_ms)
        while self._fates and self._fates[0][0] <= now_ms:
            at_ms, node, fault = heappop(self._fates)
            for fate in self._mishaps.next_fates([node], at_ms):
                if fate[2] is fault:
                    heappush(self._fates, fate)
            yield at_ms, node, fault

    def _know_fates(self, now_ms: int) -> None:
        """Look ahead, once for each set of rates; what befell a node before the site was there did not."""
        if self._fates_of is self._mishaps.faults:
            return
        troubles, self._fates_of = self._floor.troubles, self._mishaps.faults
        from_ms = now_ms if troubles.settled_ms < 0 else troubles.settled_ms
        self._fates = self._mishaps.next_fates(self._nodes, from_ms)
        heapify(self._fates)
        if self._fates:
            troubles.settled_ms = from_ms

    def befall(self, node: str, fault: Fault, at_ms: int, until_ms: int) -> None:
        """Let something be wrong with a node until then; raises UnknownName for a name that is none."""
        self._known(node)
        self._floor.let_happen(at_ms)
        self._floor.troubles.befall(node, fault, until_ms)
        if fault is not Fault.NETWORK_FAILED:
            self._floor.fall(node, at_ms, Becoming(Phase.FAILED, says(fault), fault=fault.value))

    def lose(self, node: str, software: str, until_ms: int) -> None:
        """Let software be gone from a node until then; raises UnknownName for a name that is none."""
        self._known(node)
        self._floor.troubles.lose(node, [software.lower()], until_ms)

    def _known(self, node: str) -> EmulatedNode:
        if node not in self._nodes:
            raise UnknownName("node", node, list(self._nodes))
        return self._nodes[node]

    # who is where

    def problem_with(self, wishes: MachineWishes, vms: int, memory_mib: int, now_ms: int) -> Problem | None:
        """Say why VMs cannot come to the nodes that are wished for, or to any."""
        if not wishes.nodes:
            some_node_is_up = any(self._is_up(name, now_ms) for name in self._nodes)
            return None if some_node_is_up else Problem(_ALL_DOWN)
        problem = self._floor.occupancy.problem_with(wishes, vms, memory_mib)
        return problem or self._down(wishes.nodes, now_ms)

    def problem_with_return(self, holding: Holding, now_ms: int) -> Problem | None:
        """Say why saved machines cannot come back: to the nodes that were named, or else to any."""
        wishes = MachineWishes(holding.nodes, cores=holding.cores) if holding.named else NO_WISHES
        return self.problem_with(wishes, holding.vms, holding.memory_mib, now_ms)

    def unreachable(self, holding: Holding, now_ms: int) -> Problem | None:
        """Say where machines are that nobody can tell anything now."""
        if not self._floor.troubles.dark_until_ms(holding.nodes, now_ms):
            return None
        return self._down(holding.nodes, now_ms)

    def _down(self, nodes: tuple[str, ...], now_ms: int) -> Problem | None:
        for name in nodes:
            fault = self._floor.troubles.fault_of(name, now_ms)
            if fault is not None:
                return Problem(f"node {name}: {says(fault)}")
        return None

    def place(self, holding: Holding, now_ms: int) -> None:
        """Choose the nodes of machines that are about to come, where none were named."""
        if not holding.named:
            holding.nodes = self._floor.occupancy.any_nodes(holding.vms, lambda name: self._is_up(name, now_ms))

    def _is_up(self, name: str, now_ms: int) -> bool:
        return self._floor.troubles.fault_of(name, now_ms) is None

    def have_lost(self, software: str, holding: Holding, now_ms: int) -> bool:
        """Whether one of the nodes of some machines has lost this software."""
        lost = (self._floor.troubles.lost_from(name, now_ms) for name in holding.nodes)
        return any(software in names for names in lost)

    # what can be seen

    def facts(self, now_ms: int) -> list[NodeFacts]:
        """Look at all nodes."""
        return [self._facts(node, now_ms) for node in self._nodes.values()]

    def _facts(self, node: EmulatedNode, now_ms: int) -> NodeFacts:
        fault = self._floor.troubles.fault_of(node.name, now_ms)
        lost = self._floor.troubles.lost_from(node.name, now_ms)
        free_cores, free_mib = self._floor.occupancy.free_of(node.name)
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
            problem="" if fault is None else says(fault),
            fault="" if fault is None else fault.value,
        )
