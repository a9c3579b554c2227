"""Files in guests: whatever breaks a conversation off, and wherever, what arrives is what was sent."""

import asyncio
import base64
import hashlib
from collections.abc import Coroutine
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leasehold.service.drivers.guest_agent import GuestAgent, Refused
from leasehold.service.drivers.guest_files import WORK, bring_inputs, fetch_outputs
from leasehold.service.drivers.reconciler.provider import MachineFailed
from leasehold.service.drivers.staging import StagedFile, TransferRate, content_path

PIECE = 7


class BrokenOffError(Exception):
    """A conversation has ended in the middle."""


@dataclass
class Opened:
    """A file that a guest's agent has open: what is written gets there when it is closed, or later."""

    path: str
    position: int = 0
    unwritten: list[tuple[int, bytes]] = field(default_factory=list)


@dataclass
class Guest(GuestAgent):
    """A guest with an agent, whose conversation breaks off after so many commands; None: never."""

    files: dict[str, bytes] = field(default_factory=dict)
    lasts: int | None = None
    damages: bool = False
    opened: dict[int, Opened] = field(default_factory=dict)
    outputs: list[str] = field(default_factory=list)
    written_at_once = PIECE
    read_at_once = PIECE

    async def answer(self, command: str, **arguments: Any) -> object:
        if self.lasts is not None:
            if not self.lasts:
                raise BrokenOffError
            self.lasts -= 1
        return getattr(self, command.removeprefix("guest-").replace("-", "_"))(**arguments)

    def exec(self, path: str, arg: list[str], **_: object) -> object:
        program, output = Path(path).name, ""
        if program == "touch":
            self.files.setdefault(arg[-1], b"")
        elif program == "rm":
            self.files.pop(arg[-1], None)
        elif program == "sha256sum" and arg[-1] in self.files:
            output = hashlib.sha256(self.files[arg[-1]]).hexdigest() + "  " + arg[-1]
        self.outputs.append(base64.b64encode(output.encode()).decode())
        return {"pid": len(self.outputs) - 1}

    def exec_status(self, pid: int) -> object:
        return {"exited": True, "exitcode": 0, "out-data": self.outputs[pid]}

    def file_open(self, path: str, mode: str) -> object:
        assert mode in {"rb", "r+b"}
        if path not in self.files:
            raise Refused("No such file or directory")
        self.opened[len(self.opened) + 1] = Opened(path)
        return len(self.opened)

    def file_seek(self, handle: int, offset: int, whence: str) -> object:
        one = self.opened[handle]
        one.position = offset + (len(self.files[one.path]) if whence == "end" else 0)
        return {"position": one.position, "eof": False}

    def file_read(self, handle: int, count: int) -> object:
        one = self.opened[handle]
        piece = self.files[one.path][one.position : one.position + count]
        one.position += len(piece)
        return {"count": len(piece), "buf-b64": base64.b64encode(piece).decode()}

    def file_write(self, **arguments: Any) -> object:
        one, piece = self.opened[arguments["handle"]], base64.b64decode(arguments["buf-b64"])
        one.unwritten.append((one.position, bytes(len(piece)) if self.damages else piece))
        one.position += len(piece)
        return {"count": len(piece)}

    def file_close(self, handle: int) -> object:
        self.flush(self.opened[handle])
        return {}

    def flush(self, one: Opened) -> None:
        """Let what was written get to its place, if the file is still there."""
        for position, piece in one.unwritten:
            if one.path in self.files:
                before = self.files[one.path].ljust(position, b"\0")
                self.files[one.path] = before[:position] + piece + before[position + len(piece) :]
        one.unwritten = []


def staged(folder: Path, content: bytes, name: str = "in.dat") -> StagedFile:
    sha256 = hashlib.sha256(content).hexdigest()
    place = content_path(folder, sha256)
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_bytes(content)
    return StagedFile(name, sha256, len(content))


def until_done(guest: Guest, work: Any, breaks: list[int]) -> Any:
    """Do it again after each break, and then without one."""
    for lasts in (*breaks, None):
        guest.lasts = lasts
        try:
            done: Coroutine[Any, Any, Any] = work()
            return asyncio.run(done)
        except BrokenOffError:
            continue
    raise AssertionError("nothing breaks it off any more")


BREAKS = st.lists(st.integers(0, 30), max_size=5)


@given(content=st.binary(max_size=80), left=st.binary(max_size=90), breaks=BREAKS, data=st.data())
def test_whatever_was_in_a_guest_an_input_arrives(content: bytes, left: bytes, breaks: list[int], data: Any) -> None:
    """What a conversation that broke off has left in a buffer may get to its place at any later time."""
    begin = content[: len(left)] if data.draw(st.booleans()) else left
    with TemporaryDirectory() as folder:
        inputs = [staged(Path(folder), content), staged(Path(folder), b"another", "b.dat")]
        guest = Guest({f"{WORK}/in.dat": begin} if left else {})

        async def bring() -> None:
            for one in guest.opened.values():
                guest.flush(one)
            await bring_inputs(guest, inputs, Path(folder), TransferRate(), set())

        until_done(guest, bring, breaks)
        for one in guest.opened.values():
            guest.flush(one)
        assert guest.files == {f"{WORK}/in.dat": content, f"{WORK}/b.dat": b"another"}


def test_only_the_rest_of_an_input_is_written(tmp_path: Path) -> None:
    content = bytes(range(200)) * 500
    file, rate = staged(tmp_path, content), TransferRate()
    guest = Guest({f"{WORK}/in.dat": content[: -10 * PIECE]})
    asyncio.run(bring_inputs(guest, [file], tmp_path, rate, set()))
    assert sum(one.position for one in guest.opened.values()) == len(content)
    assert guest.files[f"{WORK}/in.dat"] == content
    assert rate.bytes_per_s == 0, "so few bytes say nothing of the bandwidth"


def test_inputs_that_are_known_to_be_there_are_not_looked_at_again(tmp_path: Path) -> None:
    file, brought = staged(tmp_path, b"content"), set[str]()
    guest = Guest()
    asyncio.run(bring_inputs(guest, [file], tmp_path, TransferRate(), brought))
    assert brought == {"in.dat"}
    guest.opened.clear()
    asyncio.run(bring_inputs(guest, [file], tmp_path, TransferRate(), brought))
    assert not guest.opened


def test_an_input_that_changes_under_way_fails_the_machine_with_both_hashes(tmp_path: Path) -> None:
    file = staged(tmp_path, b"content")
    found = hashlib.sha256(bytes(7)).hexdigest()
    with pytest.raises(MachineFailed, match=f"^input 'in.dat' changed under way: .*{found}, expected {file.sha256}$"):
        asyncio.run(bring_inputs(Guest(damages=True), [file], tmp_path, TransferRate(), set()))


def test_an_input_that_has_gone_from_the_site_fails_the_machine(tmp_path: Path) -> None:
    with pytest.raises(MachineFailed, match=r"^its inputs are not at the site any more: No such file"):
        asyncio.run(bring_inputs(Guest(), [StagedFile("in.dat", "0" * 64, 7)], tmp_path, TransferRate(), set()))


@given(outputs=st.lists(st.none() | st.binary(max_size=60), max_size=3), breaks=BREAKS)
def test_outputs_arrive_however_often_that_breaks_off(outputs: list[bytes | None], breaks: list[int]) -> None:
    """And the missing ones are known to be missing."""
    names = [f"{number}.dat" for number in range(len(outputs))]
    there = {f"{WORK}/{name}": content for name, content in zip(names, outputs, strict=True) if content is not None}
    with TemporaryDirectory() as folder:
        guest = Guest(dict(there))
        path_of = Path(folder).joinpath
        problems = until_done(guest, lambda: fetch_outputs(guest, names, lambda number: path_of(str(number))), breaks)
        assert [not problem for problem in problems.values()] == [content is not None for content in outputs]
        kept = {path.name: path.read_bytes() for path in Path(folder).iterdir()}
        assert kept == {str(number): content for number, content in enumerate(outputs) if content is not None}


def test_an_output_that_is_too_large_is_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("leasehold.service.drivers.guest_files.MOST_OUTPUT_BYTES", 20)
    guest = Guest({f"{WORK}/small": bytes(20), f"{WORK}/large": bytes(21)})
    problems = asyncio.run(fetch_outputs(guest, ["small", "large"], lambda number: tmp_path / str(number)))
    assert problems["small"] == ""
    assert "larger than 16 GiB" in problems["large"]
    assert [path.name for path in tmp_path.iterdir()] == ["0"]


@given(st.binary(max_size=3 * PIECE), st.integers(1, 3 * PIECE))
def test_of_a_file_the_end_is_read_and_it_is_said_whether_that_is_all(content: bytes, most: int) -> None:
    guest = Guest(files={"/log": content})
    assert asyncio.run(guest.read_end("/log", most)) == (content[-most:], len(content) <= most)


def test_a_guest_that_answers_byte_by_byte_is_not_listened_to_for_ever() -> None:
    class Talker(Guest):
        def file_read(self, handle: int, count: int) -> object:
            return super().file_read(handle, min(count, 1))

    guest = Talker(files={"/log": bytes(PIECE)}, lasts=5)
    assert asyncio.run(guest.read_end("/log", PIECE)) == (b"\0", False)
