"""Files of jobs at peers of peers, and at their sites with managers: passed on by hash, and kept nowhere in between."""

import asyncio
import hashlib
from collections.abc import Iterator
from pathlib import Path
from random import Random
from time import sleep
from typing import Any

import httpx2
import pytest
from tests.service.peers.trio import Trio
from tests.waiting import until

from leasehold.client import JobSpec
from leasehold.client.files import download, upload
from leasehold.protocol.files import PIECE_BYTES
from leasehold.protocol.jobs import Job

LARGE = Random(7).randbytes(2 * PIECE_BYTES + 5)
BEYOND, AT_A_MANAGER = "gcc", "blast"
NODES = ("b:c:site-c/n1", "b:c:far/n1")
OVER = ("completed", "failed", "refused", "cancelled", "expired")


@pytest.fixture(scope="module")
def trio(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trio]:
    """The last of three has a site with a manager of its own."""
    with Trio.open(tmp_path_factory.mktemp("trio"), manager_of="c") as here:
        for node in NODES:
            here.await_node(node)
        yield here


def submit(trio: Trio, content: bytes, folder: Path, software: str) -> Job:
    path = folder / "sky.dat"
    path.write_bytes(content)
    stored = upload(trio.clients["a"], path)
    spec = JobSpec.of(
        command=["cp", "sky.dat", "copy.dat"],
        inputs=[{"name": "sky.dat", "sha256": stored.sha256, "size_bytes": stored.size_bytes}],
        outputs=["copy.dat"],
        software=[software],
        execution_s=60,
    )
    return trio.clients["a"].jobs.submit(spec)


def wait_for(trio: Trio, job: Job) -> Job:
    until(lambda: trio.clients["a"].jobs.get(job.id).state in OVER)
    return trio.clients["a"].jobs.get(job.id)


def kept_at(trio: Trio, name: str, sha256: str) -> list[Path]:
    """All that one keeps of a content."""
    return [path for path in trio.served[name].place.folder.rglob(f"*{sha256}*") if path.is_file()]


@pytest.mark.parametrize(("software", "passed_on_by", "at"), [(BEYOND, "b", "c"), (AT_A_MANAGER, "bc", "far")])
def test_files_are_passed_on_and_kept_nowhere_in_between(
    trio: Trio, tmp_path: Path, software: str, passed_on_by: str, at: str
) -> None:
    content = software.encode() + LARGE
    job = submit(trio, content, tmp_path, software)
    assert wait_for(trio, job).state == "completed"
    [copy] = trio.clients["a"].jobs.result(job.id).files
    sha256 = hashlib.sha256(content).hexdigest()
    assert (copy.name, copy.sha256, copy.size_bytes, copy.problem) == ("copy.dat", sha256, len(content), "")
    for name in passed_on_by:
        assert kept_at(trio, name, sha256) == []
    assert kept_at(trio, at, sha256), "where it ran its input is there for other jobs"

    def read(offset: int, size: int) -> bytes:
        return trio.clients["a"].jobs.read_file(job.id, "copy.dat", offset, size)

    download(read, sha256, len(content), tmp_path / "again.dat")
    assert (tmp_path / "again.dat").read_bytes() == content


def test_a_site_with_a_manager_of_the_peer_takes_files(tmp_path: Path) -> None:
    with Trio.open(tmp_path, manager_of="b", hops=1) as here:
        here.await_node("b:far/n1")
        job = submit(here, LARGE, tmp_path, AT_A_MANAGER)
        assert wait_for(here, job).state == "completed"
        [copy] = here.clients["a"].jobs.result(job.id).files
        assert (copy.sha256, copy.problem) == (hashlib.sha256(LARGE).hexdigest(), "")
        assert kept_at(here, "b", copy.sha256) == []


def test_who_is_beyond_reads_and_sends_no_other_files(trio: Trio, tmp_path: Path) -> None:
    job = wait_for(trio, submit(trio, b"a sky", tmp_path, BEYOND))
    secret = tmp_path / "secret.txt"
    secret.write_bytes(b"of nobody else")
    other = upload(trio.clients["a"], secret)
    number = max(lease.id for lease in trio.clients["b"].leases.list())
    there, sky = f"/v1/sites/c/leases/{number}", hashlib.sha256(b"a sky").hexdigest()
    assert job.state == "completed"
    with httpx2.Client(
        base_url=trio.served["b"].url, headers={"Authorization": f"Bearer {trio.tokens['b', 'c']}"}
    ) as site:

        def get(path: str, part: str = "bytes=0-99") -> httpx2.Response:
            return site.get(path, headers={"Range": part})

        read = get(f"{there}/inputs/{sky}", "bytes=2-3")
        assert (read.status_code, read.content, read.headers["Content-Range"]) == (206, b"sk", "bytes 2-3/5")
        assert get(f"{there}/inputs/{sky}").content == b"a sky"
        assert get(f"{there}/inputs/{other.sha256}").json()["type"].endswith("no-such-file")
        assert get(f"/v1/sites/c/leases/999/inputs/{sky}").json()["type"].endswith("no-such-lease")
        assert get(f"/v1/sites/a/leases/{number}/inputs/{sky}").status_code == 403
        assert get(f"{there}/inputs/{sky}", "bytes=5-9").status_code == 416
        assert site.get(f"{there}/inputs/{sky}").json()["detail"] == (
            "Range: got '', expected bytes=FIRST-LAST: an input that is passed on is read in parts"
        )
        spec: dict[str, Any] = {"sha256": "ab" * 32, "name": "copy.dat", "size_bytes": 5}
        wrong = site.post(f"{there}/outputs", json=spec | {"name": "other.dat"}).json()["detail"]
        assert wrong == f"name: got 'other.dat', expected one of the outputs of lease {number}"
        assert site.post(f"{there}/outputs", json=spec).json()["received_bytes"] == 0
        too_large = site.post(f"{there}/outputs", json=spec | {"sha256": "cd" * 32, "size_bytes": 10**9}).json()
        assert too_large["type"].endswith("file-quota")
        assert "file 'copy.dat' has 1000000000 bytes, and operator has stored" in too_large["detail"]

        def put(content: bytes, span: str) -> dict[str, Any]:
            head = {"Content-Range": span}
            told: dict[str, Any] = site.put(
                f"{there}/outputs/{'ab' * 32}/content", content=content, headers=head
            ).json()
            return told

        assert put(b"wr", "bytes 0-1/5")["received_bytes"] == 2
        assert put(b"xx", "bytes 0-1/5")["type"].endswith("file-conflict")
        assert put(b"x", "bytes 0-1/5")["type"].endswith("invalid-request")
        lied = put(b"ong", "bytes 2-4/5")
        assert lied["type"].endswith("file-conflict")
        assert "changed under way" in lied["detail"]
        assert kept_at(trio, "b", "ab" * 32) == kept_at(trio, "a", "ab" * 32) == []


def test_an_input_that_was_removed_lets_the_job_fail_with_the_reason(trio: Trio, tmp_path: Path) -> None:
    trio.served["c"].kill()
    job = submit(trio, b"gone", tmp_path, BEYOND)
    trio.clients["a"].files.remove(hashlib.sha256(b"gone").hexdigest())
    trio.served["c"].start()
    asyncio.run(trio.served["c"].ready())
    shown = wait_for(trio, job)
    assert (shown.state, shown.reason) == ("failed", "input-gone")
    assert "input 'sky.dat': its gateway says: no file with SHA-256" in str(shown)


def test_who_passes_on_may_be_away_meanwhile(trio: Trio, tmp_path: Path) -> None:
    job = submit(trio, LARGE[::-1], tmp_path, AT_A_MANAGER)
    trio.served["b"].kill()
    trio.served["b"].start()
    asyncio.run(trio.served["b"].ready())
    assert wait_for(trio, job).state == "completed"
    [copy] = trio.clients["a"].jobs.result(job.id).files
    assert (copy.sha256, copy.problem) == (hashlib.sha256(LARGE[::-1]).hexdigest(), "")


@pytest.mark.storm
@pytest.mark.parametrize("number", range(3))
def test_whoever_is_killed_meanwhile_every_file_arrives_whole(tmp_path: Path, number: int) -> None:
    random = Random(number)
    with Trio.open(tmp_path, manager_of="c") as here:
        for node in NODES:
            here.await_node(node)
        contents = [random.randbytes(random.randrange(PIECE_BYTES, 3 * PIECE_BYTES)) for _ in range(4)]
        jobs = [
            submit(here, content, tmp_path, software)
            for content, software in zip(contents, (BEYOND, AT_A_MANAGER) * 2, strict=True)
        ]
        for _ in range(8):
            victim = here.served[random.choice(["a", "b", "c", "far"])]
            victim.kill()
            victim.start()
            asyncio.run(victim.ready())
            sleep(random.uniform(0, 0.5))
        for job, content in zip(jobs, contents, strict=True):
            assert wait_for(here, job).state == "completed"
            [copy] = here.clients["a"].jobs.result(job.id).files
            assert (copy.sha256, copy.problem) == (hashlib.sha256(content).hexdigest(), "")
            assert kept_at(here, "b", copy.sha256) == []
