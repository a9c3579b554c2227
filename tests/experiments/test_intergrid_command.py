"""``leasehold reproduce 003``: what it says, what it leaves, and that it goes on where it was.

The runs themselves are in the other tests; here each measures something at once.
"""

import json
from pathlib import Path

import polars as pl
import pytest
from tests.experiments.pretended import Measured, pretend_to_measure, reproduce

from leasehold.experiments.intergrid.evaluation import FederationOutcome
from leasehold.experiments.intergrid.metrics import METRICS
from leasehold.experiments.intergrid.plan import STUDIES, plan

pytestmark = pytest.mark.evaluation

FIGURES, claims = STUDIES["003"].figures, STUDIES["003"].claims
OF_ONE_SWEEP = 2 * 5 * 5
CONFIGURATIONS = len(plan("003").configurations)


@pytest.fixture(autouse=True)
def measured(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Measured:
    """Every run that was made, in a folder of its own."""
    return pretend_to_measure("intergrid", list(METRICS), monkeypatch, tmp_path)


@pytest.mark.example
def test_one_figure_runs_its_sweep_under_both_readings(measured: Measured) -> None:
    said = reproduce("003-fig5a", "--seeds", "3")
    assert said.exit_code == 0
    assert len(measured) == 3 * OF_ONE_SWEEP
    assert {name.split("-")[1] for name, _ in measured} == {"r2", "r0"}
    assert f"{3 * OF_ONE_SWEEP} runs on 1 process: about 90 s." in said.stderr
    for word in ("Figure 5a: VMs preempted", "2737.97 to 3896.95", "not reproduced", "RR", "PAP-RTDP"):
        assert word in said.stdout
    assert "Figure 6a" not in said.stdout


def test_figures_of_one_sweep_share_their_runs(measured: Measured) -> None:
    reproduce("003-fig5a", "--seeds", "2")
    reproduce("003-fig6a", "003-fig7a", "--seeds", "2")
    assert len(measured) == 2 * OF_ONE_SWEEP


def test_all_figures_and_controls(measured: Measured) -> None:
    said = reproduce("003", "--seeds", "2", "--json")
    found = json.loads(said.stdout)
    assert said.stderr == ""
    assert len(measured) == 2 * CONFIGURATIONS
    assert found["figures"] == list(FIGURES)
    assert len(found["claims"]) == 2 * len(claims)
    assert len(found["panels"]) == 2 * len(FIGURES)
    assert {one["reading"] for one in found["base"]} == {"R2", "R0", "R1", "plain"}
    assert [Path(path).name for path in found["files"]][:3] == ["003.md", "003.json", "003.parquet"]
    assert not found["is_whole"]


def test_leaves_every_single_result() -> None:
    reproduce("003-fig8h", "--seeds", "2", "--quiet")
    results = pl.read_parquet("runs/003/003.parquet")
    assert results.columns == ["configuration", "reading", "point", "policy", "seed", *METRICS]
    assert results.height == 2 * OF_ONE_SWEEP
    report = Path("runs/003/003.md").read_text(encoding="utf-8")
    assert "leasehold reproduce 003-fig8h --seeds 2" in report
    assert "](003-fig8.svg)" in report
    assert "Headline" not in report


def test_a_report_of_less_than_the_published_size_says_so_at_its_top() -> None:
    reproduce("003-table3", "--quick", "--quiet")
    top = Path("runs/003/003.md").read_text(encoding="utf-8").splitlines()[:8]
    assert any("3 replications of 6 hours (published: 100 of 48 hours)" in line for line in top)
    assert any("--quick" in line for line in top)


def test_the_published_size_is_what_is_run_unless_said(measured: Measured) -> None:
    said = reproduce("003-fig5a", "--json")
    assert {seed for _, seed in measured} == set(range(1, 101))
    assert not json.loads(said.stdout)["is_whole"]
    assert FederationOutcome(plan("003"), tuple(FIGURES), 100, [], [], [], []).is_whole


def test_more_seeds_are_run_alone(measured: Measured) -> None:
    reproduce("003-fig5b", "--seeds", "2", "--quiet")
    measured.clear()
    reproduce("003-fig5b", "--seeds", "3", "--quiet")
    assert {seed for _, seed in measured} == {3}


def test_interrupted_it_goes_on_where_it_was(measured: Measured, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(name: str, seed: int) -> dict[str, float]:
        if name.startswith("003-r0"):
            raise KeyboardInterrupt
        return dict.fromkeys(METRICS, float(seed))

    with monkeypatch.context() as changed:
        changed.setattr("leasehold.experiments.intergrid.world.measure", interrupted)
        said = reproduce("003-fig5a", "--seeds", "2")
    assert said.exit_code == 130
    assert f"{OF_ONE_SWEEP} of {2 * OF_ONE_SWEEP} runs are done, and kept" in said.stderr
    reproduce("003-fig5a", "--seeds", "2")
    assert {name.split("-")[1] for name, _ in measured} == {"r0"}


def test_the_report_has_every_claim_under_both_readings() -> None:
    reproduce("003", "--seeds", "2", "--quiet")
    report = Path("runs/003/003.md").read_text(encoding="utf-8")
    headline = report.partition("## Headline and conclusions")[2].partition("##")[0]
    assert headline.count("at least 60 % below every other policy") == 2 * 4
    for claim in claims:
        for reading in ("R2", "R0"):
            assert any(
                line.startswith(f"| {claim.figure} | {claim.text} |") and f"| {reading} |" in line
                for line in report.splitlines()
            )
    for interpretation in plan("003").interpretations:
        assert f"| {interpretation.key} | {interpretation.reading} |" in report


def test_an_unknown_figure_is_refused() -> None:
    said = reproduce("003-fig9a")
    assert said.exit_code != 0
    assert not Path("runs").exists()


def test_what_is_no_number_is_null_in_json(monkeypatch: pytest.MonkeyPatch) -> None:
    nobody = dict.fromkeys(METRICS, float("nan"))
    monkeypatch.setattr("leasehold.experiments.intergrid.world.measure", lambda *_: nobody)
    said = reproduce("003-fig7a", "--seeds", "2", "--json")
    assert "NaN" not in said.stdout
    assert json.loads(said.stdout)["panels"][0]["curves"][0]["points"][0]["awrt_s"]["mean"] is None
