"""What jobs leave behind: the output of their command, whole or its end, and nobody else's files."""

import os
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from leasehold.service.drivers.facts import Output
from leasehold.service.drivers.protocol import MachineWishes, Verb
from leasehold.service.drivers.slurm import papers as papers_module
from leasehold.service.drivers.slurm.holding import Holding
from leasehold.service.drivers.slurm.papers import BEGUN, CONSOLE, ENDED, NODES, OUTPUT, Papers
from leasehold.service.drivers.slurm.users import JobUser
from leasehold.testing.driver_rig import order

NOBODY = Output("")


def holding(*command: str, nodes: tuple[str, ...] = ()) -> Holding:
    told = replace(order(Verb.START, 7, vms=len(nodes) or 1, command=command), on=MachineWishes(nodes))
    return Holding.ordered(told, 0, JobUser.us(), "5ec4e7")


@pytest.fixture
def papers(tmp_path: Path) -> Papers:
    return Papers(tmp_path, 1)


def played(papers: Papers, one: Holding) -> int:
    """Run a job's script as Slurm would."""
    script = papers.write(one)
    with (papers.work(one) / CONSOLE).open("a") as console:
        done = subprocess.run(["sh"], input=script, stdout=console, stderr=console, text=True, check=False)
    return done.returncode


def test_what_a_command_wrote_is_told_apart_from_what_slurm_did(papers: Papers) -> None:
    one = holding("sh", "-c", "echo out; echo err >&2; exit 3")
    assert played(papers, one) == 3
    with (papers.work(one) / CONSOLE).open("a") as console:
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
        (papers.work(one) / f"{OUTPUT}.{node}").write_text(f"on {node}\n")
    assert papers.output(7) == Output("on n2\non n10\non n1\n")


def test_of_much_only_the_end_is_given_and_that_is_said(papers: Papers, monkeypatch: pytest.MonkeyPatch) -> None:
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
    secret, output = tmp_path / "secret", papers.work(one) / OUTPUT
    secret.write_text("of the gateway's\n")
    output.unlink()
    make = {"symlink": output.symlink_to, "hard link": output.hardlink_to}
    if kind == "pipe":
        subprocess.run(["mkfifo", output], check=True)
    else:
        make[kind](secret)
    assert papers.output(7) == NOBODY
    assert papers.console(7) == ""


def test_nor_is_a_list_of_nodes_believed_that_a_guest_wrote(papers: Papers, tmp_path: Path) -> None:
    """With it a guest would name any file of the gateway's as its output."""
    one = holding("true")
    played(papers, one)
    (tmp_path / "admin.token").write_text("of the gateway's\n")
    (papers.work(one) / "output.").mkdir()
    (papers.work(one) / NODES).write_text("/../../../admin.token\n")
    assert papers.output(7) == NOBODY


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make somebody else's file")
def test_nor_is_a_file_read_that_belongs_to_somebody_else(papers: Papers) -> None:
    one = holding("echo", "hello")
    played(papers, one)
    os.chown(papers.work(one) / OUTPUT, 1, 1)
    assert papers.output(7) == NOBODY


def test_the_folder_in_which_a_job_works_is_its_users_alone(papers: Papers) -> None:
    one = holding("true")
    before = os.umask(0)
    try:
        papers.write(one)
    finally:
        os.umask(before)
    assert papers.work(one).stat().st_mode & 0o777 == 0o700
    assert papers.of(one).stat().st_mode & 0o777 == 0o711
    assert papers.of(one).parent.stat().st_mode & 0o777 == 0o711


GARBAGE = [
    "",
    "garbage",
    "9" * 5_000,
    f"{10**30} {10**30}",
    "-1 5",
    "256 -5",
    "0 -5",
    "\0\0 \0",
    "\N{ARABIC-INDIC DIGIT FIVE} 5",
]


@pytest.mark.parametrize("written", GARBAGE)
def test_what_a_guest_writes_about_its_end_is_believed_only_if_it_can_be_so(papers: Papers, written: str) -> None:
    one = holding("true")
    papers.write(one)
    (papers.work(one) / ENDED).write_text(written)
    (papers.work(one) / BEGUN).write_text(written)
    traces = papers.traces(one)
    assert traces.exit_status in {None, 0}
    assert traces.ended_ms is None
    assert (traces.begun_ms or 0) < 1_000


def test_a_folder_deeper_than_anybody_can_go_is_cleared_out(papers: Papers, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(papers_module, "_KEPT", 1)
    monkeypatch.setattr(papers_module, "_REMOVED_WITHIN_S", 600)
    one = holding("true")
    for birth in (2, 3, 1):
        papers.write(replace(one, birth=birth))
    inside = os.open(papers.work(one), os.O_DIRECTORY)
    for _ in range(1_500):
        os.mkdir("d", dir_fd=inside)
        deeper = os.open("d", os.O_DIRECTORY, dir_fd=inside)
        os.close(inside)
        inside = deeper
    os.close(inside)
    os.utime(papers.of(one), (0, 0))
    try:
        papers.clear_out([])
        assert not papers.of(one).exists()
    finally:
        subprocess.run(["rm", "-rf", papers.of(one)], check=True)  # pytest could not


def test_many_folders_are_cleared_out_by_one_command_that_may_not_take_long(
    papers: Papers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All of the site waits for it; and one that a guest has made too large for it is not in others' way."""
    monkeypatch.setattr(papers_module, "_KEPT", 2)
    one, run = holding("true"), subprocess.run
    bounds: list[float] = []
    sequence: list[str] = []

    def noted(words: list[Any], *, timeout: float, **more: Any) -> Any:
        bounds.append(timeout)
        sequence.extend(word.suffix for word in words if isinstance(word, Path))
        return run(words, timeout=timeout, **more)

    for birth in range(2, 9):
        papers.write(replace(one, birth=birth))
        os.utime(papers.of(replace(one, birth=birth)), (birth, birth))
    monkeypatch.setattr(subprocess, "run", noted)
    papers.clear_out([replace(one, birth=2)])
    left = [birth for birth in range(2, 9) if papers.of(replace(one, birth=birth)).exists()]
    assert left == [2, 7, 8]
    assert [bound <= 10 for bound in bounds] == [True]
    assert sequence == [".6", ".5", ".4", ".3"]
