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
    publication = ""

    def __init__(self, name: str, asked: Asked) -> None:
        self.name = name
        self.elsewhere = {f"{name}-fig2": ["second-fig1a"]}
        self.not_run = {f"{name}-fig0": "diagram"}
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
    assert complete_name("003-fig5") == ["003-fig5a", "003-fig5b", "003-fig5c", "003-fig5d", "003-fig5"]
    for name in all_names():
        if name != reproduce.EVERYTHING:
            ((evaluation, parts),) = asked_for([name]).items()
            one = EVALUATIONS[evaluation]
            assert set(parts) <= set(one.parts())
            assert name.startswith((evaluation, one.publication or evaluation)) or name in EVALUATIONS["000"].elsewhere


def test_a_figure_that_another_evaluation_has_is_run_there() -> None:
    assert asked_for(["000-fig4a", "000-fig5"]) == {"003": ["003-fig5b", *(f"003-fig8{letter}" for letter in "cdefgh")]}
    assert asked_for(["002", "004-fig8"]) == {"usla": [], "hybrid": ["004-fig8"]}


PRINTED = {
    "000": "fig1 fig2a fig2b fig2c fig3a fig3b fig3c fig4a fig4b fig4c fig5a fig5b fig5c fig5d fig5e fig5f",
    "001": "fig1a fig1b fig1c fig2a fig2b fig2c fig3a fig3b fig3c",
    "002": "fig1 table1 table2 table3 table4 table5 table6 table7",
    "003": "fig1 fig2 fig3 fig4 fig5a fig5b fig5c fig5d fig6a fig6b fig6c fig6d fig7a fig7b fig7c fig7d "
    "fig8a fig8b fig8c fig8d fig8e fig8f fig8g fig8h table1 table2 table3",
    "004": "fig1 fig2 fig3 fig4 fig5 fig6 fig7 fig8 table1",
}
"""Every figure and table of the publications."""


def test_the_list_has_every_figure_and_table_that_is_printed(cli: Cli) -> None:
    told = json.loads(cli("reproduce", "list", "--json").out)["evaluations"]
    by_publication = {one["publication"] or one["name"]: one for one in told}
    shown = cli("reproduce", "list").out
    for publication, names in PRINTED.items():
        one = by_publication[publication]
        runs, without = {*one["parts"], *one["elsewhere"]}, one["not_run"]
        assert not runs & without.keys()
        for name in names.split():
            assert f"{publication}-{name}" in runs | without.keys()
            assert f"{publication}-{name}" in shown
    for name in ("003-fig4", "000-fig4", "000-fig5", "002-table1", "004-fig6"):
        assert asked_for([name])


def test_a_figure_without_results_is_refused_with_what_it_is(cli: Cli) -> None:
    said = cli("reproduce", "003-fig3")
    assert said.code == 2
    assert said.err == (
        "leasehold: evaluation: got '003-fig3', expected a figure or table with results; this one is: diagram\n"
    )


def test_the_help_lists_all_of_them(cli: Cli) -> None:
    said = cli("reproduce", "--help").out
    for name in EVALUATIONS:
        assert f"{name}:" in said


def test_list_names_every_evaluation_and_every_part_and_runs_nothing(asked: Asked, cli: Cli) -> None:
    said = cli("reproduce", "list")
    assert (said.code, asked) == (0, [])
    assert said.out.splitlines()[:4] == [
        "first: Notes what is asked.",
        "  first-fig1a first-fig1b",
        "  first-fig2 = second-fig1a",
        "  Without results: first-fig0 (diagram).",
    ]
    told = json.loads(cli("reproduce", "list", "--json").out)["evaluations"]
    assert [one["name"] for one in told] == ["first", "second"]
    assert told[0]["parts"] == ["first-fig1a", "first-fig1b"]
    assert told[0]["not_run"] == {"first-fig0": "diagram"}
