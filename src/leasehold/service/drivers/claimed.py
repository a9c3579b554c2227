"""A file of a driver's own, a SQLite database that one process has at a time."""

import fcntl
import os
from dataclasses import dataclass
from pathlib import Path
from sqlite3 import Connection, DatabaseError, OperationalError, connect

from leasehold.model.errors import InputError


@dataclass(frozen=True, slots=True)
class Layout:
    """What a file holds.

    ``of``         what it is a ledger of, for whoever reads an error
    ``tables``     SQL that makes what is missing, each as IF NOT EXISTS
    ``version``    of these tables; a file with a later one is refused
    ``on_disk``    whether what was committed outlives a loss of power, and not only the end of the process
    """

    of: str
    tables: str
    version: int = 1
    on_disk: bool = True


class ClaimedFile:
    """The file, open and claimed until it is closed, or its process dies in whatever way.

    Raises InputError where it cannot be locked, is locked by another process, is no such file, or was
    written by a newer Leasehold.
    """

    def __init__(self, path: Path, layout: Layout) -> None:
        self._claim = _claim(path, layout)
        try:
            self.connection = _open(path, layout)
        except BaseException:
            os.close(self._claim)
            raise

    def close(self) -> None:
        """Let go of the file; nothing is left to be written."""
        self.connection.close()
        os.close(self._claim)


def _claim(path: Path, layout: Layout) -> int:
    """Make sure that nobody else has the file; the kernel takes the claim back when this process dies."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        claim = os.open(path.with_name(f"{path.name}.lock"), os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise InputError(path, None, f"cannot be locked: {error.strerror}") from error
    try:
        fcntl.flock(claim, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(claim)
        raise InputError(path, None, f"these {layout.of} are locked by another process") from None
    return claim


def _open(path: Path, layout: Layout) -> Connection:
    connection = connect(path, check_same_thread=False)
    try:
        _prepare(connection, path, layout)
    except OperationalError as error:  # a full disk, a file that cannot be written: it may well be one
        connection.close()
        raise InputError(path, None, f"the record of {layout.of} cannot be used: {error}") from None
    except DatabaseError as error:
        connection.close()
        raise InputError(path, None, f"this is not a record of {layout.of}: {error}") from None
    except BaseException:
        connection.close()
        raise
    return connection


def _prepare(connection: Connection, path: Path, layout: Layout) -> None:
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if version > layout.version:
        raise InputError(path, None, f"this record of {layout.of} was written by a newer Leasehold")
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute(f"PRAGMA synchronous = {'FULL' if layout.on_disk else 'OFF'}")
    connection.executescript(f"BEGIN; {layout.tables} PRAGMA user_version = {layout.version}; COMMIT;")
