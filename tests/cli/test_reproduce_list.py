"""``leasehold reproduce LIST``: several evaluations at once, each into a folder of its own."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.cli.saying import Cli

from leasehold.cli import reproduce
from leasehold.cli.reproduce import EVALUATIONS, all_names, asked_for, complete_name
from leasehold.cli.reproducing import Answer, Manner
from leasehold.model.errors import UnknownName

Asked = list[tuple[str, Sequence[str], Manner]]


class Noted:
    """An evaluation that notes what is asked of it."""

    does = "Notes what is asked."

    def __init__(self, name: str, asked: Asked) -> None:
        self.name = name
        self._asked = asked

    def parts(self) -> Sequence[str]:
        return [f"{self.name}-fig1a", f"{self.name}-fig1b"]

    def run(self, parts: Sequence[str], manner: Manner) -> Answer:
        self._asked.append((self.name, parts, manner))
        return Answer({"evaluation": self.name}, lambda: print(f"{self.name} found"), [Path(self.name)])  # noqa: T201


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Asked:
    """What was asked of two evaluations that stand for all."""
    found: Asked = []
    named: dict[str, Any] = {name: Noted(name, found) for name in ("first", "second")}
    monkeypatch.setattr("leasehold.cli.reproduce.EVALUATIONS", named)
    return found


def test_several_run_in_their_own_order_with_their_parts(cli: Cli, asked: Asked) -> None:
    said = cli("reproduce", "second-fig1b", "first", "second-fig1a", "--out", "found")
    assert said.code == 0
    assert [(name, parts) for name, parts, _ in asked] == [
        ("first", []),
        ("second", ["second-fig1b", "second-fig1a"]),
    ]
    assert [manner.out for _, _, manner in asked] == [Path("found/first"), Path("found/second")]
    assert said.out.splitlines() == ["first found", "first", "second found", "second"]


def test_one_has_the_folder_that_is_named(cli: Cli, asked: Asked) -> None:
    cli("reproduce", "first", "--out", "found")
    assert asked[0][2].out == Path("found")


def test_all_is_everything(cli: Cli, asked: Asked) -> None:
    cli("reproduce", "all", "--quick", "--quiet")
    assert [(name, parts) for name, parts, _ in asked] == [("first", []), ("second", [])]
    assert all(manner.quick and manner.silent for _, _, manner in asked)


def test_the_whole_of_one_beats_its_parts(asked: Asked) -> None:
    assert not asked
    assert asked_for(["first-fig1a", "first"]) == {"first": []}


def test_json_has_each_under_its_name(cli: Cli, asked: Asked) -> None:
    assert not asked
    found = json.loads(cli("reproduce", "first", "second", "--json").out)
    assert found["first"] == {"evaluation": "first", "files": ["first"]}
    assert found["second"]["evaluation"] == "second"
    assert json.loads(cli("reproduce", "first", "--json").out)["evaluation"] == "first"


def test_where_runs_are_made(asked: Asked) -> None:
    assert not asked
    assert Manner(jobs=3).workers == 3
    assert Manner(jobs=3, dask="tcp://host:8786").workers == "tcp://host:8786"
    assert Manner().workers != 0


def test_an_unknown_name_is_answered_with_the_nearest(cli: Cli) -> None:
    said = cli("reproduce", "003-fig5x")
    assert said.code == 2
    assert "did you mean '003-fig5" in said.err
    with pytest.raises(UnknownName):
        asked_for(["006"])


def test_every_name_is_completed_and_leads_to_its_evaluation() -> None:
    assert {"003", "003-fig5a", "beyond-r2", "all"} <= set(all_names())
    assert complete_name("003-fig5") == ["003-fig5a", "003-fig5b", "003-fig5c", "003-fig5d"]
    for name in all_names():
        if name != reproduce.EVERYTHING:
            (evaluation,) = asked_for([name])
            assert name.startswith(evaluation)


def test_the_help_lists_all_of_them(cli: Cli) -> None:
    said = cli("reproduce", "--help").out
    for name in EVALUATIONS:
        assert f"{name}:" in said


def test_list_names_every_evaluation_and_every_part_and_runs_nothing(asked: Asked, cli: Cli) -> None:
    said = cli("reproduce", "list")
    assert (said.code, asked) == (0, [])
    assert said.out.split() == [
        *("first:", "Notes", "what", "is", "asked.", "first-fig1a", "first-fig1b"),
        *("second:", "Notes", "what", "is", "asked.", "second-fig1a", "second-fig1b"),
    ]
    told = json.loads(cli("reproduce", "list", "--json").out)["evaluations"]
    assert [one["name"] for one in told] == ["first", "second"]
    assert told[0]["parts"] == ["first-fig1a", "first-fig1b"]
