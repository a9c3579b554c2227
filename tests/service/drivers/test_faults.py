"""Faults of emulated machines: each does what it says, and the same orders always meet the same fate."""

from dataclasses import fields
from typing import Any

import pytest
from tests.service.drivers.sites import LOAD_MS, MOVE_MS, SAVE_MS, changes, machines, seen, told

from leasehold.configuration.keys import Keys
from leasehold.model.errors import InvalidField, UnknownName
from leasehold.service.drivers.emulated.fault_injection import FAULTS, Faults
from leasehold.service.drivers.emulated.machines import EmulatedMachines
from leasehold.service.drivers.emulated.options import EmulatedOptions, read_options
from leasehold.service.drivers.protocol import Capabilities, Observation, Phase, Problem, Verb
from leasehold.testing.driver_rig import order

HOUR_MS = 3_600_000


def failed(site: EmulatedMachines, lease_id: int = 1) -> Observation:
    """See that a lease's machines are lost."""
    here = seen(site, lease_id)
    assert here is not None
    assert here.phase is Phase.FAILED
    return here


# --- what the configuration may say -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("fail_orders", 1.1),
        ("refuse_orders", -0.1),
        ("lose_memory", "often"),
        ("no_answer", True),
        ("lose_observations", float("nan")),
        ("repeat_observations", None),
        ("crash_per_hour", -1),
        ("slow_factor", float("inf")),
        ("delay_ms", 1.5),
        ("observations_late_ms", -1),
        ("seed", 0.5),
    ],
)
def test_a_wrong_rate_is_named(field: str, value: object) -> None:
    wrong: dict[str, Any] = {field: value}
    with pytest.raises(InvalidField) as caught:
        Faults(**wrong)
    assert caught.value.field == field


def test_every_rate_can_be_configured_and_times_are_in_seconds() -> None:
    rates: dict[str, Any] = {field.name: 0.5 for field in fields(Faults) if isinstance(field.default, float)}
    keys = Keys(rates | {"delay_s": 1.5, "observations_late_s": 2, "seed": 7}, "cluster[0].emulated")
    read = FAULTS.read(keys)
    assert read == Faults(**rates, delay_ms=1500, observations_late_ms=2000, seed=7)


def test_a_wrong_key_is_named_with_its_place() -> None:
    with pytest.raises(InvalidField) as caught:
        FAULTS.read(Keys({"fail_orders": 2}, "cluster[0].emulated"))
    assert caught.value.field == "cluster[0].emulated.fail_orders"


def test_without_options_nothing_goes_wrong() -> None:
    assert read_options({}) == EmulatedOptions(0, 1_000_000, Capabilities(), (), (), None, Faults())


def test_options_say_what_the_machines_are_like() -> None:
    read = read_options({"boot_s": 2.5, "audit_lines": 10, "suspend": False, "crash_per_hour": 1})
    assert (read.boot_ms, read.audit_lines, read.faults) == (2500, 10, Faults(crash_per_hour=1))
    assert read.capabilities == Capabilities(suspend=False)


def test_an_unknown_option_is_answered_with_the_nearest_one() -> None:
    with pytest.raises(UnknownName, match="did you mean 'fail_orders'"):
        read_options({"fail_order": 0.1})


# --- orders that are not taken on -------------------------------------------------------------------------


def test_some_orders_fail_and_succeed_when_they_are_told_again_later() -> None:
    site = machines(slots=999, faults=Faults(fail_orders=0.25))
    starts = [order(Verb.START, lease_id) for lease_id in range(1, 401)]
    problems = site.carry_out(starts, 0)
    assert 60 < len(problems) < 140
    assert all(problem.again for problem in problems.values())
    assert site.carry_out(starts, 0).keys() == problems.keys()
    for now_ms in range(1, 20):
        problems = site.carry_out(starts, now_ms)
    assert problems == {}


def test_some_orders_are_refused_however_often_they_are_told() -> None:
    site = machines(slots=999, faults=Faults(refuse_orders=0.25))
    starts = [order(Verb.START, lease_id) for lease_id in range(1, 401)]
    problems = site.carry_out(starts, 0)
    assert 60 < len(problems) < 140
    assert not any(problem.again for problem in problems.values())
    assert site.carry_out(starts, 99).keys() == problems.keys()


def test_stopping_is_never_refused() -> None:
    site = machines(faults=Faults(refuse_orders=1))
    told(site, 0, order(Verb.STOP, 1), order(Verb.SEND, 2))


def test_what_would_do_nothing_does_not_fail_either() -> None:
    site = machines()
    told(site, 0, order(Verb.START))
    site.injector.faults = Faults(fail_orders=1)
    told(site, 0, order(Verb.START))


def test_orders_fail_on_demand_so_many_times() -> None:
    site = machines()
    broken = Problem("the disk is full", again=True)
    site.injector.fail_next(broken, times=2, verb=Verb.START, lease_id=1)
    told(site, 0, order(Verb.START, 2))
    start = order(Verb.START, 1)
    assert [site.carry_out([start], 0) for _ in range(3)] == [{start.id: broken}, {start.id: broken}, {}]


def test_another_seed_and_another_site_have_other_luck() -> None:
    def unlucky(seed: int) -> set[str]:
        site = machines(slots=999, faults=Faults(fail_orders=0.5, seed=seed))
        return set(site.carry_out([order(Verb.START, lease_id) for lease_id in range(1, 99)], 0))

    assert unlucky(1) == unlucky(1)
    assert unlucky(1) != unlucky(2)


# --- machines that are lost -------------------------------------------------------------------------------


def test_machines_crash_so_often_in_an_hour_of_running() -> None:
    site = machines(slots=9999, faults=Faults(crash_per_hour=2))
    told(site, 0, *(order(Verb.START, lease_id) for lease_id in range(1, 1001)))
    site.pass_time(HOUR_MS // 2)
    lost = [one for one in site.observe() if one.phase is Phase.FAILED]
    assert 580 < len(lost) < 680  # 1 - 1/e of them
    assert {one.detail for one in lost} == {"emulated fault: crash"}


def test_what_ends_before_its_crash_does_not_crash() -> None:
    site = machines(slots=9999, faults=Faults(crash_per_hour=1))
    told(site, 0, *(order(Verb.START, lease_id, command=("sleep", 1800)) for lease_id in range(1, 1001)))
    ends = site.pass_time(10 * HOUR_MS)[1000:]
    assert {one.phase for one in ends} == {Phase.FAILED, Phase.ENDED}
    assert all(one.since_ms < HOUR_MS // 2 for one in ends if one.phase is Phase.FAILED)
    assert all(one.since_ms == HOUR_MS // 2 for one in ends if one.phase is Phase.ENDED)


def test_a_crash_can_be_ordered_for_the_next_time_that_machines_run() -> None:
    site = machines(boot_ms=5)
    site.injector.crash_after(1, running_ms=30)
    told(site, 0, order(Verb.START, 1, command=("sleep", 1)), order(Verb.START, 2, command=("sleep", 1)))
    assert changes(site, 5_000)[-2:] == [(35, 1, Phase.FAILED), (1005, 2, Phase.ENDED)]


def test_machines_can_be_lost_at_once_whatever_they_do() -> None:
    site = machines(slots=9)
    told(site, 0, order(Verb.START, 1), order(Verb.START, 2, command=("true",)), order(Verb.START, 3))
    told(site, 0, order(Verb.SUSPEND, 3))
    for lease_id in (1, 2, 3, 4):
        site.crash(lease_id, 50)
    assert [one.phase for one in site.observe()] == [Phase.FAILED, Phase.ENDED, Phase.FAILED]
    assert failed(site, 3).since_ms == 50
    assert site.next_change_ms() is None


@pytest.mark.parametrize("on_demand", [True, False])
def test_memory_can_be_lost_while_it_is_saved(*, on_demand: bool) -> None:
    site = machines(faults=Faults(lose_memory=0 if on_demand else 1))
    if on_demand:
        site.injector.fail_saving(1)
    told(site, 0, order(Verb.START), order(Verb.SUSPEND))
    site.pass_time(99)
    assert failed(site).since_ms == SAVE_MS
    assert "memory was not saved" in failed(site).detail
    assert not site.carry_out([order(Verb.RESUME, 1, 2)], 99)[order(Verb.RESUME, 1, 2).id].again


# --- machines that are slow -------------------------------------------------------------------------------


def test_whatever_takes_time_takes_so_many_times_as_long_and_a_little_more() -> None:
    site = machines(slots=9, boot_ms=5, faults=Faults(slow_factor=2.5, delay_ms=100))
    told(site, 0, order(Verb.START, 1), order(Verb.RECEIVE, 2))
    told(site, 500, order(Verb.SUSPEND, 1))
    told(site, 1000, order(Verb.RESUME, 1, 2))
    slow = [int(2.5 * ms + 0.5) + 100 for ms in (5, MOVE_MS, SAVE_MS, LOAD_MS)]
    assert changes(site, 5_000)[2:] == [
        (slow[0], 1, Phase.RUNNING),
        (slow[1], 2, Phase.RUNNING),
        (500, 1, Phase.SAVING),
        (500 + slow[2], 1, Phase.SAVED),
        (1000, 1, Phase.RESUMING),
        (1000 + slow[3], 1, Phase.RUNNING),
    ]


def test_work_is_never_slow_but_when_the_machines_are() -> None:
    site = machines(faults=Faults(slow_factor=100))
    told(site, 0, order(Verb.START, command=("sleep", 1)))
    assert changes(site, 9_999)[-1] == (1000, 1, Phase.ENDED)
