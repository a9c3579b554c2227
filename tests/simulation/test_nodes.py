"""Clusters that are planned by nodes: cores, memory and GPUs."""

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from polars.testing import assert_frame_equal
from tests.simulation.worlds import DAS2, HOUR_S, busy

from leasehold.analysis.measures import gpu_totals
from leasehold.analysis.run import load
from leasehold.analysis.validation import validate
from leasehold.model.errors import InvalidField, LeaseholdError, UnknownName
from leasehold.model.resources import check_model, parse_gpus
from leasehold.simulation.run import run_scenario
from leasehold.simulation.scenario.parse import scenario_from_dict
from leasehold.simulation.scenario.spec import Scenario

A100 = {"model": "a100", "count": 2, "shares": 4}


def gpus(seed: int = 3, **keys: Any) -> Scenario:
    """Two clusters with GPUs of different models, one of slots, and guests that need some of all of that."""
    values: dict[str, Any] = {
        "name": "gpus",
        "seed": seed,
        "horizon_s": 4 * HOUR_S,
        "gateway": {"policy": "rr", "try_elsewhere": True, "use_free_room": True},
        "defaults": {"non_preemptable_share": 0.0, "victims": "mov"},
        "cluster": [
            {
                "name": "a",
                "plan": "nodes",
                "nodes": [
                    {"count": 2, "cores": 8, "memory_mib": 16_384, "gpus": A100},
                    {"cores": 16, "memory_mib": 16_384},
                ],
            },
            {"name": "b", "plan": "nodes", "nodes": [{"count": 2, "cores": 8, "gpus": {"model": "t4", "count": 2}}]},
            {"name": "c", "slots": 8},
        ],
        "stream": [
            {"name": "a-gpu", "site": "a", **DAS2, "gpus": "a100:1", "cores": 2, "alpha": 200.0},
            {"name": "a-part", "site": "a", **DAS2, "gpus": "0.3", "alpha": 200.0},
            {"name": "a-cpu", "site": "a", **DAS2, "cores": 3, "alpha": 300.0},
            {"name": "b-own", "site": "b", **DAS2, "gpus": "1", "alpha": 400.0},
            {"name": "c-own", "site": "c", **DAS2, "alpha": 400.0},
            {"name": "half", **DAS2, "gpus": "a100:0.5", "alpha": 150.0},
            {"name": "any", **DAS2, "gpus": "1", "cores": 2, "alpha": 150.0},
            {"name": "plain", **DAS2, "alpha": 150.0},
            {"name": "no-such", **DAS2, "gpus": "h100:1", "alpha": 4_000.0},
        ],
    }
    return scenario_from_dict(values | keys)


@pytest.mark.parametrize("seed", [3, pytest.param(4, marks=pytest.mark.soak)])
def test_no_local_job_is_delayed_and_no_node_gives_anything_twice(seed: int, tmp_path: Path) -> None:
    """Every invariant after every instant, all rules of validation afterwards, and the log without guests beside it."""
    run_scenario(gpus(seed), tmp_path, check=True)
    run = load(tmp_path)
    assert [one.sentence for one in validate(run)] == []
    starts = run.leases.filter(pl.col("origin") == "local").select("lease_id", start_ms=pl.col("first_start_ms"))
    assert_frame_equal(run.baseline.sort("lease_id"), starts.drop_nulls().sort("lease_id"))
    reasons = run.leases.group_by("source").agg(pl.col("reason").unique()).to_dict(as_series=False)
    of = dict(zip(reasons["source"], map(set, reasons["reason"]), strict=True))
    assert of["no-such"] <= {"no-such-gpu", "horizon-reached"}
    assert set(run.placements.join(run.leases, on="lease_id").filter(pl.col("source") == "half")["site"]) == {"a"}
    assert run.decisions.filter(pl.col("outcome") == "preempt").height > 0
    totals = gpu_totals(run)
    assert totals["a100"]["gpus"] == 4
    whole = run.placements.join(run.nodes.select("site", "node", model="gpu_model"), on=["site", "node"])
    hours = whole.filter(pl.col("model") == "a100").select(
        (pl.col("gpu_milli") * (pl.col("end_ms") - pl.col("start_ms"))).sum() / 3_600_000_000
    )
    assert totals["a100"]["local_gpu_h"] + totals["a100"]["guest_gpu_h"] == pytest.approx(hours.item())


def test_a_node_of_nothing_but_cores_decides_as_slots_do(tmp_path: Path) -> None:
    """The whole gateway, not only the queue: the same leases, segments and decisions."""
    by_slots = busy(horizon_s=3 * HOUR_S)
    values = by_slots.to_dict()
    for cluster in values["cluster"]:
        cluster["nodes"] = [{"cores": cluster.pop("slots"), "memory_mib": 1 << 30}]
        cluster["plan"] = "nodes"
    run_scenario(by_slots, tmp_path / "slots")
    run_scenario(scenario_from_dict(values), tmp_path / "nodes", check=True)
    slots, nodes = load(tmp_path / "slots"), load(tmp_path / "nodes")
    for table in ("leases", "segments", "decisions"):
        assert_frame_equal(slots.scan(table).collect(), nodes.scan(table).collect())
    assert_frame_equal(slots.baseline.sort("lease_id"), nodes.baseline.sort("lease_id"))
    assert slots.decisions.filter(pl.col("outcome") == "preempt").height > 0
    assert validate(nodes) == []


def test_a_scenario_is_written_as_it_was_read() -> None:
    scenario = gpus()
    assert scenario_from_dict(json.loads(json.dumps(scenario.to_dict()))) == scenario


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("a100:2", ("a100", 2_000)),
        ("a100", ("a100", 1_000)),
        ("2", ("", 2_000)),
        ("0.5", ("", 500)),
        ("a100_1g.10gb:1", ("a100_1g.10gb", 1_000)),
        ("t4:.25", ("t4", 250)),
    ],
)
def test_gpus_are_read(text: str, found: tuple[str, int]) -> None:
    assert parse_gpus(text) == found


@pytest.mark.parametrize("text", ["", "a100:", "a100:1.5", ":2", "a100:-1", "a100:0", "a b:1", "65", "0.0001"])
def test_gpus_that_make_no_sense_are_refused(text: str) -> None:
    with pytest.raises(InvalidField, match=r"gpus: .*expected MODEL:NUMBER"):
        parse_gpus(text)


def test_a_model_that_nobody_has_is_told_with_the_nearest() -> None:
    with pytest.raises(UnknownName, match="did you mean 'a100'"):
        check_model("a10", ["a100", "t4"])


@pytest.mark.parametrize(
    ("cluster", "sentence"),
    [
        ({"name": "a", "plan": "nodes"}, r"plan: got 'nodes', expected \[\[cluster.nodes\]\]"),
        ({"name": "a"}, "slots: missing"),
        ({"name": "a", "plan": "nodes", "slots": 3, "nodes": [{"cores": 2}]}, "slots: got 3, expected nothing"),
        ({"name": "a", "plan": "nodes", "nodes": [{"gpus": {"model": "a 1"}}]}, "model: got 'a 1'"),
        ({"name": "a", "plan": "nodes", "nodes": [{"gpus": {"count": 2}}]}, "model: missing"),
    ],
)
def test_clusters_that_make_no_sense_are_refused(cluster: dict[str, Any], sentence: str) -> None:
    with pytest.raises(LeaseholdError, match=sentence):
        scenario_from_dict({"name": "x", "cluster": [cluster], "stream": [{"name": "s", "site": "a", **DAS2}]})


def test_an_agreement_limits_how_many_gpus_a_consumer_holds(tmp_path: Path) -> None:
    """Two whole GPUs of the four, 0.5 each: no more than four guests of its consumer at a time, and never beyond."""
    limit = {
        "name": "halves",
        "provider": "a",
        "consumer": "half",
        "kind": "no-limit",
        "resource": "gpu_milli:a100",
        "lending_limit": 1_000,
    }
    cluster = gpus().to_dict()["cluster"][:1]
    streams = [
        {"name": "a-gpu", "site": "a", **DAS2, "gpus": "a100:1", "alpha": 300.0},
        {
            "name": "half",
            **DAS2,
            "gpus": "a100:0.5",
            "alpha": 60.0,
            "p_one": 1.0,
            "p_pow2": 0.0,
            "types": {"suspendable": 1.0},
        },
    ]
    run_scenario(gpus(cluster=cluster, stream=streams, agreement=[limit]), tmp_path, check=True)
    run = load(tmp_path)
    assert validate(run) == []
    held = run.placements.join(run.leases.filter(pl.col("source") == "half"), on="lease_id")
    changes = sorted(
        change
        for row in held.to_dicts()
        for change in ((row["start_ms"], row["gpu_milli"]), (row["end_ms"], -row["gpu_milli"]))
    )
    level, most = 0, 0
    for _, change in changes:
        level += change
        most = max(most, level)
    assert most == 1_000
    assert run.decisions.filter(pl.col("reason") == "concurrency-limit-reached").height > 0


def test_an_agreement_shares_gpu_time_over_an_epoch(tmp_path: Path) -> None:
    """A quarter of the GPUs over an hour, in no window more: recomputed from the placements."""
    hour_ms, devices = 3_600_000, 4
    share = {
        "name": "quarter",
        "provider": "a",
        "consumer": "half",
        "kind": "commitment",
        "resource": "gpu_milli",
        "epoch_share": 0.25,
        "epoch_s": 3_600,
        "burst_share": 1.0,
        "burst_s": 600,
    }
    cluster = gpus().to_dict()["cluster"][:1]
    streams = [
        {
            "name": "half",
            **DAS2,
            "gpus": "0.5",
            "alpha": 40.0,
            "p_one": 1.0,
            "p_pow2": 0.0,
            "types": {"suspendable": 1.0},
        },
    ]
    run_scenario(gpus(cluster=cluster, stream=streams, agreement=[share]), tmp_path, check=True)
    run = load(tmp_path)
    assert run.decisions.filter(pl.col("reason") == "share-exhausted").height > 0
    rows = run.placements.to_dicts()
    for hour in range(4):
        begin_ms, end_ms = hour * hour_ms, (hour + 1) * hour_ms
        # What was admitted within its share may go on: what starts in the hour starts below it.
        started = [row for row in rows if begin_ms <= row["start_ms"] < end_ms]
        for one in started:
            used = sum(
                row["gpu_milli"] * (min(row["end_ms"], one["start_ms"]) - max(row["start_ms"], begin_ms))
                for row in rows
                if row["start_ms"] < one["start_ms"] and row["end_ms"] > begin_ms
            )
            assert used <= 0.25 * devices * 1_000 * hour_ms
