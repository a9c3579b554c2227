"""Files of this machine to and from a gateway: in pieces, resumed after an interruption, checked by their hash."""

import hashlib
from collections.abc import Callable
from pathlib import Path

from leasehold.client.client import Client
from leasehold.client.errors import Unreachable
from leasehold.model.errors import InputError
from leasehold.protocol.files import PIECE_BYTES, FileSpec, StoredFile

_TRIES = 5
Progress = Callable[[int, int], None]
"""Called with the bytes that are there, and those of the whole file."""


def upload(client: Client, path: Path, name: str = "", progress: Progress = lambda *_: None) -> StoredFile:
    """Store a file, from where an earlier upload of it was interrupted.

    Raises InputError for a file that cannot be read or changed while it was read; Unreachable after several tries; and
    ProblemError, as beyond a quota.
    """
    try:
        with path.open("rb") as content:
            sha256 = hashlib.file_digest(content, "sha256").hexdigest()
            size_bytes = content.tell()
            spec = FileSpec(sha256=sha256, name=name or path.name, size_bytes=size_bytes)
            stored = client.files.announce(spec)
            failures = 0
            while not stored.is_complete:
                content.seek(stored.received_bytes)
                piece = content.read(PIECE_BYTES)
                if not piece:
                    raise InputError(path, None, "became shorter while it was sent")
                try:
                    stored = client.files.write(sha256, stored.received_bytes, piece, size_bytes)
                except Unreachable:
                    failures += 1
                    if failures == _TRIES:
                        raise
                    stored = client.files.announce(spec)  # this waits for the gateway, and says how much has arrived
                progress(stored.received_bytes, size_bytes)
    except OSError as error:
        raise InputError(path, None, f"cannot be read: {error.strerror}") from None
    return stored


def download(
    read: Callable[[int, int], bytes], sha256: str, size_bytes: int, path: Path, progress: Progress = lambda *_: None
) -> None:
    """Write a content to a file, from where an earlier download was interrupted (``FILE.part``).

    ``read`` gives bytes from an offset, as ``client.files.read`` and ``client.jobs.read_file`` do. Raises InputError
    where it cannot be written or has another hash, and what ``read`` raises.
    """
    partial = path.with_name(f"{path.name}.part")
    digest = hashlib.sha256()
    try:
        partial.touch()
        with partial.open("r+b") as out:
            while piece := out.read(PIECE_BYTES):
                digest.update(piece)
            while (offset := out.tell()) < size_bytes:
                piece = read(offset, min(PIECE_BYTES, size_bytes - offset))
                if not piece:
                    break
                digest.update(piece)
                out.write(piece)
                progress(out.tell(), size_bytes)
        if digest.hexdigest() != sha256:
            partial.unlink()
            raise InputError(path, None, f"has arrived with SHA-256 {digest.hexdigest()}, expected {sha256}")
        partial.replace(path)
    except OSError as error:
        raise InputError(path, None, f"cannot be written: {error.strerror}") from None
