"""A real machine at whoever is beyond: built there for a job of ours, by three processes with their own stores."""

import hashlib
import os
import shutil
from pathlib import Path
from random import Random

import pytest
from tests.service.drivers.qemu.conftest import image  # noqa: F401 - a fixture
from tests.service.drivers.qemu.machines import cleared
from tests.service.peers.trio import Trio
from tests.waiting import until

from leasehold.client import JobSpec
from leasehold.client.files import upload
from leasehold.service.config import SiteSpec

pytestmark = pytest.mark.machines

WANTED = "bc"
"""A small package of Debian that is in no image, and on no emulated node."""


def hosts(base: Path) -> SiteSpec:
    """One host on which machines are built."""
    return SiteSpec("hosts", 2, driver="qemu", options={"image": str(base), "accelerator": "tcg"})


@pytest.mark.parametrize(
    ("whose", "manager_of", "seen_as"),
    [
        pytest.param("c", "", "b:c:hosts", id="a peer of a peer"),
        pytest.param("far", "a", "far", id="a site with a manager of its own"),
    ],
)
def test_a_job_runs_in_a_machine_that_is_built_for_it_and_its_files_go_there_and_come_back(
    tmp_path: Path,
    image: Path,  # noqa: F811
    whose: str,
    manager_of: str,
    seen_as: str,
) -> None:
    base = tmp_path / "images" / "debian"
    shutil.copytree(image, base, copy_function=os.link)
    content = Random(19).randbytes(1 << 20)
    sky = tmp_path / "sky.dat"
    sky.write_bytes(content)
    sha256 = hashlib.sha256(content).hexdigest()
    with (
        cleared(tmp_path),
        Trio.open(tmp_path, manager_of=manager_of, sites={whose: hosts(base)}) as trio,
    ):
        ours = trio.clients["a"]
        stored = upload(ours, sky)
        script = "echo 6*7 | bc; sha256sum sky.dat; cp sky.dat copy.dat; echo done >&2"
        spec = JobSpec.of(
            command=["sh", "-c", script],
            inputs=[{"name": "sky.dat", "sha256": stored.sha256, "size_bytes": stored.size_bytes}],
            outputs=["copy.dat"],
            software=[WANTED],
            memory_mib=128,
            execution_s=120,
        )
        until(lambda: ours.jobs.plan(spec).state == "building")
        job = ours.jobs.submit(spec)
        until(lambda: ours.jobs.get(job.id).state.is_final)
        over = ours.jobs.get(job.id)
        assert over.state.value == "completed", over
        result = ours.jobs.result(job.id)
        assert (result.exit_status, result.output.split(), result.error) == (0, ["42", sha256, "sky.dat"], "done\n")
        [copy] = result.files
        assert (copy.sha256, copy.problem) == (sha256, "")
        built = [one for one in ours.images.list() if one.site == seen_as and WANTED in one.name]
        assert [one.state for one in built] == ["there"]
