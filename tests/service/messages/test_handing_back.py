"""A guest moves between sites with managers, though each of the three dies, and lines are cut, at each step."""

from pathlib import Path

import pytest
from tests.service.messages.line import FAR, World, rows_of

from leasehold.model.lease import LeaseState
from leasehold.model.request import LeaseType
from leasehold.service.messages.endpoints import GATEWAY

STEPS = 12
"""More than the story takes until the guest runs again."""


class Story:
    """A guest runs at ``far`` until an owner takes all of that, for longer than it can wait; ``north`` is free."""

    def __init__(self, folder: Path) -> None:
        self.world = world = World(folder, home_slots=1)
        for name in FAR:
            world.exchange(name)
        world.drain_or_resume("north")
        world.exchange("north")
        self.lease_id = world.submit(LeaseType.MIGRATABLE, 3, 20_000, within_ms=60_000).lease.id
        for _ in range(2):
            world.exchange("far")
            world.pass_time(100)
        assert self.at() == ("running", "far")
        world.drain_or_resume("north")
        world.exchange("north")
        world.pass_time(5_000)
        world.submit_at("far", 4, 65_000)

    def at(self) -> tuple[str, str]:
        row = self.world.gateway.store.lease(self.lease_id)
        assert row is not None
        return row.lease.state, row.lease.site

    def step(self, number: int) -> None:
        """One exchange with each of the sites in turn, and some time."""
        self.world.exchange([*FAR][number % len(FAR)])
        self.world.pass_time(100)
        self.world.check()

    def end(self) -> None:
        self.world.make_whole()
        self.world.check()
        self.world.check_that_all_agree()
        self.world.check_that_nothing_ran_twice()
        assert self.at() == ("completed", "north")
        row = self.world.gateway.store.lease(self.lease_id)
        assert row is not None
        lease = row.lease
        assert (lease.preemptions, lease.migrations, lease.handed_back, lease.restarts) == (1, 1, 1, 0)
        [left] = [one for one in rows_of(self.world.sites["far"]) if one.metadata.origin]
        assert (left.lease.state, left.metadata.reason) == (LeaseState.CANCELLED, "handed-back")


def test_it_continues_there_with_the_rest_of_its_work(tmp_path: Path) -> None:
    story = Story(tmp_path)
    for number in range(STEPS):
        story.step(number)
    state, site = story.at()
    assert (state, site) == ("running", "north")
    told = [row.reason for row in story.world.gateway.store.journal(0, 1000, lease_id=story.lease_id)]
    assert "handed-back" in told
    story.end()
    story.world.close()


@pytest.mark.storm
@pytest.mark.parametrize("who", [GATEWAY, "far", "north"])
@pytest.mark.parametrize("lost", [False, True], ids=["killed", "cut-off"])
def test_whoever_is_killed_at_whatever_step_nothing_is_lost_and_nothing_runs_twice(
    tmp_path: Path,
    who: str,
    lost: bool,  # noqa: FBT001 - it is a case
) -> None:
    for killed_at in range(0, STEPS, 2):
        folder = tmp_path / str(killed_at)
        folder.mkdir()
        story = Story(folder)
        for number in range(STEPS):
            if number == killed_at:
                story.world.interrupt(who, [*FAR][number % len(FAR)], lost=lost)
            story.step(number)
        story.end()
        story.world.close()
