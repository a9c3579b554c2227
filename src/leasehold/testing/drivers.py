"""What every driver keeps to: a suite of tests, to be run on each kind of them.

::

    class TestMine(DriverConformance):
        @pytest.fixture
        def rig(self, tmp_path: Path) -> Rig:
            return MyRig(tmp_path)

A `Rig` says how to make the driver of a site, how to kill it and how to let time pass. Nothing here asks for
exact times, so that slow machines pass as well as quick ones. What a driver says that it cannot do, it must
refuse, and is then not tested further. For readable failures, put
``pytest.register_assert_rewrite("leasehold.testing.drivers", "leasehold.testing.driver_rig",
"leasehold.testing.drivers")`` into your ``conftest.py``, before anything imports this.
"""

from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from leasehold.service.drivers.facts import HasNodes, HasOutput, NodeFacts, Output
from leasehold.service.drivers.protocol import Order, Phase, PlacementConstraints, Verb
from leasehold.testing.driver_rig import LIES, MEMORY_MIB, CanLie, Rig, Site, order, played, site

FIRST, UNKNOWN = 1, 9


class JobConformance:
    """The tests for nodes, constraints and output; a subclass gives it a fixture ``rig``, new for each test.

    ``least_memory_mib``  what a machine takes of its node's memory for a lease of MEMORY_MIB: more where images do
    """

    least_memory_mib = MEMORY_MIB

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
                assert len(node.free_gpus) == node.gpus, node
                assert all(name == name.lower() for name, _ in node.software), node
                assert node.problem or not node.fault, node

    @played
    async def test_a_lease_takes_room_on_the_node_that_it_names(self, rig: Rig) -> None:
        """And gives it back when it goes."""
        async with site(rig) as here:
            for before in (await usable_nodes(here))[-1:]:
                await here.do(start_on(PlacementConstraints((before.name,), cores=1)))
                await here.until(Phase.RUNNING)
                await until_free(here, before, less_by_mib=self.least_memory_mib)
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
        """A command's own error is not a fault of its node; a missing command is."""
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


UP = frozenset({Phase.STARTING, Phase.RUNNING, Phase.RESUMING, Phase.RECEIVING})
FIRST, SECOND, LATER = 1, 2, 9


# --- naps: commands that sleep, which show whether work continues where it was interrupted ----------------------------
#
# On a computer that stalls, a nap may be over before it could be interrupted. Such an attempt shows nothing, and is
# repeated with a longer nap. A driver that always loses work fails in each of them; one that loses work only sometimes
# may pass, so a driver of real machines should also have tests in which a guest counts.

TIMES_AS_LONG: Final = (1, 2, 3)
"""How long the naps of one try after the other are, in naps of the rig."""

_CLEARLY_LESS: Final = 0.8
"""Of the time that a whole nap takes, when half of it was over."""

_WHOLE, _CUT, _MEANWHILE, _AFTERWARDS = 1, 2, 3, 4
_LEASES_OF_A_TRY: Final = 4


@dataclass(frozen=True)
class Nap:
    """A nap that is cut in two halves.

    ``whole_s``          how long it is
    ``reference_mips``   the speed that work units are counted by
    ``leases_before``    how many leases the tries before this one had
    """

    whole_s: int
    reference_mips: int
    leases_before: int

    @property
    def command(self) -> tuple[str, int]:
        """What the machines run that are disturbed."""
        return "sleep", self.whole_s

    @property
    def lease_id(self) -> int:
        """Whose machines are disturbed."""
        return self.leases_before + _CUT

    @property
    def half_the_work(self) -> int:
        """Give half the work of the nap, in work units."""
        return self.whole_s * 1000 * self.reference_mips // 2

    async def taken_whole(self, here: Site) -> int:
        """Let another lease sleep for as long, undisturbed; say for how many ms it ran, 0 if unseen."""
        return await self._slept(here, _WHOLE, self.whole_s)

    async def half_slept(self, here: Site) -> None:
        """Start the machines that will be disturbed, and others that sleep half as long; wait for those."""
        await here.do(order(Verb.START, self.lease_id, command=self.command))
        await self._slept(here, _MEANWHILE, self.whole_s / 2)

    async def outlasted(self, here: Site) -> None:
        """Let a whole nap's time go by."""
        await self._slept(here, _AFTERWARDS, self.whole_s)

    async def _slept(self, here: Site, which: int, seconds: float) -> int:
        lease_id = self.leases_before + which
        await here.do(order(Verb.START, lease_id, command=("sleep", seconds)))
        took_ms = await here.runs_for_ms(lease_id)
        await here.do(order(Verb.STOP, lease_id))
        return took_ms


def is_a_rest(rest_ms: int, whole_ms: int) -> bool:
    """Say whether a nap was clearly shorter than a whole one; both are 0 where its beginning was not seen."""
    return 0 < rest_ms < _CLEARLY_LESS * whole_ms


async def goes_on_in_some_nap(rig: Rig, goes_on_in: Callable[[Nap], Awaitable[bool]]) -> None:
    """Check that work continues where it was interrupted in at least one nap; each is longer than the last."""
    for number, times in enumerate(TIMES_AS_LONG):
        if await goes_on_in(Nap(rig.nap_s * times, rig.reference_mips, number * _LEASES_OF_A_TRY)):
            return
    raise AssertionError(f"work restarted, or ended too soon, in each of {len(TIMES_AS_LONG)} naps")


# --- the suite ----------------------------------------------------------------------------------------------------


class DriverConformance(JobConformance):
    """The suite. A subclass gives it a fixture ``rig``, new for each test."""

    # starting and ending

    @played
    async def test_machines_start_and_run_until_they_are_stopped(self, rig: Rig) -> None:
        """START without a command, STOP: the whole of the simplest life."""
        async with site(rig) as here:
            await here.do(order(Verb.START))
            running = await here.until(Phase.RUNNING)
            assert (running.lease_id, running.incarnation) == (1, FIRST)
            await here.stays(running)
            await here.do(order(Verb.STOP))
            await here.until_gone()
            await here.stays(None)

    @played
    async def test_a_command_that_is_done_has_ended_and_stays_so_until_stop(self, rig: Rig) -> None:
        """A service that was away when it ended must still be able to see that."""
        async with site(rig) as here:
            if not here.driver.capabilities.commands:
                await here.refuses(order(Verb.START, command=("sleep", 1)))
                return
            await here.do(order(Verb.START, command=("sleep", 1)))
            ended = await here.until(Phase.ENDED)
            await here.stays(ended)
            await here.do(order(Verb.STOP))
            await here.until_gone()

    @played
    async def test_a_lease_may_come_again_as_a_later_incarnation(self, rig: Rig) -> None:
        """What is remembered of one that was stopped keeps none of the later ones away."""
        async with site(rig) as here:
            await here.do(order(Verb.START), order(Verb.STOP), order(Verb.START, incarnation=SECOND))
            assert (await here.until(Phase.RUNNING)).incarnation == SECOND

    @played
    async def test_stopping_what_is_not_there_is_done_at_once(self, rig: Rig) -> None:
        """There is no problem: what it asks for is so."""
        async with site(rig) as here:
            await here.do(order(Verb.STOP))
            assert await here.driver.observe() == []

    # saving memory

    @played
    async def test_memory_is_saved_and_brought_back(self, rig: Rig) -> None:
        """SUSPEND and RESUME, the latter as the next incarnation."""
        async with site(rig) as here:
            await here.do(order(Verb.START))
            await here.until(Phase.RUNNING)
            if not here.driver.capabilities.suspend:
                await here.refuses(order(Verb.SUSPEND))
                await here.refuses(order(Verb.RESUME, incarnation=SECOND))
                return
            await here.do(order(Verb.SUSPEND))
            saved = await here.until(Phase.SAVED)
            assert saved.incarnation == FIRST
            await here.stays(saved)
            await here.do(order(Verb.RESUME, incarnation=SECOND))
            assert (await here.until(Phase.RUNNING)).incarnation == SECOND

    @played
    async def test_work_goes_on_where_it_was_suspended(self, rig: Rig) -> None:
        """Saved machines do not work, and resumed ones do not start from the beginning."""
        async with site(rig) as here:
            if here.driver.capabilities.suspend and here.driver.capabilities.commands:
                await goes_on_in_some_nap(rig, partial(goes_on_after_a_suspension, here))

    @played
    async def test_what_ended_before_it_could_be_saved_has_ended_when_it_is_resumed(self, rig: Rig) -> None:
        """It has nothing left to save, and its work was done: that must not count as lost."""
        async with site(rig) as here:
            if not (here.driver.capabilities.suspend and here.driver.capabilities.commands):
                return
            await here.do(order(Verb.START, command=("sleep", 1)))
            await here.until(Phase.ENDED)
            await here.do(order(Verb.SUSPEND), order(Verb.RESUME, incarnation=SECOND))
            assert (await here.until(Phase.ENDED)).incarnation == SECOND

    @played
    async def test_saved_machines_leave_their_room_to_others(self, rig: Rig) -> None:
        """A lease ordered to start after SUSPEND starts; RESUME needs room like any other order."""
        async with site(rig) as here:
            if not here.driver.capabilities.suspend:
                return
            await here.do(order(Verb.START, 1, vms=rig.slots))
            await here.until(Phase.RUNNING, 1)
            await here.do(order(Verb.SUSPEND, 1, vms=rig.slots), order(Verb.START, 2, vms=rig.slots))
            await here.until(Phase.RUNNING, 2)
            await here.until(Phase.SAVED, 1)
            await here.has_no_room_for(order(Verb.RESUME, 1, SECOND, vms=rig.slots))

    # moving

    @played
    async def test_machines_go_on_at_another_site(self, rig: Rig) -> None:
        """SEND here and RECEIVE there: nothing stays here, and the work continues there."""
        async with site(rig, "a") as here, site(rig, "b") as there:
            able = here.driver.capabilities
            if not able.migrate:
                await here.refuses(order(Verb.SEND, other_site="b"))
                await there.refuses(order(Verb.RECEIVE, other_site="a"))
            if able.migrate and able.commands:
                await goes_on_in_some_nap(rig, partial(goes_on_after_a_move, here, there))

    @played
    async def test_what_ended_before_it_could_be_sent_has_ended_where_it_is_received(self, rig: Rig) -> None:
        """It has nothing left to send, and its work was done: that must not be lost, or done again."""
        async with site(rig, "a") as here, site(rig, "b") as there:
            able, command = here.driver.capabilities, ("sleep", 1)
            if able.migrate and able.commands:
                await here.do(order(Verb.START, command=command))
                await here.until(Phase.ENDED)
                await here.do(order(Verb.SEND, other_site="b"))
                await there.do(order(Verb.RECEIVE, incarnation=SECOND, command=command, other_site="a"))
                assert (await there.until(Phase.ENDED)).incarnation == SECOND
                await here.until_gone()

    @played
    async def test_what_was_sent_away_never_starts_again(self, rig: Rig) -> None:
        """Nor does what was received and sent on: a lease is at one site."""
        async with site(rig, "a") as here:
            if not here.driver.capabilities.migrate:
                return
            await here.do(order(Verb.START), order(Verb.SEND, other_site="b"))
            await here.refuses(order(Verb.START))
            await here.until_gone()
            await here.crash()
            await here.refuses(order(Verb.START))
            await here.stays(None)

    # repeated orders

    @played
    async def test_whatever_is_told_twice_is_done_once(self, rig: Rig) -> None:
        """A lease whose orders come three times lives as if they came once."""
        async with site(rig) as here:
            for step, then in life_of_a_lease(here):
                await here.do(step)
                seen = await here.until(then)
                await here.do(step, step)
                await here.stays(seen)
            await here.do(order(Verb.STOP, incarnation=LATER), order(Verb.STOP, incarnation=LATER))
            await here.until_gone()

    @played
    async def test_whatever_is_told_again_after_a_crash_is_done_once(self, rig: Rig) -> None:
        """The service sends all of its open orders again after a restart."""
        async with site(rig) as here:
            sent: list[Order] = []
            for step, then in life_of_a_lease(here):
                sent.append(step)
                await here.do(step)
                seen = await here.until(then)
                await here.crash()
                await here.do(*sent)
                await here.stays(seen)

    @played
    async def test_the_same_order_twice_in_one_breath_is_one_order(self, rig: Rig) -> None:
        """Else the second would find no room."""
        async with site(rig) as here:
            start = order(Verb.START, vms=rig.slots)
            await here.tell(start, start)
            await here.do(start)
            await here.stays(await here.until(Phase.RUNNING))

    # orders that come too late

    @played
    async def test_what_was_stopped_never_starts_again(self, rig: Rig) -> None:
        """A late copy of START boots nothing, not even after a crash; whoever waits for it is told so."""
        async with site(rig) as here:
            await here.do(order(Verb.START), order(Verb.STOP))
            await here.refuses(order(Verb.START))
            await here.until_gone()
            await here.crash()
            await here.refuses(order(Verb.START))
            await here.stays(None)

    @played
    async def test_a_stop_that_overtakes_its_start_prevents_it(self, rig: Rig) -> None:
        """And those of all incarnations before."""
        async with site(rig) as here:
            await here.do(order(Verb.STOP, incarnation=SECOND))
            await here.refuses(order(Verb.START, incarnation=SECOND))
            await here.refuses(order(Verb.START))
            await here.stays(None)

    @played
    async def test_an_order_for_an_earlier_incarnation_does_nothing(self, rig: Rig) -> None:
        """It speaks of machines that are no more."""
        async with site(rig) as here:
            await here.do(order(Verb.START), order(Verb.STOP), order(Verb.START, incarnation=SECOND))
            running = await here.until(Phase.RUNNING)
            await here.do(order(Verb.STOP), order(Verb.START))
            if here.driver.capabilities.suspend:
                await here.do(order(Verb.SUSPEND))
            await here.stays(running)

    # room

    @played
    async def test_who_finds_no_room_is_told_so_and_comes_in_later(self, rig: Rig) -> None:
        """The refusal is temporary: the order may be sent again, and is taken on when there is room."""
        async with site(rig) as here:
            await here.do(order(Verb.START, 1, vms=rig.slots - 1), order(Verb.START, 2))
            await here.until(Phase.RUNNING, 1)
            await here.until(Phase.RUNNING, 2)
            await here.has_no_room_for(order(Verb.START, 3))
            await here.do(order(Verb.STOP, 2), order(Verb.START, 3))
            await here.until(Phase.RUNNING, 3)
            up = {one.lease_id for one in await here.driver.observe() if one.phase in UP}
            assert up == {1, 3}

    # machines that lie

    @played
    async def test_a_machine_that_lies_harms_nobody_else(self, rig: Rig) -> None:
        """Whatever it says: the others of its site are started and stopped, and so is it."""
        if not isinstance(rig, CanLie):
            return
        async with site(rig) as here:
            for number, report in enumerate(LIES):
                liar, other, newcomer = (3 * number + one for one in (1, 2, 3))
                await here.do(*(order(Verb.START, one, command=("sleep", 600)) for one in (liar, other)))
                await here.until(Phase.RUNNING, liar)
                await here.until(Phase.RUNNING, other)
                rig.lie(liar, report)
                await here.do(order(Verb.STOP, other), order(Verb.START, newcomer, command=("sleep", 600)))
                await here.until_gone(other)
                await here.until(Phase.RUNNING, newcomer)
                await here.do(order(Verb.STOP, liar), order(Verb.STOP, newcomer))
                await here.until_gone(liar)
                await here.until_gone(newcomer)

    # crashes of the driver

    @played
    async def test_machines_go_on_while_their_driver_is_dead(self, rig: Rig) -> None:
        """The next driver finds them as they are, since when they are."""
        async with site(rig) as here:
            await here.do(order(Verb.START))
            running = await here.until(Phase.RUNNING)
            await here.crash()
            await here.stays(running)

    @played
    async def test_what_ends_while_the_driver_is_dead_has_ended_afterwards(self, rig: Rig) -> None:
        """The driver need not run when a command ends."""
        async with site(rig) as here:
            if here.driver.capabilities.commands:
                await here.do(order(Verb.START, command=("sleep", 1)))
                await here.crash()
                await here.until(Phase.ENDED)

    # what can be seen

    @played
    async def test_changes_tell_what_can_be_observed(self, rig: Rig) -> None:
        """Changes report, in the end, what observation shows."""
        async with site(rig) as here, here.listening() as heard:
            await here.do(order(Verb.START, 1), order(Verb.START, 2))
            await here.until(Phase.RUNNING, 1)
            await here.until(Phase.RUNNING, 2)
            await here.until_told(heard)

    @played
    async def test_nothing_is_missed_by_who_stops_listening_for_a_while(self, rig: Rig) -> None:
        """`changes` is cancelled and called again as it suits the listener."""
        async with site(rig) as here:
            async with here.listening():
                await rig.pass_time()
            await here.do(order(Verb.START))
            await here.until(Phase.RUNNING)
            async with here.listening() as heard:
                await here.until_told(heard)

    @played
    async def test_the_console_says_something_or_nothing(self, rig: Rig) -> None:
        """And nothing of a lease that is not known here."""
        async with site(rig) as here:
            await here.do(order(Verb.START))
            await here.until(Phase.RUNNING)
            assert isinstance(await here.driver.console(1), str)
            assert not await here.driver.console(LATER)


async def goes_on_after_a_suspension(here: Site, nap: Nap) -> bool:
    """Save machines in the midst of a nap and resume them; say whether they sleep only for the rest of it."""
    whole_ms = await nap.taken_whole(here)
    await nap.half_slept(here)
    await here.do(order(Verb.SUSPEND, nap.lease_id))
    saved = await here.until_any({Phase.SAVED, Phase.ENDED}, nap.lease_id)
    await nap.outlasted(here)
    assert await here.seen(nap.lease_id) == saved, "its work went on while it was saved"
    await here.do(order(Verb.RESUME, nap.lease_id, SECOND, work_done=nap.half_the_work))
    rest_ms = await here.runs_for_ms(nap.lease_id)
    await here.do(order(Verb.STOP, nap.lease_id, SECOND))
    return saved.phase is Phase.SAVED and is_a_rest(rest_ms, whole_ms)


async def goes_on_after_a_move(here: Site, there: Site, nap: Nap) -> bool:
    """Move machines in the midst of a nap; say whether they sleep on there only for the rest of it."""
    whole_ms = await nap.taken_whole(here)
    await nap.half_slept(here)
    half = nap.half_the_work
    await here.do(order(Verb.SEND, nap.lease_id, other_site="b"))
    await there.do(order(Verb.RECEIVE, nap.lease_id, SECOND, command=nap.command, work_done=half, other_site="a"))
    await here.until_gone(nap.lease_id)
    rest_ms = await there.runs_for_ms(nap.lease_id)
    assert (await there.until(Phase.ENDED, nap.lease_id)).incarnation == SECOND
    await there.do(order(Verb.STOP, nap.lease_id, SECOND))
    return is_a_rest(rest_ms, whole_ms)


def life_of_a_lease(here: Site) -> Iterator[tuple[Order, Phase]]:
    """Give the orders that a lease meets in its life at one site, each with the phase that it leads to."""
    yield order(Verb.START), Phase.RUNNING
    if here.driver.capabilities.suspend:
        yield order(Verb.SUSPEND), Phase.SAVED
        yield order(Verb.RESUME, incarnation=SECOND), Phase.RUNNING
