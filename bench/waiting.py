"""What does it cost when many jobs wait? In-process, processor time, 600 jobs that wait for 32 nodes.

    python -m bench.waiting [--jobs N] [--nodes N]

Jobs differ in cores, memory, software and deadline, so that no two of them wait for the same. All are there
from the beginning; then jobs end one after the other, and each time others may begin. Nothing is asserted.
"""

import argparse
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from heapq import heappop, heappush
from random import Random
from statistics import median, quantiles
from time import thread_time_ns

from leasehold.jobs.effects import JobEffect, StartAttempt
from leasehold.jobs.events import AttemptEnded, JobEvent, JobSubmitted, NodesSeen, SeenNode
from leasehold.jobs.job import JobRequest
from leasehold.jobs.scheduler import JobScheduler
from leasehold.jobs.settings import JobSettings
from leasehold.matching.choice import Retrying
from leasehold.matching.needs import Amounts, Job, Needs
from leasehold.matching.nodes import Node, NodeCapabilities
from leasehold.matching.software import installed, software

BEGIN_MS, FOR_EVER_MS = 1, 10**12
NEVER_GIVEN_UP = JobSettings(retrying=Retrying(interval_ms=900_000, limit_ms=FOR_EVER_MS))
Running = list[tuple[int, int, int]]
"""A heap of attempts: when each ends (ms), its job and its number."""


@dataclass(frozen=True, slots=True)
class WaitingJobs:
    """How long decisions took while jobs waited; ``ended`` is how many ends of attempts were timed."""

    jobs: int
    nodes: int
    ended: int
    submitting_median_us: float
    ending_median_us: float
    ending_p99_us: float


def waiting_jobs(jobs: int = 600, nodes: int = 32) -> WaitingJobs:
    """Submit jobs one by one, and let those that run end one by one as long as any does."""
    random, desk = Random(1), JobScheduler(NEVER_GIVEN_UP)
    desk.handle([NodesSeen("a", tuple(_node(number, random) for number in range(nodes)))], BEGIN_MS)
    running: Running = []
    submitting_us = [
        _timed_us(desk, JobSubmitted(_job(number, random)), BEGIN_MS, running) for number in range(1, jobs + 1)
    ]
    ending_us = []
    while running:
        now_ms, job_id, number = heappop(running)
        ending_us.append(_timed_us(desk, AttemptEnded(job_id, number, 0), now_ms, running))
    p99_us = quantiles(ending_us, n=100)[98]
    return WaitingJobs(jobs, nodes, len(ending_us), median(submitting_us), median(ending_us), p99_us)


def _timed_us(desk: JobScheduler, event: JobEvent, now_ms: int, running: Running) -> float:
    """Tell the desk of an event, and note what it starts."""
    begun_ns = thread_time_ns()
    effects = desk.handle([event], now_ms)
    taken_ns = thread_time_ns() - begun_ns
    _note(effects, now_ms, running)
    return taken_ns / 1e3


def _note(effects: Sequence[JobEffect], now_ms: int, running: Running) -> None:
    for one in effects:
        if isinstance(one, StartAttempt):
            end_ms = now_ms + one.record.request.job.needs.execution_ms
            heappush(running, (end_ms, one.record.id, one.attempt.number))


def _node(number: int, random: Random) -> SeenNode:
    able = NodeCapabilities(
        name=f"a/{number}",
        total=Amounts(4, random.randrange(4_000, 8_000), 1_000),
        cpu_mhz=2_000,
        software=installed([("gcc", "12")] if number % 2 else []),
    )
    return SeenNode(Node(capabilities=able, free=able.total, seen_ms=BEGIN_MS), is_host=False, runs=True)


def _job(number: int, random: Random) -> JobRequest:
    needs = Needs(
        amounts=Amounts(random.randint(1, 4), random.randrange(100, 4_000), 0),
        execution_ms=random.randrange(10_000, 600_000),
        software=random.choice([(software("gcc"),), ()]),
    )
    deadline_ms = random.choice([None, FOR_EVER_MS + number])
    job = Job(job_id=number, submitted_ms=BEGIN_MS, needs=needs, deadline_ms=deadline_ms)
    return JobRequest(job=job, command=("true",))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--jobs", type=int, default=600)
    parser.add_argument("--nodes", type=int, default=32)
    given = parser.parse_args()
    print(json.dumps(asdict(waiting_jobs(given.jobs, given.nodes))))
