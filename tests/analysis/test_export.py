"""Exports: every lease is there once, and no processor is given to two leases at a time."""

import csv
from pathlib import Path
from typing import Any

import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from leasehold.analysis.export import assign_processors, holdings, interval_set, write_batsim_jobs, write_swf
from leasehold.analysis.run import Run

BATSIM_HEADER = (
    "job_id,workload_name,profile,submission_time,requested_number_of_resources,requested_time,success,"
    "final_state,starting_time,execution_time,finish_time,waiting_time,turnaround_time,stretch,"
    "allocated_resources,consumed_energy,metadata"
)


def _swf(run: Run, folder: Path) -> tuple[list[str], dict[int, list[int]]]:
    lines = write_swf(run, folder / "run.swf").read_text().splitlines()
    header = [line for line in lines if line.startswith(";")]
    jobs = [[int(field) for field in line.split()] for line in lines if not line.startswith(";")]
    return header, {job[0]: job for job in jobs}


def test_swf_has_18_fields_for_each_lease(small: Run, tmp_path: Path) -> None:
    _, jobs = _swf(small, tmp_path)
    assert jobs[1] == [1, 0, 0, 145, 2, -1, -1, 2, 150, 1_048_576, 1, 1, -1, -1, 3, 1, -1, -1]
    assert jobs[7] == [7, 10, -1, -1, -1, -1, -1, 1, 10, 1_048_576, 5, 1, -1, -1, 5, -1, -1, -1]
    assert jobs[9][2:4] == [20, 5]
    assert len(jobs) == 9


def test_swf_names_clusters_as_partitions(small: Run, tmp_path: Path) -> None:
    header, _ = _swf(small, tmp_path)
    assert "; Version: 2.2" in header
    assert "; Partition: 2 b, 4 processors" in header
    assert "; MaxProcs: 8" in header


def test_swf_is_in_order_of_submission(toy: Run, tmp_path: Path) -> None:
    _, jobs = _swf(toy, tmp_path)
    submitted = [job[1] for job in jobs.values()]
    assert submitted == sorted(submitted)
    assert len(jobs) == toy.leases.height


def _batsim(run: Run, folder: Path) -> dict[str, dict[str, str]]:
    with write_batsim_jobs(run, folder / "jobs.csv").open(newline="") as file:
        return {row["job_id"]: row for row in csv.DictReader(file)}


def test_batsim_columns_are_those_that_evalys_reads(small: Run, tmp_path: Path) -> None:
    assert write_batsim_jobs(small, tmp_path / "jobs.csv").read_text().splitlines()[0] == BATSIM_HEADER


def test_batsim_final_states(small: Run, tmp_path: Path) -> None:
    states = {name: row["final_state"] for name, row in _batsim(small, tmp_path).items()}
    assert states["1"] == "KILLED"
    assert states["1#1"] == "COMPLETED_SUCCESSFULLY"
    assert states["7"] == "REJECTED"
    assert states["8"] == "WALLTIME_REACHED"
    assert len(states) == 9 + 2  # leases 1 and 5 went on once each


def test_batsim_times_are_seconds_and_processors_are_numbered_across_clusters(small: Run, tmp_path: Path) -> None:
    row = _batsim(small, tmp_path)["9"]
    assert (row["submission_time"], row["starting_time"], row["finish_time"]) == (
        "70.000",
        "90.000",
        "95.000",
    )
    assert (row["waiting_time"], row["turnaround_time"], row["stretch"]) == ("20.000", "25.000", "5.000")
    assert row["allocated_resources"] == "0-3"
    assert _batsim(small, tmp_path)["5"]["allocated_resources"] == "4-7"


def test_every_lease_of_a_larger_run_is_in_jobs_csv(toy: Run, tmp_path: Path) -> None:
    names = {int(name.partition("#")[0]) for name in _batsim(toy, tmp_path)}
    assert names == set(toy.leases["lease_id"])


def test_a_resume_and_its_run_are_one_holding(small: Run) -> None:
    rows = holdings(small.segments).filter(lease_id=1).to_dicts()
    assert [(row["part"], row["start_ms"], row["end_ms"]) for row in rows] == [
        (0, 0, 60_000),
        (1, 95_000, 145_000),
    ]
    assert rows[1]["run_from_ms"] == 105_000


def test_interval_sets_are_written_as_batsim_does() -> None:
    assert interval_set([(0, 3), (7, 7), (9, 11)]) == "0-3 7 9-11"


def test_one_row_is_preferred_to_pieces() -> None:
    times = {"start_ms": [0, 0, 0, 5, 5], "end_ms": [9, 5, 9, 9, 9], "vms": [1, 1, 2, 2, 3]}
    placed = assign_processors(pl.DataFrame(times), slots=9)
    assert placed == [[(0, 0)], [(1, 1)], [(2, 3)], [(4, 5)], [(6, 8)]]


_HOLDINGS = st.lists(st.tuples(st.integers(0, 40), st.integers(0, 15), st.integers(1, 6)), min_size=1, max_size=25)


@given(_HOLDINGS)
def test_no_processor_is_given_twice_and_everyone_gets_theirs(drawn: list[tuple[int, int, int]]) -> None:
    rows: list[dict[str, Any]] = [
        {"start_ms": start, "end_ms": start + long, "vms": vms} for start, long, vms in sorted(drawn)
    ]
    slots = sum(row["vms"] for row in rows)
    placed = assign_processors(pl.DataFrame(rows), slots)
    owned = [{p for low, high in taken for p in range(low, high + 1)} for taken in placed]
    assert [len(processors) for processors in owned] == [row["vms"] for row in rows]
    for one, mine in enumerate(rows):
        for other, theirs in enumerate(rows[:one]):
            if theirs["end_ms"] > mine["start_ms"]:
                assert not owned[one] & owned[other]
