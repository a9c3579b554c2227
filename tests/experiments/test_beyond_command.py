"""``leasehold reproduce beyond``: what it runs, says and leaves; the runs themselves are tested elsewhere."""

import json
from pathlib import Path

import polars as pl
import pytest
from tests.experiments.pretended import Measured, pretend_to_measure, reproduce

from leasehold.experiments.beyond.evaluation import numbers
from leasehold.experiments.beyond.plan import plan
from leasehold.experiments.intergrid.metrics import METRICS

pytestmark = pytest.mark.evaluation


@pytest.fixture(autouse=True)
def measured(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Measured:
    """Every run that was made, in a folder of its own."""
    return pretend_to_measure("beyond", list(METRICS), monkeypatch, tmp_path)


def test_one_setting_runs_all_its_contenders(measured: Measured) -> None:
    said = reproduce("beyond-r2", "--seeds", "6")
    assert said.exit_code == 0
    read, setting = plan(), plan().settings[0]
    runs = {one.name: len(numbers(read, setting, one, 6)) for one in read.contenders_in(setting)}
    assert len(measured) == sum(runs.values())
    assert (runs["rr"], runs["lrf-rnd"]) == (6, 5)
    for contender in read.contenders_in(setting)[1:]:
        assert contender.title in said.stdout
    assert "of the VMs that RR preempts; " in " ".join(said.stdout.split())


def test_leaves_report_pictures_and_every_single_result() -> None:
    said = reproduce("beyond-r2", "beyond-r0", "--seeds", "3", "--quiet")
    names = [Path(line).name for line in said.stdout.splitlines()]
    assert names[:3] == ["beyond.md", "beyond.json", "beyond.parquet"]
    assert {"beyond-pareto.svg", "beyond-pareto.png", "beyond-ratios.svg", "which-policy.txt"} <= set(names)
    results = pl.read_parquet("runs/beyond/beyond.parquet")
    assert results.columns == ["setting", "contender", "seed", *METRICS]
    report = Path("runs/beyond/beyond.md").read_text(encoding="utf-8")
    assert "leasehold reproduce beyond-r2 beyond-r0 --seeds 3`" in report
    for name in names:
        if name.endswith(".svg"):
            assert f"]({name})" in report


def test_answers_in_json_and_runs_nothing_twice(measured: Measured) -> None:
    reproduce("beyond-r1", "--seeds", "10", "--quiet")
    count = len(measured)
    found = json.loads(reproduce("beyond-r1", "--seeds", "10", "--json").stdout)
    assert len(measured) == count
    assert found["evaluation"] == "beyond"
    assert found["replications"] == {"R1": 2}
    assert {one["reach"] for one in found["standings"]} <= {"reached", "undecided", "not reached"}


def test_without_logs_their_settings_are_left_out(measured: Measured) -> None:
    reproduce("beyond", "--seeds", "2", "--quiet")
    settings = {name.split("-")[1] for name, _ in measured}
    assert settings == {"r2", "r0", "r1"}


def test_quick_is_three_replications_of_six_hours_without_a_week_of_past(measured: Measured) -> None:
    reproduce("beyond", "--quick", "--quiet")
    assert all(name.endswith("-6h") for name, _ in measured)
    assert max(replication for _, replication in measured) == 3
    assert not any("learnt-at" in name for name, _ in measured)
    measured.clear()
    reproduce("beyond-r2-learnt-at-0.6", "--quick", "--quiet")
    assert measured


def test_a_log_that_is_asked_for_has_to_be_there(measured: Measured) -> None:
    said = reproduce("beyond-lcg", "--logs", ".")
    assert said.exit_code != 0
    assert not measured
