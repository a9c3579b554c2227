"""The durable record of a site's instances and tombstones: one SQLite file, which one process has at a time."""

import fcntl
import json
import os
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from sqlite3 import Connection, DatabaseError, OperationalError, connect
from typing import Any, Generic, TypeVar, cast
from uuid import uuid4

from pydantic import TypeAdapter

from leasehold.model.errors import InputError
from leasehold.service.drivers.reconciler.instances import MAX_TOMBSTONES, NEVER, Changes, Instance

FILE = "instances.sqlite3"
"""Its name in the driver's folder, unless the driver has one of its own: other drivers then pass it over."""

_VERSION = 1
"""Of these tables; a file with a later one is refused."""

_TABLES = """
CREATE TABLE IF NOT EXISTS instances (
    lease_id INTEGER NOT NULL,
    generation INTEGER NOT NULL,
    body TEXT NOT NULL,
    PRIMARY KEY (lease_id, generation)
);
CREATE TABLE IF NOT EXISTS tombstones (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    lease_id INTEGER NOT NULL UNIQUE,
    incarnation INTEGER NOT NULL
);
CREATE TABLE IF NOT EXISTS facts (key TEXT PRIMARY KEY, value TEXT NOT NULL);
"""

I = TypeVar("I", bound=Instance)  # noqa: E741 - an instance
Write = Callable[[Connection], object]


class InstanceStore(Generic[I]):
    """The file of one site. It is used from one thread at a time.

    ``folder``    the driver's own, and ``file`` the name in it
    ``kind``      the dataclass of its instances
    ``of``        whose instances they are, for errors
    ``tables``    SQL of tables that the driver has beside these, each as IF NOT EXISTS
    ``on_disk``   whether what is written outlives a loss of power, and not only the end of the process
    ``identity``  a name that no other file has

    Raises InputError for a file that is not such a store, was written by a newer Leasehold, is in use, or cannot be
    made.
    """

    def __init__(
        self, folder: Path, kind: type[I], of: str, *, tables: str = "", on_disk: bool = True, file: str = FILE
    ) -> None:
        self._kind = kind
        path = folder / file
        self._lock = _lock(path, of)
        try:
            self.connection = _open(path, of, _TABLES + tables, on_disk=on_disk)
        except BaseException:
            os.close(self._lock)
            raise
        self.identity = self._identity()

    def instances(self) -> list[I]:
        """Read the instances."""
        rows = self.connection.execute("SELECT body FROM instances ORDER BY lease_id, generation")
        return [from_text(self._kind, body) for (body,) in rows]

    def tombstones(self) -> dict[int, int]:
        """Read the tombstones, oldest first."""
        return dict(self.connection.execute("SELECT lease_id, incarnation FROM tombstones ORDER BY number"))

    def write(self, changes: Changes[I], *also: Write) -> None:
        """Write changes, all of them or none; ``also`` writes to the driver's own tables in the same transaction."""
        here = [(*key, to_text(self._kind, one)) for key, one in changes.instances.items() if one is not None]
        deleted = [key for key, one in changes.instances.items() if one is None]
        with self.connection as connection:
            connection.executemany("INSERT OR REPLACE INTO instances VALUES (?, ?, ?)", here)
            connection.executemany("DELETE FROM instances WHERE lease_id = ? AND generation = ?", deleted)
            connection.executemany(
                "INSERT OR REPLACE INTO tombstones (lease_id, incarnation) VALUES (?, ?)", changes.tombstones.items()
            )
            keep_latest(connection, "tombstones", MAX_TOMBSTONES)
            for write in also:
                write(connection)

    def fact(self, key: str) -> str | None:
        """Read one of the facts that are kept beside the instances."""
        row = self.connection.execute("SELECT value FROM facts WHERE key = ?", (key,)).fetchone()
        return None if row is None else str(row[0])

    def publish(self, facts: Mapping[str, str]) -> None:
        """Let neighbouring sites read these facts, in place of those of before."""
        with self.connection as connection:
            set_fact(connection, "published", json.dumps(dict(facts)))

    def close(self) -> None:
        """Close the file; everything is written."""
        self.connection.close()
        os.close(self._lock)

    def _identity(self) -> str:
        with self.connection as connection:
            connection.execute("INSERT OR IGNORE INTO facts VALUES ('identity', ?)", (uuid4().hex,))
        return cast("str", self.fact("identity"))


def _lock(path: Path, of: str) -> int:
    """Lock the file against other processes; the kernel drops the lock when this one dies."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        lock = os.open(path.with_name(f"{path.name}.lock"), os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise InputError(path, None, f"cannot be locked: {error.strerror}") from error
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lock)
        raise InputError(path, None, f"these {of} are locked by another process") from None
    return lock


def _open(path: Path, of: str, tables: str, *, on_disk: bool) -> Connection:
    connection = connect(path, check_same_thread=False)
    try:
        _refuse_newer(connection, path, of)
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute(f"PRAGMA synchronous = {'FULL' if on_disk else 'OFF'}")
        connection.executescript(f"BEGIN; {tables} PRAGMA user_version = {_VERSION}; COMMIT;")
    except OperationalError as error:  # a full disk, a file that cannot be written: it may well be one
        connection.close()
        raise InputError(path, None, f"the record of {of} cannot be used: {error}") from None
    except DatabaseError as error:
        connection.close()
        raise InputError(path, None, f"this is not a record of {of}: {error}") from None
    except BaseException:
        connection.close()
        raise
    return connection


def _refuse_newer(connection: Connection, path: Path, of: str) -> None:
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if version > _VERSION:
        raise InputError(path, None, f"this record of {of} was written by a newer Leasehold")


def set_fact(connection: Connection, key: str, value: str) -> None:
    """Write a fact, within a transaction."""
    connection.execute("INSERT OR REPLACE INTO facts VALUES (?, ?)", (key, value))


def keep_latest(connection: Connection, table: str, most: int) -> None:
    """Delete the oldest rows of a table that is numbered by AUTOINCREMENT."""
    latest = f"SELECT max(number) FROM {table}"  # noqa: S608 - a name from this source
    connection.execute(f"DELETE FROM {table} WHERE number <= ({latest}) - ?", (most,))  # noqa: S608


@dataclass(frozen=True, slots=True)
class Neighbour(Generic[I]):
    """What another site of the same gateway has on file, all of it read at one moment.

    ``facts``      what it publishes
    ``instances``  of the lease that was asked about, or of all
    ``tombstone``  of that lease
    """

    facts: Mapping[str, str]
    instances: list[I]
    tombstone: int = NEVER


def read_neighbour(
    folder: Path, kind: type[I], lease_id: int | None = None, *, file: str = FILE
) -> Neighbour[I] | None:
    """Read what the site with this folder has of a lease, or of all; None where there is no such site (yet)."""
    path = folder / file
    if not path.is_file():
        return None
    with closing(connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as connection:
        try:
            connection.execute("BEGIN")
            published = connection.execute("SELECT value FROM facts WHERE key = 'published'").fetchone()
        except OperationalError:  # it is being made at this moment
            return None
        return Neighbour(
            facts=json.loads(published[0]) if published else {},
            instances=[from_text(kind, body) for (body,) in _bodies(connection, lease_id)],
            tombstone=_tombstone(connection, lease_id),
        )


def _bodies(connection: Connection, lease_id: int | None) -> Iterable[tuple[str]]:
    if lease_id is None:
        return connection.execute("SELECT body FROM instances ORDER BY lease_id, generation")
    return connection.execute("SELECT body FROM instances WHERE lease_id = ? ORDER BY generation", (lease_id,))


def _tombstone(connection: Connection, lease_id: int | None) -> int:
    row = connection.execute("SELECT incarnation FROM tombstones WHERE lease_id = ?", (lease_id,)).fetchone()
    return NEVER if row is None else int(row[0])


# Instances are JSON, as the fields of their dataclass say.


@cache
def _adapter(kind: type[Any]) -> TypeAdapter[Any]:
    return TypeAdapter(kind)


def to_text(kind: type[I], instance: I) -> str:
    """Write an instance, so that `from_text` gives an equal one."""
    return str(_adapter(cast("Any", kind)).dump_json(instance), "utf-8")


def from_text(kind: type[I], text: str) -> I:
    """Read what `to_text` wrote."""
    return cast("I", _adapter(cast("Any", kind)).validate_json(text))
