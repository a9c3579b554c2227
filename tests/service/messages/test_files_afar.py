"""Files of jobs at a site with a manager of its own: a gateway, the manager, and their stores, as processes."""

import asyncio
import hashlib
from collections.abc import Iterator
from pathlib import Path
from random import Random
from time import sleep

import httpx2
import pytest
from tests.service.messages.pair import Pair

from leasehold.client import TokenSpec
from leasehold.client.files import download, upload
from leasehold.protocol.files import PIECE_BYTES
from leasehold.protocol.problems import MEDIA_TYPE, Kind
from leasehold.service.auth.principal import Role
from leasehold.service.drivers.staging import CannotBring, JobFiles, StagedFile, Staging, content_path
from leasehold.service.messages.files import CannotSend, FileLine
from leasehold.service.store.rows import OutputFile

LARGE = Random(7).randbytes(2 * PIECE_BYTES + 5)


@pytest.fixture(scope="module")
def federation(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    with Pair.open(tmp_path_factory.mktemp("federation")) as here:
        yield here


def test_inputs_arrive_by_their_hash_and_outputs_come_back(federation: Pair, tmp_path: Path) -> None:
    job = federation.submit(LARGE, tmp_path)
    assert federation.wait_for(job).state == "completed"
    [copy] = federation.client.jobs.result(job.id).files
    sha256 = hashlib.sha256(LARGE).hexdigest()
    assert (copy.name, copy.sha256, copy.size_bytes, copy.problem) == ("copy.dat", sha256, len(LARGE), "")
    [there] = federation.folder.rglob(f"inputs/content/*/{sha256}")
    assert there.read_bytes() == LARGE

    def read(offset: int, size: int) -> bytes:
        return federation.client.jobs.read_file(job.id, "copy.dat", offset, size)

    download(read, sha256, len(LARGE), tmp_path / "again.dat")
    assert (tmp_path / "again.dat").read_bytes() == LARGE


def test_a_site_reads_and_writes_no_other_files(federation: Pair, tmp_path: Path) -> None:
    job = federation.submit(b"a sky", tmp_path)
    [attempt] = federation.wait_for(job).attempts
    secret = tmp_path / "secret.txt"
    secret.write_bytes(b"of nobody else")
    other = upload(federation.client, secret)
    there, sky = f"/v1/sites/far/leases/{attempt.lease}", hashlib.sha256(b"a sky").hexdigest()
    spec = {"sha256": "ab" * 32, "name": "copy.dat", "size_bytes": 5}
    head = {"Authorization": f"Bearer {federation.site_token}"}
    with httpx2.Client(base_url=federation.gateway.url, headers=head) as site:
        assert site.get(f"{there}/inputs/{sky}").content == b"a sky"
        assert site.get(f"{there}/inputs/{other.sha256}").json()["type"].endswith("no-such-file")
        assert site.get(f"/v1/sites/far/leases/999/inputs/{sky}").json()["type"].endswith("no-such-lease")
        assert site.get(f"/v1/sites/near/leases/{attempt.lease}/inputs/{sky}").status_code == 403
        refused = site.post(f"{there}/outputs", json=spec | {"name": "other.dat"})
        assert (
            refused.json()["detail"] == f"name: got 'other.dat', expected one of the outputs of lease {attempt.lease}"
        )
        assert site.post(f"{there}/outputs", json=spec).json()["received_bytes"] == 0
        too_large = site.post(f"{there}/outputs", json=spec | {"sha256": "cd" * 32, "size_bytes": 10**9}).json()
        assert "file 'copy.dat' has 1000000000 bytes, and operator has stored" in too_large["detail"]
        piece = site.put(
            f"{there}/outputs/{'ab' * 32}/content", content=b"wrong", headers={"Content-Range": "bytes 0-4/5"}
        )
        assert "changed under way" in piece.json()["detail"]
    member = federation.client.tokens.create(TokenSpec(consumer="far", roles=[Role.MEMBER])).token
    with httpx2.Client(base_url=federation.gateway.url, headers={"Authorization": f"Bearer {member}"}) as somebody:
        assert somebody.get(f"{there}/inputs/{sky}").status_code == 403


def test_an_input_that_was_removed_lets_the_job_fail_with_the_reason(federation: Pair, tmp_path: Path) -> None:
    federation.manager.kill()
    job = federation.submit(b"gone", tmp_path)
    federation.client.files.remove(hashlib.sha256(b"gone").hexdigest())
    federation.manager.start()
    asyncio.run(federation.manager.ready())
    shown = federation.wait_for(job)
    assert (shown.state, shown.reason) == ("failed", "input-gone")
    assert not any(node.problem for node in federation.client.nodes.list())
    assert "input 'sky.dat': its gateway says: no file with SHA-256" in str(shown)


@pytest.mark.storm
@pytest.mark.parametrize("number", range(3))
def test_whoever_is_killed_meanwhile_every_file_arrives_whole(tmp_path: Path, number: int) -> None:
    random = Random(number)
    with Pair.open(tmp_path) as here:
        contents = [random.randbytes(random.randrange(PIECE_BYTES, 3 * PIECE_BYTES)) for _ in range(4)]
        jobs = [here.submit(content, tmp_path) for content in contents]
        for _ in range(6):
            victim = random.choice((here.gateway, here.manager))
            victim.kill()
            victim.start()
            asyncio.run(victim.ready())
            sleep(random.uniform(0, 0.5))
        for job, content in zip(jobs, contents, strict=True):
            here.wait_for(job)
            [copy] = here.client.jobs.result(job.id).files
            assert (copy.sha256, copy.problem) == (hashlib.sha256(content).hexdigest(), "")


# One side


def line_with(answer: httpx2.MockTransport) -> FileLine:
    async def site() -> str:
        return "we/st"

    return FileLine(httpx2.AsyncClient(transport=answer, base_url="https://gateway"), site)


FILE = StagedFile("sky.dat", "ab" * 32, 10)


def test_a_piece_is_read_from_where_the_last_one_ended() -> None:
    asked = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        asked.append((request.url.raw_path.decode(), request.headers["Range"]))
        return httpx2.Response(206, content=b"456789")

    assert asyncio.run(line_with(httpx2.MockTransport(answer)).read(7, FILE, 4)) == b"456789"
    assert asked == [(f"/v1/sites/we%2Fst/leases/7/inputs/{'ab' * 32}", "bytes=4-9")]


@pytest.mark.parametrize(("status", "again"), [(404, False), (403, False), (503, True), (429, True), (401, True)])
def test_what_may_be_different_later_is_tried_again(status: int, *, again: bool) -> None:
    line = line_with(httpx2.MockTransport(lambda _: httpx2.Response(status, text="no")))
    with pytest.raises(CannotBring) as failed:
        asyncio.run(line.read(7, FILE, 0))
    assert failed.value.again is again
    assert str(failed.value) == f"input 'sky.dat': its gateway says: {status}: no"


def test_a_gateway_that_cannot_be_reached_is_asked_again() -> None:
    def answer(request: httpx2.Request) -> httpx2.Response:
        raise httpx2.ConnectError("refused", request=request)

    line = line_with(httpx2.MockTransport(answer))
    with pytest.raises(CannotBring, match="its gateway does not answer: refused") as failed:
        asyncio.run(line.read(7, FILE, 0))
    assert failed.value.again


class Receiver:
    """Takes pieces as a gateway does, and is away after some of them."""

    def __init__(self, content: bytes, breaks_after: int) -> None:
        self._size = len(content)
        self._left = breaks_after
        self.got = b""

    def answer(self, request: httpx2.Request) -> httpx2.Response:
        if request.method == "PUT":
            if not self._left:
                self._left = 1_000
                return httpx2.Response(503, text="stopping")
            self._left -= 1
            first = int(request.headers["Content-Range"].removeprefix("bytes ").partition("-")[0])
            assert first == len(self.got)
            self.got += request.content
        stored = {"sha256": "", "name": "", "size_bytes": self._size, "created_at": "2026-11-27T00:00:00Z"}
        said = {"received_bytes": len(self.got), "is_complete": len(self.got) == self._size}
        return httpx2.Response(200, json=stored | said)


@pytest.mark.parametrize("breaks_after", range(3))
def test_sending_continues_where_it_was_cut_off(tmp_path: Path, breaks_after: int) -> None:
    path = tmp_path / "left.dat"
    path.write_bytes(LARGE)
    receiver = Receiver(LARGE, breaks_after)
    line = line_with(httpx2.MockTransport(receiver.answer))

    async def send() -> OutputFile:
        with pytest.raises(CannotSend, match=r"left\.dat: the gateway says: 503: stopping"):
            await line.send(7, "left.dat", path)
        return await line.send(7, "left.dat", path)

    sent = asyncio.run(send())
    assert receiver.got == LARGE
    assert sent == OutputFile("left.dat", hashlib.sha256(LARGE).hexdigest(), len(LARGE))


def test_what_is_too_long_is_not_taken_as_the_file(tmp_path: Path) -> None:
    async def endless(_: StagedFile, __: int) -> bytes:
        return bytes(1_000)

    staging = Staging(lambda _: endless, tmp_path)
    with pytest.raises(CannotBring, match="changed under way"):
        asyncio.run(staging.bring(JobFiles((FILE,))))
    assert not content_path(tmp_path, FILE.sha256).exists()
    assert not list(tmp_path.rglob("*.part"))


def test_what_its_gateway_will_never_take_is_the_problem_of_that_file(tmp_path: Path) -> None:
    path = tmp_path / "left.dat"
    path.write_bytes(b"1")
    full = {"type": Kind.FILE_QUOTA.urn, "title": "", "status": 409, "detail": "there is no room"}
    for response in (
        httpx2.Response(404, text="no such lease"),
        httpx2.Response(409, json=full, headers={"Content-Type": MEDIA_TYPE}),
    ):
        line = line_with(httpx2.MockTransport(lambda _, response=response: response))
        sent = asyncio.run(line.send(7, "left.dat", path))
        assert (sent.sha256, sent.problem) in {("", "404: no such lease"), ("", "there is no room")}
