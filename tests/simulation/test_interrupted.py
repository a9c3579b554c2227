"""Ctrl-C at any moment leaves a run folder that can be read, and that contradicts nothing."""

from pathlib import Path

import pytest
from tests.simulation.worlds import busy, tables

from leasehold.analysis.run import load
from leasehold.analysis.validation import validate
from leasehold.simulation import run as running
from leasehold.simulation.run import RunProgress, run_scenario


class Interruption:
    """Somebody who watches the progress and loses patience at one report."""

    def __init__(self, at_report: int) -> None:
        self._left = at_report
        self.last: RunProgress | None = None

    def __call__(self, progress: RunProgress) -> None:
        self.last = progress
        self._left -= 1
        if self._left == 0:
            raise KeyboardInterrupt


@pytest.fixture(autouse=True)
def frequent_reports(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "INSTANTS_PER_REPORT", 10)


@pytest.mark.parametrize(
    "at_report", [1, 20, *(pytest.param(one, marks=pytest.mark.soak) for one in (2, 5, 10, 30, 40, 50))]
)
@pytest.mark.parametrize("drain", [True, False])
def test_an_interrupted_run_is_partial_readable_and_valid(at_report: int, tmp_path: Path, *, drain: bool) -> None:
    interruption = Interruption(at_report)
    with pytest.raises(KeyboardInterrupt):
        run_scenario(busy(drain=drain), tmp_path / "run", progress=interruption)
    run = load(tmp_path / "run")
    assert run.is_partial
    assert run.manifest["status"] == "partial"
    assert validate(run) == []
    assert interruption.last is not None
    assert run.manifest["end_ms"] == interruption.last.now_ms
    assert run.leases.height == run.manifest["jobs"]["read"] == interruption.last.jobs


def test_it_is_the_beginning_of_the_whole_run(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        run_scenario(busy(), tmp_path / "partial", progress=Interruption(30))
    part, whole = tables(tmp_path / "partial"), tables(run_scenario(busy(), tmp_path / "whole"))
    assert "baseline" not in part
    decided = part["decisions"]
    assert decided.height > 100
    assert whole["decisions"].head(decided.height).equals(decided)


def test_who_has_not_ended_is_open(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        run_scenario(busy(), tmp_path / "run", progress=Interruption(30))
    run = load(tmp_path / "run")
    unfinished = run.leases.filter(reason="horizon-reached")
    assert unfinished.height > 0
    assert unfinished["end_ms"].null_count() == unfinished.height


def test_progress_is_told_in_jobs_time_and_fraction(tmp_path: Path) -> None:
    told: list[RunProgress] = []
    run = run_scenario(busy(), tmp_path / "run", progress=told.append)
    assert [one.now_ms for one in told] == sorted(one.now_ms for one in told)
    assert [one.jobs for one in told] == sorted(one.jobs for one in told)
    for one in told:
        assert one.horizon_ms == run.manifest["horizon_ms"]
        assert one.fraction == min(1.0, one.now_ms / run.manifest["horizon_ms"])
    assert told[-1].fraction == 1.0
