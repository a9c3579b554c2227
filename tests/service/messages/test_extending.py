"""A site with a manager extends a lease, though either of the two dies, and the line is cut, at each step."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.service.messages.line import World, rows_of

from leasehold.model.errors import InvalidField
from leasehold.model.lease import LeaseState
from leasehold.model.request import MOST_DURATION_MS, LeaseType
from leasehold.service.commands import Extend
from leasehold.service.errors import CannotExtend
from leasehold.service.messages import wire
from leasehold.service.messages.endpoints import GATEWAY
from leasehold.service.store.rows import JournalRow, LeaseRow

STEPS = 4
"""Exchanges until the order is obeyed, its answer known, and both are acknowledged."""
RUNS_MS, LONGER_MS = 12_000, 6_000


class Story:
    """A guest has run for a second at ``far``, which alone has room for it, and its user wants it to run longer."""

    def __init__(self, folder: Path) -> None:
        self.world = world = World(folder, home_slots=1)
        world.exchange("far")
        self.lease_id = world.submit(LeaseType.NON_PREEMPTABLE, 3, RUNS_MS).lease.id
        for _ in range(2):
            world.exchange("far")
            world.pass_time(500)
        assert self.here().lease.state is LeaseState.RUNNING

    def here(self) -> LeaseRow:
        row = self.world.gateway.store.lease(self.lease_id)
        assert row is not None
        return row

    def there(self) -> LeaseRow:
        [row] = [row for row in rows_of(self.world.sites["far"]) if row.metadata.origin]
        return row

    def durations_ms(self) -> tuple[int, int]:
        return self.here().lease.request.duration_ms, self.there().lease.request.duration_ms

    def decisions(self) -> list[JournalRow]:
        lines = self.world.gateway.store.tail(self.lease_id, 1_000)
        return [line for line in lines if line.what in {"extend", "deny"}]

    def step(self) -> None:
        self.world.exchange("far")
        self.world.pass_time(100)
        self.world.check()

    def end(self) -> None:
        self.world.make_whole()
        self.world.check()
        self.world.check_that_all_agree()
        self.world.check_that_nothing_ran_twice()
        self.world.close()


@pytest.fixture
def story(tmp_path: Path) -> Iterator[Story]:
    story = Story(tmp_path)
    yield story
    story.world.close()


def test_its_manager_extends_it_and_the_gateway_says_so(story: Story) -> None:
    asked = story.world.extend(story.lease_id, LONGER_MS)
    assert isinstance(asked, LeaseRow)
    assert (asked.lease.wanted_ms, asked.lease.request.duration_ms) == (RUNS_MS + LONGER_MS, RUNS_MS)
    for _ in range(2):
        story.step()
    assert story.durations_ms() == (RUNS_MS + LONGER_MS,) * 2
    [line] = story.decisions()
    assert (line.what, line.reason, line.rule, line.site) == ("extend", "extended", "elsewhere", "far")
    assert json.loads(line.detail) == {"duration_ms": RUNS_MS + LONGER_MS}
    assert story.here().lease.wanted_ms == -1
    ends_ms = story.there().lease.end_ms
    story.world.pass_time(ends_ms - story.world.gateway.now_ms - 1)
    story.world.exchange("far")
    assert story.here().lease.state is LeaseState.RUNNING
    story.end()


def test_its_manager_refuses_for_its_own_reasons(story: Story) -> None:
    story.world.submit_at("far", 4, RUNS_MS)  # its owner's users come next, and need all of it
    story.world.extend(story.lease_id, LONGER_MS)
    for _ in range(2):
        story.step()
    assert story.durations_ms() == (RUNS_MS, RUNS_MS)
    [line] = story.decisions()
    assert (line.what, line.reason, line.rule) == ("deny", "room-in-use", "elsewhere")
    story.end()


def test_what_no_site_could_read_is_refused_and_keeps_nothing_that_follows_from_its_site(story: Story) -> None:
    [refused] = story.world.gateway.do(Extend(story.lease_id, MOST_DURATION_MS - RUNS_MS + 1))
    assert isinstance(refused, InvalidField)
    assert "10 years in all" in str(refused)
    story.world.extend(story.lease_id, LONGER_MS)
    for _ in range(2):
        story.step()
    assert story.durations_ms() == (RUNS_MS + LONGER_MS,) * 2
    story.end()


@pytest.mark.parametrize("make", [wire.extend, wire.extended])
def test_neither_an_order_nor_an_answer_is_longer_than_a_lease_may_last(
    story: Story, make: Callable[..., dict[str, Any]]
) -> None:
    about = story.here().lease if make is wire.extend else story.lease_id
    rest = () if make is wire.extend else (None,)
    wire.read(make(about, MOST_DURATION_MS, *rest), "far")
    with pytest.raises(InvalidField, match="duration_ms"):
        wire.read(make(about, MOST_DURATION_MS + 1, *rest), "far")


def test_at_most_one_is_under_way(story: Story) -> None:
    for _ in range(2):
        story.world.extend(story.lease_id, LONGER_MS)
        again = story.world.extend(story.lease_id, LONGER_MS)
        assert isinstance(again, CannotExtend)
        assert again.reason == "extension-under-way"
        for _ in range(2):
            story.step()
    assert story.durations_ms() == (RUNS_MS + 2 * LONGER_MS,) * 2
    story.end()


def test_two_who_ask_in_one_instant_get_each_their_own_answer(story: Story) -> None:
    asked, refused = story.world.gateway.do(Extend(story.lease_id, LONGER_MS), Extend(story.lease_id, 1))
    assert isinstance(asked, LeaseRow)
    assert isinstance(refused, CannotExtend)
    story.end()


def test_what_an_operator_grants_at_the_site_is_known_at_the_gateway(story: Story) -> None:
    story.world.extend_at("far", story.lease_id, LONGER_MS)
    for _ in range(2):
        story.step()
    assert story.durations_ms() == (RUNS_MS + LONGER_MS,) * 2
    story.end()


def test_one_that_ends_before_its_manager_is_asked_is_not_extended(story: Story) -> None:
    story.world.pass_time(RUNS_MS)
    assert story.here().lease.state is LeaseState.RUNNING, "nobody has told the gateway yet"
    story.world.extend(story.lease_id, LONGER_MS)
    for _ in range(2):
        story.step()
    [line] = story.decisions()
    assert (line.what, line.reason) == ("deny", "not-running")
    assert story.here().lease.state.is_final
    story.end()


@pytest.mark.storm
@pytest.mark.parametrize("who", [GATEWAY, "far"])
@pytest.mark.parametrize("lost", [False, True], ids=["killed", "cut-off"])
@pytest.mark.parametrize("is_granted", [True, False], ids=["granted", "refused"])
def test_whoever_is_killed_at_whatever_step_it_is_extended_once_or_not_at_all(
    tmp_path: Path,
    who: str,
    lost: bool,  # noqa: FBT001 - it is a case
    is_granted: bool,  # noqa: FBT001 - it is a case
) -> None:
    for killed_at in range(STEPS):
        folder = tmp_path / str(killed_at)
        folder.mkdir()
        story = Story(folder)
        if not is_granted:
            story.world.submit_at("far", 4, RUNS_MS)
        story.world.extend(story.lease_id, LONGER_MS)
        for number in range(STEPS):
            if number == killed_at:
                story.world.interrupt(who, "far", lost=lost)
                story.world.check()
            story.step()
        assert story.durations_ms() == ((RUNS_MS + LONGER_MS if is_granted else RUNS_MS),) * 2
        assert [line.what for line in story.decisions()] == ["extend" if is_granted else "deny"]
        story.end()
