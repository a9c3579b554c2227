"""The clusters that tests run: nothing of them is left, however the tests end."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.waiting import PATIENCE_S

from leasehold.testing import slurm
from leasehold.testing.debian import ProgramMissing
from leasehold.testing.slurm import SlurmCluster, SlurmFailed

PROGRAM = """
from leasehold.testing.slurm import slurm_clusters
with slurm_clusters("alpha") as (cluster,):
    begun = cluster.folder / "begun"
    cluster.submit(command=f"trap '' TERM HUP; touch {begun}; sleep 300")
    cluster.until(begun.exists)
    print(cluster.folder, flush=True)
    input()
"""


def processes(folder: str) -> list[str]:
    """The programs that have something of a folder in their arguments or in their environment."""
    found: list[str] = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            about = (process / "cmdline").read_bytes() + (process / "environ").read_bytes()
            if folder.encode() in about:
                found.append((process / "comm").read_text().strip())
        except OSError:
            continue
    return found


@pytest.mark.machines
@pytest.mark.usefixtures("alpha")  # which says why, where there can be none
def test_with_whoever_started_it_a_cluster_ends_jobs_and_all_and_the_next_clears_up() -> None:
    command = [sys.executable, "-c", PROGRAM]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as maker:
        assert maker.stdout is not None
        folder = maker.stdout.readline().strip()
        assert {"slurmctld", "slurmd", "slurmstepd", "slurm_script"} <= set(processes(folder))
        maker.kill()
    give_up_s = time.monotonic() + PATIENCE_S
    while left := processes(folder):
        assert time.monotonic() < give_up_s, left
        time.sleep(0.05)
    slurm._clear_up_after_the_dead()
    assert not Path(folder).parent.exists()


@pytest.mark.machines
def test_a_command_that_fails_says_what_slurm_says(cluster: SlurmCluster) -> None:
    with pytest.raises(SlurmFailed, match=r"sbatch .*: .*invalid partition"):
        cluster.submit("--partition=none")
    assert cluster.state_of("999999") == ""


def test_only_root_can_have_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(ProgramMissing, match="run `apt-get install -y slurm-wlm"):
        slurm.install()
