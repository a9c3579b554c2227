"""The help: what it offers, and that nothing heavy stands in its way."""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.cli.saying import Cli
from tests.reference import commands
from typer.main import get_command

from leasehold import __version__
from leasehold.cli.main import app, only

HEAVY = {
    "altair",
    "fastapi",
    "httpx2",
    "numpy",
    "polars",
    "scipy",
    "sqlalchemy",
    "uvicorn",
    "vl_convert",
}


@pytest.mark.parametrize(
    "arguments",
    [
        ["--help"],
        ["sim", "run", "--help"],
        ["policy", "--help"],
        ["serve", "--help"],
        ["lease", "submit", "--help"],
        ["site", "--help"],
        ["store", "backup", "--help"],
    ],
)
def test_help_imports_nothing_heavy(arguments: list[str]) -> None:
    script = f"import sys; from leasehold.cli.main import main; main({arguments}); print('modules', *sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    help_text, _, modules = done.stdout.rpartition("modules ")
    assert "Usage: leasehold" in help_text
    assert HEAVY & set(modules.split()) == set()


def _below(command: Any) -> dict[str, Any]:
    return dict(getattr(command, "commands", {}))


def _said(command: Any) -> tuple[Any, ...]:
    return command.name, command.help, [(one.name, one.opts, one.help, one.required) for one in command.params]


def test_of_all_commands_only_the_one_that_is_named_is_made_and_it_is_the_same() -> None:
    for path, command in commands():
        words = path.split()[1:]
        part = get_command(only(app, [*words, "--no-such-option"]))
        for word in words:
            assert [*_below(part)] == [word]
            part = _below(part)[word]
        assert _said(part) == _said(command)


def test_what_names_no_command_is_told_of_all() -> None:
    for said in ([], ["--version"], ["slm"], ["sim", "--help"], ["sim", "rum"]):
        whole, part = get_command(app), get_command(only(app, said))
        at = _below(part)["sim"] if said[:1] == ["sim"] else part
        assert [*_below(at)] == [*_below(_below(whole)["sim"] if said[:1] == ["sim"] else whole)]


def test_help_offers_the_commands(cli: Cli) -> None:
    said = cli("--help")
    assert said.code == 0
    for command in (
        "demo",
        "serve",
        "lease",
        "site",
        "token",
        "store",
        "doctor",
        "sim",
        "policy",
        "scenario",
    ):
        assert command in said.out


@pytest.mark.parametrize("command", [[], ["lease", "plan"], ["coallocation", "submit"], ["job", "submit"]])
def test_a_help_is_laid_out_for_the_terminal(command: list[str], cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    """No line ends where one ends in the source, flags take no value, no default is in brackets twice."""
    monkeypatch.setenv("COLUMNS", "400")
    said = cli(*command, "--help").out
    assert "<bool>" not in said
    assert not re.search(r"default: \([0-9]", said)
    texts = [line.strip() for line in said.splitlines() if line.startswith(" ") and line.strip()]
    assert all(text.startswith("Usage:") or text.endswith(".") for text in texts)


COMMANDS = ["demo", "serve", "doctor"]
COMMANDS += [
    f"lease {verb}" for verb in ("submit", "plan", "list", "show", "explain", "watch", "cancel", "extend", "logs")
]
COMMANDS += [f"site {verb}" for verb in ("list", "show", "drain", "resume", "forget", "capabilities")]
COMMANDS += [f"token {verb}" for verb in ("create", "list", "revoke", "inspect")]
COMMANDS += [f"store {verb}" for verb in ("status", "migrate", "backup", "restore", "new-admin-token")]
COMMANDS += [f"sim {verb}" for verb in ("run", "compare", "validate", "report", "export")]
COMMANDS += ["policy list", "policy show", "scenario list", "scenario show", "scenario check"]


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_answers_in_json(cli: Cli, command: str) -> None:
    said = cli(*command.split(), "-h")
    assert said.code == 0
    assert "--json" in said.out


def test_version(cli: Cli) -> None:
    assert cli("--version").out == f"leasehold {__version__} (kernel: plain Python)\n"


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        ("leasehold sim run x --policy c", ["conservative"]),
        pytest.param("leasehold sim run x --routing pap", ["pap-rnd", "pap-rtdp"], marks=pytest.mark.soak),
        pytest.param("leasehold sim run x --victims ml", ["mlip"], marks=pytest.mark.soak),
        pytest.param("leasehold policy show mo", ["mov", "moml", "most-free"], marks=pytest.mark.soak),
        pytest.param("leasehold scenario show d", ["demo"], marks=pytest.mark.soak),
        ("leasehold sim run s", ["small.swf", "small.toml"]),
        ("leasehold s", ["serve", "site", "snapshot", "store", "sim", "scenario"]),
    ],
)
def test_names_complete_in_the_shell(folder: Path, words: str, offered: list[str]) -> None:
    shell = {"_LEASEHOLD_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(words.count(" "))}
    script = "from leasehold.cli.main import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=folder,
        env={**os.environ, **shell},
        capture_output=True,
        text=True,
        check=False,
    )
    assert sorted(done.stdout.split()) == sorted(offered)
