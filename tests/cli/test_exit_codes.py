"""Every way of failing: one line on standard error, its exit code, and nothing half-written."""

import gzip
import subprocess
import sys
from pathlib import Path

import pytest
from tests.cli.saying import Cli

from leasehold.model.errors import InvariantBroken
from leasehold.simulation import run as simulation_run

BAD = [
    (["sim", "run", "nowhere.toml"], "SOURCE: got 'nowhere.toml', expected a scenario file"),
    (["sim", "run", "dmo"], "or one of demo"),
    (["sim", "run", "notes.txt"], "notes.txt: is neither a scenario (.toml) nor a log"),
    (["sim", "run", "empty.toml"], "empty.toml"),
    (["sim", "run", "typo.toml"], "typo.toml:9: cluster[0].slotz: got 'slotz'"),
    (["sim", "run", "empty.swf"], "empty.swf: holds no job"),
    (
        ["sim", "run", "never.swf"],
        "never.swf: no job is left of the 4 in this log: 4 were left out: no run time",
    ),
    (["sim", "run", "never.swf", "--guests", "das2"], "never.swf: no job is left of the 4 in this log"),
    (["sim", "run", "small.swf", "--guests", "never.swf"], "never.swf: no job is left of the 4 in this log"),
    (
        ["sim", "run", "sizeless.swf", "--procs", "8"],
        "sizeless.swf: no job is left of the 4 in this log: 4 were",
    ),
    (
        ["sim", "run", "small.swf", "--set", "stream.local.begin_s=9000"],
        "small.swf: no job is left of the 4 in this log: 4 are outside the window",
    ),
    (["sim", "run", "broken.swf"], "broken.swf:3: "),
    (["sim", "run", "cut.swf.gz"], "cut.swf.gz"),
    (["sim", "run", "disorder.swf"], "disorder.swf:4: "),
    (["sim", "run", "small.swf", "--procs", "0"], "--procs: got '0'"),
    (["sim", "run", "small.swf", "--procs", "nan"], "--procs: got 'nan'"),
    (["sim", "run", "small.swf", "--policy", "eazy"], "did you mean 'easy'?"),
    (["sim", "run", "small.swf", "--routing", "pap"], "did you mean 'pap-"),
    (["sim", "run", "small.swf", "--victims", "mom"], "did you mean 'moml'?"),
    (["sim", "run", "small.swf", "--victims", "mine.py:x"], "mine.py: no such file"),
    (["sim", "run", "small.swf", "--cluster-by", "vo"], "expected one of group, partition"),
    (["sim", "run", "small.swf", "--load", "nan"], "load: got nan"),
    (["sim", "run", "small.swf", "--load", "-1"], "load: got -1"),
    (["sim", "run", "small.swf", "--load", "much"], "--load: got 'much', expected a number"),
    (["lease", "submit", "--duration", "1h", "--vms", "two"], "--vms: got 'two', expected a whole number"),
    (["lease", "show", "seven"], "leasehold: ID: got 'seven', expected a whole number"),
    (["lease", "watch", "1", "seven"], "leasehold: ID: got 'seven', expected a whole number"),
    (["lease", "list", "--limit", "-3"], "--limit: got '-3', expected at least 0"),
    (["sim", "run", "small.swf", "--seed", "-1"], "seed: got -1"),
    (["sim", "run", "small.swf", "--horizon", "0"], "horizon_s: got 0"),
    (["sim", "run", "small.swf", "--set", "seed"], "--set: got 'seed'"),
    (["sim", "run", "small.swf", "--set", "sed=1"], "did you mean 'seed'?"),
    (
        ["sim", "run", "small.toml", "--procs", "8"],
        "--procs, --site, --cluster-by and --guests are about logs",
    ),
    (["sim", "run", "small.toml", "--out", "small.swf"], "a folder, not a file"),
    (["sim", "run", "small.toml", "--out", "full"], "a new or empty folder"),
    (["sim", "run", "small.toml", "--out", "full", "--force"], "the folder of an earlier run"),
    (["sim", "run", "small.toml", "--out", "small.swf/run"], "small.swf"),
    (["sim", "run", "full"], "not a run folder"),
    (["sim", "run"], "Missing argument"),
    (["sim", "run", "small.swf", "--polic", "easy"], "No such option"),
    (["sim", "walk"], "No such command"),
    (["sim", "validate", "full"], "not a run folder"),
    (["sim", "validate", "nowhere"], "not a run folder"),
    (["sim", "compare", "full", "nowhere"], "not a run folder"),
    (["sim", "report", "nowhere"], "not a run folder"),
    (["sim", "export", "nowhere"], "not a run folder"),
    (["policy", "show", "momm"], "did you mean 'moml'?"),
    (["scenario", "show", "nowhere"], "or one of demo"),
    (["scenario", "check", "typo.toml"], "typo.toml:9: "),
    (["demo", "--seed", "-1"], "seed: got -1"),
    (["demo", "--out", "full"], "a new or empty folder"),
]


@pytest.fixture(autouse=True)
def bad_files(folder: Path) -> None:
    log, scenario = ((folder / f"small.{kind}").read_text() for kind in ("swf", "toml"))
    (folder / "notes.txt").write_text("dear diary")
    (folder / "empty.toml").write_text("")
    (folder / "empty.swf").write_text("; MaxProcs: 8\n")
    jobs = [line.split() for line in log.splitlines()[1:]]
    for name, columns in (("never", (3,)), ("sizeless", (4, 7))):
        lines = [[*("-1" if n in columns else word for n, word in enumerate(job))] for job in jobs]
        text = "; MaxProcs: 8\n" + "".join(" ".join(line) + "\n" for line in lines)
        (folder / f"{name}.swf").write_text(text)
    (folder / "typo.toml").write_text(scenario.replace("slots", "slotz"))
    (folder / "broken.swf").write_text(log.replace("1800", "18oo"))
    (folder / "disorder.swf").write_text(log.replace("3  120", "3   12"))
    (folder / "cut.swf.gz").write_bytes(gzip.compress(log.encode() * 1000)[:-20])
    (folder / "full").mkdir()
    (folder / "full" / "thesis.tex").write_text("years of work")


def tree(folder: Path) -> set[Path]:
    return set(folder.rglob("*"))


@pytest.mark.parametrize(("arguments", "message"), BAD, ids=[" ".join(arguments) for arguments, _ in BAD])
def test_bad_input_is_one_line_and_leaves_nothing(cli: Cli, folder: Path, arguments: list[str], message: str) -> None:
    before = tree(folder)
    said = cli(*arguments)
    assert said.code == 2
    assert said.out == ""
    lines = [line for line in said.err.splitlines() if not line.endswith("day 0.0")]
    assert len(lines) == 1
    assert lines[0].startswith("leasehold: ")
    assert message in lines[0]
    assert tree(folder) == before


def test_an_earlier_run_stays_when_its_replacement_fails(cli: Cli, folder: Path) -> None:
    cli("sim", "run", "small.swf", "--out", "run")
    before = tree(folder)
    assert cli("sim", "run", "cut.swf.gz", "--out", "run", "--force").code == 2
    assert tree(folder) == before


def test_an_earlier_run_is_replaced_by_force(cli: Cli, folder: Path) -> None:
    cli("sim", "run", "small.swf", "--out", "run")
    assert cli("sim", "run", "small.swf", "--out", "run", "--force", "--no-report").code == 0
    assert not (folder / "run" / "report.html").exists()
    assert not (folder / "run.replaced").exists()


@pytest.mark.parametrize("arguments", [[], ["sim"], ["policy"], ["scenario"]])
def test_a_command_without_its_second_half_shows_the_help(cli: Cli, arguments: list[str]) -> None:
    said = cli(*arguments)
    assert (said.code, said.err) == (2, "")
    assert "Usage: leasehold" in said.out


class TestDefects:
    """They are made here by hand: there is no other way to see one."""

    def test_a_broken_invariant_tells_seed_and_command(self, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
        def broken(*_: object, **__: object) -> None:
            raise InvariantBroken("slot given twice at 3 ms")

        monkeypatch.setattr(simulation_run, "_pass_time", broken)
        said = cli("sim", "run", "small.toml", "--seed", "7", "--check", "--out", "run")
        assert said.code == 3
        problem, help_line = said.err.splitlines()
        assert problem == "leasehold: slot given twice at 3 ms"
        assert help_line.endswith("Seed 7; to see it again: leasehold sim run small.toml --seed 7 --check")

    def test_any_other_error_is_one_too(self, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
        def broken(*_: object, **__: object) -> None:
            raise ZeroDivisionError

        monkeypatch.setattr(simulation_run, "_pass_time", broken)
        said = cli("sim", "run", "small.toml", "--out", "run")
        assert said.code == 3
        assert "ZeroDivisionError" in said.err
        assert said.err.splitlines()[-1] == "leasehold: this is a defect of Leasehold, not of your input"


def test_a_reader_who_goes_away_is_no_error(folder: Path) -> None:
    command = f"{sys.executable} -m leasehold.cli.main scenario show demo"
    shell = f"set -o pipefail; {command} | true"
    done = subprocess.run(["bash", "-c", shell], cwd=folder, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
