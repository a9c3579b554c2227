"""What befalls jobs and nodes of emulated sites: each fault a hundred times, with what can be seen of it."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.service.drivers.sites import Clock, machines, seen, setup, told

from leasehold.jobs.job import Fault
from leasehold.model.errors import UnknownName
from leasehold.service.drivers.emulated.driver import EmulatedDriver
from leasehold.service.drivers.emulated.fault_injection import FaultInjector, Faults, next_fault_ms
from leasehold.service.drivers.emulated.machines import EmulatedMachines
from leasehold.service.drivers.emulated.options import EmulatedNode
from leasehold.service.drivers.facts import Output
from leasehold.service.drivers.protocol import Observation, Order, Phase, PlacementConstraints, Verb
from leasehold.testing.driver_rig import order

HOUR_MS, MINUTE_MS = 3_600_000, 60_000
TIMES = 100
WORK = ("sh", "-c", "sleep 60; echo done")
GCC = frozenset({("gcc", "12.2")})


def start(lease_id: int, node: str, command: tuple[str, ...] = WORK) -> Order:
    return replace(order(Verb.START, lease_id, command=command), constraints=PlacementConstraints((node,)))


def a_hundred_jobs(command: tuple[str, ...] = WORK, faults: Faults | None = None) -> EmulatedMachines:
    """A site on whose node n of a hundred the job n runs."""
    nodes = tuple(EmulatedNode(f"n{number}", software=GCC) for number in range(TIMES))
    site = machines(slots=TIMES, nodes=nodes, faults=faults)
    told(site, 0, *(start(number, f"n{number}", command) for number in range(TIMES)))
    return site


def here(site: EmulatedMachines, lease_id: int) -> Observation:
    found = seen(site, lease_id)
    assert found is not None
    return found


def problem_of(site: EmulatedMachines, node: str, now_ms: int) -> tuple[str, str]:
    return next((one.problem, one.fault) for one in site.nodes(now_ms) if one.name == node)


# --- what befalls the jobs themselves ---------------------------------------------------------------------


def test_a_job_that_fails_ends_with_its_status_and_its_message() -> None:
    site = a_hundred_jobs(faults=Faults(fail_jobs=1))
    site.pass_time(HOUR_MS)
    for number in range(TIMES):
        ended = here(site, number)
        assert (ended.phase, ended.exit_status, ended.fault) == (Phase.ENDED, 1, "")
        assert ended.since_ms <= MINUTE_MS
        assert site.output(number) == Output("", error="emulated fault: an error in the job's own code\n")


def test_software_that_is_gone_ends_a_job_at_once() -> None:
    site = a_hundred_jobs(("gcc", "main.c"), Faults(software_gone=1))
    site.pass_time(1)
    for number in range(TIMES):
        ended = here(site, number)
        assert (ended.phase, ended.exit_status, ended.fault) == (Phase.ENDED, 127, Fault.SOFTWARE_GONE)
        assert site.output(number) == Output("", error="sh: 1: gcc: not found\n")


def test_software_may_be_lost_by_one_node_for_a_while() -> None:
    site = machines(nodes=(EmulatedNode("n1", software=GCC), EmulatedNode("n2", software=GCC)))
    site.lose_software("n1", "GCC", 0, MINUTE_MS)
    assert [node.software for node in site.nodes(0)] == [frozenset(), GCC]
    told(site, 0, start(1, "n1", ("gcc",)), start(2, "n2", ("gcc",)))
    site.pass_time(1)
    assert [one.fault for one in site.observe()] == [Fault.SOFTWARE_GONE, ""]
    assert [node.software for node in site.nodes(MINUTE_MS)] == [GCC, GCC]


def test_about_so_many_jobs_fail_and_the_same_ones_each_time() -> None:
    def failed() -> list[int]:
        site = a_hundred_jobs(faults=Faults(fail_jobs=0.3))
        site.pass_time(HOUR_MS)
        return [one.lease_id for one in site.observe() if one.exit_status]

    assert failed() == failed()
    assert 15 < len(failed()) < 45


def test_a_job_that_was_suspended_meanwhile_meets_the_same_fate() -> None:
    site = machines()
    site.injector.fail_job(1, exit_status=5)
    told(site, 0, start(1, "n1"), order(Verb.SUSPEND))
    site.pass_time(99)
    told(site, 99, order(Verb.RESUME, 1, 2))
    site.pass_time(HOUR_MS)
    assert here(site, 1).exit_status == 5


# --- what befalls nodes -----------------------------------------------------------------------------------


@pytest.mark.parametrize("fault", [Fault.NODE_DIED, Fault.SERVICE_STOPPED])
def test_whatever_is_on_a_node_that_falls_has_failed_at_that_moment(fault: Fault) -> None:
    site = a_hundred_jobs()
    for number in range(TIMES):
        at_ms = number * 100
        site.inject(f"n{number}", fault, at_ms, MINUTE_MS)
        failed = here(site, number)
        assert (failed.phase, failed.since_ms, failed.fault) == (Phase.FAILED, at_ms, fault)
        assert problem_of(site, f"n{number}", at_ms) == (failed.detail, fault)
        assert site.carry_out([start(999, f"n{number}")], at_ms)["999.1.start"].again
        assert problem_of(site, f"n{number}", at_ms + MINUTE_MS) == ("", "")
    site.pass_time(HOUR_MS)
    assert {one.phase for one in site.observe()} == {Phase.FAILED}


def test_saved_memory_is_lost_with_its_node_and_what_had_ended_is_not() -> None:
    site = a_hundred_jobs()
    for number in range(0, TIMES, 2):
        told(site, 0, order(Verb.SUSPEND, number))
    site.pass_time(2 * MINUTE_MS)
    for number in range(TIMES):
        site.inject(f"n{number}", Fault.NODE_DIED, 2 * MINUTE_MS, 1)
        assert here(site, number).phase is (Phase.ENDED if number % 2 else Phase.FAILED)


def test_while_the_network_is_cut_nothing_is_seen_and_afterwards_everything_at_its_time() -> None:
    """Half of them end in the dark, the others are still running when the light comes back."""
    site = a_hundred_jobs()
    for number in range(TIMES):
        cut_off_ms = MINUTE_MS // 2 if number % 2 else 2 * MINUTE_MS
        site.inject(f"n{number}", Fault.NETWORK_FAILED, 100, cut_off_ms - 100)
        assert problem_of(site, f"n{number}", 100)[1] == Fault.NETWORK_FAILED
        assert site.carry_out([order(Verb.STOP, number)], 200)[f"{number}.1.stop"].again
    assert site.pass_time(MINUTE_MS // 2 - 1)[TIMES:] == []
    assert {one.phase for one in site.observe()} == {Phase.RUNNING}
    news = site.pass_time(3 * MINUTE_MS)
    assert [(one.phase, one.since_ms) for one in news] == [(Phase.ENDED, MINUTE_MS)] * TIMES
    assert {problem_of(site, f"n{number}", 3 * MINUTE_MS) for number in range(TIMES)} == {("", "")}


def test_nothing_that_ended_in_the_dark_is_seen_too_early() -> None:
    site = machines()
    told(site, 0, start(1, "n1"))
    site.inject("n1", Fault.NETWORK_FAILED, 100, 2 * MINUTE_MS)
    site.pass_time(2 * MINUTE_MS)
    assert here(site, 1).phase is Phase.RUNNING
    assert site.next_change_ms() == 2 * MINUTE_MS + 100
    site.pass_time(2 * MINUTE_MS + 100)
    assert (here(site, 1).phase, here(site, 1).since_ms) == (Phase.ENDED, MINUTE_MS)


def test_who_comes_back_from_the_dead_is_still_running() -> None:
    """Whoever gave it up meanwhile has to fence it: it knows nothing of that."""
    site = machines()
    told(site, 0, start(1, "n1"))
    before = here(site, 1)
    site.inject("n1", Fault.NETWORK_FAILED, 100, 1_000)
    site.pass_time(1_100)
    assert here(site, 1) == before
    told(site, 1_100, order(Verb.STOP))
    assert seen(site) is None


def test_who_dies_in_the_dark_is_dead_when_the_light_comes_back() -> None:
    site = machines()
    told(site, 0, start(1, "n1"), start(2, "n1", ("sleep", "0.3")))
    site.inject("n1", Fault.NETWORK_FAILED, 100, 2_000)
    site.inject("n1", Fault.NODE_DIED, 500, 5_000)
    site.pass_time(1_000)
    assert [one.phase for one in site.observe()] == [Phase.RUNNING, Phase.RUNNING]
    assert problem_of(site, "n1", 1_000)[1] == Fault.NETWORK_FAILED
    site.pass_time(2_100)
    lost, ended = site.observe()
    assert (lost.phase, lost.since_ms, lost.fault) == (Phase.FAILED, 500, Fault.NODE_DIED)
    assert (ended.phase, ended.since_ms) == (Phase.ENDED, 300)
    assert problem_of(site, "n1", 2_100)[1] == Fault.NODE_DIED


def test_those_who_name_no_node_keep_away_from_those_that_are_down() -> None:
    site = machines(slots=3)
    site.inject("n1", Fault.NODE_DIED, 0, MINUTE_MS)
    site.inject("n2", Fault.SERVICE_STOPPED, 0, MINUTE_MS)
    told(site, 0, order(Verb.START, 1), order(Verb.START, 2))
    site.inject("n3", Fault.NODE_DIED, 0, MINUTE_MS)
    assert {one.phase for one in site.observe()} == {Phase.FAILED}
    assert site.carry_out([order(Verb.START, 3)], 0)["3.1.start"].text == "no node is up now"
    told(site, MINUTE_MS, order(Verb.START, 3))


def test_a_node_that_is_not_there_is_named() -> None:
    with pytest.raises(UnknownName, match="n9"):
        machines().inject("n9", Fault.NODE_DIED, 0, 1)


# --- by chance --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rate", "fault"),
    [
        ("node_death_per_hour", Fault.NODE_DIED),
        ("service_stop_per_hour", Fault.SERVICE_STOPPED),
        ("network_cut_per_hour", Fault.NETWORK_FAILED),
    ],
)
def test_nodes_fall_so_often_in_an_hour_whoever_looks_and_however_often(rate: str, fault: Fault) -> None:
    faults = Faults(**{rate: 1.0}, node_down_ms=1)  # type: ignore[arg-type]

    def fell(looks: int) -> list[Observation]:
        site = a_hundred_jobs((), faults)
        site.pass_time(0)
        for number in range(1, looks + 1):
            site.pass_time(HOUR_MS * number // looks)
        return site.observe()

    assert fell(1) == fell(60)
    failed = [one for one in fell(1) if one.fault == fault]
    expected = 0 if fault is Fault.NETWORK_FAILED else 63  # 1 - 1/e of them
    assert expected - 15 <= len(failed) <= expected + 15


@given(st.floats(0.001, 100), st.integers(0, 10**13), st.integers(0, 1_000))
def test_what_comes_next_does_not_depend_on_when_it_is_asked(per_hour: float, after_ms: int, number: int) -> None:
    luck: Callable[..., object] = FaultInjector(Faults(seed=number)).random
    about = ("node-died", "n1")
    next_ms = next_fault_ms(luck, per_hour, about, after_ms)  # type: ignore[arg-type]
    assert next_ms > after_ms
    between_ms = (after_ms + next_ms) // 2
    if between_ms < next_ms:
        assert next_fault_ms(luck, per_hour, about, between_ms) == next_ms  # type: ignore[arg-type]


# --- the whole driver ------------------------------------------------------------------------------------


def test_what_is_wrong_with_nodes_outlives_the_driver_and_so_does_what_they_do_in_the_dark(
    tmp_path: Path,
) -> None:
    clock = Clock()
    begin_ms = clock.now_ms

    async def play() -> None:
        site = EmulatedDriver(setup(tmp_path, clock))
        assert await site.carry_out([start(1, "n1"), start(2, "n2")]) == {}
        await site.cut_off("n1", HOUR_MS)
        await site.kill_node("n2", HOUR_MS)
        await site.close()
        clock.now_ms += HOUR_MS // 2
        site = EmulatedDriver(setup(tmp_path, clock))
        assert [(one.phase, one.fault) for one in await site.observe()] == [
            (Phase.RUNNING, ""),
            (Phase.FAILED, Fault.NODE_DIED),
        ]
        assert [node.fault for node in await site.nodes()] == ["network-failed", "node-died", "", ""]
        clock.now_ms += HOUR_MS // 2
        (ended,) = await site.changes()
        assert (ended.phase, ended.since_ms) == (Phase.ENDED, begin_ms + 30_000)
        assert await site.output(1) == Output("done\n")
        assert await site.carry_out([order(Verb.STOP, 1)]) == {}
        await site.close()
        site = EmulatedDriver(setup(tmp_path, clock))
        assert await site.output(1) == Output("done\n")
        assert [node.fault for node in await site.nodes()] == ["", "", "", ""]
        await site.close()

    asyncio.run(play())


def test_whoever_waits_for_changes_hears_of_a_node_that_falls(tmp_path: Path) -> None:
    async def play() -> None:
        site = EmulatedDriver(setup(tmp_path, Clock()))
        await site.carry_out([start(1, "n1")])
        await site.changes()
        waiting = asyncio.create_task(site.changes())
        await asyncio.sleep(0)
        await site.stop_service("n1", MINUTE_MS)
        assert [one.fault for one in await waiting] == [Fault.SERVICE_STOPPED]
        await site.close()

    asyncio.run(play())


def group(least: int, command: tuple[str, ...] = WORK) -> EmulatedMachines:
    """A command on three nodes that needs so many of them."""
    site = machines(slots=4, nodes=tuple(EmulatedNode(f"n{number}") for number in range(1, 5)))
    asked = replace(order(Verb.START, 1, vms=3, command=command))
    told(site, 0, replace(asked, constraints=PlacementConstraints(("n1", "n2", "n3"), least=least)))
    site.pass_time(1)
    return site


def test_a_command_goes_on_with_as_many_nodes_as_it_needs_and_ends_in_its_time() -> None:
    site = group(2)
    site.inject("n2", Fault.NODE_DIED, 10, HOUR_MS)
    assert (here(site, 1).phase, here(site, 1).nodes) == (Phase.RUNNING, ("n1", "n3"))
    site.pass_time(MINUTE_MS)
    assert (here(site, 1).phase, here(site, 1).exit_status) == (Phase.ENDED, 0)
    told(site, MINUTE_MS, order(Verb.STOP, 1))
    assert [(node.name, node.free_cores) for node in site.nodes(MINUTE_MS)] == [(f"n{n}", 4) for n in range(1, 5)]


@pytest.mark.parametrize(("least", "fallen"), [(2, ("n1", "n2")), (0, ("n2",)), (3, ("n3",)), (1, ("n1", "n2", "n3"))])
def test_it_fails_with_fewer(least: int, fallen: tuple[str, ...]) -> None:
    site = group(least)
    for at_ms, node in enumerate(fallen, 10):
        assert here(site, 1).phase is Phase.RUNNING
        site.inject(node, Fault.NODE_DIED, at_ms, HOUR_MS)
    assert (here(site, 1).phase, here(site, 1).fault) == (Phase.FAILED, Fault.NODE_DIED)


def test_it_is_suspended_and_resumed_on_those_that_are_left() -> None:
    site = group(2)
    site.inject("n2", Fault.NODE_DIED, 10, HOUR_MS)
    told(site, 20, order(Verb.SUSPEND, 1))
    site.pass_time(10 * MINUTE_MS)
    told(site, 10 * MINUTE_MS, order(Verb.RESUME, 1, 2))
    site.pass_time(HOUR_MS)
    assert (here(site, 1).phase, here(site, 1).nodes) == (Phase.ENDED, ("n1", "n3"))
