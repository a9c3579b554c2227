"""When things happen on emulated machines: by hand, against a plain oracle, and beside the simulator."""

from dataclasses import replace
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.gateway.random_worlds import Case, cases, drive, moving_cases
from tests.service.drivers.plain import PlainSite
from tests.service.drivers.programs import Program, programs
from tests.service.drivers.shadow import Shadowed
from tests.service.drivers.sites import (
    LOAD_MS,
    MOVE_MS,
    REFERENCE_MIPS,
    SAVE_MS,
    changes,
    machines,
    seen,
    told,
)

from leasehold.routing.registry import routing_policy
from leasehold.service.drivers.protocol import Phase, Verb
from leasehold.testing.driver_rig import order

# --- by hand ----------------------------------------------------------------------------------------------


def test_without_boot_time_machines_run_at_once() -> None:
    site = machines()
    told(site, 100, order(Verb.START))
    assert changes(site, 100) == [(100, 1, Phase.RUNNING)]
    assert site.next_change_ms() is None


def test_booting_takes_its_time() -> None:
    site = machines(boot_ms=7)
    told(site, 100, order(Verb.START))
    assert changes(site, 106) == [(100, 1, Phase.STARTING)]
    assert site.next_change_ms() == 107
    assert changes(site, 107) == [(107, 1, Phase.RUNNING)]


@pytest.mark.parametrize(("speed_mips", "ms"), [(1000, 1500), (2000, 750), (500, 3000), (999, 1502)])
def test_sleep_is_work_and_quick_machines_are_done_sooner(speed_mips: int, ms: int) -> None:
    site = machines(speed_mips=speed_mips, boot_ms=5)
    told(site, 0, order(Verb.START, command=("sleep", "1.5")))
    assert changes(site, 10_000)[-1] == (5 + ms, 1, Phase.ENDED)


def test_what_was_done_before_is_not_done_again() -> None:
    site = machines()
    told(site, 0, order(Verb.START, command=("sleep", 1), work_done=400 * REFERENCE_MIPS - 1))
    assert changes(site, 10_000)[-1] == (601, 1, Phase.ENDED)


def test_saving_takes_what_the_overhead_model_says() -> None:
    site = machines()
    told(site, 0, order(Verb.START))
    told(site, 50, order(Verb.SUSPEND))
    assert changes(site, 99)[1:] == [(50, 1, Phase.SAVING), (50 + SAVE_MS, 1, Phase.SAVED)]


def test_loading_comes_before_the_rest_of_the_work() -> None:
    site = machines()
    told(site, 0, order(Verb.START, command=("sleep", "0.1")))
    told(site, 30, order(Verb.SUSPEND))
    told(site, 500, order(Verb.RESUME, incarnation=2))
    running_ms = 500 + LOAD_MS
    assert changes(site, 999)[-3:] == [
        (500, 1, Phase.RESUMING),
        (running_ms, 1, Phase.RUNNING),
        (running_ms + 70, 1, Phase.ENDED),
    ]


def test_resuming_goes_on_from_the_memory_whatever_the_order_believes() -> None:
    site = machines()
    told(site, 0, order(Verb.START, command=("sleep", "0.1")))
    told(site, 30, order(Verb.SUSPEND))
    told(site, 500, order(Verb.RESUME, incarnation=2, work_done=99 * REFERENCE_MIPS))
    assert changes(site, 999)[-1] == (500 + LOAD_MS + 70, 1, Phase.ENDED)


def test_receiving_takes_the_whole_move_and_the_work_that_was_done_elsewhere_counts() -> None:
    site = machines()
    told(site, 0, order(Verb.RECEIVE, command=("sleep", "0.1"), work_done=60 * REFERENCE_MIPS))
    assert changes(site, 999) == [
        (0, 1, Phase.RECEIVING),
        (MOVE_MS, 1, Phase.RUNNING),
        (MOVE_MS + 40, 1, Phase.ENDED),
    ]


@pytest.mark.parametrize("verb", [Verb.STOP, Verb.SEND])
def test_stopping_and_sending_are_done_at_once(verb: Verb) -> None:
    site = machines()
    told(site, 0, order(Verb.START, command=("sleep", 1)))
    told(site, 10, order(verb))
    assert site.observe() == []
    assert site.next_change_ms() is None
    assert changes(site, 9_999) == [(0, 1, Phase.RUNNING)]


def test_machines_suspended_before_they_run_have_done_nothing() -> None:
    site = machines(boot_ms=100)
    told(site, 0, order(Verb.START, command=("sleep", "0.1")))
    told(site, 60, order(Verb.SUSPEND))
    told(site, 200, order(Verb.RESUME, incarnation=2))
    assert changes(site, 999)[-1] == (200 + LOAD_MS + 100, 1, Phase.ENDED)


def test_what_is_due_at_the_same_time_happens_in_the_order_in_which_it_was_scheduled() -> None:
    site = machines(slots=9)
    told(site, 0, order(Verb.START, 3, command=("sleep", "0.1")))
    told(site, 0, order(Verb.START, 1, command=("sleep", "0.1")))
    told(site, 50, order(Verb.START, 2, command=("sleep", "0.05")))
    told(site, 0, order(Verb.START, 4, command=("sleep", "0.1")))
    site.pass_time(99)
    assert changes(site, 100) == [(100, lease_id, Phase.ENDED) for lease_id in (3, 1, 2, 4)]


def test_the_end_is_scheduled_when_machines_are_resumed_not_when_they_run() -> None:
    site = machines()
    told(site, 0, order(Verb.START, 1, command=("sleep", "0.05")))
    told(site, 10, order(Verb.SUSPEND, 1))
    told(site, 20, order(Verb.RESUME, 1, incarnation=2))
    told(site, 21, order(Verb.START, 2, command=("sleep", "0.042")))
    assert 20 + LOAD_MS + 40 == 21 + 42
    assert changes(site, 99)[-2:] == [(63, 1, Phase.ENDED), (63, 2, Phase.ENDED)]


def test_the_next_change_is_never_one_that_was_called_off() -> None:
    site = machines(slots=400)
    told(site, 0, *(order(Verb.START, n, command=("sleep", n)) for n in range(1, 301)))
    told(site, 0, *(order(Verb.STOP, n) for n in range(1, 300)))
    assert site.next_change_ms() == 300_000
    assert changes(site, 300_000)[-1] == (300_000, 300, Phase.ENDED)


# --- against an oracle that looks at every millisecond ----------------------------------------------------

SPEED_MIPS = 700


@given(programs(), st.sampled_from([0, 0, 5]))
def test_random_orders_at_random_times_end_as_the_oracle_says(program: Program, boot_ms: int) -> None:
    site = machines(speed_mips=SPEED_MIPS, boot_ms=boot_ms)
    oracle = PlainSite(4, SPEED_MIPS, boot_ms)
    now_ms = 0
    for gap_ms, batch in [*program, (60, [])]:
        for _ in range(gap_ms):
            now_ms += 1
            oracle.tick(now_ms)
        problems = site.carry_out(batch, now_ms)
        answers = [(one.id, oracle.tell(one, now_ms)) for one in batch]
        assert problems.keys() == {name for name, taken_on in answers if not taken_on}
        site.pass_time(now_ms)
        assert [replace(one, nodes=()) for one in site.observe()] == oracle.observe()


@given(programs(), st.lists(st.integers(0, 15), max_size=20))
def test_it_does_not_matter_how_often_one_looks(program: Program, looks_ms: list[int]) -> None:
    often, seldom = machines(), machines()
    now_ms = 0
    for gap_ms, batch in program:
        for look_ms in sorted(look_ms for look_ms in looks_ms if look_ms < gap_ms):
            often.observe()
            often._let_happen(now_ms + look_ms)
        now_ms += gap_ms
        assert often.carry_out(batch, now_ms) == seldom.carry_out(batch, now_ms)
    assert often.pass_time(now_ms + 60) == seldom.pass_time(now_ms + 60)


# --- beside the simulator ---------------------------------------------------------------------------------


@given(cases() | moving_cases())
def test_machines_tell_what_the_simulated_world_tells_at_the_same_time_in_the_same_order(case: Case) -> None:
    gateway = Shadowed(case, routing_policy("rr")(Random(0)))
    drive(gateway, case)
    for site in gateway.sites:
        emulated, simulated = (
            [line for line in lines if line[1] == site] for lines in (gateway.shadow.emulated, gateway.shadow.simulated)
        )
        assert emulated == simulated


def test_a_look_changes_nothing_of_what_was_seen_before() -> None:
    site = machines()
    told(site, 0, order(Verb.START, command=("sleep", 1)))
    before = seen(site)
    site.pass_time(999)
    assert seen(site) == before
