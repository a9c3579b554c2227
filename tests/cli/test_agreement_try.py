"""``leasehold agreement try`` on runs and scenarios: the table, the JSON, and every error line."""

import json
from pathlib import Path

import pytest
from tests.cli.saying import Cli

TERMS = """\
[[agreement]]
name = "group-1"
provider = "a"
consumer = "1"
kind = "no-limit"
lending_limit = 4
"""

SCENARIO = """\
name = "lent"

[[cluster]]
name = "a"
slots = 8

[[stream]]
name = "guests"
log = "small.swf"
external = true
types = { suspendable = 1 }
consumer_by = "{group}/{user}"
"""


@pytest.fixture(autouse=True)
def _files(folder: Path) -> None:
    (folder / "terms.toml").write_text(TERMS)
    (folder / "lent.toml").write_text(SCENARIO)


def test_says_for_everybody_what_would_change(cli: Cli) -> None:
    said = cli("agreement", "try", "terms.toml", "--on", "lent.toml")
    assert said.code == 0
    lines = [line.split() for line in said.out.splitlines()]
    assert ["1", "as", "it", "is", "3", "19:40", "59:00", "0", "0", "10.7"] in lines
    assert ["with", "it", "3", "0:00", "0:00", "0", "2", "4.0"] in lines
    assert ["change", "-19:40", "-59:00", "+2", "-6.7"] in lines
    assert said.out.splitlines()[-1] == "group-1: holds 0 guests back, refuses 2"


def test_json_has_both_and_the_difference(cli: Cli) -> None:
    answer = json.loads(cli("agreement", "try", "terms.toml", "--on", "lent.toml", "--json").out)
    assert (answer["file"], answer["on"]) == ("terms.toml", "lent.toml")
    consumers = {row["name"]: row for row in answer["consumers"]}
    assert set(consumers) == {"1", "2"}
    one = consumers["1"]
    assert (one["without"]["slot_h"], one["with"]["slot_h"]) == (pytest.approx(32 / 3), 4)
    assert one["difference"]["slot_h"] == one["with"]["slot_h"] - one["without"]["slot_h"]
    assert [row["name"] for row in answer["providers"]] == ["a"]
    assert answer["agreements"] == [{"agreement": "group-1", "held_back": 0, "refused": 2}]


def test_a_run_folder_says_the_same_as_its_scenario(cli: Cli) -> None:
    cli("sim", "run", "lent.toml", "--out", "run", "--quiet", "--no-report", "--no-export")
    on_run = json.loads(cli("agreement", "try", "terms.toml", "--on", "run", "--json").out)
    on_file = json.loads(cli("agreement", "try", "terms.toml", "--on", "lent.toml", "--json").out)
    assert on_run["consumers"] == on_file["consumers"]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('provider = "a"', 'provider = "b"', "terms.toml:3: agreement[0].provider: got 'b', expected one of"),
        ("lending_limit = 4", "lending_limit = -4", "terms.toml:6: agreement[0].lending_limit: got -4"),
        ("lending_limit = 4", "lending_limt = 4", "terms.toml:6: agreement[0].lending_limt: got"),
        ("lending_limit = 4", "end = 2027-01-01T00:00:00Z", "terms.toml:6: agreement[0].end: got 'a date'"),
    ],
)  # fmt: skip
def test_a_file_that_does_not_fit_is_refused_with_its_line(
    cli: Cli, folder: Path, old: str, new: str, message: str
) -> None:
    (folder / "terms.toml").write_text(TERMS.replace(old, new))
    said = cli("agreement", "try", "terms.toml", "--on", "lent.toml")
    assert (said.code, said.out) == (2, "")
    assert said.err.startswith(f"leasehold: {message}")
    assert len(said.err.splitlines()) == 1


def test_what_it_is_tried_on_has_to_be_there(cli: Cli) -> None:
    said = cli("agreement", "try", "terms.toml", "--on", "nothing")
    assert said.code == 2
    assert "expected a scenario file, a workload log, a run folder" in said.err
