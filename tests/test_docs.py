r"""The documentation runs: every page is played in a folder of its own, from top to bottom.

A fenced block whose language is followed by a file name is written to that file. A ``console``
block is typed: what follows ``$`` runs in a shell, and the lines below it must be what it prints,
where ``...`` stands for anything. Any other block is only shown.
"""

import doctest
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import typer

from leasehold.analysis.metrics import CATALOGUE
from leasehold.cli.main import app
from leasehold.model.reason import Reason, sentence
from leasehold.model.tables import TABLES
from leasehold.simulation.scenario.parse import scenario_from_dict

REPOSITORY = Path(__file__).resolve().parent.parent
BLOCK = re.compile(r"^```(?P<language>\w+)(?: (?P<file>\S+))?\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
COMMAND = re.compile(r"^\$ (?P<command>.*)\n(?P<output>(?:(?!\$ ).*\n)*)", re.MULTILINE)
METRIC = re.compile(r"^\| `(?P<key>\w+)` \| (?P<rest>.+) \|$", re.MULTILINE)
LENIENT = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE

PAGES = sorted(
    page
    for pattern in ("README.md", "docs/**/*.md")
    for page in REPOSITORY.glob(pattern)
    if "_build" not in page.parts
)


@dataclass
class Block:
    """One fenced block of a page."""

    language: str
    file: str | None
    text: str


def blocks(page: str) -> list[Block]:
    return [Block(found["language"], found["file"], found["text"]) for found in BLOCK.finditer(page)]


def play(block: Block, folder: Path) -> None:
    if block.file is not None:
        (folder / block.file).write_text(block.text, encoding="utf-8")
    elif block.language == "console":
        for typed in COMMAND.finditer(block.text):
            compare(typed["command"], typed["output"], run(typed["command"], folder))


def run(command: str, folder: Path) -> str:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "COLUMNS": "110", "NO_COLOR": "1", "TERM": "dumb"}
    shell = subprocess.run(
        ["bash", "-c", command],
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    return shell.stdout


def compare(command: str, expected: str, printed: str) -> None:
    same = doctest.OutputChecker().check_output(expected, printed, LENIENT)
    assert same, f"$ {command}\n--- the page says\n{expected}--- it prints\n{printed}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(REPOSITORY).as_posix())
def test_what_a_page_shows_is_what_happens(page: Path, tmp_path: Path) -> None:
    for block in blocks(page.read_text(encoding="utf-8")):
        play(block, tmp_path)


@pytest.mark.parametrize("table", TABLES)
def test_the_run_folder_page_explains_every_column(table: str) -> None:
    page = (REPOSITORY / "docs" / "reference" / "run-folder.md").read_text(encoding="utf-8")
    section = page.split(f"## {table}\n")[1].split("\n## ")[0]
    assert re.findall(r"^\| `(\w+)`", section, re.MULTILINE) == list(TABLES[table])


def test_the_metrics_page_is_the_catalogue() -> None:
    page = (REPOSITORY / "docs" / "reference" / "metrics.md").read_text(encoding="utf-8")
    written = {found["key"]: found["rest"] for found in METRIC.finditer(page)}
    assert written == {
        m.key: f"{m.title} | {m.unit} | {m.meaning}{f' {m.source}.' if m.source else ''}"
        for m in CATALOGUE.values()
    }


def test_the_reasons_page_has_every_reason_with_its_sentence() -> None:
    page = (REPOSITORY / "docs" / "reference" / "reasons.md").read_text(encoding="utf-8")
    written = dict(re.findall(r"^\| `([\w-]+)` \| (.+) \|$", page, re.MULTILINE))
    assert written == {reason: sentence(reason) for reason in Reason}


def test_the_commands_page_has_every_command_with_its_options() -> None:
    page = (REPOSITORY / "docs" / "reference" / "commands.md").read_text(encoding="utf-8")
    sections = dict(re.findall(r"^## `([\w ]+)`\n(.*?)(?=^## |\Z)", page, re.MULTILINE | re.DOTALL))
    written = {name: re.findall(r"^\| `(--[\w-]+)", text, re.MULTILINE) for name, text in sections.items()}
    assert {name: sorted(options) for name, options in written.items()} == dict(commands())


def commands(group: Any = None, name: str = "leasehold") -> Iterator[tuple[str, list[str]]]:
    """Every command by its full name, with its options but for ``--json``, which all have."""
    command = group or typer.main.get_command(app)
    for word, below in getattr(command, "commands", {}).items():
        yield from commands(below, f"{name} {word}")
    if not hasattr(command, "commands"):
        options = {parameter.opts[0] for parameter in command.params}
        assert "--json" in options
        yield name, sorted(option for option in options - {"--json"} if option.startswith("--"))


@pytest.mark.parametrize("name", ["README.md", "ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md"])
def test_every_link_of_a_front_page_leads_somewhere(name: str) -> None:
    links = re.findall(r"\]\((?!https://)([^)#]+)", (REPOSITORY / name).read_text(encoding="utf-8"))
    assert [link for link in links if not (REPOSITORY / link).is_file()] == []


SCENARIOS = [
    pytest.param(page, block, id=f"{page.name}-{block.file}")
    for page in PAGES
    for block in blocks(page.read_text(encoding="utf-8"))
    if block.language == "toml" and "[[stream]]" in block.text
]


@pytest.mark.parametrize(("page", "scenario"), SCENARIOS)
def test_every_scenario_shown_is_accepted(page: Path, scenario: Block, tmp_path: Path) -> None:
    for block in blocks(page.read_text(encoding="utf-8")):
        if block.file is not None:
            play(block, tmp_path)
    assert scenario_from_dict(tomllib.loads(scenario.text), tmp_path).streams


class TestThisTest:
    """A check of examples that cannot fail would be worth nothing."""

    def test_notices_a_wrong_output(self, tmp_path: Path) -> None:
        (block,) = blocks("```console\n$ echo one\ntwo\n```\n")
        with pytest.raises(AssertionError, match="it prints"):
            play(block, tmp_path)

    def test_notices_output_that_the_page_leaves_out(self, tmp_path: Path) -> None:
        (block,) = blocks("```console\n$ true\n$ echo one\n```\n")
        with pytest.raises(AssertionError, match="it prints"):
            play(block, tmp_path)

    def test_writes_a_named_block_to_its_file(self, tmp_path: Path) -> None:
        written, typed = blocks("```toml a.toml\nx = 1\n```\n\n```console\n$ cat a.toml\nx = ...\n```\n")
        play(written, tmp_path)
        play(typed, tmp_path)
