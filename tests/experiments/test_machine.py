"""On what an evaluation was run, in a few words."""

from pathlib import Path

import pytest

from leasehold.experiments import report


def test_names_processors_and_python(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    told = tmp_path / "cpuinfo"
    told.write_text("processor : 0\nmodel name : Abacus 9\nprocessor : 1\nmodel name : Abacus 9\n")
    monkeypatch.setattr(report, "CPU_INFO", told)
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    assert report.where().startswith("2 processors (Abacus 9), Python 3.")


def test_where_the_system_does_not_say_its_architecture_does(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(report, "CPU_INFO", tmp_path / "none")
    monkeypatch.setattr("platform.machine", lambda: "abacus")
    assert "(abacus)" in report.where()
