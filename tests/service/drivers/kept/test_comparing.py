"""What machines mean for their lease, and what is done next, where no suite from outside can force it."""

import json
from collections.abc import Sequence
from dataclasses import replace

import pytest

from leasehold.service.drivers.kept.comparing import meaning, next_work
from leasehold.service.drivers.kept.holding import Goal, Holding
from leasehold.service.drivers.kept.machine import Machine, State, Work
from leasehold.service.drivers.kept.patience import Patience
from leasehold.service.drivers.protocol import Phase, Verb
from leasehold.testing.driver_rig import order

S = State


def holding(goal: Goal, phase: Phase, *, begun: bool = True, came_up: bool = True) -> Holding:
    return Holding(1, 1, 1, 2, 64, (), goal, phase, 0, begun=begun, came_up=came_up)


def machines(states: Sequence[State], *, takes_room: bool = True) -> list[Machine]:
    return [Machine((1, 1), str(number), state, "", takes_room) for number, state in enumerate(states)]


@pytest.mark.parametrize(
    ("goal", "phase", "states", "expected"),
    [
        (Goal.UP, Phase.STARTING, [S.UP, S.COMING], Phase.STARTING),
        (Goal.UP, Phase.STARTING, [S.UP, S.BARE], Phase.STARTING),
        (Goal.UP, Phase.STARTING, [S.UP, S.ENDED], Phase.RUNNING),
        (Goal.UP, Phase.RUNNING, [S.ENDED, S.ENDED], Phase.ENDED),
        (Goal.UP, Phase.RUNNING, [S.UP, S.FAILED], Phase.FAILED),
        (Goal.UP, Phase.RUNNING, [S.UP], Phase.FAILED),
        (Goal.UP, Phase.RUNNING, [S.UP, S.LEAVING], Phase.RUNNING),
        (Goal.UP, Phase.RUNNING, [S.UP, S.SAVED], Phase.RESUMING),
        (Goal.SAVED, Phase.SAVING, [S.SAVED, S.UP], Phase.SAVING),
        (Goal.SAVED, Phase.SAVING, [S.SAVED, S.LEAVING], Phase.SAVING),
        (Goal.SAVED, Phase.SAVING, [S.SAVED, S.SAVED], Phase.SAVED),
        (Goal.SAVED, Phase.SAVING, [S.ENDED, S.ENDED], Phase.ENDED),
        (Goal.SAVED, Phase.SAVED, [S.SAVED], Phase.FAILED),
        (Goal.GONE, Phase.RUNNING, [S.FAILED], Phase.RUNNING),
        (Goal.UP, Phase.FAILED, [S.UP, S.UP], Phase.FAILED),
    ],
)
def test_a_lease_is_what_its_machines_are_together(
    goal: Goal, phase: Phase, states: list[State], expected: Phase
) -> None:
    assert meaning(holding(goal, phase), machines(states))[0] is expected


@pytest.mark.parametrize(
    ("goal", "phase", "states", "expected"),
    [
        (Goal.UP, Phase.RUNNING, [S.UP, S.UP], None),
        (Goal.UP, Phase.RUNNING, [S.UP, S.BARE], Work.RUN),
        (Goal.UP, Phase.RESUMING, [S.SAVED, S.UP], Work.RESUME),
        (Goal.UP, Phase.FAILED, [S.UP, S.SAVED], None),
        (Goal.SAVED, Phase.SAVING, [S.SAVED, S.UP], Work.SAVE),
        (Goal.SAVED, Phase.SAVING, [S.SAVED, S.LEAVING], None),
        (Goal.AWAY, Phase.RUNNING, [S.UP], Work.SEND),
        (Goal.AWAY, Phase.ENDED, [S.ENDED, S.ENDED], Work.SEND),
        (Goal.AWAY, Phase.RUNNING, [], None),
        (Goal.GONE, Phase.FAILED, [S.FAILED], Work.REMOVE),
        (Goal.GONE, Phase.STARTING, [], None),
    ],
)
def test_what_parts_machines_from_their_goal_is_done(
    goal: Goal, phase: Phase, states: list[State], expected: Work | None
) -> None:
    assert next_work(holding(goal, phase), machines(states)) is expected


@pytest.mark.parametrize(
    ("goal", "phase", "begun", "expected"),
    [
        (Goal.UP, Phase.STARTING, False, Work.CREATE),
        (Goal.UP, Phase.STARTING, True, Work.CREATE),
        (Goal.SAVED, Phase.SAVING, False, None),
        (Goal.SAVED, Phase.SAVING, True, Work.CREATE),
        (Goal.AWAY, Phase.STARTING, False, Work.CREATE),
    ],
)
def test_machines_are_made_until_all_of_them_were_up_once(
    goal: Goal,
    phase: Phase,
    begun: bool,  # noqa: FBT001 - a column of the table
    expected: Work | None,
) -> None:
    fresh = holding(goal, phase, begun=begun, came_up=False)
    assert next_work(fresh, machines([S.COMING])) is expected


@pytest.mark.parametrize(
    ("goal", "phase"),
    [(Goal.UP, Phase.RECEIVING), (Goal.SAVED, Phase.SAVING), (Goal.AWAY, Phase.RECEIVING)],
)
def test_what_is_to_come_is_waited_for_whatever_is_wanted_of_it_then(goal: Goal, phase: Phase) -> None:
    received = replace(holding(goal, phase, begun=False, came_up=False), from_site="b")
    assert next_work(received, machines([S.COMING])) is Work.AWAIT
    assert meaning(received, machines([S.SAVED])) == (phase, "")


def test_what_has_come_is_saved_when_its_memory_is() -> None:
    received = replace(holding(Goal.SAVED, Phase.SAVING, begun=False), from_site="b")
    assert next_work(received, machines([S.SAVED, S.UP])) is Work.SAVE
    assert meaning(received, machines([S.SAVED, S.UP])) == (Phase.SAVING, "")
    assert meaning(received, machines([S.SAVED, S.SAVED])) == (Phase.SAVED, "")


def test_what_an_earlier_version_wrote_down_is_still_to_come() -> None:
    ordered = Holding.ordered(order(Verb.RECEIVE, other_site="b"), Phase.RECEIVING, 0)
    written = json.loads(ordered.to_text())
    assert written.pop("from_site") == "b"
    assert Holding.from_text(json.dumps(written)) == ordered


def test_what_was_never_begun_is_saved_as_it_is() -> None:
    fresh = holding(Goal.SAVED, Phase.SAVING, begun=False, came_up=False)
    assert meaning(fresh, []) == (Phase.SAVED, "")


@pytest.mark.parametrize(("takes_room", "expected"), [(True, Work.SAVE), (False, None)])
def test_who_has_ended_is_saved_where_it_would_keep_its_room(
    takes_room: bool,  # noqa: FBT001 - a column of the table
    expected: Work | None,
) -> None:
    seen = machines([S.SAVED, S.ENDED], takes_room=takes_room)
    half_ended = holding(Goal.SAVED, Phase.SAVING)
    assert next_work(half_ended, seen) is expected
    assert meaning(half_ended, seen)[0] is (Phase.SAVING if takes_room else Phase.SAVED)


class TestPatience:
    def test_waits_twice_as_long_each_time_and_a_minute_at_most(self) -> None:
        now_s = [0.0]
        patience = Patience(lambda: now_s[0])
        waits_s = []
        for _ in range(9):
            patience.went_wrong((1, 1))
            waits_s.append(patience.until_next(100.0))
        assert waits_s == [0.5, 1, 2, 4, 8, 16, 32, 60, 60]
        assert not patience.may_try((1, 1))
        now_s[0] = 60.0
        assert patience.may_try((1, 1))

    def test_ends_when_something_goes_well(self) -> None:
        patience = Patience(lambda: 0.0)
        patience.hold_up("the cloud is busy")
        assert patience.held_up() == "the cloud is busy"
        patience.went_well((1, 1))
        assert not patience.held_up()
