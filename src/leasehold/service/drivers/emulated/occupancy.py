"""Which node does a VM come to, and how much is taken where?

Whoever names nodes comes to those, if they have the cores and the memory. Whoever names none is let in as
long as there are slots, and comes to a node with a free core, if there is one: that is how much a site
without nodes of its own would know, and guests that ask for nothing are never turned away for a node's sake.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from heapq import heappop, heappush

from leasehold.service.drivers.emulated.holding import Holding
from leasehold.service.drivers.emulated.nodes import EmulatedNode
from leasehold.service.drivers.facts import not_one_on_each
from leasehold.service.drivers.protocol import MachineWishes, Problem


class Occupancy:
    """The nodes of a site, and what is taken of each: cores, and MiB."""

    def __init__(self, nodes: Iterable[EmulatedNode]) -> None:
        self.nodes: Mapping[str, EmulatedNode] = {node.name: node for node in nodes}
        self._taken: dict[str, tuple[int, int]] = dict.fromkeys(self.nodes, (0, 0))
        self._names = list(self.nodes)
        self._numbers = {name: number for number, name in enumerate(self._names)}
        self._perhaps_free = list(range(len(self._names)))
        self._listed = set(self._perhaps_free)

    def enter(self, holding: Holding) -> None:
        """Count the VMs of a lease in."""
        self._add(holding, 1)

    def leave(self, holding: Holding) -> None:
        """Count them out."""
        self._add(holding, -1)

    def _add(self, holding: Holding, sign: int) -> None:
        for name in holding.nodes:
            if name in self._taken:  # the configuration may have changed since
                cores, memory_mib = self._taken[name]
                self._taken[name] = (cores + sign * holding.cores, memory_mib + sign * holding.memory_mib)
                if sign < 0:
                    self._may_be_free(self._numbers[name])

    def free_of(self, name: str) -> tuple[int, int]:
        """Say how many cores and MiB of a node nobody has."""
        node, (cores, memory_mib) = self.nodes[name], self._taken[name]
        return max(0, node.cores - cores), max(0, node.memory_mib - memory_mib)

    def any_nodes(self, vms: int, is_up: Callable[[str], bool]) -> tuple[str, ...]:
        """Choose nodes for VMs that may go anywhere; there has to be one that is up.

        It depends on nothing but who is where, so that a restart changes no choice.
        """
        chosen: Counter[str] = Counter()
        down: list[int] = []
        for _ in range(vms):
            chosen[self._any_node(chosen, is_up, down)] += 1
        for number in down:
            self._may_be_free(number)
        return tuple(chosen.elements())

    def _any_node(self, chosen: Mapping[str, int], is_up: Callable[[str], bool], down: list[int]) -> str:
        """The first node with a free core; where there is none, the one that has the fewest too few."""
        while self._perhaps_free:
            name = self._names[self._perhaps_free[0]]
            if is_up(name) and self.free_of(name)[0] > chosen[name]:
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

    def problem_with(self, wishes: MachineWishes, vms: int, memory_mib: int) -> Problem | None:
        """Say why VMs cannot be on the nodes that they name: never, or not now."""
        not_each = not_one_on_each(wishes, vms)
        if not_each is not None:
            return not_each
        problems = (self._too_small(name, wishes.cores or 1, memory_mib) for name in wishes.nodes)
        return next((problem for problem in problems if problem is not None), None)

    def _too_small(self, name: str, cores: int, memory_mib: int) -> Problem | None:
        node = self.nodes.get(name)
        if node is None:
            return Problem(f"there is no node {name} here", again=False)
        if cores > node.cores or memory_mib > node.memory_mib:
            has = f"{node.cores} cores and {node.memory_mib} MiB"
            return Problem(f"node {name} has {has}, and no {cores} and {memory_mib}", again=False)
        free_cores, free_mib = self.free_of(name)
        if cores > free_cores or memory_mib > free_mib:
            told = f"node {name} has {free_cores} cores and {free_mib} MiB free now"
            return Problem(told, full=True, nodes=(name,))
        return None
