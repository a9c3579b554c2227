"""What a run leaves behind: every table with its documented columns, and accounts that agree."""

import json
from pathlib import Path

import polars as pl
import pytest
from tests.simulation.worlds import DAS2, HOUR_MS, busy, replaying, tables, without_guests, write_log

from leasehold import __version__
from leasehold.analysis.run import load
from leasehold.analysis.validation import validate
from leasehold.model.lease import LeaseState
from leasehold.model.reason import Outcome, Reason
from leasehold.model.tables import MAY_BE_NULL, OPTIONAL_TABLES, ORIGINS, SEGMENT_ENDS, SEGMENT_KINDS, TABLES
from leasehold.simulation import table_writer as table_writing
from leasehold.simulation.run import RunResult, run_scenario
from leasehold.simulation.scenario.parse import scenario_from_dict

TYPES = {"i64": pl.Int64, "str": pl.String, "bool": pl.Boolean}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> RunResult:
    return run_scenario(
        busy(), tmp_path_factory.mktemp("runs") / "busy", check=True, command="leasehold sim run busy.toml"
    )


def test_much_has_happened(run: RunResult) -> None:
    """Else the tests below would say little."""
    found = tables(run)
    outcomes = {o.value for o in Outcome} - {"hold", "extend", "deny"}  # nobody asks for those here
    assert set(found["decisions"]["outcome"]) == outcomes
    assert {"completed", "refused", "terminated"} <= set(found["leases"]["state"])
    assert set(found["segments"]["kind"]) == set(SEGMENT_KINDS) - {"claim", "start"}


WRITTEN = set(TABLES) - (OPTIONAL_TABLES - {"baseline"})
"""Those of this run. Of those that ran together: test_together; of clusters that are planned by nodes: test_nodes."""


@pytest.mark.parametrize("table", sorted(WRITTEN))
def test_a_table_has_the_documented_columns(run: RunResult, table: str) -> None:
    found = tables(run)[table]
    assert dict(found.schema) == {column: TYPES[kind] for column, kind in TABLES[table].items()}
    empty = {column for column, count in found.null_count().to_dicts()[0].items() if count}
    assert empty <= MAY_BE_NULL[table]


def test_nothing_else_is_left_in_the_folder(run: RunResult) -> None:
    files = {path.name for path in run.path.iterdir()}
    assert files == {"manifest.json", *(f"{table}.parquet" for table in WRITTEN)}


def test_words_are_from_the_closed_lists(run: RunResult) -> None:
    found = tables(run)
    assert set(found["leases"]["origin"]) == set(ORIGINS)
    assert set(found["leases"]["state"]) <= {state.value for state in LeaseState}
    assert set(found["segments"]["ended_by"]) <= set(SEGMENT_ENDS)
    reasons = set(found["leases"]["reason"]) | set(found["decisions"]["reason"])
    assert reasons <= {reason.value for reason in Reason}


def test_the_checker_that_knows_nothing_of_the_scheduler_agrees(run: RunResult) -> None:
    assert validate(load(run.path)) == []


MIXED_TERMS = [
    {"name": "a", "slots": 16, "speed_mips": 3, "local_policy": "fcfs", "guest_policy": "fcfs"}
    | {"victims": "youngest-first", "local_queue": "refuse"},
    {"name": "b", "slots": 8, "speed_mips": 2, "local_policy": "fcfs", "guest_policy": "easy"}
    | {"value_order": False, "non_preemptable_share": 0.5, "repair": "replan"},
    {"name": "c", "slots": 8, "speed_mips": 5, "guest_policy": "hybrid:2", "repair": "replan"},
]
CROWDED = [
    {"name": "a", "site": "a", **DAS2, "alpha": 30.0},
    {"name": "b", "site": "b", **DAS2, "alpha": 130.0},
    {"name": "guests", **DAS2, "alpha": 20.0},
]


@pytest.mark.parametrize("seed", [1, *(pytest.param(seed, marks=pytest.mark.soak) for seed in (2, 733_945))])
def test_it_also_agrees_where_clusters_have_terms_of_many_kinds(seed: int, tmp_path: Path) -> None:
    gateway = {"policy": "pap-rtdp", "try_elsewhere": True}
    scenario = busy(seed=seed, cluster=MIXED_TERMS, stream=CROWDED, gateway=gateway)
    assert validate(load(run_scenario(scenario, tmp_path / "run", check=True).path)) == []


def test_the_manifest_on_disk_is_the_one_returned(run: RunResult) -> None:
    assert json.loads((run.path / "manifest.json").read_text()) == run.manifest


def test_the_manifest_says_what_was_run(run: RunResult) -> None:
    said = run.manifest
    assert (said["schema_version"], said["leasehold"], said["status"]) == (1, __version__, "complete")
    assert (said["seed"], said["command"], said["notes"]) == (3, "leasehold sim run busy.toml", [])
    assert said["horizon_ms"] == 6 * HOUR_MS
    assert said["wall_s"] >= 0
    assert said["cpu_s"] >= 0
    assert scenario_from_dict(said["scenario"]) == busy()


def test_its_counts_are_those_of_the_tables(run: RunResult) -> None:
    leases, jobs = tables(run)["leases"], run.manifest["jobs"]
    assert jobs["read"] == leases.height == leases["lease_id"].n_unique()
    assert jobs["local"] == leases.filter(origin="local").height
    assert jobs["external"] == leases.filter(origin="external").height
    assert jobs["skipped"] == 0
    assert jobs["by_state"] == dict(leases["state"].value_counts().iter_rows())
    assert run.manifest["end_ms"] == leases["end_ms"].max()


def test_leases_are_numbered_in_order_of_submission(run: RunResult) -> None:
    leases = tables(run)["leases"].sort("lease_id")
    assert leases["lease_id"].to_list() == list(range(1, leases.height + 1))
    assert leases["submit_ms"].is_sorted()


def test_decisions_are_numbered_in_the_order_in_which_they_were_made(run: RunResult) -> None:
    decisions = tables(run)["decisions"]
    assert decisions["seq"].to_list() == list(range(1, decisions.height + 1))
    assert decisions["time_ms"].is_sorted()


def test_each_site_has_its_row(run: RunResult) -> None:
    assert tables(run)["sites"].rows() == [
        ("a", 16, 3, 2, "conservative", "conservative", "by-value:mov", "queue", None),
        ("b", 8, 2, 2, "conservative", "conservative", "by-value:moml", "queue", 4),
    ]


def test_a_lease_does_exactly_the_work_that_it_needs(run: RunResult) -> None:
    found = tables(run)
    speed = pl.col("site").replace_strict({"a": 3, "b": 2}, return_dtype=pl.Int64)
    done = (
        found["segments"]
        .filter(kind="run")
        .group_by("lease_id")
        .agg(
            done=((pl.col("end_ms") - pl.col("start_ms")) * speed).sum(),
            # A segment ends at a whole millisecond: at most one more of work each.
            slack=speed.sum(),
        )
    )
    both = found["leases"].filter(state="completed").join(done, on="lease_id", how="left")
    surplus = both["done"] - 2 * both["actual_ms"]
    assert surplus.min() >= 0  # type: ignore[operator]
    assert (surplus < both["slack"]).all()


def test_the_baseline_holds_every_local_job_under_its_number(run: RunResult, tmp_path: Path) -> None:
    alone = tables(run_scenario(without_guests(busy()), tmp_path / "alone"))
    found = tables(run)
    own = found["leases"].filter(origin="local").sort("lease_id")
    baseline = found["baseline"].sort("lease_id")
    assert baseline["lease_id"].to_list() == own["lease_id"].to_list()
    started = alone["leases"].sort("lease_id").select("source", "source_id", start_ms="first_start_ms")
    numbered = own.select("lease_id", "source", "source_id").join(started, on=["source", "source_id"])
    assert numbered.select("lease_id", "start_ms").sort("lease_id").equals(baseline)


def test_without_guests_there_is_no_baseline(tmp_path: Path) -> None:
    found = tables(run_scenario(without_guests(busy()), tmp_path / "alone"))
    assert set(found) == set(TABLES) - OPTIONAL_TABLES


def test_nor_where_nobody_wants_one(tmp_path: Path) -> None:
    assert "baseline" not in tables(run_scenario(busy(), tmp_path / "run", baseline=False))


def test_in_how_many_parts_a_table_was_written_makes_no_difference(
    run: RunResult, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table_writing, "ROWS_PER_BLOCK", 7)
    again = run_scenario(busy(), tmp_path / "again")
    for name, table in tables(run).items():
        assert table.equals(tables(again)[name])


def test_what_was_assumed_while_reading_a_log_is_noted_and_counted(tmp_path: Path) -> None:
    log = write_log(tmp_path / "own.swf", [(0, 10, 2, 20), (5, -1, 2, 20), (9, 30, 1, 20)])
    run = run_scenario(replaying(log), tmp_path / "run")
    assert run.manifest["jobs"]["read"] == 2
    assert run.manifest["jobs"]["skipped"] == 1
    assert any("no run time" in sentence for sentence in run.manifest["notes"])
    assert any("longer than they had requested" in sentence for sentence in run.manifest["notes"])
    assert tables(run)["leases"]["source_id"].to_list() == ["1", "3"]
