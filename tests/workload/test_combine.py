"""Streams made from streams: order, arithmetic, laziness."""

import math
from collections.abc import Callable, Iterator
from itertools import count, islice, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leasehold.model.errors import InvalidField
from leasehold.simulation.workload.combine import merged, scaled, shifted, within
from leasehold.simulation.workload.job import WorkloadJob


def endless(step_ms: int, source: str = "") -> Iterator[WorkloadJob]:
    return (WorkloadJob(number * step_ms, 1, 5, 5, source=source) for number in count())


def jobs_at(times_ms: list[int], source: str = "") -> list[WorkloadJob]:
    return [WorkloadJob(time_ms, 2, 9, 7, source_id=str(at), source=source) for at, time_ms in enumerate(times_ms)]


times = st.lists(st.integers(0, 1_000), max_size=12).map(sorted)


def test_endless_streams_can_be_merged_scaled_shifted_and_cut() -> None:
    stream = within(shifted(scaled(merged(endless(10), endless(15)), 2.0), 3), 20, 40)

    assert [job.submit_ms for job in stream] == [23, 25, 28, 33, 33, 38]


def test_nothing_is_read_before_it_is_needed() -> None:
    read: list[int] = []

    def watched() -> Iterator[WorkloadJob]:
        for job in endless(10):
            read.append(job.submit_ms)
            yield job

    stream = within(shifted(scaled(merged(watched()), 1.0), 0), 0)
    assert read == []
    list(islice(stream, 3))

    assert len(read) <= 4


def test_a_window_reads_no_further_than_its_end() -> None:
    stream = endless(10)

    list(within(stream, 0, 30))

    assert next(stream).submit_ms == 40


@given(st.lists(times, min_size=1, max_size=4))
def test_merging_sorts_by_time_then_stream_and_loses_nothing(lists: list[list[int]]) -> None:
    streams = [jobs_at(list_of_times, source=str(at)) for at, list_of_times in enumerate(lists)]

    result = list(merged(*map(iter, streams)))

    assert result == sorted((job for stream in streams for job in stream), key=lambda job: (job.submit_ms, job.source))


@given(times, st.floats(0.1, 10.0))
def test_scaling_divides_all_times_and_keeps_the_order(times_ms: list[int], load: float) -> None:
    result = list(scaled(iter(jobs_at(times_ms)), load))

    assert all(one.submit_ms <= other.submit_ms for one, other in pairwise(result))
    for before_ms, job in zip(times_ms, result, strict=True):
        assert abs(job.submit_ms - before_ms / load) <= 0.5 + 1e-6
        assert (job.vms, job.requested_ms, job.actual_ms) == (2, 9, 7)


@given(times)
def test_a_load_of_one_changes_nothing(times_ms: list[int]) -> None:
    assert list(scaled(iter(jobs_at(times_ms)), 1.0)) == jobs_at(times_ms)


@pytest.mark.parametrize("load", [0.0, -1.0, math.nan, math.inf])
def test_a_load_that_is_none_is_refused_at_once(load: float) -> None:
    with pytest.raises(InvalidField, match="load"):
        scaled(endless(1), load)


def test_shifting_before_time_zero_is_refused() -> None:
    with pytest.raises(InvalidField, match="submit time after the shift"):
        list(shifted(iter(jobs_at([5])), -6))


@given(times, st.integers(0, 1_000), st.none() | st.integers(0, 1_000))
def test_a_window_holds_its_start_and_not_its_end(times_ms: list[int], start_ms: int, end_ms: int | None) -> None:
    last_ms = math.inf if end_ms is None else end_ms

    result = [job.submit_ms for job in within(iter(jobs_at(times_ms)), start_ms, end_ms)]

    assert result == [time_ms for time_ms in times_ms if start_ms <= time_ms < last_ms]


@pytest.mark.parametrize("move", [lambda jobs: shifted(jobs, -40), lambda jobs: scaled(jobs, 100 / 60)])
def test_ready_time_and_deadline_move_along_and_the_original_stays(
    move: Callable[[Iterator[WorkloadJob]], Iterator[WorkloadJob]],
) -> None:
    original = WorkloadJob(100, 1, 5, 5, ready_ms=130, deadline_ms=200)

    (moved,) = move(iter([original]))

    assert (moved.submit_ms, moved.ready_ms, moved.deadline_ms) == (60, 90, 160)
    assert original == WorkloadJob(100, 1, 5, 5, ready_ms=130, deadline_ms=200)


def test_a_job_is_ready_when_it_is_submitted_unless_said() -> None:
    assert WorkloadJob(100, 1, 5, 5).ready_ms == 100
    assert WorkloadJob(100, 1, 5, 5, ready_ms=130).ready_ms == 130
