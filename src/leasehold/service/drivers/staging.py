"""Bring input files to where the machines of a site find them, before a lease starts there.

A site that takes files has a folder of its own for inputs, by content: what is there already is not brought again, so
that the jobs of an array share one copy. A copy that was interrupted is continued, and counts only when it has the
right hash. How fast it went is measured, for the estimate of the next transfer.
"""

import hashlib
import os
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, runtime_checkable

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
    """

    inputs: tuple[StagedFile, ...] = ()
    outputs: tuple[str, ...] = ()

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


class Staging:
    """Brings files from the gateway's store to the folder of one site; ``rate`` is how fast."""

    def __init__(self, source: Path, destination: Path) -> None:
        self._source = source
        self._destination = destination
        self.rate = TransferRate()

    def bring(self, files: Iterable[StagedFile]) -> None:
        """Bring what is not there; blocks. Raises CannotBring."""
        for file in files:
            target = content_path(self._destination, file.sha256)
            if not target.exists():
                try:
                    self._copy(file, target)
                except OSError as error:
                    text = f"input {file.name!r} cannot be brought: {error.strerror or error}"
                    raise CannotBring(text, again=True) from error

    def _copy(self, file: StagedFile, target: Path) -> None:
        source = content_path(self._source, file.sha256)
        if not source.exists():
            raise CannotBring(f"input {file.name!r} is not stored any more: it was removed after the job was submitted")
        target.parent.mkdir(parents=True, exist_ok=True)
        partial = target.with_suffix(".part")
        began_s, begin = time.monotonic(), partial.stat().st_size if partial.exists() else 0
        found = _continue_copy(source, partial)
        if found != file.sha256:
            partial.unlink(missing_ok=True)
            begin = 0
            found = _continue_copy(source, partial)  # what was left of an earlier copy may have been damaged
        if found != file.sha256:
            partial.unlink(missing_ok=True)
            raise CannotBring(
                f"input {file.name!r} changed under way: what arrived has SHA-256 {found}, expected {file.sha256}"
            )
        partial.chmod(0o444)
        partial.replace(target)
        self.rate.measure(file.size_bytes - begin, time.monotonic() - began_s)


def _continue_copy(source: Path, partial: Path) -> str:
    """Continue a copy where it was interrupted, and give the hash of all that is there then."""
    digest = hashlib.sha256()
    partial.touch(mode=0o600)
    with source.open("rb") as content, partial.open("r+b") as out:
        while piece := out.read(_PIECE):
            digest.update(piece)
        content.seek(out.tell())
        while piece := content.read(_PIECE):
            digest.update(piece)
            out.write(piece)
        out.flush()
        os.fsync(out.fileno())
    return digest.hexdigest()
