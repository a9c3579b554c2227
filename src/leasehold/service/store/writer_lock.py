"""The right to write: one gateway has it at a time, and it ends with its process, however that ends.

On SQLite it is a lock on a file beside the store; on PostgreSQL an advisory lock of the very connection
that writes, so that a process that lost the lock cannot write either.
"""

import fcntl
import os
from pathlib import Path
from typing import Protocol

from sqlalchemy import Connection, text
from sqlalchemy.exc import OperationalError

from leasehold.model.errors import InputError

_KEY = 0x6C65617365686F6C  # "leasehol" in ASCII; advisory locks are numbers, each database has its own
_LOCK_NOT_AVAILABLE = "55P03"

LOCK_TIMEOUT = "3s"
"""How long to wait for a gateway that has just been killed: the server needs a moment to see it."""


class WriterLock(Protocol):
    """The right to write to one store."""

    def acquire(self, connection: Connection) -> bool:
        """Take it, or say that another process has it."""
        ...

    def release(self) -> None:
        """Release what does not end with the writing connection."""
        ...


class FileLock:
    """A lock on a file; the operating system releases it when the process ends."""

    def __init__(self, store: Path) -> None:
        self._path = store.with_name(f"{store.name}.lock")
        self._file: int | None = None

    def acquire(self, connection: Connection) -> bool:  # noqa: ARG002 - what PostgreSQL needs
        """Lock the file; True also where we have it already."""
        if self._file is not None:
            return True
        file = self._open()
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(file)
            return False
        self._file = file
        return True

    def release(self) -> None:
        """Unlock it. The file stays: removing it could take another process's lock away."""
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _open(self) -> int:
        try:
            return os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            raise InputError(self._path, None, f"cannot be locked: {error.strerror}") from error


class AdvisoryLock:
    """An advisory lock of the database; it ends with the connection."""

    def acquire(self, connection: Connection) -> bool:
        """Lock it, after waiting a moment for a gateway that has just been killed."""
        try:
            with connection.begin():
                connection.execute(text(f"SET LOCAL lock_timeout = '{LOCK_TIMEOUT}'"))
                connection.execute(text("SELECT pg_advisory_lock(:key)"), {"key": _KEY})
        except OperationalError as error:
            if getattr(error.orig, "sqlstate", None) == _LOCK_NOT_AVAILABLE:
                return False
            raise
        return True

    def release(self) -> None:
        """Closing the connection does it."""
