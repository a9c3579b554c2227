"""What jobs leave behind: the output of their command, whole or its end, and nobody else's files."""

import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from leasehold.service.enactors.facts import Output
from leasehold.service.enactors.protocol import MachineWishes, Verb
from leasehold.service.enactors.slurm import papers as papers_module
from leasehold.service.enactors.slurm.holding import Holding
from leasehold.service.enactors.slurm.papers import CONSOLE, OUTPUT, Papers
from leasehold.testing.enactor_rig import order

NOBODY = Output("")


def holding(*command: str, nodes: tuple[str, ...] = ()) -> Holding:
    told = replace(order(Verb.START, 7, vms=len(nodes) or 1, command=command), on=MachineWishes(nodes))
    return Holding.ordered(told, 0)


@pytest.fixture
def papers(tmp_path: Path) -> Papers:
    return Papers(tmp_path, "", 1)


def played(papers: Papers, one: Holding) -> int:
    """Run a job's script as Slurm would."""
    script = papers.write(one)
    with (script.parent / CONSOLE).open("a") as console:
        return subprocess.run([script], stdout=console, stderr=console, check=False).returncode


def test_what_a_command_wrote_is_told_apart_from_what_slurm_did(papers: Papers) -> None:
    one = holding("sh", "-c", "echo out; echo err >&2; exit 3")
    assert played(papers, one) == 3
    with (papers.of(one) / CONSOLE).open("a") as console:
        console.write("slurmstepd: error: some trouble\n")
    assert papers.output(7) == Output("out\nerr\n")
    assert papers.console(7) == "slurmstepd: error: some trouble\nout\nerr\n"
    assert papers.traces(one).exit_status == 3


def test_a_job_that_begins_anew_leaves_what_it_wrote_before_on_its_console(papers: Papers) -> None:
    one = holding("sh", "-c", "date +%s%N")
    played(papers, one)
    before = papers.output(7).text
    played(papers, one)
    after = papers.output(7).text
    assert after != before
    assert papers.console(7) == before + after


def test_a_command_that_is_not_there_says_so(papers: Papers) -> None:
    assert played(papers, holding("no-such-program")) == 127
    assert "not found" in papers.output(7).text


def test_the_outputs_of_several_nodes_come_in_the_order_in_which_they_were_named(papers: Papers) -> None:
    one = holding("hostname", nodes=("n2", "n10", "n1"))
    papers.write(one)
    for node in ("n1", "n2", "n10"):
        (papers.of(one) / f"{OUTPUT}.{node}").write_text(f"on {node}\n")
    assert papers.output(7) == Output("on n2\non n10\non n1\n")


def test_of_much_only_the_end_is_given_and_that_is_said(
    papers: Papers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(papers_module, "_OUTPUT_BYTES", 10)
    played(papers, holding("echo", "0123456789abcdef"))
    assert papers.output(7) == Output("789abcdef\n", is_whole=False)


def test_nothing_is_known_of_others(papers: Papers) -> None:
    played(papers, holding("echo", "hello"))
    assert papers.output(8) == NOBODY


@pytest.mark.parametrize("kind", ["symlink", "hard link", "pipe"])
def test_files_that_are_not_the_jobs_own_are_not_read(papers: Papers, tmp_path: Path, kind: str) -> None:
    one = holding("true")
    played(papers, one)
    secret, output = tmp_path / "secret", papers.of(one) / OUTPUT
    secret.write_text("of the gateway's\n")
    output.unlink()
    make = {"symlink": output.symlink_to, "hard link": output.hardlink_to}
    if kind == "pipe":
        subprocess.run(["mkfifo", output], check=True)
    else:
        make[kind](secret)
    assert papers.output(7) == NOBODY
    assert papers.console(7) == ""


def test_nor_is_anything_written_through_a_link(papers: Papers, tmp_path: Path) -> None:
    one, precious = holding("true"), tmp_path / "precious"
    script = papers.write(one)
    precious.write_text("of the gateway's\n")
    script.unlink()
    script.symlink_to(precious)
    papers.write(one)
    assert precious.read_text() == "of the gateway's\n"
    assert not script.is_symlink()
