"""``leasehold reproduce victims``: what it prints and leaves; here each run measures something at once."""

import json
from pathlib import Path
from random import Random

import polars as pl
import pytest
from typer.testing import CliRunner, Result

from leasehold.cli.main import app
from leasehold.experiments.victims.evaluation import HOURS, OF_A_RUN
from leasehold.experiments.victims.plan import INSTANTS, plan
from leasehold.experiments.victims.world import MEANS, OPTIMUM, SHARES

Measured = list[tuple[str, int]]
VARIANTS = len(plan(HOURS).variants)


@pytest.fixture(autouse=True)
def measured(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Measured:
    """Every run that was made, in a folder of its own."""
    made: Measured = []

    def measure(name: str, seed: int) -> dict[str, float]:
        made.append((name, seed))
        random = Random(f"{name}{seed}")
        rules = [OPTIMUM, *plan(HOURS).rules]
        keys = [f"{rule}:{key}" for rule in rules for key in MEANS + SHARES]
        known = [*keys, "instants", "inexact", "forced"] if name.startswith(INSTANTS) else OF_A_RUN
        return {key: 0.0 if key == "inexact" else 100.0 + random.gauss(0, 1) for key in known}

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setattr("leasehold.experiments.victims.world.measure", measure)
    monkeypatch.setattr("leasehold.experiments.campaign.estimate_s", lambda *_: 90.0)
    return made


def reproduce(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["reproduce", *arguments, "--jobs", "1"])


def test_both_tables_with_their_sources(measured: Measured) -> None:
    said = reproduce("victims", "--seeds", "3")
    assert said.exit_code == 0, said.output
    assert len(measured) == 3 * (1 + VARIANTS)
    for word in ("Kueue", "Haizea", "by-value:exact-cover", "in-turns", "3 replications of 48 hours"):
        assert word in said.stdout
    page = Path("runs/victims/victims.md").read_text(encoding="utf-8")
    assert page.startswith("# Who gives way: other systems' rules, and guarantees\n")
    assert "Made by `leasehold reproduce victims --seeds 3`, never edited by hand." in page
    for other in plan(HOURS).others.values():
        assert f"[{other.where}]({other.url})" in page


def test_one_table_alone_and_the_other_later(measured: Measured) -> None:
    assert reproduce("victims-instants", "--seeds", "2").exit_code == 0
    assert {name for name, _ in measured} == {"victims-instants-48h"}
    page = Path("runs/victims/victims.md").read_text(encoding="utf-8")
    assert "## The same instants" in page
    assert "## Guarantees in whole runs" not in page
    said = reproduce("victims-guarantees", "--seeds", "2")
    assert len(measured) == 2 * (1 + VARIANTS)
    assert "Whom each rule preempts" not in said.stdout


def test_as_data_and_as_table() -> None:
    said = reproduce("victims", "--seeds", "2", "--quick", "--json")
    told = json.loads(said.stdout)
    assert (told["hours"], told["replications"]) == (12, 2)
    assert [rule["name"] for rule in told["rules"]] == [OPTIMUM, *plan(HOURS).rules]
    assert told["rules"][1]["distances"]["leases"]["count"] == 2
    rows = pl.read_parquet("runs/victims/victims.parquet")
    assert set(rows["configuration"]) == set(plan(12).names_of([]))
    assert rows.columns == ["configuration", "seed", "metric", "value"]


def test_what_is_there_is_not_measured_again(measured: Measured) -> None:
    reproduce("victims", "--seeds", "2")
    reproduce("victims", "--seeds", "3")
    assert len(measured) == 3 * (1 + VARIANTS)
