"""A real Slurm's accounting as its sacct prints it: both forms read alike, waits compared, dumped under pseudonyms."""

import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC
from pathlib import Path

import pytest
from tests import needing

from bench import slurm_waits
from bench.slurm_waits import Submission
from leasehold.simulation.workload import slurm_dump
from leasehold.simulation.workload.log_record import ReadingNotes
from leasehold.simulation.workload.slurm import accounting_records
from leasehold.testing.slurm import SlurmCluster, accounted_cluster

JOBS = [Submission(0.0, cpus, 1, 1) for cpus in (4, 12, 1, 8, 12, 2)]


@pytest.fixture(scope="module")
def cluster() -> Iterator[SlurmCluster]:
    with needing.programs(), accounted_cluster("accounted", SchedulerParameters=slurm_waits.SCHEDULING) as cluster:
        yield cluster


@pytest.mark.machines
class TestRealAccounting:
    def test_is_read_simulated_and_dumped(self, cluster: SlurmCluster, tmp_path: Path) -> None:
        accounting = tmp_path / "accounting.txt"
        accounting.write_text(slurm_waits.run_jobs(cluster, JOBS))
        found = slurm_waits.simulated(accounting, cluster.slots, "conservative")
        assert found.waits.jobs == len(JOBS)
        page = "\n".join(slurm_waits.page({"conservative": found}, [Submission(9.0, 1, 1, 1)], "slurm 1", "again"))
        assert f"{len(JOBS)} jobs were run by a real Slurm cluster (slurm 1" in page

        (tmp_path / "accounting.json").write_text(cluster.run("sacct", "--allusers", "--duplicates", "--json"))
        by_text, by_json = (
            sorted(accounting_records(path, UTC, ReadingNotes("")))
            for path in (accounting, tmp_path / "accounting.json")
        )
        assert by_text == by_json
        assert [record.requested_vms for record in by_text] == [job.cpus for job in JOBS]
        assert all(record.run_ms >= 1000 and record.nodes >= 1 for record in by_text)

        command = [sys.executable, slurm_dump.__file__, "--key-file", str(tmp_path / "key")]
        done = subprocess.run(command, env=cluster.environment(), capture_output=True, text=True, check=True)
        (tmp_path / "dump.txt").write_text(done.stdout)
        dumped = list(accounting_records(tmp_path / "dump.txt", UTC, ReadingNotes("")))
        assert sorted(one[1:9] for one in dumped) == sorted(one[1:9] for one in by_text)
        assert "root" not in done.stdout
        assert done.stderr == ""
