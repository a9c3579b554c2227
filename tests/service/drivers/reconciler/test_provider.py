"""What machines mean for their lease, and what is done next, where no suite from outside can force it."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from leasehold.service.drivers.protocol import Phase
from leasehold.service.drivers.reconciler.desired import Desired
from leasehold.service.drivers.reconciler.loop import Backoff
from leasehold.service.drivers.reconciler.provider import (
    Machine,
    MachineInstance,
    MachineState,
    Status,
    Step,
    next_step,
    status_of,
)

S = MachineState


def instance(desired: Desired, phase: Phase, *, created: bool = True, came_up: bool = True) -> MachineInstance:
    lease = {"lease_id": 1, "generation": 1, "incarnation": 1, "vms": 2, "memory_mib": 64, "command": (), "since_ms": 0}
    return MachineInstance(**lease, phase=phase, desired=desired, created=created, came_up=came_up)  # type: ignore[arg-type]


def machines(states: Sequence[MachineState], *, takes_room: bool = True) -> list[Machine]:
    return [Machine((1, 1), str(number), state, takes_room=takes_room) for number, state in enumerate(states)]


@pytest.mark.parametrize(
    ("states", "expected"),
    [
        ([S.READY, S.PENDING], None),
        ([S.READY, S.READY], Step.RUN),
        ([S.READY, S.UP], Step.RUN),
        ([S.READY, S.ENDED], Step.RUN),
    ],
)
def test_commands_are_started_when_all_machines_have_booted(states: list[MachineState], expected: Step | None) -> None:
    """It is known of all machines together that they were: of one that boots later nobody would know."""
    assert next_step(instance(Desired.UP, Phase.STARTING, came_up=False), machines(states)) is expected


@pytest.mark.parametrize(
    ("desired", "phase", "states", "expected"),
    [
        (Desired.UP, Phase.STARTING, [S.UP, S.PENDING], Phase.STARTING),
        (Desired.UP, Phase.STARTING, [S.UP, S.READY], Phase.STARTING),
        (Desired.UP, Phase.STARTING, [S.UP, S.ENDED], Phase.RUNNING),
        (Desired.UP, Phase.RUNNING, [S.ENDED, S.ENDED], Phase.ENDED),
        (Desired.UP, Phase.RUNNING, [S.UP, S.FAILED], Phase.FAILED),
        (Desired.UP, Phase.RUNNING, [S.UP], Phase.FAILED),
        (Desired.UP, Phase.RUNNING, [S.UP, S.LEAVING], Phase.RUNNING),
        (Desired.UP, Phase.RUNNING, [S.UP, S.SAVED], Phase.RESUMING),
        (Desired.SAVED, Phase.SAVING, [S.SAVED, S.UP], Phase.SAVING),
        (Desired.SAVED, Phase.SAVING, [S.SAVED, S.LEAVING], Phase.SAVING),
        (Desired.SAVED, Phase.SAVING, [S.SAVED, S.SAVED], Phase.SAVED),
        (Desired.SAVED, Phase.SAVING, [S.ENDED, S.ENDED], Phase.ENDED),
        (Desired.SAVED, Phase.SAVED, [S.SAVED], Phase.FAILED),
        (Desired.GONE, Phase.RUNNING, [S.FAILED], Phase.RUNNING),
        (Desired.UP, Phase.FAILED, [S.UP, S.UP], Phase.FAILED),
    ],
)
def test_a_lease_is_what_its_machines_are_together(
    desired: Desired, phase: Phase, states: list[MachineState], expected: Phase
) -> None:
    assert status_of(instance(desired, phase), machines(states)).phase is expected


@pytest.mark.parametrize(
    ("desired", "phase", "states", "expected"),
    [
        (Desired.UP, Phase.RUNNING, [S.UP, S.UP], None),
        (Desired.UP, Phase.RUNNING, [S.UP, S.READY], Step.RUN),
        (Desired.UP, Phase.RESUMING, [S.SAVED, S.UP], Step.RESUME),
        (Desired.UP, Phase.FAILED, [S.UP, S.SAVED], None),
        (Desired.SAVED, Phase.SAVING, [S.SAVED, S.UP], Step.SAVE),
        (Desired.SAVED, Phase.SAVING, [S.SAVED, S.LEAVING], None),
        (Desired.AWAY, Phase.RUNNING, [S.UP], Step.SEND),
        (Desired.AWAY, Phase.ENDED, [S.ENDED, S.ENDED], Step.SEND),
        (Desired.AWAY, Phase.RUNNING, [], None),
        (Desired.GONE, Phase.FAILED, [S.FAILED], Step.REMOVE),
        (Desired.GONE, Phase.STARTING, [], None),
    ],
)
def test_what_parts_machines_from_their_desired_state_is_the_next_step(
    desired: Desired, phase: Phase, states: list[MachineState], expected: Step | None
) -> None:
    assert next_step(instance(desired, phase), machines(states)) is expected


@pytest.mark.parametrize(
    ("desired", "phase", "created", "expected"),
    [
        (Desired.UP, Phase.STARTING, False, Step.CREATE),
        (Desired.UP, Phase.STARTING, True, Step.CREATE),
        (Desired.SAVED, Phase.SAVING, False, None),
        (Desired.SAVED, Phase.SAVING, True, Step.CREATE),
        (Desired.AWAY, Phase.STARTING, False, Step.CREATE),
    ],
)
def test_machines_are_made_until_all_of_them_were_up_once(
    desired: Desired,
    phase: Phase,
    created: bool,  # noqa: FBT001 - a column of the table
    expected: Step | None,
) -> None:
    fresh = instance(desired, phase, created=created, came_up=False)
    assert next_step(fresh, machines([S.PENDING])) is expected


@pytest.mark.parametrize(
    ("desired", "phase"),
    [(Desired.UP, Phase.RECEIVING), (Desired.SAVED, Phase.SAVING), (Desired.AWAY, Phase.RECEIVING)],
)
def test_what_is_to_come_is_waited_for_whatever_is_wanted_of_it_then(desired: Desired, phase: Phase) -> None:
    received = replace(instance(desired, phase, created=False, came_up=False), from_site="b")
    assert next_step(received, machines([S.PENDING])) is Step.AWAIT
    assert status_of(received, machines([S.SAVED])) == Status(phase)


def test_what_is_still_arriving_is_not_sent_on() -> None:
    """Once it may have been sent it is not expected any more; and what arrives may break off, and come again."""
    received = replace(instance(Desired.AWAY, Phase.RECEIVING, created=False, came_up=False), from_site="b")
    assert next_step(received, machines([S.UP, S.ARRIVING])) is None
    assert next_step(received, machines([S.UP])) is Step.AWAIT, "it has broken off"
    assert next_step(received, machines([S.UP, S.UP])) is Step.SEND


def test_what_has_come_is_saved_when_its_memory_is() -> None:
    received = replace(instance(Desired.SAVED, Phase.SAVING, created=False), from_site="b")
    assert next_step(received, machines([S.SAVED, S.UP])) is Step.SAVE
    assert status_of(received, machines([S.SAVED, S.UP])) == Status(Phase.SAVING)
    assert status_of(received, machines([S.SAVED, S.SAVED])) == Status(Phase.SAVED)


def test_what_was_never_created_is_saved_as_it_is() -> None:
    fresh = instance(Desired.SAVED, Phase.SAVING, created=False, came_up=False)
    assert status_of(fresh, []) == Status(Phase.SAVED)


@pytest.mark.parametrize(("takes_room", "expected"), [(True, Step.SAVE), (False, None)])
def test_who_has_ended_is_saved_where_it_would_keep_its_room(
    takes_room: bool,  # noqa: FBT001 - a column of the table
    expected: Step | None,
) -> None:
    seen = machines([S.SAVED, S.ENDED], takes_room=takes_room)
    half_ended = instance(Desired.SAVED, Phase.SAVING)
    assert next_step(half_ended, seen) is expected
    assert status_of(half_ended, seen).phase is (Phase.SAVING if takes_room else Phase.SAVED)


class TestBackoff:
    def test_waits_twice_as_long_each_time_and_a_minute_at_most(self) -> None:
        now_s = [0.0]
        backoff = Backoff(lambda: now_s[0])
        waits_s = []
        for _ in range(9):
            backoff.failed((1, 1))
            waits_s.append(backoff.until_next_s(100.0))
        assert waits_s == [0.5, 1, 2, 4, 8, 16, 32, 60, 60]
        assert not backoff.may_try((1, 1))
        now_s[0] = 60.0
        assert backoff.may_try((1, 1))

    def test_ends_when_something_goes_well(self) -> None:
        backoff = Backoff(lambda: 0.0)
        backoff.site_failed("the cloud is busy")
        assert backoff.site_problem() == "the cloud is busy"
        backoff.succeeded((1, 1))
        assert not backoff.site_problem()
