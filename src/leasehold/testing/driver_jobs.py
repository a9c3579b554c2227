"""Conformance of drivers with job features: reporting nodes, running on them, returning output.

Part of `leasehold.testing.drivers`. Drivers that report no nodes, or keep no output, pass without a check.
"""

from dataclasses import replace

from leasehold.service.drivers.facts import HasNodes, HasOutput, NodeFacts, Output
from leasehold.service.drivers.protocol import Order, Phase, PlacementConstraints, Verb
from leasehold.testing.driver_rig import MEMORY_MIB, Rig, Site, order, played, site

FIRST, UNKNOWN = 1, 9


class JobConformance:
    """The tests for nodes, constraints and output; a subclass gives it a fixture ``rig``, new for each test."""

    @played
    async def test_nodes_have_names_of_their_own_and_no_more_free_than_there_is(self, rig: Rig) -> None:
        """What is found of them has to make sense to a planner."""
        async with site(rig) as here:
            nodes = await nodes_of(here)
            assert len({node.name for node in nodes}) == len(nodes)
            for node in nodes:
                assert 0 <= node.free_cores <= node.cores, node
                assert 0 <= node.free_memory_mib <= node.memory_mib, node
                assert 0 <= node.free_disk_mib <= node.disk_mib, node
                assert all(name == name.lower() for name, _ in node.software), node
                assert node.problem or not node.fault, node

    @played
    async def test_a_lease_takes_room_on_the_node_that_it_names(self, rig: Rig) -> None:
        """And gives it back when it goes."""
        async with site(rig) as here:
            for before in (await usable_nodes(here))[-1:]:
                await here.do(start_on(PlacementConstraints((before.name,), cores=1)))
                await here.until(Phase.RUNNING)
                await until_free(here, before, less_by_mib=MEMORY_MIB)
                await here.do(order(Verb.STOP))
                await here.until_gone()
                await until_free(here, before, less_by_mib=0)

    @played
    async def test_whoever_names_a_node_that_cannot_serve_is_refused_for_good(self, rig: Rig) -> None:
        """It is not there, or too small: waiting would not help."""
        async with site(rig) as here:
            for node in (await usable_nodes(here))[:1]:
                await is_never_taken_on(here, rig, PlacementConstraints(("no-such-node",)))
                await is_never_taken_on(here, rig, PlacementConstraints((node.name,), cores=node.cores + 1))
                await is_never_taken_on(here, rig, PlacementConstraints((node.name, node.name)))
                assert await here.driver.observe() == []

    @played
    async def test_what_a_command_wrote_is_brought_back_and_kept_when_it_is_over(self, rig: Rig) -> None:
        """The service may have been away when the lease ended, and when it went."""
        async with site(rig) as here:
            if has_output(here):
                await here.do(order(Verb.START, command=("echo", "forty", "two")))
                assert (await here.until(Phase.ENDED)).exit_status == 0
                assert await output_of(here, FIRST) == Output("forty two\n")
                await here.do(order(Verb.STOP))
                await here.until_gone()
                await here.crash()
                assert await output_of(here, FIRST) == Output("forty two\n")
                assert await output_of(here, UNKNOWN) == Output("")

    @played
    async def test_who_brings_output_back_also_knows_how_the_command_ended(self, rig: Rig) -> None:
        """An error of its own is no fault of its place; a command that is not there is."""
        async with site(rig) as here:
            if has_output(here):
                for lease_id, (status, fault) in enumerate([(3, ""), (127, "software-gone")], 1):
                    await here.do(order(Verb.START, lease_id, command=("sh", "-c", f"exit {status}")))
                    ended = await here.until(Phase.ENDED, lease_id)
                    assert (ended.exit_status, ended.fault) == (status, fault)


def start_on(constraints: PlacementConstraints) -> Order:
    """Order one machine of a certain kind."""
    return replace(order(Verb.START), constraints=constraints)


async def nodes_of(here: Site) -> list[NodeFacts]:
    """Look at the nodes of a site; none where it has none to tell of."""
    return await here.driver.nodes() if isinstance(here.driver, HasNodes) else []


async def usable_nodes(here: Site) -> list[NodeFacts]:
    """Look at the nodes on which a lease can be as they are."""
    return [node for node in await nodes_of(here) if node.runs and not node.problem]


async def until_free(here: Site, before: NodeFacts, less_by_mib: int) -> None:
    """Wait until so much less of a node is free than before; of its cores one less, or none."""
    expected = (before.free_cores - bool(less_by_mib), before.free_memory_mib - less_by_mib)
    free: tuple[int, int] = (-1, -1)
    async for node in here.looks_at(before.name):
        free = (node.free_cores, node.free_memory_mib)
        if free == expected:
            return
    raise AssertionError(f"{before.name} should have {expected} cores and MiB free, and has {free}")


async def is_never_taken_on(here: Site, rig: Rig, constraints: PlacementConstraints) -> None:
    """Check that a lease with these constraints is refused permanently, after any temporary refusals."""
    sent = start_on(constraints)
    for _ in range(rig.patience):
        problem = (await here.tell(sent)).get(sent.id)
        assert problem is not None, f"{constraints} was taken on"
        if not problem.again:
            return
        await rig.pass_time()
    raise AssertionError(f"{constraints} is refused as if it could be sent again: {problem}")


def has_output(here: Site) -> bool:
    """Whether commands run here, and what they write is kept."""
    return isinstance(here.driver, HasOutput) and here.driver.capabilities.commands


async def output_of(here: Site, lease_id: int) -> Output:
    """Give what is kept of what a lease's command wrote."""
    assert isinstance(here.driver, HasOutput)
    return await here.driver.output(lease_id)
