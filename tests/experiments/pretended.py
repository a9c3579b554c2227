"""Evaluations whose runs are made up: for tests of what a command runs, says and leaves."""

from collections.abc import Sequence
from pathlib import Path
from random import Random

import pytest
from typer.testing import CliRunner, Result

from leasehold.cli.main import app

Measured = list[tuple[str, int]]


def pretend_to_measure(
    evaluation: str, metrics: Sequence[str], monkeypatch: pytest.MonkeyPatch, folder: Path
) -> Measured:
    """Make up each run of an evaluation, in a folder of its own; gives those that were asked for."""
    made: Measured = []

    def measure(name: str, seed: int, folder: Path | None = None) -> dict[str, float]:  # noqa: ARG001
        made.append((name, seed))
        random = Random(f"{name}{seed}")
        return {metric: 100.0 + random.gauss(0, 1) for metric in metrics}

    monkeypatch.chdir(folder)
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setattr(f"leasehold.experiments.{evaluation}.world.measure", measure)
    monkeypatch.setattr("leasehold.experiments.campaign.estimate_s", lambda *_: 90.0)
    monkeypatch.setattr("leasehold.experiments.pictures.write", _only_named)
    return made


def _only_named(_: object, path: Path) -> list[Path]:
    """Leave drawing to the tests of pictures: it takes long."""
    return [path.with_suffix(".svg"), path.with_suffix(".png")]


def reproduce(*arguments: str) -> Result:
    """Run the command in this process, on one processor."""
    return CliRunner().invoke(app, ["reproduce", *arguments, "--jobs", "1"])
