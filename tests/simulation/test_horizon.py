"""When a run is over: at its horizon, or when everybody has come to an end."""

from pathlib import Path

import polars as pl
import pytest
from tests.simulation.worlds import HOUR_MS, HOUR_S, busy, replaying, tables, write_log

from leasehold.analysis.run import load
from leasehold.analysis.validation import validate
from leasehold.simulation.run import RunResult, run_scenario
from leasehold.simulation.scenario.parse import scenario_from_dict

END_MS = 6 * HOUR_MS


@pytest.fixture(scope="module", params=[True, False], ids=["drained", "cut"])
def drained(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


@pytest.fixture(scope="module")
def run(drained: bool, tmp_path_factory: pytest.TempPathFactory) -> RunResult:  # noqa: FBT001 - a fixture
    return run_scenario(busy(drain=drained), tmp_path_factory.mktemp("runs") / "run")


def test_no_request_comes_at_or_after_the_horizon(run: RunResult) -> None:
    latest = tables(run)["leases"]["submit_ms"].max()
    assert isinstance(latest, int)
    assert END_MS - HOUR_MS < latest < END_MS


def test_nothing_happens_after_the_end(run: RunResult, *, drained: bool) -> None:
    found = tables(run)
    last = max(found["segments"]["end_ms"].max(), found["decisions"]["time_ms"].max())  # type: ignore[type-var]
    if drained:
        assert run.manifest["end_ms"] >= last > END_MS  # type: ignore[operator]
    else:
        assert run.manifest["end_ms"] == last == END_MS


def test_who_has_not_ended_stays_as_it_is(run: RunResult, *, drained: bool) -> None:
    leases = tables(run)["leases"]
    unfinished = leases.filter(reason="horizon-reached")
    assert unfinished.is_empty() == drained
    assert unfinished["end_ms"].null_count() == unfinished.height == leases["end_ms"].null_count()
    assert set(unfinished["state"]) <= {"waiting", "running", "suspended", "suspending", "resuming"}


def test_what_runs_then_is_cut_off_there(run: RunResult) -> None:
    found = tables(run)
    cut = found["segments"].filter(ended_by="horizon")
    running = found["leases"].filter(pl.col("state").is_in(["running", "resuming", "migrating"]))
    assert sorted(cut["lease_id"]) == sorted(running["lease_id"])
    assert (cut["end_ms"] == END_MS).all()


def test_either_way_it_is_a_complete_run_without_violation(run: RunResult) -> None:
    assert run.manifest["status"] == "complete"
    assert validate(load(run.path)) == []


def test_up_to_the_horizon_both_are_the_same_run(tmp_path: Path) -> None:
    drained, cut = (
        tables(run_scenario(busy(drain=drain), tmp_path / str(drain)))["decisions"] for drain in (True, False)
    )
    assert drained.filter(pl.col("time_ms") <= END_MS).equals(cut)


def test_a_run_that_is_over_early_still_lasts_until_its_horizon(tmp_path: Path) -> None:
    log = write_log(tmp_path / "own.swf", [(0, 10, 2, 20)])
    values = replaying(log).to_dict() | {"horizon_s": HOUR_S, "drain": False}
    run = run_scenario(scenario_from_dict(values), tmp_path / "run")
    assert run.manifest["end_ms"] == HOUR_MS
    assert tables(run)["leases"]["reason"].to_list() == ["completed"]


def test_without_a_horizon_it_lasts_as_long_as_its_logs(tmp_path: Path) -> None:
    log = write_log(tmp_path / "own.swf", [(0, 10, 2, 20), (40, 10, 2, 20)])
    run = run_scenario(replaying(log), tmp_path / "run")
    assert (run.manifest["end_ms"], run.manifest["horizon_ms"]) == (50_000, None)
