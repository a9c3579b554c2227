"""The conformance suite is worth something: drivers that break one promise each do not pass."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.service.drivers.sites import EmulatedRig

from leasehold.service.drivers.emulated.driver import EmulatedDriver
from leasehold.service.drivers.emulated.fault_injection import Line
from leasehold.service.drivers.emulated.machines import EmulatedMachines
from leasehold.service.drivers.emulated.record import EmulatedInstance, EmulatedStore
from leasehold.service.drivers.protocol import Capabilities
from leasehold.service.drivers.reconciler import order_rules
from leasehold.testing.driver_rig import Rig
from leasehold.testing.drivers import DriverConformance

Suite = DriverConformance


async def says_nothing(*_: object) -> str:
    return "login: "


Test = Callable[[Suite, Rig], None]

BROKEN: dict[str, tuple[object, str, Any, Test]] = {
    "forgets what was stopped": (
        EmulatedMachines,
        "tombstone",
        lambda *_: -1,
        Suite.test_what_was_stopped_never_starts_again,
    ),
    "forgets stops that came first": (
        EmulatedMachines,
        "tombstone",
        lambda *_: -1,
        Suite.test_a_stop_that_overtakes_its_start_prevents_it,
    ),
    "follows every order": (
        order_rules,
        "is_out_of_date",
        lambda *_: False,
        Suite.test_whatever_is_told_twice_is_done_once,
    ),
    "follows outdated orders": (
        order_rules,
        "is_out_of_date",
        lambda *_: False,
        Suite.test_an_order_for_an_earlier_incarnation_does_nothing,
    ),
    "has room for everybody": (
        order_rules,
        "no_room_for",
        lambda *_: None,
        Suite.test_who_finds_no_room_is_told_so_and_comes_in_later,
    ),
    "begins work anew": (
        EmulatedInstance,
        "work_done_at",
        lambda *_: 0,
        Suite.test_work_goes_on_where_it_was_suspended,
    ),
    "begins work anew elsewhere": (
        EmulatedInstance,
        "work_done_at",
        lambda *_: 0,
        Suite.test_machines_go_on_at_another_site,
    ),
    "writes nothing down": (
        EmulatedStore,
        "save",
        lambda *_: None,
        Suite.test_machines_go_on_while_their_driver_is_dead,
    ),
    "tells nothing": (
        Line,
        "send",
        lambda *_: None,
        Suite.test_changes_tell_what_can_be_observed,
    ),
    "says the same of everybody": (
        EmulatedDriver,
        "console",
        says_nothing,
        Suite.test_the_console_says_something_or_nothing,
    ),
}


@pytest.mark.parametrize("flaw", BROKEN)
def test_an_driver_with_a_flaw_does_not_pass(flaw: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kind, name, replacement, test = BROKEN[flaw]
    monkeypatch.setattr(kind, name, replacement)
    with pytest.raises(AssertionError):
        test(DriverConformance(), EmulatedRig(tmp_path))


class StandsStillAtFirst(EmulatedRig):
    """A computer on which more than a nap goes by at once, until it has done so a few times."""

    stand_stills = 12

    async def pass_time(self) -> None:
        self.step_ms = 25_000 if self.stand_stills else 500
        self.stand_stills -= bool(self.stand_stills)
        await super().pass_time()


@pytest.mark.parametrize(
    "test",
    [Suite.test_work_goes_on_where_it_was_suspended, Suite.test_machines_go_on_at_another_site],
)
def test_a_computer_that_stands_still_for_a_while_lets_no_driver_fail(test: Test, tmp_path: Path) -> None:
    test(DriverConformance(), StandsStillAtFirst(tmp_path))


@pytest.mark.parametrize(
    ("option", "test"),
    [
        ("suspend", Suite.test_memory_is_saved_and_brought_back),
        ("migrate", Suite.test_machines_go_on_at_another_site),
        ("commands", Suite.test_what_ends_while_the_driver_is_dead_has_ended_afterwards),
    ],
)
def test_an_driver_that_can_less_than_it_says_does_not_pass(
    option: str, test: Test, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(EmulatedDriver, "capabilities", Capabilities())
    with pytest.raises(AssertionError, match="was refused"):
        test(DriverConformance(), EmulatedRig(tmp_path, {option: False}))


def test_an_driver_that_can_more_than_it_says_does_not_pass(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(EmulatedDriver, "capabilities", Capabilities(suspend=False))
    with pytest.raises(AssertionError, match="taken on by a driver that cannot do it"):
        DriverConformance().test_memory_is_saved_and_brought_back(EmulatedRig(tmp_path))
