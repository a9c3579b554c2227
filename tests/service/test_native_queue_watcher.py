"""How much room is asked for the jobs of a site's own scheduler, and what if that does not answer."""

import asyncio
from collections.abc import Sequence

from leasehold.service.commands import Command, NativeJobsSeen
from leasehold.service.drivers.protocol import NativeJob
from leasehold.service.native_queue_watcher import NativeQueueWatcher, Width


def job(name: str, vms: int, *, running: bool = False) -> NativeJob:
    return NativeJob(name, "astro", vms, 512, 600_000, running)


def asked_over_time(jobs: Sequence[NativeJob], with_room: set[str], looks: int, slots: int = 12) -> list[int]:
    """How many VMs are asked for the first job, look by look, while nothing changes."""
    width, asked = Width(slots), []
    for _ in range(looks):
        asked.append(width.of(jobs[0]).vms)
        width.learn(jobs, with_room)
    return asked


class TestWidth:
    def test_a_job_that_waits_beside_its_room_gets_more_and_more(self) -> None:
        assert asked_over_time([job("7", 2)], {"7"}, 10) == [2] * 3 + [4] * 3 + [8] * 3 + [12]

    def test_one_that_does_not_start_on_the_empty_site_does_not_wait_for_guests(self) -> None:
        width, stuck, other = Width(12), job("7", 6), job("8", 2)
        for _ in range(33):
            assert [one.name for one in width.all_of([stuck, other])] == ["7", "8"]
            width.learn([stuck, other], {"7"})
        assert width.all_of([stuck, other]) == (other,)
        started = job("7", 6, running=True)
        assert width.all_of([started, other]) == (started, other)

    def test_without_room_yet_there_is_nothing_to_learn(self) -> None:
        assert asked_over_time([job("7", 2)], set(), 10) == [2] * 10

    def test_only_the_first_in_the_queue_is_waited_for(self) -> None:
        width, queue = Width(12), [job("7", 2), job("8", 2)]
        for _ in range(10):
            width.learn(queue, {"8"})
        assert [width.of(one).vms for one in queue] == [2, 2]

    def test_what_runs_holds_what_it_holds(self) -> None:
        width = Width(12)
        for _ in range(4):
            width.learn([job("7", 2)], {"7"})
        assert width.of(job("7", 2, running=True)).vms == 2

    def test_who_has_left_the_queue_begins_anew(self) -> None:
        width = Width(12)
        for _ in range(4):
            width.learn([job("7", 2)], {"7"})
        width.learn([], ())
        assert width.of(job("7", 2)).vms == 2


class Scheduler:
    """One that answers, or does not."""

    def __init__(self) -> None:
        self.is_there = True

    async def native_jobs(self) -> list[NativeJob]:
        if not self.is_there:
            raise ConnectionError("no route to slurmctld")
        return [job("7", 2)]


def test_a_scheduler_that_does_not_answer_changes_nothing() -> None:
    told: list[Command] = []

    async def do(command: Command) -> object:
        told.append(command)
        return frozenset[str]()

    scheduler = Scheduler()
    queue = NativeQueueWatcher("a", 12, scheduler, do)
    asyncio.run(queue.look())
    scheduler.is_there = False
    asyncio.run(queue.look())
    assert queue.problem == "ConnectionError: no route to slurmctld"
    assert told == [NativeJobsSeen("a", (job("7", 2),))]
    scheduler.is_there = True
    asyncio.run(queue.look())
    assert queue.problem == ""
