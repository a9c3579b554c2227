"""Co-allocations over sites with managers: all or none, though anybody dies and lines are cut at any step."""

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.searching import examples
from tests.service.messages.line import FAR, World, rows_of

from leasehold.model.coallocation import Claim, CoAllocationRequest, CoAllocationState, Component, Promise
from leasehold.model.lease import LeaseState
from leasehold.model.reason import Reason
from leasehold.service.commands import CancelCoAllocation, SubmitCoAllocation
from leasehold.service.messages.endpoints import GATEWAY
from leasehold.service.store.rows import CoAllocationRow, LeaseRow

STEPS = 10
"""More exchanges than it takes until all have promised, committed and confirmed."""

RUNS_MS = 20_000
C, S = CoAllocationState, LeaseState


def part(vms: int, site: str = "") -> Component:
    return Component(vms, RUNS_MS, site, memory_mib=64)


class Story:
    """A co-allocation over the gateway's own site and those of both managers; all of them are free."""

    def __init__(
        self, folder: Path, *parts: Component, claim: Claim = Claim.RESERVATION, tries: int = 3, home_slots: int = 2
    ) -> None:
        self.world = World(folder, home_slots=home_slots)
        for name in FAR:
            self.world.exchange(name)
        parts = parts or (part(2, "home"), part(3, "far"), part(2, "north"))
        request = CoAllocationRequest(0, parts, 0, 0, 0, "physics", claim=claim, tries=tries)
        [(row, _)] = self.world.gateway.do(SubmitCoAllocation(request, "both", ("sleep", "20"), "", ""))
        self.number = row.coallocation.id

    def row(self) -> CoAllocationRow:
        row = self.world.gateway.store.coallocation(self.number)
        assert row is not None
        return row

    def state(self) -> CoAllocationState:
        return self.row().coallocation.state

    def promises(self) -> list[str]:
        return [one.promise.value for one in self.row().coallocation.parts]

    def guests(self) -> list[LeaseRow]:
        """What both managers have of it."""
        return [row for name in FAR for row in rows_of(self.world.sites[name]) if row.metadata.origin]

    def step(self, number: int, for_ms: int = 100) -> None:
        """One exchange with each of the sites in turn, and some time."""
        self.world.exchange([*FAR][number % len(FAR)])
        self.world.pass_time(for_ms)
        self.world.check()

    def end(self) -> None:
        """The line is whole, everything ends, nothing is left anywhere, and everybody agrees on that."""
        self.world.make_whole()
        self.world.check()
        self.world.check_that_nothing_ran_twice()
        assert self.world.is_quiet()
        assert self.state().is_final
        for live in self.world.lives:
            assert not live.gateway.prepared.leases
            assert not live.gateway.coallocations.open
            assert all(row.lease.state.is_final for row in rows_of(live))
        has_run = [row for row in self.guests() if row.lease.first_start_ms >= 0]
        assert all(row.lease.request.prepared_until_ms is None for row in has_run), "it ran, and was not committed"
        if self.state() is C.COMPLETED:
            done = [row.metadata.origin_id for row in self.guests() if row.lease.state is S.COMPLETED]
            assert {part.lease_id for part in self.row().coallocation.parts if part.promise} <= set(done)


@pytest.fixture
def story(tmp_path: Path) -> Iterator[Story]:
    one = Story(tmp_path)
    yield one
    one.world.close()


def test_all_sites_promise_then_commit_and_then_all_run(story: Story) -> None:
    assert (story.state(), story.promises()) == (C.PREPARING, ["", "asked", "asked"])
    story.step(0)
    [asked] = story.guests()
    assert asked.lease.request.prepared_until_ms == asked.lease.request.ready_ms == story.row().coallocation.start_ms
    story.step(1)
    story.step(0)
    assert (story.state(), story.promises()) == (C.PREPARING, ["", "prepared", "asked"])
    story.step(1)
    assert story.promises() == ["", "committing", "committing"]
    for number in range(4):
        story.step(number)
    assert (story.state(), story.promises()) == (C.RESERVED, ["", "committed", "committed"])
    assert all(row.lease.request.prepared_until_ms is None for row in story.guests())
    story.world.pass_time(31_000)
    assert story.state() is C.RUNNING
    assert {row.lease.state for row in story.guests()} == {S.RUNNING}
    starts_ms = {row.lease.reserved_ms for row in story.guests()}
    assert starts_ms == {story.row().coallocation.start_ms}
    story.end()
    assert story.state() is C.COMPLETED
    assert {row.lease.state for row in story.guests()} == {S.COMPLETED}


def test_what_is_claimed_at_once_asks_managers_where_own_sites_have_no_room(tmp_path: Path) -> None:
    story = Story(tmp_path, part(2), part(2), claim=Claim.INCREMENTAL)
    assert story.state() is C.PREPARING
    story.end()
    assert story.state() is C.COMPLETED
    story.world.close()


def test_a_site_that_promises_nothing_lets_the_others_go(tmp_path: Path) -> None:
    story = Story(tmp_path, tries=1)
    story.world.submit_at("north", 3, 90_000)
    for number in range(6):
        story.step(number)
    assert (story.state(), story.row().coallocation.reason) == (C.REFUSED, Reason.NO_ROOM_AT_READY_TIME)
    story.end()
    at_far = [row for row in story.guests() if row.lease.request.vms == 3]
    assert [(row.lease.state, row.metadata.reason) for row in at_far] == [(S.CANCELLED, "cancelled-by-user")]


def test_a_promise_that_nobody_commits_expires_at_the_site_and_at_the_gateway(story: Story) -> None:
    story.step(0)
    story.world.on_the_line.clear()
    story.world.pass_time(31_000)
    [left] = story.guests()
    assert (left.lease.state, left.metadata.reason) == (S.CANCELLED, Reason.PROMISE_EXPIRED)
    assert story.state() is C.HELD
    story.end()
    assert story.state() is C.COMPLETED, "it is tried again"


def test_a_commit_that_comes_too_late_is_none(story: Story) -> None:
    for number in range(4):
        story.step(number)
    assert story.promises() == ["", "committing", "committing"]
    story.world.exchange("far")
    story.world.pass_time(31_000)
    assert story.state() is C.HELD, "north never confirmed"
    story.end()
    assert story.state() is C.COMPLETED


def test_one_at_managers_alone_begins_after_a_restart_though_nothing_tells_of_it(tmp_path: Path) -> None:
    story = Story(tmp_path, part(2, "far"), part(1, "north"))
    for number in range(STEPS):
        story.step(number)
    assert (story.state(), story.promises()) == (C.RESERVED, ["committed", "committed"])
    story.world.restart(GATEWAY)
    story.world.on_the_line.clear()
    story.world.pass_time(31_000)  # no report comes
    assert story.state() is C.RUNNING
    story.world.gateway.engine.check()
    story.end()
    assert story.state() is C.COMPLETED
    story.world.close()


@pytest.mark.storm
def test_its_user_may_cancel_it_at_any_step(tmp_path: Path) -> None:
    for cancelled_at in range(STEPS):
        folder = tmp_path / str(cancelled_at)
        folder.mkdir()
        story = Story(folder)
        for number in range(cancelled_at):
            story.step(number)
        story.world.gateway.do(CancelCoAllocation(story.number))
        assert story.state() is C.CANCELLED
        story.end()
        assert not any(row.lease.state is S.COMPLETED for row in story.guests())
        story.world.close()


@pytest.mark.storm
@pytest.mark.parametrize("who", [GATEWAY, "far", "north"])
@pytest.mark.parametrize("lost", [False, True], ids=["killed", "cut-off"])
def test_whoever_is_killed_at_whatever_step_nothing_is_left_behind(
    tmp_path: Path,
    who: str,
    lost: bool,  # noqa: FBT001 - it is a case
) -> None:
    for killed_at in range(STEPS):
        folder = tmp_path / str(killed_at)
        folder.mkdir()
        story = Story(folder)
        for number in range(STEPS):
            if number == killed_at:
                story.world.interrupt(who, [*FAR][number % len(FAR)], lost=lost)
                story.world.check()
            else:
                story.step(number)
        story.end()
        assert story.state() is C.COMPLETED
        ran = [row for row in story.guests() if row.lease.state is S.COMPLETED]
        assert len(ran) == len(FAR)
        story.world.close()


_ACTIONS = st.sampled_from(
    [
        "call far",
        "call north",
        "deliver",
        "deliver again",
        "lose",
        "kill gateway",
        "kill far",
        "kill north",
        "1 s",
        "10 s",
        "30 s",
        "owner far",
    ]
)


@given(st.lists(st.tuples(_ACTIONS, st.integers(0, 9)), max_size=40))
@settings(max_examples=examples(30))
def test_whatever_the_line_does_all_run_together_or_none_is_left_with_anything(actions: list[tuple[str, int]]) -> None:
    with TemporaryDirectory() as folder:
        story = Story(Path(folder))
        world = story.world
        for action, which in actions:
            what, _, name = action.partition(" ")
            if what == "call":
                world.call(name)
            elif what in ("deliver", "lose") and world.on_the_line:
                index = which % len(world.on_the_line)
                if what == "lose":
                    world.on_the_line.pop(index)
                else:
                    world.deliver(index, again=name == "again")
            elif what == "kill":
                (world.gateway if name == GATEWAY else world.sites[name]).restart()
            elif what == "owner":
                world.submit_at(name, FAR[name], 15_000)
            elif name == "s":
                world.pass_time(int(what) * 1_000)
            world.check()
            if story.state() is C.RUNNING:
                committed = [one for one in story.row().coallocation.parts if one.promise]
                assert all(one.promise is Promise.COMMITTED for one in committed)
        story.end()
        world.close()
