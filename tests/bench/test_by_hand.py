"""The yardstick is right: where it and Leasehold must agree, they do, job by job.

With exact estimates every job ends when it was booked to end, so no reservation is ever made twice: both
give each job, in order of arrival, the earliest start in the same plan, and no tie is left to decide. With
loose estimates each gives early room out in an order of its own; then only the rules that any schedule must
keep are left to check.
"""

import subprocess
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from bench import by_hand
from bench.make_log import make_log
from leasehold.simulation.scenario.from_log import LogOptions, scenario_for_log
from leasehold.simulation.scenario.sources import open_streams
from leasehold.testing.worlds import play, site

PROCS = 256
JOBS = 400


@pytest.fixture(params=range(3), ids=lambda seed: f"seed {seed}")
def logs(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, Path]:
    """The same jobs with exact and with loose estimates."""
    found = {estimates: tmp_path / f"{estimates}.swf" for estimates in ("exact", "loose")}
    for estimates, log in found.items():
        make_log(log, JOBS, PROCS, load=0.95, estimates=estimates, seed=request.param)
    return found


def rows_by_hand(log: Path) -> list[list[int]]:
    """Run the script as its users do: job, submitted, started, ended, processors."""
    table = log.with_suffix(".csv")
    subprocess.run([sys.executable, by_hand.__file__, log, str(PROCS), table], check=True)
    lines = table.read_text(encoding="utf-8").splitlines()[1:]
    return [[int(value) for value in line.split(",")] for line in lines]


def starts_by_leasehold(log: Path) -> dict[int, int]:
    scenario = scenario_for_log(log, LogOptions(procs=str(PROCS), site="home"))
    history = play(open_streams(scenario, []), [site("home", PROCS, "conservative")])
    return {job: start_ms // 1000 for job, start_ms in history.starts_ms().items()}


def most_in_use(rows: list[list[int]]) -> int:
    changes = sorted(change for _, _, start, end, procs in rows for change in ((start, procs), (end, -procs)))
    return max(running_totals(changes))


def running_totals(changes: list[tuple[int, int]]) -> Iterator[int]:
    """Give the total after each change; at one time what ends comes before what begins."""
    total = 0
    for _, change in changes:
        total += change
        yield total


def test_with_exact_estimates_both_start_every_job_at_the_same_time(logs: dict[str, Path]) -> None:
    scripted = {job: started for job, _, started, _, _ in rows_by_hand(logs["exact"])}
    assert len(scripted) == JOBS
    assert starts_by_leasehold(logs["exact"]) == scripted


def test_that_agreement_is_no_matter_of_course(logs: dict[str, Path]) -> None:
    """Jobs wait in these logs, and are started out of order; nothing would be shown if none did."""
    rows = sorted(rows_by_hand(logs["exact"]))
    assert sum(started > submitted for _, submitted, started, _, _ in rows) > JOBS // 10
    assert any(later[2] < earlier[2] for earlier, later in pairwise(rows))


def test_with_loose_estimates_it_still_makes_a_schedule(logs: dict[str, Path]) -> None:
    rows = rows_by_hand(logs["loose"])
    assert sorted(row[0] for row in rows) == list(range(1, JOBS + 1))
    assert all(submitted <= started for _, submitted, started, _, _ in rows)
    assert most_in_use(rows) <= PROCS
