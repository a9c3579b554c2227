"""The line to a cluster: what its commands are told, what they find, and what is made of their complaints."""

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from leasehold.service.drivers.slurm.commands import Slurm, SlurmRefused, SlurmUnavailable, Step
from leasehold.service.drivers.slurm.options import SlurmOptions


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder in which Slurm's commands are looked for first, with none in it yet."""
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    return tmp_path


def program(folder: Path, name: str, does: str) -> None:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{does}\n")
    path.chmod(0o755)


def slurm(**options: Any) -> Slurm:
    return Slurm(SlurmOptions(**options))


def submit(cluster: Slurm) -> int:
    return cluster.submit("#!/bin/sh\n", {"nice": "5"}, {"LEASEHOLD_LEASE": "7"})


def test_a_command_that_takes_too_long_is_silence(programs: Path) -> None:
    program(programs, "squeue", "exec sleep 60")
    begun_s = time.monotonic()
    with pytest.raises(SlurmUnavailable, match=r"squeue took longer than 0\.2 s"):
        slurm(answer_within_ms=200).jobs()
    assert time.monotonic() - begun_s < 30


def test_so_is_one_that_is_not_installed(programs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(programs))
    with pytest.raises(SlurmUnavailable, match="squeue is not installed here"):
        slurm().jobs()


@pytest.mark.parametrize("does", ["exit 1", "echo nonsense", 'echo \'{"errors": [{"error": "x"}], "jobs": []}\''])
def test_so_is_whatever_is_no_list_of_jobs(programs: Path, does: str) -> None:
    program(programs, "squeue", does)
    with pytest.raises(SlurmUnavailable):
        slurm().jobs()


def test_a_pending_job_is_told_of_other_nodes(programs: Path) -> None:
    program(programs, "scontrol", f'echo "$@" >> {programs / "told"}')
    asked = {"nodelist": "n2,n3", "nodes": "2-2", "mincpus": "2", "mem-per-cpu": ""}
    assert slurm(cluster="beta").place(5, 6, asked) == ""
    assert slurm().place(5, 6, {"nodelist": "n1", "mem": "192M"}) == ""
    first, second = (programs / "told").read_text().splitlines()
    assert first == "-M beta update JobId=5 NumCPUs=6 ReqNodeList=n2,n3 NumNodes=2-2 MinCPUsNode=2"
    assert second == "update JobId=5 NumCPUs=6 ReqNodeList=n1 MinMemoryNode=192"


def test_a_submitted_job_has_a_number(programs: Path) -> None:
    program(programs, "sbatch", "echo '4711;beta'")
    assert submit(slurm()) == 4711


@pytest.mark.parametrize(
    ("complaint", "again"),
    [
        ("sbatch: error: invalid partition specified: x", False),
        ("sbatch: error: Batch job submission failed: Invalid feature specification", False),
        ("sbatch: error: Memory specification can not be satisfied", False),
        ("sbatch: error: AssocMaxSubmitJobLimit", True),
        ("sbatch: error: Slurm temporarily unable to accept job, sleeping and retrying", True),
    ],
)
def test_a_job_may_be_refused_for_good_or_for_now(programs: Path, complaint: str, *, again: bool) -> None:
    program(programs, "sbatch", f"echo '{complaint}' >&2; exit 1")
    with pytest.raises(SlurmRefused) as refused:
        submit(slurm())
    assert (str(refused.value), refused.value.again) == (complaint, again)


@pytest.mark.parametrize(
    "complaint",
    [
        "sbatch: error: Batch job submission failed: Unable to contact slurm controller (connect failure)",
        "sbatch: error: Batch job submission failed: Socket timed out on send/recv operation",
        "sbatch: error: Munge encode failed: Failed to connect to munged",
    ],
)
def test_or_it_may_have_been_taken_without_an_answer(programs: Path, complaint: str) -> None:
    program(programs, "sbatch", f"echo '{complaint}' >&2; exit 1")
    with pytest.raises(SlurmUnavailable):
        submit(slurm())


def test_a_job_finds_nothing_of_ours_in_its_environment(programs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEASEHOLD_TOKEN", "secret")
    monkeypatch.setenv("SBATCH_PARTITION", "ours")
    program(programs, "sbatch", f"env > {programs}/found; echo 1")
    submit(slurm(conf="/etc/slurm/slurm.conf"))
    found = dict(line.split("=", 1) for line in (programs / "found").read_text().splitlines())
    assert found["SLURM_CONF"] == "/etc/slurm/slurm.conf"
    assert found["LEASEHOLD_LEASE"] == "7"
    assert found.keys() - {"PWD", "SHLVL", "_", "LANG"} == {"PATH", "SLURM_CONF", "LEASEHOLD_LEASE"}


def test_a_script_arrives_as_it_was_written_whatever_the_locale_of_the_gateway(programs: Path) -> None:
    program(programs, "sbatch", f"cat > {programs}/told; echo 1")
    submits = (
        "from leasehold.service.drivers.slurm.commands import Slurm\n"
        "from leasehold.service.drivers.slurm.options import SlurmOptions\n"
        r"Slurm(SlurmOptions()).submit('echo gr\xfc\xdfe', {}, {})"
    )
    # Python would take UTF-8 instead of the locale of a computer that says nothing of it.
    locale = {"LC_ALL": "POSIX", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}
    subprocess.run([sys.executable, "-c", submits], env={**os.environ, **locale}, check=True)
    assert (programs / "told").read_text(encoding="utf-8") == "echo gr\xfc\xdfe"


def test_every_command_names_the_cluster(programs: Path) -> None:
    for name in ("sbatch", "squeue", "scontrol", "scancel"):
        program(programs, name, f'echo "{name} $*" >> {programs}/told; exit 1')
    cluster = slurm(cluster="beta")
    for ask in (cluster.jobs, cluster.nodes, cluster.time_limits, cluster.memory_is_consumable):
        with pytest.raises(SlurmUnavailable):
            ask()
    with pytest.raises(SlurmRefused):
        submit(cluster)
    for step in Step:
        does = "scancel" if step is Step.CANCEL else "scontrol"
        assert cluster.do(step, 5) == f"{does} ended with status 1"
    told = (programs / "told").read_text().splitlines()
    assert len(told) == 11
    assert all("-M beta" in line for line in told)
