"""What commands do on emulated machines."""

import pytest
from tests.service.drivers.sites import REFERENCE_MIPS, machines, seen, told

from leasehold.service.drivers.emulated.machines import Ending, ending
from leasehold.service.drivers.protocol import Phase, Verb
from leasehold.testing.driver_rig import order


@pytest.mark.parametrize(
    ("seconds", "work"),
    [
        ("20", 20_000 * REFERENCE_MIPS),
        ("0.25", 250 * REFERENCE_MIPS),
        ("0.0000001", 1),  # rounded up: it is not done before it is done
        ("0", 0),
    ],
)
def test_sleep_is_so_much_work_at_the_reference_speed(seconds: str, work: int) -> None:
    assert ending(("sleep", seconds), REFERENCE_MIPS) == Ending(work)


@pytest.mark.parametrize("seconds", ["", "-1", "1e9", "infinity", "nan", "one", "1h", "9" * 99, "1 "])
def test_sleep_fails_where_it_is_given_no_number_of_seconds(seconds: str) -> None:
    found = ending(("sleep", seconds), REFERENCE_MIPS)
    assert found is not None
    assert found.work == 0
    assert repr(seconds) in found.detail


@pytest.mark.parametrize(
    ("command", "detail"),
    [(("true",), ""), (("exit", "0"), ""), (("false",), "exit status 1"), (("exit", "3"), "exit status 3")],
)
def test_some_commands_are_over_at_once(command: tuple[str, ...], detail: str) -> None:
    site = machines()
    told(site, 7, order(Verb.START, command=command))
    assert [one.phase for one in site.pass_time(7)] == [Phase.RUNNING, Phase.ENDED]
    here = seen(site)
    assert here is not None
    assert (here.since_ms, here.detail) == (7, detail)


@pytest.mark.parametrize("command", [(), ("python", "train.py"), ("sleep", "1", "2"), ("sleep",)])
def test_whatever_else_runs_until_it_is_stopped(command: tuple[str, ...]) -> None:
    site = machines()
    told(site, 0, order(Verb.START, command=command))
    assert site.next_change_ms() is None


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (
            ("python", "train.py"),
            "emulated machines do not carry out python: it is taken to run until it is stopped",
        ),
        (("sleep", "1"), ""),
        ((), ""),
    ],
)
def test_a_command_that_is_not_carried_out_says_so(command: tuple[str, ...], said: str) -> None:
    site = machines()
    told(site, 0, order(Verb.START, command=command))
    here = seen(site)
    assert here is not None
    assert (here.phase, here.detail) == (Phase.RUNNING, said)
