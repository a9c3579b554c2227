"""Bring input files to where the machines of a site find them, before a lease starts there.

A site that takes files has a folder of its own for inputs, by content: what is there already is not brought again, so
that the jobs of an array share one copy. A copy that was interrupted is continued, and counts only when it has the
right hash. How fast it went is measured, for the estimate of the next transfer.
"""

import asyncio
import hashlib
import os
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from io import BufferedRandom
from pathlib import Path
from typing import Protocol, runtime_checkable
from weakref import WeakValueDictionary

from leasehold.model.errors import LeaseholdError

_PIECE = 1 << 20
_LEAST_MEASURED = 64 << 10
"""Of smaller files it is the delay that is measured, and not the bandwidth."""
_SMOOTHING = 0.3
MOST_OUTPUT_BYTES = 16 << 30
"""Of one file that a command leaves: a sparse one takes nothing of the guest's disk, and would fill the gateway's."""
TOO_LARGE = f"it is larger than {MOST_OUTPUT_BYTES >> 30} GiB"


@dataclass(frozen=True, slots=True)
class StagedFile:
    """A file that a lease's command finds in its working folder: its name there, and its content."""

    name: str
    sha256: str
    size_bytes: int


@dataclass(frozen=True, slots=True)
class JobFiles:
    """The files of a command: inputs in its working folder when it starts, and outputs to keep when it has ended.

    Each is a plain name: a working folder has no others within.

    ``origin``  the gateway that has the inputs and wants the outputs, "" for this one; ``origin_id`` is the number of
                the lease there
    """

    inputs: tuple[StagedFile, ...] = ()
    outputs: tuple[str, ...] = ()
    origin: str = ""
    origin_id: int = 0

    def __bool__(self) -> bool:
        """Whether there are any."""
        return bool(self.inputs or self.outputs)


NO_FILES = JobFiles()


@runtime_checkable
class TakesFiles(Protocol):
    """A driver whose machines work with files."""

    @property
    def input_folder(self) -> Path:
        """Where inputs are brought to, each at its `content_path`."""
        ...

    async def output_files(self, lease_id: int) -> dict[str, Path | str]:
        """Give the files to be kept that a command has left, by name, or why one cannot be given.

        Also for some time after the lease has ended.
        """
        ...


class CannotBring(LeaseholdError):
    """A file cannot be brought to a site; ``again`` says whether it may be possible later."""

    def __init__(self, text: str, *, again: bool = False) -> None:
        super().__init__(text)
        self.again = again


def content_path(folder: Path, sha256: str) -> Path:
    """Say where the content with this hash is, below a folder."""
    return folder / "content" / sha256[:2] / sha256


def sha256_of(path: Path) -> str:
    """Compute the SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


class TransferRate:
    """How fast files got somewhere: ``bytes_per_s``, recent transfers count most; 0: not measured yet."""

    def __init__(self) -> None:
        self.bytes_per_s = 0

    def measure(self, size_bytes: int, took_s: float) -> None:
        """Take in how long a transfer took."""
        if size_bytes >= _LEAST_MEASURED:
            rate = size_bytes / max(took_s, 1e-6)
            before = self.bytes_per_s
            self.bytes_per_s = max(1, round(rate if not before else before + _SMOOTHING * (rate - before)))


Source = Callable[[StagedFile, int], Awaitable[bytes]]
"""Gives the next piece of a file from an offset; b"" where there is no more. Raises CannotBring, OSError."""

SourceOf = Callable[[JobFiles], Source]
"""Chooses where the inputs of a command are read."""


def stored_at(folder: Path) -> Source:
    """Read the files that a gateway has stored below a folder."""

    def read(file: StagedFile, offset: int) -> bytes:
        try:
            with content_path(folder, file.sha256).open("rb") as content:
                content.seek(offset)
                return content.read(_PIECE)
        except FileNotFoundError:
            raise CannotBring(
                f"input {file.name!r} is not stored any more: it was removed after the job was submitted"
            ) from None

    return lambda file, offset: asyncio.to_thread(read, file, offset)


class Staging:
    """Brings files to the folder of one site; ``rate`` is how fast."""

    def __init__(self, source_of: SourceOf, destination: Path) -> None:
        self._source_of = source_of
        self._destination = destination
        self._one_at_a_time: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        """Of the jobs that bring the same content, as those of an array, one does."""
        self.rate = TransferRate()

    async def bring(self, files: JobFiles) -> None:
        """Bring the inputs that are not there. Raises CannotBring."""
        read = self._source_of(files)
        for file in files.inputs:
            target = content_path(self._destination, file.sha256)
            lock = self._one_at_a_time.setdefault(file.sha256, asyncio.Lock())
            try:
                async with lock:
                    if target.exists():
                        await asyncio.to_thread(os.utime, target)  # it is needed now: `drop_unused`
                    else:
                        await self._copy(file, target, read)
            except OSError as error:
                text = f"input {file.name!r} cannot be brought: {error.strerror or error}"
                raise CannotBring(text, again=True) from error

    def drop_unused(self, before_ms: int) -> None:
        """Remove what no job has needed since then, and copies that were interrupted before; blocks.

        What machines work with is theirs by then: drivers link or copy inputs when a lease starts.
        """
        for path in self._destination.glob("content/*/*"):
            with suppress(FileNotFoundError):
                if path.stat().st_mtime * 1_000 < before_ms:
                    path.unlink()

    async def _copy(self, file: StagedFile, target: Path, read: Source) -> None:
        target.parent.mkdir(parents=True, exist_ok=True)
        partial = target.with_suffix(".part")
        began_s, begin = time.monotonic(), partial.stat().st_size if partial.exists() else 0
        found = await _continue_copy(file, partial, read)
        if found != file.sha256 and begin:
            partial.unlink(missing_ok=True)
            begin = 0
            found = await _continue_copy(file, partial, read)  # what was left of an earlier copy may have been damaged
        if found != file.sha256:
            partial.unlink(missing_ok=True)
            raise CannotBring(
                f"input {file.name!r} changed under way: what arrived has SHA-256 {found}, expected {file.sha256}"
            )
        partial.chmod(0o444)
        partial.replace(target)
        self.rate.measure(file.size_bytes - begin, time.monotonic() - began_s)


async def _continue_copy(file: StagedFile, partial: Path, read: Source) -> str:
    """Continue a copy where it was interrupted, and give the hash of all that is there then.

    No more is taken than the file is said to have: whoever sends it may lie.
    """
    digest = hashlib.sha256()

    def read_what_is_there() -> None:
        while piece := out.read(_PIECE):
            digest.update(piece)

    with await asyncio.to_thread(_opened, partial) as out:
        await asyncio.to_thread(read_what_is_there)
        while (offset := out.tell()) < file.size_bytes and (piece := await read(file, offset)):
            digest.update(piece)
            await asyncio.to_thread(out.write, piece)
        out.flush()
        await asyncio.to_thread(os.fsync, out.fileno())
    return digest.hexdigest()


def _opened(partial: Path) -> BufferedRandom:
    partial.touch(mode=0o600)
    return partial.open("r+b")
