"""``leasehold reproduce usla``: what it says, what it keeps, and that it goes on where it was.

The runs themselves are in tests/experiments; here each measures something at once.
"""

import json
from pathlib import Path

import polars as pl
import pytest
from tests.cli.saying import Cli

from leasehold.experiments.usla.plan import METRICS, plan

pytestmark = pytest.mark.evaluation

WRITTEN = (".md", ".json", ".parquet", "-tables.svg", "-tables.png")
NUMBERS = 27 * len(METRICS)
CONFIGURATIONS = len(plan().configurations)
COMMAND = ("reproduce", "usla", "--seeds", "3", "--jobs", "1", "--out", "found")

Measured = list[tuple[str, int]]


@pytest.fixture(autouse=True)
def measured(monkeypatch: pytest.MonkeyPatch) -> Measured:
    """Every run that was made."""
    made: Measured = []

    def measure(name: str, seed: int) -> dict[str, float]:
        made.append((name, seed))
        return {metric: 20.0 + place + seed / 10 for place, metric in enumerate(METRICS)}

    monkeypatch.setattr("leasehold.experiments.usla.world.measure", measure)
    monkeypatch.setattr("leasehold.experiments.campaign.estimate_s", lambda *_: 90.0)
    return made


@pytest.mark.example
def test_prints_every_table_claim_and_control(cli: Cli) -> None:
    said = cli(*COMMAND)
    assert said.code == 0
    for number in range(1, 8):
        assert f"Table {number}: " in said.out
    for word in ("90.16", "not comparable", "not reproduced", "udecay starves least", "burst-alone"):
        assert word in said.out
    assert "calibrated, not published: slots_per_domain 26" in said.out


def test_says_before_how_long_it_takes(cli: Cli) -> None:
    assert f"{3 * CONFIGURATIONS} runs on 1 process: about 90 s." in cli(*COMMAND).err


def test_answers_in_json_with_every_number(cli: Cli) -> None:
    said = cli(*COMMAND, "--json")
    found = json.loads(said.out)
    assert said.err == ""
    assert len(found["cells"]) == NUMBERS
    assert sum(found["counts"].values()) == NUMBERS
    assert {cell["status"] for cell in found["cells"]} <= set(found["counts"])
    assert found["calibrated"]["window_s"] == 3000
    assert [Path(path).name for path in found["files"]] == [f"usla{end}" for end in WRITTEN]


def test_leaves_report_data_and_every_single_result(cli: Cli) -> None:
    cli(*COMMAND, "--quiet")
    report = Path("found/usla.md").read_text(encoding="utf-8")
    assert "leasehold reproduce usla --seeds 3" in report
    assert report.count("\n| ") >= NUMBERS
    data = json.loads(Path("found/usla.json").read_text(encoding="utf-8"))
    assert len(data["cells"]) == NUMBERS
    results = pl.read_parquet("found/usla.parquet")
    assert results.columns == ["configuration", "seed", *METRICS]
    assert results.height == 3 * CONFIGURATIONS


def test_one_table_runs_its_rows_alone(cli: Cli, measured: Measured) -> None:
    said = cli("reproduce", "002-table7", "--seeds", "3", "--jobs", "1", "--out", "found")
    assert said.code == 0
    assert {name for name, _ in measured} == set(plan().tables[6].rows.values())
    assert "Table 7: " in said.out
    assert "Table 1: " not in said.out
    report = Path("found/usla.md").read_text(encoding="utf-8")
    assert "`leasehold reproduce 002-table7 --seeds 3`" in report
    assert "Readings that were not taken" not in report


def test_quiet_says_only_where_it_is(cli: Cli) -> None:
    said = cli(*COMMAND, "--quiet")
    assert said.out.splitlines() == [f"found/usla{end}" for end in WRITTEN]
    assert said.err == ""


def test_the_second_time_nothing_is_run(cli: Cli, measured: Measured) -> None:
    first = cli(*COMMAND).out
    count = len(measured)
    assert count == 3 * CONFIGURATIONS
    assert cli(*COMMAND).out == first
    assert len(measured) == count


def test_more_seeds_are_run_alone(cli: Cli, measured: Measured) -> None:
    cli(*COMMAND)
    measured.clear()
    cli("reproduce", "usla", "--seeds", "4", "--jobs", "1", "--out", "found")
    assert measured == [(name, 4) for name in plan().configurations]


def test_interrupted_it_goes_on_where_it_was(cli: Cli, measured: Measured, monkeypatch: pytest.MonkeyPatch) -> None:
    last = list(plan().configurations)[-1]

    def interrupted(name: str, seed: int) -> dict[str, float]:
        if name == last:
            raise KeyboardInterrupt
        return dict.fromkeys(METRICS, float(seed))

    with monkeypatch.context() as changed:
        changed.setattr("leasehold.experiments.usla.world.measure", interrupted)
        said = cli(*COMMAND)
    assert said.code == 130
    assert f"{3 * CONFIGURATIONS - 3} of {3 * CONFIGURATIONS} runs are done, and kept" in said.err
    cli(*COMMAND)
    assert measured == [(last, seed) for seed in (1, 2, 3)]


@pytest.mark.parametrize(("arguments", "seeds"), [((), 100), (("--quick",), 10), (("--quick", "--seeds", "2"), 2)])
def test_how_many_seeds(cli: Cli, measured: Measured, arguments: tuple[str, ...], seeds: int) -> None:
    assert cli("reproduce", "usla", "--jobs", "1", "--quiet", *arguments).code == 0
    assert len(measured) == seeds * CONFIGURATIONS
    assert Path("runs/usla/usla.md").is_file()


@pytest.mark.example
def test_refuses_a_folder_with_something_else(cli: Cli) -> None:
    Path("found").mkdir()
    Path("found/precious.txt").write_text("mine")
    said = cli(*COMMAND)
    assert said.code == 2
    assert said.err == (
        "leasehold: --out: got 'found', expected a new or empty folder, or that of an earlier evaluation\n"
    )
    assert [path.name for path in Path("found").iterdir()] == ["precious.txt"]


@pytest.mark.example
def test_refuses_a_file_and_one_seed(cli: Cli) -> None:
    assert cli("reproduce", "usla", "--out", "small.swf").code == 2
    assert cli("reproduce", "usla", "--seeds", "1").code == 2


def test_says_what_to_install(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("leasehold.cli.reproduce.find_spec", lambda _: None)
    said = cli(*COMMAND)
    assert said.code == 2
    assert "pip install 'leasehold[experiments]'" in said.err
