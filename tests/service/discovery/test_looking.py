"""Looking at a site: what is seen of it is told, of a large one in parts."""

import asyncio
from dataclasses import replace

import pytest
from tests.service.discovery.pretend import NODE

from leasehold.service.commands import Command, JobNodesSeen
from leasehold.service.config import JobsSpec
from leasehold.service.discovery import SiteDiscovery
from leasehold.service.drivers.facts import NodeFacts
from leasehold.service.engine.nodes import NODE_BATCH


class Nodes:
    """Machines with so many nodes."""

    def __init__(self, count: int) -> None:
        self.there = [replace(NODE, name=f"n{number}") for number in range(count)]

    async def nodes(self) -> list[NodeFacts]:
        return self.there


@pytest.mark.parametrize("count", [0, 1, NODE_BATCH, NODE_BATCH + 1, 3 * NODE_BATCH])
def test_no_part_is_larger_than_what_is_taken_in_at_once(count: int) -> None:
    heard: list[Command] = []

    async def hear(command: Command) -> None:
        heard.append(command)

    machines = Nodes(count)
    asyncio.run(SiteDiscovery("a", machines, hear, lambda: 7, JobsSpec()).look())  # type: ignore[arg-type]
    parts = [command for command in heard if isinstance(command, JobNodesSeen)]
    assert parts == heard
    assert [node for part in parts for node in part.nodes] == [
        replace(node, takes_files=False) for node in machines.there
    ], "these machines take no files"
    assert all(len(part.nodes) <= NODE_BATCH and part.asked_ms == 7 for part in parts)
    names = frozenset(node.name for node in machines.there)
    assert {part.names for part in parts} == ({names} if len(parts) > 1 else {None})
