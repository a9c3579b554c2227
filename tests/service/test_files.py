"""Files of consumers: nothing is complete that is not what was announced, and no quota is ever passed."""

import asyncio
import hashlib
import os
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leasehold.model.errors import InvalidField
from leasehold.service.drivers.staging import (
    CannotBring,
    JobFiles,
    StagedFile,
    Staging,
    TransferRate,
    content_path,
    stored_at,
)
from leasehold.service.files import FileConflict, FileQuota, FileStore, NoSuchFile


def hash_of(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def put(files: FileStore, content: bytes, consumer: str = "physics", name: str = "in.dat") -> str:
    sha256 = hash_of(content)
    files.announce(consumer, sha256, name, len(content), 0)
    if content:
        files.write(consumer, sha256, 0, content)
    return sha256


@pytest.fixture
def files(tmp_path: Path) -> FileStore:
    return FileStore(tmp_path / "files")


@given(content=st.binary(max_size=60), data=st.data())
def test_whatever_pieces_come_a_file_is_complete_with_its_content_alone(content: bytes, data: st.DataObject) -> None:
    """Pieces may be wrong, late and doubled, and the gateway may restart between them."""
    with TemporaryDirectory() as folder:
        files, sha256 = FileStore(Path(folder)), hash_of(content)
        stored = files.announce("physics", sha256, "in.dat", len(content), 0)
        for _ in range(data.draw(st.integers(0, 6))):
            offset = data.draw(st.integers(0, len(content)))
            piece = content[offset : offset + data.draw(st.integers(0, 30))]
            if data.draw(st.booleans()):
                files = FileStore(Path(folder))
            try:
                files.write("physics", sha256, offset, piece)
            except FileConflict:
                assert offset != stored.received_bytes
            stored = files.announce("physics", sha256, "in.dat", len(content), 0)
        while not stored.is_complete:
            with pytest.raises(NoSuchFile):
                files.content("physics", sha256)
            begin = stored.received_bytes
            stored = files.write("physics", sha256, begin, content[begin : begin + 25])
        assert files.content("physics", sha256).read_bytes() == content
        assert FileStore(Path(folder)).content("physics", sha256).read_bytes() == content


def test_a_content_that_changed_under_way_is_dropped_and_both_hashes_are_told(files: FileStore) -> None:
    sha256 = hash_of(b"as announced")
    files.announce("physics", sha256, "in.dat", 12, 0)
    with pytest.raises(FileConflict) as refused:
        files.write("physics", sha256, 0, b"another text")
    assert str(refused.value) == (
        f"'in.dat' changed under way: its content has SHA-256 {hash_of(b'another text')}, expected {sha256}"
    )
    assert files.list("physics") == []
    assert put(files, b"as announced") == sha256


@given(
    per_consumer=st.integers(0, 40),
    total=st.integers(0, 60),
    puts=st.lists(st.tuples(st.sampled_from("ab"), st.binary(max_size=20), st.booleans()), max_size=12),
)
def test_no_quota_is_passed(per_consumer: int, total: int, puts: list[tuple[str, bytes, bool]]) -> None:
    with TemporaryDirectory() as folder:
        files = FileStore(Path(folder), per_consumer, total)
        for consumer, content, is_removed in puts:
            before = {one.sha256 for one in files.list(consumer)}
            own, everybody = (
                sum(one.size_bytes for name in names for one in files.list(name)) for names in (consumer, "ab")
            )
            fits = (not per_consumer or own + len(content) <= per_consumer) and (
                not total or everybody + len(content) <= total
            )
            try:
                sha256 = put(files, content, consumer)
                assert fits or sha256 in before
            except FileQuota:
                assert not fits
                continue
            if is_removed:
                files.remove(consumer, sha256)
            for name in "ab":
                assert not per_consumer or sum(one.size_bytes for one in files.list(name)) <= per_consumer


def test_a_quota_is_told_with_what_is_stored(tmp_path: Path) -> None:
    files = FileStore(tmp_path, per_consumer_bytes=10)
    put(files, b"1234567")
    with pytest.raises(FileQuota) as refused:
        put(files, b"12345", name="more.dat")
    assert str(refused.value) == (
        "file 'more.dat' has 5 bytes, and physics has stored 7 of at most 10 bytes already: "
        "remove files that are not needed any more"
    )


def test_a_content_is_stored_once_and_each_consumer_has_to_have_it(files: FileStore) -> None:
    sha256 = put(files, b"shared")
    with pytest.raises(NoSuchFile):
        files.content("chemistry", sha256)
    put(files, b"shared", "chemistry")
    files.remove("physics", sha256)
    assert files.content("chemistry", sha256).read_bytes() == b"shared"
    files.remove("chemistry", sha256)
    assert not content_path(files.folder, sha256).exists()


def test_the_same_hash_with_another_size_is_refused(files: FileStore) -> None:
    sha256 = put(files, b"shared")
    with pytest.raises(InvalidField, match=r"size_bytes: got 7, expected 6, as it was announced before"):
        files.announce("physics", sha256, "in.dat", 7, 0)


# To the site


def staging_to(folder: Path, files: FileStore) -> Staging:
    return Staging(lambda _: stored_at(files.folder), folder)


def bring(staging: Staging, *inputs: StagedFile) -> None:
    asyncio.run(staging.bring(JobFiles(inputs)))


@given(content=st.binary(min_size=1, max_size=50), left=st.integers(0, 50), is_damaged=st.booleans())
def test_an_interrupted_copy_is_continued_and_a_damaged_one_begun_anew(
    content: bytes,
    left: int,
    is_damaged: bool,  # noqa: FBT001 - a parameter of the test
) -> None:
    with TemporaryDirectory() as folder:
        files = FileStore(Path(folder) / "gateway")
        sha256 = put(files, content)
        target = content_path(Path(folder) / "site", sha256)
        target.parent.mkdir(parents=True)
        part = content[:left]
        target.with_suffix(".part").write_bytes(bytes(255 - byte for byte in part) if is_damaged else part)
        bring(staging_to(Path(folder) / "site", files), StagedFile("in.dat", sha256, len(content)))
        assert target.read_bytes() == content
        assert not target.with_suffix(".part").exists()


def test_what_was_removed_or_changed_at_the_gateway_is_not_brought(files: FileStore, tmp_path: Path) -> None:
    staging = staging_to(tmp_path / "site", files)
    sha256 = put(files, b"content")
    path = content_path(files.folder, sha256)
    path.chmod(0o600)
    path.write_bytes(b"changed")
    with pytest.raises(CannotBring, match=f"changed under way: what arrived has SHA-256 {hash_of(b'changed')}"):
        bring(staging, StagedFile("in.dat", sha256, 7))
    files.remove("physics", sha256)
    with pytest.raises(CannotBring, match="is not stored any more: it was removed after the job was submitted"):
        bring(staging, StagedFile("in.dat", sha256, 7))


def test_what_no_job_has_needed_for_long_is_removed_and_brought_again(files: FileStore, tmp_path: Path) -> None:
    staging = staging_to(tmp_path / "site", files)
    inputs = [StagedFile(name, put(files, name.encode()), len(name)) for name in ("old.dat", "used.dat")]
    for file in inputs:
        bring(staging, file)
        os.utime(content_path(tmp_path / "site", file.sha256), (1_000, 1_000))
    bring(staging, inputs[1])
    staging.drop_unused(1_000_001)
    old, used = (content_path(tmp_path / "site", file.sha256) for file in inputs)
    assert (old.exists(), used.exists()) == (False, True)
    bring(staging, inputs[0])
    assert old.read_bytes() == b"old.dat"


def test_how_fast_it_went_is_measured_and_recent_transfers_count_most() -> None:
    rate = TransferRate()
    assert rate.bytes_per_s == 0
    rate.measure(1_000_000, 1.0)
    assert rate.bytes_per_s == 1_000_000
    rate.measure(10, 1.0)  # that is the delay
    rate.measure(2_000_000, 1.0)
    assert rate.bytes_per_s == 1_300_000
