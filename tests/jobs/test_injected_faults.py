"""Each fault a hundred times in a simulated world: the reaction is seen, and every result comes once."""

from random import Random

import pytest
from tests.jobs.job_world import JobWorld
from tests.jobs.making import BASE, MINUTE, S, ask

from leasehold.jobs.effects import JobClosed, JobDecided
from leasehold.jobs.job import Backup, Fault, JobRequest, JobState
from leasehold.jobs.scheduler import JobScheduler
from leasehold.jobs.settings import JobSettings
from leasehold.matching.needs import Amounts
from leasehold.matching.nodes import NodeCapabilities
from leasehold.matching.software import installed

NODES = 8
TIMES = 100
ITS_OWN = {Fault.JOB_ERROR, Fault.TIME_OVER, Fault.INPUT_GONE}
"""What the job itself is the cause of."""


def world(settings: JobSettings | None = None) -> JobWorld:
    """Eight nodes at two sites, half of them hosts, all with gcc."""
    nodes = [
        NodeCapabilities(
            name=f"{'ab'[number % 2]}/{number}",
            total=Amounts(2, 1_000, 1_000),
            cpu_mhz=2_000,
            software=installed([("gcc", "12")]),
        )
        for number in range(NODES)
    ]
    hosts = [(able, number % 4 < 2) for number, able in enumerate(nodes)]
    return JobWorld(JobScheduler(settings or JobSettings()), hosts, BASE, (("gcc", "12"),))


def keep_busy(made: JobWorld, random: Random, fault: Fault, backup: Backup) -> None:
    """Submit jobs and let the fault befall one that runs, a hundred times; then let all end."""
    job_id = 0
    while len(made.faults) < TIMES:
        job_id += 1
        command = ask(
            job_id,
            at_ms=made.now_ms,
            cores=random.choice([1, 2]),
            needs="gcc",
            nodes=random.choice([1, 1, 2]),
            execution_ms=random.randrange(20 * S, 60 * S),
            backup=backup,
            restarts=20,
        )
        made.submit(command)
        made.run_until(made.now_ms + random.randrange(5 * S, 15 * S))
        there = [key for key in made.running() if counts(made, key)]
        if there:
            made.inject(fault, random.choice(there))
    made.run_until(made.now_ms + 60 * MINUTE)


def counts(made: JobWorld, key: tuple[int, int]) -> bool:
    """Whether an attempt is one that the desk counts on, on nodes that can be reached."""
    record = made.scheduler.records.get(key[0])
    attempt = record.attempt(key[1]) if record else None
    if attempt is None or not attempt.state.is_open:
        return False
    return all(made.nodes[name].is_reached for name in attempt.nodes)


@pytest.mark.soak
@pytest.mark.parametrize(
    ("fault", "backup"),
    [
        *((fault, Backup.NONE) for fault in Fault if fault not in ITS_OWN),
        (Fault.NODE_DIED, Backup.COLD),
        (Fault.NETWORK_FAILED, Backup.COLD),
        (Fault.SERVICE_STOPPED, Backup.HOT),
        (Fault.NETWORK_FAILED, Backup.HOT),
    ],
)
def test_a_fault_a_hundred_times(fault: Fault, backup: Backup) -> None:
    made = world()
    keep_busy(made, Random(f"{fault} {backup}"), fault, backup)

    assert not made.scheduler.records
    assert all(len(results) == 1 for results in made.delivered.values())
    assert not made.running()
    decided = [effect for _, effect in made.effects if isinstance(effect, JobDecided)]
    befell = {effect.record.id for effect in decided if effect.reason == fault.value}
    assert {job_id for _, (job_id, _) in made.faults} <= befell | ended_elsewhere(made)
    assert {record.state for [record] in made.delivered.values()} == {JobState.COMPLETED}


@pytest.mark.parametrize("fault", [Fault.TIME_OVER, Fault.INPUT_GONE])
def test_what_a_job_would_meet_again_is_never_tried_again_a_hundred_times(fault: Fault) -> None:
    made = world()
    keep_busy(made, Random("over"), fault, Backup.NONE)

    assert not made.scheduler.records
    assert not made.running()
    over = [effect.record for _, effect in made.effects if isinstance(effect, JobClosed)]
    unfinished = [record for record in over if record.state is JobState.FAILED]
    assert {record.id for record in unfinished} == {job_id for _, (job_id, _) in made.faults}
    assert {(record.reason.value, len(record.attempts)) for record in unfinished} == {(fault.value, 1)}


def ended_elsewhere(made: JobWorld) -> set[int]:
    """Jobs that had their result of a hot copy before anybody noticed the fault."""
    return {job_id for job_id, [record] in made.delivered.items() if len(record.attempts) > 1}


def test_an_error_of_its_own_is_delivered_a_hundred_times_and_never_tried_again() -> None:
    made = world()
    for job_id in range(1, TIMES + 1):
        request = ask(job_id, at_ms=made.now_ms, execution_ms=5 * S)
        made.submit(JobRequest(job=request.job, command=("false",)))
        made.run_until(made.now_ms + S)
    made.run_until(made.now_ms + 10 * MINUTE)

    assert [len(results) for results in made.delivered.values()] == [1] * TIMES
    assert {record.reason.value for [record] in made.delivered.values()} == {"job-error"}
    assert {len(record.attempts) for [record] in made.delivered.values()} == {1}
