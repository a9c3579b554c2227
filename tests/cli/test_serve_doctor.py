"""``leasehold doctor``: what it says, and how it exits."""

import json
from pathlib import Path

import pytest
from tests.cli.saying import Cli


@pytest.fixture(autouse=True)
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LEASEHOLD_DATA", str(tmp_path / "data"))
    return tmp_path / "data"


@pytest.fixture
def config(folder: Path) -> Path:
    """A configuration whose port is free."""
    path = folder / "mine.toml"
    path.write_text('[service]\nport = 0\n\n[[cluster]]\nname = "das3"\nslots = 8\n')
    return path


def test_no_problems_are_found_where_all_is_well(cli: Cli, config: Path) -> None:
    said = cli("doctor", "--config", str(config))
    assert said.code == 0
    assert said.out.splitlines()[-1] == "No problems found."
    assert [line for line in said.out.splitlines() if line and not line.startswith(" ")][:-1] == [
        "Installed",
        "This machine",
        "The gateway",
    ]


def test_a_problem_is_said_with_its_fix(cli: Cli, config: Path) -> None:
    config.write_text(config.read_text() + "slotz = 3\n")
    said = cli("doctor", "--config", str(config))
    assert said.code == 1
    assert f"problem  {config}:7: cluster[0].slotz: got 'slotz'" in said.out
    assert "-> correct it there" in said.out
    assert said.out.splitlines()[-1] == "1 problem found."


def test_programs_read_the_same(cli: Cli, config: Path, data: Path) -> None:
    data.write_text("no folder")
    told = json.loads(cli("doctor", "--config", str(config), "--json").out)
    by_check = {one["check"]: one for one in told["findings"]}
    assert told["problems"] == sum(one["severity"] == "problem" for one in told["findings"])
    assert by_check["data-folder"]["severity"] == "problem"
    assert by_check["data-folder"]["cure"]
    assert by_check["python"] | {"found": ""} == {
        "part": "machine",
        "check": "python",
        "severity": "ok",
        "found": "",
        "cure": None,
    }


def test_without_the_service_it_says_what_to_install(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("leasehold.service.doctor.machine.service_is_installed", lambda: False)
    said = cli("doctor")
    assert "The gateway" not in said.out
    assert said.code == 0
