"""The queue of the site's own users, as the planner gets it: by hand, and asked of a real Slurm."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest
from tests.service.drivers.slurm.sites import SlurmRig

from leasehold.service.drivers.protocol import HasNativeQueue, NativeJob, Phase, Verb
from leasehold.service.drivers.slurm import instance
from leasehold.service.drivers.slurm.cluster import Job, Node
from leasehold.service.drivers.slurm.driver import SlurmDriver
from leasehold.service.drivers.slurm.options import OnSuspend, SlurmOptions
from leasehold.service.drivers.slurm.queue import CpuMap, NativeQueue, site_nodes
from leasehold.service.drivers.slurm.reconciler import NO_ROOM
from leasehold.testing.driver_rig import Site, order, site
from leasehold.testing.slurm import SlurmCluster

YEAR_MS = 365 * 24 * 3_600_000
MAIN = ("main",)

# --- by hand ----------------------------------------------------------------------------------------------


def queue(partition: str = "", **options: Any) -> NativeQueue:
    """Three nodes of eight CPUs and 16 GiB; the last is in a partition of its own, too."""
    nodes = {name: Node(name, 8, 16_384, frozenset(MAIN)) for name in ("n1", "n2", "n3")}
    nodes["n3"] = replace(nodes["n3"], partitions=frozenset({"main", "debug"}))
    limits = {"main": None, "debug": 30}
    given = SlurmOptions(partition=partition, **options)
    return NativeQueue(site_nodes(nodes, given), limits, given, slots=24)


def job(number: int, *words: str, **fields: Any) -> Job:
    return Job(number, words, user="physics", **{"partitions": MAIN} | fields)


def waiting(number: int, **fields: Any) -> Job:
    return job(number, "PENDING", **{"reason": "Resources"} | fields)


def running(number: int, cpus_by_node: dict[str, int], *words: str, **fields: Any) -> Job:
    cpus = sum(cpus_by_node.values())
    return job(number, *(words or ("RUNNING",)), cpus=cpus, cpus_by_node=cpus_by_node, **fields)


def listed(*jobs: Job, on: NativeQueue | None = None) -> list[NativeJob]:
    return (on or queue()).of(jobs)


def vms(*jobs: Job, on: NativeQueue | None = None) -> dict[str, int]:
    return {one.name: one.vms for one in listed(*jobs, on=on)}


class TestWhoIsListed:
    def test_those_that_hold_their_room(self) -> None:
        words = [("RUNNING",), ("RUNNING", "CONFIGURING"), ("COMPLETING",), ("SUSPENDED",), ("COMPLETED",)]
        jobs = [running(number, {"n1": 1}, *words[number]) for number in range(5)]
        assert [(one.name, one.running) for one in listed(*jobs)] == [(str(n), True) for n in range(4)]

    def test_unless_suspended_ones_do_not(self) -> None:
        suspended = running(1, {"n1": 1}, "SUSPENDED")
        assert listed(suspended, on=queue(suspended_jobs=False)) == []

    @pytest.mark.parametrize(
        ("reason", "is_listed"),
        [
            ("", True),
            ("None", True),
            ("Resources", True),
            ("Priority", True),
            ("Dependency", False),
            ("BeginTime", False),
            ("JobHeldUser", False),
            ("AssocGrpCpuLimit", False),
            ("ReqNodeNotAvail", False),
        ],
    )
    def test_those_that_wait_for_nothing_but_room(self, reason: str, *, is_listed: bool) -> None:
        assert bool(listed(waiting(1, reason=reason))) is is_listed

    def test_only_those_of_the_partition_and_those_who_share_its_nodes(self) -> None:
        jobs = [
            running(1, {"n1": 4}),
            running(2, {"n2": 4, "n3": 2}),
            waiting(3),
            waiting(4, partitions=("elsewhere",)),
        ]
        assert vms(*jobs, on=queue("debug")) == {"2": 2, "3": 1}


class TestHowLargeTheyAre:
    def test_cpus_are_rounded_up_to_vms_node_by_node(self) -> None:
        jobs = [running(1, {"n1": 1, "n2": 5}), waiting(2, cpus=9), waiting(3, cpus=3, nodes_wanted=3)]
        assert vms(*jobs, on=queue(cpus_per_vm=4)) == {"1": 3, "2": 3, "3": 3}

    def test_who_wants_whole_nodes_gets_them(self) -> None:
        jobs = [
            waiting(1, cpus=2, nodes_wanted=2, exclusive=True),
            waiting(2, cpus=9, exclusive=True),
        ]
        assert vms(*jobs, on=queue(cpus_per_vm=2)) == {"1": 8, "2": 8}

    def test_where_memory_is_given_out_it_may_be_what_is_scarcer(self) -> None:
        on = queue(memory=True, suspend=OnSuspend.NONE)
        jobs = [
            waiting(1, cpus=1, memory_per_node_mib=8_192),
            waiting(2, cpus=2, memory_per_cpu_mib=512),
            running(3, {"n1": 1}, memory_per_node_mib=16_384),
        ]
        assert vms(*jobs, on=on) == {"3": 8, "1": 4, "2": 2}
        assert {one.name: one.memory_mib for one in listed(*jobs, on=on)} == {
            "3": 2_048,
            "1": 2_048,
            "2": 512,
        }

    def test_each_may_run_as_long_as_it_says_or_as_its_partition_lets_it(self) -> None:
        jobs = [
            waiting(1, time_limit_min=90),
            waiting(2, time_limit_min=None),
            waiting(3, time_limit_min=None, partitions=("debug",)),
            waiting(4, time_limit_min=10**9),
        ]
        assert [one.duration_ms for one in listed(*jobs)] == [90 * 60_000, YEAR_MS, 30 * 60_000, YEAR_MS]


class TestInWhichOrder:
    def test_those_that_run_and_then_by_priority(self) -> None:
        jobs = [
            waiting(1, priority=5),
            waiting(2, priority=9),
            waiting(3, priority=9),
            running(5, {"n1": 1}, start_s=200),
            running(6, {"n1": 1}, start_s=100),
        ]
        assert [one.name for one in listed(*jobs)] == ["6", "5", "2", "3", "1"]


class TestArrays:
    def test_are_listed_task_by_task(self) -> None:
        jobs = [
            waiting(8, array_id=8, array_tasks="3-5"),
            running(12, {"n1": 1}, array_id=8, array_task=1),
        ]
        assert [one.name for one in listed(*jobs)] == ["8_1", "8_3", "8_4", "8_5"]

    def test_no_more_than_may_run_at_a_time(self) -> None:
        jobs = [
            waiting(8, array_id=8, array_tasks="3-99%2", array_limit=2),
            running(12, {"n1": 1}, array_id=8, array_task=1, array_limit=2),
        ]
        assert [one.name for one in listed(*jobs)] == ["8_1", "8_3"]

    def test_no_more_than_there_are_slots(self) -> None:
        assert len(listed(waiting(8, array_id=8, array_tasks="0-99999"))) == queue().slots


# --- asked of a real Slurm --------------------------------------------------------------------------------


async def own(driver: object) -> list[NativeJob]:
    assert isinstance(driver, HasNativeQueue)
    return await driver.native_jobs()


@pytest.mark.machines
def test_native_jobs_are_seen_as_they_were_submitted(rig: SlurmRig, cluster: SlurmCluster) -> None:
    """Three nodes of four CPUs, two of which make a VM."""
    rig.options["cpus_per_vm"] = 2
    array = cluster.submit("--array=1-4%2", "--ntasks=1", "--cpus-per-task=3", "--time=10")
    cluster.until_state(f"{array}_2", "RUNNING")
    whole = cluster.submit("--nodes=3", "--exclusive", "--time=1:00")
    small = cluster.submit("--nodes=2", "--ntasks=2")
    held = cluster.submit("--hold")
    later = cluster.submit("--begin=now+1hour")
    cluster.until(lambda: "None" not in cluster.run("squeue", "--noheader", "--format=%r", "--jobs", whole))

    async def look() -> None:
        async with site(rig) as here:
            jobs = {one.name: one for one in await own(here.driver)}
            assert jobs.keys() == {f"{array}_1", f"{array}_2", whole, small}
            assert not jobs.keys() & {held, later}
            first = jobs[f"{array}_1"]
            assert (first.vms, first.running, first.duration_ms) == (2, True, 600_000)
            assert (jobs[whole].vms, jobs[whole].running, jobs[whole].duration_ms) == (6, False, 60_000)
            assert (jobs[small].vms, jobs[small].user, jobs[small].duration_ms) == (2, "root", YEAR_MS)

    asyncio.run(look())


@pytest.mark.machines
def test_a_native_job_gets_the_room_of_guests_and_they_come_back(rig: SlurmRig, cluster: SlurmCluster) -> None:
    """The cluster is full of guests that count; a user's job runs within seconds, and they count on."""
    cores, guests = cluster.slots, (1, 2, 3)

    async def play() -> None:
        async with site(rig) as here:
            for guest in guests:
                await here.do(order(Verb.START, guest, vms=cores // 3, command=("sh", "-c", COUNTING)))
            for guest in guests:
                await here.until(Phase.RUNNING, guest)
            await _has_counted_on(here, rig, [])
            native = cluster.submit("--nodes=1", "--exclusive", command="sleep 1.5")
            (waits,) = await own(here.driver)
            assert (waits.name, waits.vms, waits.running) == (native, cores // 3, False)
            await _make_way(here, 1)
            cluster.until_state(native, "RUNNING")
            assert [one.running for one in await own(here.driver)] == [True]
            counted = await _counted(here, 1)
            await here.has_no_room_for(order(Verb.RESUME, 1, 2, vms=cores // 3))
            cluster.until_state(native, "COMPLETED")
            assert await _counted(here, 1) == counted, "it counted on while it was suspended"
            await here.do(order(Verb.RESUME, 1, 2, vms=cores // 3))
            await here.until(Phase.RUNNING, 1)
            now = await _has_counted_on(here, rig, counted)
            assert now[: len(counted)] == counted, "it began anew"

    asyncio.run(play())


@pytest.mark.machines
def test_a_guest_that_came_back_too_soon_steps_back_again(
    rig: SlurmRig, cluster: SlurmCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between our look and our order Slurm may have given the CPUs to a user, and resumes all the same."""
    monkeypatch.setattr(instance, "SETTLING_S", 1)

    async def play() -> None:
        async with site(rig) as here:
            await here.do(order(Verb.START, vms=12))
            await here.until(Phase.RUNNING)
            await _make_way(here, 1)
            native = cluster.submit("--nodes=3", "--exclusive", command="sleep 4")
            cluster.until_state(native, "RUNNING")
            with monkeypatch.context() as too_soon:
                too_soon.setattr(CpuMap, "has_room_for", lambda *_: True)
                await here.do(order(Verb.RESUME, 1, 2, vms=12))
                await here.until(Phase.RUNNING)
            stepped_back = await here.until(Phase.RESUMING)
            assert (stepped_back.incarnation, stepped_back.detail) == (2, NO_ROOM)
            assert cluster.run("squeue", "--noheader", "--format=%T", "--user=root,nobody").split() == [
                "RUNNING",
                "SUSPENDED",
            ]
            await here.until(Phase.RUNNING)
            assert cluster.state_of(native) == "COMPLETED"

    asyncio.run(play())


@pytest.mark.machines
def test_a_newcomer_does_not_sit_down_on_the_memory_of_a_suspended_guest(rig: SlurmRig) -> None:
    async def play() -> None:
        async with site(rig) as here:
            await here.do(order(Verb.START, 1, vms=4))
            await here.until(Phase.RUNNING, 1)
            await _make_way(here, 1)
            await here.do(order(Verb.START, 2, vms=8))
            await here.until(Phase.RUNNING, 2)
            await here.do(order(Verb.RESUME, 1, 2, vms=4))
            await here.until(Phase.RUNNING, 1)

    asyncio.run(play())


COUNTING = "i=0; while :; do i=$((i + 1)); echo $i; /bin/sleep 0.2; done"


async def _make_way(here: Site, guest: int) -> None:
    await here.do(order(Verb.SUSPEND, guest))
    await here.until(Phase.SAVED, guest)


async def _has_counted_on(here: Site, rig: SlurmRig, counted: list[str]) -> list[str]:
    """Wait until the first guest has counted further, and say how far."""
    for _ in range(rig.patience):
        if (now := await _counted(here, 1)) != counted:
            return now
        await rig.pass_time()
    raise AssertionError("it counts no more")


async def _counted(here: Site, guest: int) -> list[str]:
    """What the first VM of a guest has counted so far."""
    assert isinstance(here.driver, SlurmDriver)
    return [line for line in (await here.driver.console(guest)).splitlines() if line.startswith("0: ")]
