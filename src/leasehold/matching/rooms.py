"""Does a plan still fit? Nodes with what is free on them; a plan is carried out whole, or answered *not now*.

Plans are made on what was seen a moment ago. Whoever commits one here can never give a core or a MiB
twice: each node is checked again, and if one has no room after all, none of the plan is carried out.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from leasehold.matching.amounts import Amounts
from leasehold.matching.capabilities import Node
from leasehold.matching.verdict import FITS, Verdict, Why, wait
from leasehold.model.errors import InvalidField


class Rooms:
    """What is free on each node, and who has the rest. Raises InvalidField for two nodes of one name."""

    def __init__(self, nodes: Iterable[Node]) -> None:
        self._nodes: dict[str, Node] = {}
        for node in nodes:
            if node.name in self._nodes:
                raise InvalidField("node", node.name, "a name that no other node has")
            self._nodes[node.name] = node
        self._held: dict[tuple[int, str], Amounts] = {}

    def node(self, name: str) -> Node:
        """Give a node as it is now. Raises KeyError for one that nobody knows."""
        return self._nodes[name]

    def commit(self, job_id: int, plan: Mapping[str, Amounts]) -> Verdict:
        """Give a job what its plan says on each node, or nothing; a node that is gone is in use too.

        Raises InvalidField for a job that holds something on one of these nodes already.
        """
        for name, amounts in plan.items():
            if (job_id, name) in self._held:
                raise InvalidField("job_id", job_id, f"a job that holds nothing on {name}")
            if name not in self._nodes or not self._nodes[name].free.holds(amounts):
                return wait(Why.TAKEN_BY_OTHERS, name)
        for name, amounts in plan.items():
            self._take(job_id, name, amounts)
        return FITS

    def _take(self, job_id: int, name: str, amounts: Amounts) -> None:
        node = self._nodes[name]
        self._nodes[name] = replace(node, free=node.free - amounts)
        self._held[job_id, name] = amounts

    def give_back(self, job_id: int) -> list[str]:
        """Free whatever a job holds; the nodes' names. Nothing happens where it holds nothing."""
        names = [name for holder, name in self._held if holder == job_id]
        for name in names:
            node = self._nodes[name]
            self._nodes[name] = replace(node, free=node.free + self._held.pop((job_id, name)))
        return names
