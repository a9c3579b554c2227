"""What jobs leave behind: the output of their command, whole or its end, and nobody else's files."""

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from leasehold.service.drivers.facts import Output
from leasehold.service.drivers.protocol import Phase, Verb
from leasehold.service.drivers.slurm import job_directory
from leasehold.service.drivers.slurm.instance import JobInstance
from leasehold.service.drivers.slurm.job_directory import (
    BEGUN,
    CONSOLE,
    ENDED,
    NODES,
    OUTPUT,
    JobDirectories,
    JobDirectory,
    batch_script,
)
from leasehold.testing.driver_rig import order

NOBODY = Output("")


@pytest.fixture
def directories(tmp_path: Path) -> JobDirectories:
    return JobDirectories(tmp_path)


@pytest.fixture
def directory(directories: JobDirectories) -> JobDirectory:
    """That of the only job of lease 7."""
    return directories.of(instance())


def instance(generation: int = 1, command: tuple[str, ...] = (), on_nodes: tuple[str, ...] = ()) -> JobInstance:
    whose = {"user": "", "uid": os.geteuid(), "gid": os.getegid(), "owner": "", "secret": ""}
    told = order(Verb.START, 7, generation, command=command)
    return JobInstance.ordered(told, Phase.STARTING, 0, on_nodes=on_nodes, **whose)


def create(directory: JobDirectory, *nodes: str) -> None:
    directory.create(instance(on_nodes=nodes), directory.path.parent / "inputs")


def played(directory: JobDirectory, *command: str) -> int:
    """Run a job's script as Slurm would."""
    create(directory)
    script = batch_script(instance(command=command), directory.work)
    with (directory.work / CONSOLE).open("a") as console:
        done = subprocess.run(["sh"], input=script, stdout=console, stderr=console, text=True, check=False)
    return done.returncode


def test_what_a_command_wrote_is_told_apart_from_what_slurm_did(directory: JobDirectory) -> None:
    assert played(directory, "sh", "-c", "echo out; echo err >&2; exit 3") == 3
    with (directory.work / CONSOLE).open("a") as console:
        console.write("slurmstepd: error: some trouble\n")
    assert directory.output() == Output("out\n", error="err\n")
    assert directory.console() == "slurmstepd: error: some trouble\nout\nerr\n"
    assert directory.run_record().exit_status == 3


def test_a_job_that_begins_anew_leaves_what_it_wrote_before_on_its_console(directory: JobDirectory) -> None:
    played(directory, "sh", "-c", "date +%s%N")
    before = directory.output().text
    played(directory, "sh", "-c", "date +%s%N")
    after = directory.output().text
    assert after != before
    assert directory.console() == before + after


def test_a_command_finds_its_variables_as_they_were_given(directory: JobDirectory) -> None:
    told = "a 'b' \"c\" $HOME `id`\nand more"
    assert played(directory, "env", f"TOLD={told}", "sh", "-c", 'printf %s "$TOLD"') == 0
    assert directory.output().text == told


def test_a_command_that_is_not_there_says_so(directory: JobDirectory) -> None:
    assert played(directory, "no-such-program") == 127
    assert "not found" in directory.output().error


def test_the_outputs_of_several_nodes_come_in_the_order_in_which_they_were_named(directory: JobDirectory) -> None:
    create(directory, "n2", "n10", "n1")
    for node in ("n1", "n2", "n10"):
        (directory.work / f"{OUTPUT}.{node}").write_text(f"on {node}\n")
    assert directory.output() == Output("on n2\non n10\non n1\n")


SRUN = """\
#!/bin/sh
# Runs a command once for each of n1, n2 and n3, as srun does, but on those that have failed; then it has failed, too.
echo "$@" >> "$SAID"
while [ "$1" != sh ]; do shift; done
for node in n1 n2 n3; do
    case " $FAILED " in *" $node "*) worst=1; continue;; esac
    SLURMD_NODENAME=$node "$@" || worst=$?
done
exit ${worst:-0}
"""


SQUEUE = """\
#!/bin/sh
# Says how many nodes a job has, as squeue does.
set -- n1 n2 n3
for node in $(cat "$LOST" 2> /dev/null); do shift; done
echo $#
"""


@pytest.mark.parametrize(
    ("least", "failed", "status"),
    [(0, "", 3), (0, "n3", 3), (2, "", 3), (2, "n2", 3), (2, "n3", 0), (1, "n2 n3", 0), (2, "n2 n3", 1)],
)
def test_of_a_command_that_needs_not_all_of_its_nodes_those_count_that_came_to_their_end(
    directory: JobDirectory, tmp_path: Path, least: int, failed: str, status: int
) -> None:
    """The command fails on n3 with 3."""
    for name, program in (("srun", SRUN), ("squeue", SQUEUE)):
        (tmp_path / name).write_text(program)
        (tmp_path / name).chmod(0o755)
    create(directory, "n1", "n2", "n3")
    fails_on_n3 = ("sh", "-c", "echo on $SLURMD_NODENAME; [ $SLURMD_NODENAME != n3 ] || exit 3")
    one = instance(command=fails_on_n3, on_nodes=("n1", "n2", "n3"))
    one.vms, one.least = 3, least
    environment = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "FAILED": failed, "SAID": str(tmp_path / "said")}
    environment["LOST"] = str(tmp_path / "lost")
    script = batch_script(one, directory.work)
    done = subprocess.run(["sh"], input=script, env=environment, capture_output=True, text=True, check=False)
    went = [node for node in ("n1", "n2", "n3") if node not in failed]
    expected = status if least else (3 if "n3" not in failed else 1)
    assert (done.returncode, directory.run_record().exit_status) == (expected, expected)
    assert directory.output().text == "".join(f"on {node}\n" for node in went)
    assert ("--no-kill" in (tmp_path / "said").read_text()) == bool(least)


LOSING = """\
#!/bin/sh
# Creates no step, as srun does, where nodes have failed: the first call finds that out.
echo "$@" >> "$SAID"
if [ ! -e "$LOST" ]; then echo "$FAILED" > "$LOST"; exit 1; fi
while [ "$1" != sh ]; do shift; done
for node in n1 n2; do SLURMD_NODENAME=$node "$@" || worst=$?; done
exit ${worst:-0}
"""


@pytest.mark.parametrize(("failed", "went", "status"), [("n3", ["n1", "n2"], 0), ("n2 n3", [], 1)])
def test_a_node_that_is_lost_before_the_command_began_is_done_without_where_enough_are_left(
    directory: JobDirectory, tmp_path: Path, failed: str, went: list[str], status: int
) -> None:
    for name, program in (("srun", LOSING), ("squeue", SQUEUE)):
        (tmp_path / name).write_text(program)
        (tmp_path / name).chmod(0o755)
    create(directory, "n1", "n2", "n3")
    one = instance(command=("sh", "-c", "echo on $SLURMD_NODENAME"), on_nodes=("n1", "n2", "n3"))
    one.vms, one.least = 3, 2
    said = tmp_path / "said"
    environment = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "FAILED": failed, "SAID": str(said)}
    environment["LOST"] = str(tmp_path / "lost")
    script = batch_script(one, directory.work)
    done = subprocess.run(["sh"], input=script, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, directory.run_record().exit_status) == (status, status)
    assert directory.output().text == "".join(f"on {node}\n" for node in went)
    asked = [word for word in said.read_text().split() if word.startswith("--nodes=")]
    assert asked == (["--nodes=3", "--nodes=2"] if went else ["--nodes=3"])


def test_where_slurm_does_not_say_how_many_nodes_are_left_the_command_is_begun_once(
    directory: JobDirectory, tmp_path: Path
) -> None:
    for name, program in (("srun", LOSING), ("squeue", "#!/bin/sh\nexit 1\n")):
        (tmp_path / name).write_text(program)
        (tmp_path / name).chmod(0o755)
    create(directory, "n1", "n2", "n3")
    one = instance(command=("true",), on_nodes=("n1", "n2", "n3"))
    one.vms, one.least = 3, 2
    environment = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "FAILED": "n3", "SAID": str(tmp_path / "said")}
    environment["LOST"] = str(tmp_path / "lost")
    script = batch_script(one, directory.work)
    done = subprocess.run(["sh"], input=script, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert (tmp_path / "said").read_text().count("--nodes=3") == 1


def test_of_much_only_the_end_is_given_and_that_is_said(
    directory: JobDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job_directory, "_OUTPUT_BYTES", 10)
    played(directory, "echo", "0123456789abcdef")
    assert directory.output() == Output("789abcdef\n", is_whole=False)


def test_nothing_is_known_of_others(directory: JobDirectory, directories: JobDirectories) -> None:
    played(directory, "echo", "hello")
    assert directories.last_of(8).output() == NOBODY


@pytest.mark.parametrize("kind", ["symlink", "hard link", "pipe"])
def test_files_that_are_not_the_jobs_own_are_not_read(directory: JobDirectory, tmp_path: Path, kind: str) -> None:
    played(directory, "true")
    secret, output = tmp_path / "secret", directory.work / OUTPUT
    secret.write_text("of the gateway's\n")
    output.unlink()
    make = {"symlink": output.symlink_to, "hard link": output.hardlink_to}
    if kind == "pipe":
        subprocess.run(["mkfifo", output], check=True)
    else:
        make[kind](secret)
    assert directory.output() == NOBODY
    assert directory.console() == ""


def test_nor_is_a_list_of_nodes_believed_that_a_guest_wrote(directory: JobDirectory, tmp_path: Path) -> None:
    """With it a guest would name any file of the gateway's as its output."""
    played(directory, "true")
    (tmp_path / "admin.token").write_text("of the gateway's\n")
    (directory.work / "output.").mkdir()
    (directory.work / NODES).write_text("/../../../admin.token\n")
    assert directory.output() == NOBODY


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make somebody else's file")
def test_nor_is_a_file_read_that_belongs_to_somebody_else(directory: JobDirectory) -> None:
    played(directory, "true")
    os.chown(directory.work / OUTPUT, 1, 1)
    assert directory.output() == NOBODY


def test_the_folder_in_which_a_job_works_is_its_users_alone(directory: JobDirectory) -> None:
    before = os.umask(0)
    try:
        create(directory)
    finally:
        os.umask(before)
    assert directory.work.stat().st_mode & 0o777 == 0o700
    assert directory.path.stat().st_mode & 0o777 == 0o711
    assert directory.path.parent.stat().st_mode & 0o777 == 0o711


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
def test_what_a_guest_writes_about_its_end_is_believed_only_if_it_can_be_so(
    directory: JobDirectory, written: str
) -> None:
    create(directory)
    (directory.work / ENDED).write_text(written)
    (directory.work / BEGUN).write_text(written)
    record = directory.run_record()
    assert record.exit_status in {None, 0}
    assert record.ended_ms is None
    assert (record.begun_ms or 0) < 1_000


def test_a_folder_deeper_than_anybody_can_go_is_pruned(
    directory: JobDirectory, directories: JobDirectories, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job_directory, "_KEPT", 1)
    monkeypatch.setattr(job_directory, "_REMOVED_WITHIN_S", 600)
    for generation in (2, 3, 1):
        create(directories.of(instance(generation)))
    inside = os.open(directory.work, os.O_DIRECTORY)
    for _ in range(1_500):
        os.mkdir("d", dir_fd=inside)
        deeper = os.open("d", os.O_DIRECTORY, dir_fd=inside)
        os.close(inside)
        inside = deeper
    os.close(inside)
    os.utime(directory.path, (0, 0))
    try:
        directories.prune([])
        assert not directory.path.exists()
    finally:
        subprocess.run(["rm", "-rf", directory.path], check=True)  # pytest could not


def test_many_folders_are_pruned_by_one_command_that_may_not_take_long(
    directories: JobDirectories, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All of the site waits for it; and one that a guest has made too large for it is not in others' way."""
    monkeypatch.setattr(job_directory, "_KEPT", 2)
    run = subprocess.run
    bounds: list[float] = []
    sequence: list[str] = []

    def noted(words: list[Any], *, timeout: float, **more: Any) -> Any:
        bounds.append(timeout)
        sequence.extend(word.suffix for word in words if isinstance(word, Path))
        return run(words, timeout=timeout, **more)

    for generation in range(2, 9):
        create(directories.of(instance(generation)))
        os.utime(directories.of(instance(generation)).path, (generation, generation))
    monkeypatch.setattr(subprocess, "run", noted)
    directories.prune([instance(2)])
    left = [generation for generation in range(2, 9) if directories.of(instance(generation)).path.exists()]
    assert left == [2, 7, 8]
    assert [bound <= 10 for bound in bounds] == [True]
    assert sequence == [".6", ".5", ".4", ".3"]
