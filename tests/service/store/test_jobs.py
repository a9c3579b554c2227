"""Jobs in the store: kept whole, listed page by page, and seen only by those who may."""

from dataclasses import asdict, replace
from typing import Any, cast

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from leasehold.jobs.job import Attempt, AttemptState, Backup, Fault, JobReason, JobRecord, JobRequest, JobState
from leasehold.matching.assignment import Edge
from leasehold.matching.choice import Physical, Virtual
from leasehold.matching.images import Image
from leasehold.matching.needs import Amounts, InputFile, Job, Needs
from leasehold.matching.software import software
from leasehold.service.drivers.protocol import PlacementConstraints
from leasehold.service.store import retention
from leasehold.service.store.filters import EVERYTHING, JobFilter, Visible
from leasehold.service.store.retention import Cutoffs
from leasehold.service.store.rows import (
    ATTEMPTS,
    IDEMPOTENCY_KEYS,
    IMAGES,
    JOBS,
    JOURNAL,
    LEASES,
    NODES,
    OUTPUTS,
    AttemptRow,
    CommandEnd,
    IdempotencyRow,
    ImageRow,
    JobRow,
    NodeRow,
    OutputFile,
    OutputRow,
)
from leasehold.service.store.store import Store
from leasehold.testing.rows import BEGIN_MS, journal_row, lease_row

IMAGE = Image("base+gromacs", frozenset({("gromacs", "2022.5")}), 1 << 30, Amounts(0, 128, 1024), frozenset("a"))
HERE = Physical((Edge(3, 2048, -125, "a/n1"), Edge(4, 2048, -125, "a/n2")))
THERE = Virtual((Edge(30, 4096, -125, "b/h1"),), IMAGE)


def record(job_id: int = 1, **said: Any) -> JobRecord:
    """A job of `physics` that lost its first place and runs at another."""
    needs = Needs(
        amounts=Amounts(2, 1024, 10),
        execution_ms=60_000,
        nodes=2,
        cpu_mhz=1000,
        software=(software("gromacs >= 2022, < 2023"), software("python3")),
        inputs=(InputFile("topology", 12, "store"),),
        outputs=("out", "none"),
    )
    job = Job(job_id=job_id, submitted_ms=BEGIN_MS, needs=needs, deadline_ms=BEGIN_MS + 600_000)
    request = JobRequest(
        job=job,
        command=("fold", "--all"),
        consumer="physics",
        group="atlas",
        name="fold",
        environment=(("OMP_NUM_THREADS", "4"), ("EMPTY", "")),
        array_id=job_id,
        array_index=3,
        backup=Backup.COLD,
        reliability=0.99,
    )
    lost = Attempt(1, HERE, BEGIN_MS, state=AttemptState.FENCED, fault=Fault.NODE_DIED, detail="is down")
    second = Attempt(2, THERE, BEGIN_MS + 9, is_backup=True, state=AttemptState.RUNNING, started_ms=BEGIN_MS + 9)
    usual = {
        "state": JobState.RUNNING,
        "reason": JobReason.RUNS_IN_MACHINES,
        "attempts": [lost, second],
        "restarts": 1,
        "since_ms": BEGIN_MS,
        "standby": HERE,
        "surest": 0.995,
    }
    return JobRecord(request, **cast("dict[str, Any]", usual | said))


def job_row(job_id: int, exit_status: int | None = None, **said: Any) -> JobRow:
    """The row of a job; what is said is of its record, its request or its needs."""
    made = record(job_id)
    names = {name for name in said if name in JobRequest.__slots__}
    job = replace(made.request.job, submitted_ms=said.pop("submitted_ms", BEGIN_MS))
    made.request = replace(made.request, job=job, **{name: said.pop(name) for name in names})
    for name, value in said.items():
        setattr(made, name, value)
    return JobRow(made, exit_status)


def attempt_row(job_id: int, number: int = 1, **said: Any) -> AttemptRow:
    attempt = record().attempt(number)
    attempt.state = said.pop("state", attempt.state)
    usual: dict[str, Any] = {"site": attempt.site}
    return AttemptRow(job_id, attempt, **(usual | said))


def write(store: Store, *jobs: JobRow, attempts: tuple[AttemptRow, ...] = ()) -> None:
    with store.writing() as batch:
        batch.upsert(ATTEMPTS, attempts)
        batch.upsert(JOBS, jobs)


def numbers(store: Store, which: JobFilter, before_id: int | None = None, limit: int = 10) -> list[int]:
    return [row.record.id for row in store.jobs(which, limit, before_id)]


def test_a_job_comes_back_as_it_was(store: Store) -> None:
    before = record()
    rows = [AttemptRow(1, attempt, attempt.site) for attempt in before.attempts]
    write(store, JobRow(before), attempts=tuple(rows))
    [row] = store.open_jobs()
    assert row.record.request == before.request
    assert store.attempts([1]) == rows
    assert [_fields(one.attempt) for one in store.attempts([1])] == [_fields(one) for one in before.attempts]
    without = ("request", "attempts")
    assert _fields(row.record, without) == _fields(before, without)


def _fields(thing: object, without: tuple[str, ...] = ()) -> dict[str, Any]:
    names = (name for name in type(thing).__slots__ if name not in without)  # type: ignore[attr-defined]
    return {name: getattr(thing, name) for name in names}


def test_how_a_command_ended_comes_back_until_its_output_is_here(store: Store) -> None:
    write(store, job_row(1), attempts=(attempt_row(1, 2, end=CommandEnd(3, "exit status 3")),))
    [row] = store.attempts([1])
    assert row.end == CommandEnd(3, "exit status 3")
    write(store, attempts=(attempt_row(1, 2),))
    assert store.attempts([1])[0].end is None


def test_what_is_written_again_is_changed(store: Store) -> None:
    write(store, job_row(1))
    write(store, job_row(1, state=JobState.COMPLETED, ended_ms=BEGIN_MS + 1, delivered=2, exit_status=0))
    row = store.job(1)
    assert row is not None
    assert (row.record.state, row.record.delivered, row.exit_status) == ("completed", 2, 0)
    assert (store.open_jobs(), store.highest_job_id()) == ([], 1)
    assert store.job(2) is None


class TestLists:
    @pytest.fixture(autouse=True)
    def _rows(self, store: Store) -> None:
        jobs = [
            job_row(1, state=JobState.COMPLETED),
            job_row(2, consumer="climate", group="cms"),
            job_row(3, consumer="climate", group="", submitted_ms=BEGIN_MS + 5),
            job_row(4, group="cms", state=JobState.REFUSED),
        ]
        there = (
            *(attempt_row(1, 1), attempt_row(2, 1), attempt_row(2, 2)),
            *(attempt_row(4, 1, site="c", state=AttemptState.FAILED), attempt_row(4, 2, site="d")),
        )
        write(store, *jobs, attempts=there)

    def test_are_pages_with_the_newest_first(self, store: Store) -> None:
        assert numbers(store, JobFilter(EVERYTHING), limit=3) == [4, 3, 2]
        assert numbers(store, JobFilter(EVERYTHING), before_id=2) == [1]
        assert numbers(store, JobFilter(EVERYTHING), before_id=10**30) == [4, 3, 2, 1]

    @pytest.mark.parametrize(
        ("asked", "found"),
        [
            ({"states": ("refused", "completed")}, [4, 1]),
            ({"open": True}, [3, 2]),
            ({"open": False}, [4, 1]),
            ({"consumer": "climate"}, [3, 2]),
            ({"since_ms": BEGIN_MS + 5}, [3]),
            ({"site": "b"}, [2]),
            ({"site": "a", "open": True}, [2]),
        ],
    )
    def test_have_what_is_asked_for(self, store: Store, asked: dict[str, Any], found: list[int]) -> None:
        assert numbers(store, JobFilter(EVERYTHING, **asked)) == found

    @pytest.mark.parametrize(
        ("visible", "found"),
        [
            (Visible(), []),
            (Visible(consumer="climate"), [3, 2]),
            (Visible(groups=("cms", "")), [4, 2]),
            (Visible(sites=("b",)), [2]),
            (Visible(sites=("c",)), []),
            (Visible(sites=("d",)), [4]),
            (Visible(consumer="physics", sites=("b",)), [4, 2, 1]),
        ],
    )
    def test_have_only_what_may_be_seen(self, store: Store, visible: Visible, found: list[int]) -> None:
        assert numbers(store, JobFilter(visible)) == found

    def test_of_attempts_are_by_job_and_number(self, store: Store) -> None:
        assert [(row.job_id, row.attempt.number) for row in store.attempts([2, 1])] == [(1, 1), (2, 1), (2, 2)]
        assert store.attempts([]) == []


def test_an_attempt_is_found_by_its_lease(store: Store) -> None:
    with store.writing() as batch:
        batch.upsert(LEASES, [lease_row(7, job_id=1, constraints=PlacementConstraints(("n1",), cores=2))])
        batch.upsert(ATTEMPTS, [attempt_row(1, 1, lease_id=7)])
        batch.upsert(JOBS, [job_row(1)])
    assert [row.attempt.number for row in store.attempts_of_leases([6, 7])] == [1]
    lease = store.lease(7)
    assert lease is not None
    assert lease.metadata.job_id == 1


def output_row(job_id: int, number: int, text: str, consumer: str = "physics", at_ms: int = 9) -> OutputRow:
    return OutputRow(
        job_id=job_id,
        number=number,
        text=text,
        error="",
        files=(OutputFile("out", "ab", 3), OutputFile("none", problem="there is none")),
        is_whole=True,
        fetched_ms=at_ms,
        consumer=consumer,
        size_bytes=len(text.encode()),
    )


@given(
    sizes=st.lists(st.integers(0, 20), min_size=1, max_size=12),
    excess=st.integers(0, 150),
    at_once=st.integers(1, 4),
)
@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_of_outputs_the_oldest_go_and_no_more_than_have_to(
    sqlite_store: Store, sizes: list[int], excess: int, at_once: int
) -> None:
    first = sqlite_store.highest_job_id() + 1
    consumer = f"physics-{first}"
    numbers = range(first, first + len(sizes))
    with sqlite_store.writing() as batch:
        batch.upsert(JOBS, [job_row(number, consumer=consumer) for number in numbers])
        batch.insert(
            OUTPUTS,
            [
                output_row(number, 1, "x" * size, consumer, at_ms=number)
                for number, size in zip(numbers, sizes, strict=True)
            ],
        )
        batch.upsert(JOBS, [job_row(first + len(sizes), consumer="else")])
        batch.insert(OUTPUTS, [output_row(first + len(sizes), 1, "of somebody else", "else", at_ms=0)])
    with (
        pytest.MonkeyPatch.context() as patch,
        sqlite_store.writing() as batch,
    ):
        patch.setattr(retention, "AT_ONCE", at_once)
        count, freed = batch.drop_outputs(consumer, excess)
    needed = next((n for n in range(len(sizes) + 1) if sum(sizes[:n]) >= excess), len(sizes))
    assert (count, freed) == (needed, sum(sizes[:needed]))
    left = [number for number in numbers if sqlite_store.output(number, 1)]
    assert left == list(numbers)[needed:]
    assert sqlite_store.output_bytes().get(consumer, 0) == sum(sizes[needed:])
    assert sqlite_store.output(first + len(sizes), 1) is not None


def test_outputs_are_counted_in_bytes_by_consumer(store: Store) -> None:
    write(store, job_row(1))
    with store.writing() as batch:
        batch.insert(OUTPUTS, [output_row(1, 1, "42 µm"), output_row(1, 2, "\n"), output_row(1, 3, "a", "cms")])
    assert store.output_bytes() == {"physics": 7, "cms": 1}
    with store.writing() as batch:
        assert batch.drop_outputs("physics", 1) == (1, 6)
    assert store.output_bytes() == {"physics": 1, "cms": 1}


def test_outputs_are_kept_once(store: Store) -> None:
    write(store, job_row(1))
    with store.writing() as batch:
        batch.insert(OUTPUTS, [output_row(1, 2, "42 µm\n")])
    output = store.output(1, 2)
    assert output is not None
    assert (output.text, output.is_whole) == ("42 µm\n", 1)
    assert store.output(1, 1) is None


def test_keys_of_jobs_and_leases_are_apart_and_go_when_they_are_old(store: Store) -> None:
    with store.writing() as batch:
        batch.upsert(JOBS, [job_row(1)])
        batch.upsert(LEASES, [lease_row(2)])
        of_job = IdempotencyRow("physics", "k", True, "h", None, 1, BEGIN_MS)  # noqa: FBT003 - in the order of columns
        of_lease = IdempotencyRow("physics", "k", False, "h", 2, None, BEGIN_MS)  # noqa: FBT003
        batch.insert(IDEMPOTENCY_KEYS, [of_job, of_lease])
    asked = [("physics", "k", True), ("climate", "k", True)]
    assert store.idempotency_keys(asked) == {("physics", "k", True): of_job}
    assert store.idempotency_keys([("physics", "k", False)]) == {("physics", "k", False): of_lease}
    with store.writing() as batch:
        assert batch.prune(Cutoffs(answers_ms=BEGIN_MS + 1)) == {"idempotency_keys": 2}
    assert store.idempotency_keys(asked) == {}


def test_lines_about_a_job_are_found_by_its_number(store: Store) -> None:
    with store.writing() as batch:
        batch.insert(JOURNAL, [journal_row(1), journal_row(2, what="job", job_id=1)])
    assert [row.job_id for row in store.journal(0, 10)] == [None, 1]


def test_nodes_are_kept_with_what_is_free_now(store: Store) -> None:
    row = NodeRow(
        name="a/n1",
        site="a",
        cores=4,
        memory_mib=4096,
        disk_mib=99,
        free_cores=4,
        free_memory_mib=4096,
        free_disk_mib=99,
        cpu_mhz=0,
        bytes_per_s=0,
        software=frozenset(),
        is_host=True,
        runs=False,
        takes_files=True,
        gpu_model="a100",
        gpus=4,
        gpu_shares=2,
        free_gpus=(1_000, 1_000, 500, 0),
        problem="",
        fault="",
        seen_ms=1,
        first_ms=1,
        failures=2,
        failed_ms=None,
        charged=0.5,
        watched_ms=7,
        well_ms=1,
        listing=0,
    )
    light: dict[str, Any] = {"free_cores": 1, "free_memory_mib": 7, "free_disk_mib": 8, "seen_ms": 2}
    light |= {"charged": 1.5, "watched_ms": 8, "well_ms": -1}
    now = replace(row, **light)
    with store.writing() as batch:
        batch.upsert(NODES, [row])
    with store.writing() as batch:
        batch.update(NODES, [now], "name", tuple(light))
    assert store.nodes() == [now]


def test_images_are_known_by_name_and_site(store: Store) -> None:
    row = ImageRow(
        name="base",
        site="a",
        software=frozenset(),
        packages=frozenset(),
        size_bytes=1 << 40,
        least_memory_mib=128,
        state="there",
        problem="",
        since_ms=1,
        seen_ms=1,
        base="",
        asked=(),
    )
    with store.writing() as batch:
        batch.upsert(IMAGES, [row, replace(row, site="b")])
    with store.writing() as batch:
        batch.upsert(IMAGES, [replace(row, state="failed")])
        batch.delete(IMAGES, name="base", site="b")
    assert [(one.site, one.state) for one in store.images()] == [("a", "failed")]


AMOUNTS = st.builds(Amounts, st.integers(0, 99), st.integers(0, 10**6), st.integers(0, 10**6))
NEEDS = st.builds(
    Needs,
    amounts=AMOUNTS,
    execution_ms=st.integers(1, 10**12),
    nodes=st.integers(1, 99),
    cpu_mhz=st.integers(0, 9999),
    software=st.lists(st.sampled_from(["gcc", "gcc >= 12, < 14", "python3 ~= 3.11"]).map(software)).map(tuple),
    inputs=st.lists(st.builds(InputFile, st.text(max_size=9), st.integers(0, 10**15), st.text(max_size=9))).map(tuple),
)


@given(needs=NEEDS)
def test_needs_come_back_as_they_were(needs: Needs) -> None:
    request = record().request
    job = replace_needs(request.job, needs)
    row = JobRow(JobRecord(replace(request, job=job, reliability=None)))
    assert asdict(JOBS.record(JOBS.values(row)).record.request.job.needs) == asdict(needs)


def replace_needs(job: Job, needs: Needs) -> Job:
    return Job(job_id=job.job_id, submitted_ms=job.submitted_ms, needs=needs)
