"""Backups of SQLite stores: by SQLite's own online backup, which is one transaction on both sides."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from leasehold.model.errors import InputError
from leasehold.service.store.store import Store


def save(store: Store, path: Path) -> None:
    """Copy the store as it is at this moment; a plain file that needs no others beside it."""
    assert store.path is not None
    with _opened(store.path) as source, _opened(path) as copy:
        source.backup(copy)
        copy.execute("PRAGMA journal_mode = DELETE")


def revision(path: Path) -> str:
    """Read all of a copy, and say which schema it has."""
    with _opened(path) as copy:
        problem = _one(copy, "PRAGMA integrity_check")
        if problem != "ok":
            raise InputError(path, None, f"is damaged: {problem}")
        return _one(copy, "SELECT version_num FROM alembic_version")


def load(path: Path, store: Store) -> None:
    """Put the copy in the place of everything in the store."""
    assert store.path is not None
    with _opened(path) as copy, _opened(store.path) as target:
        copy.backup(target)


@contextmanager
def _opened(path: Path) -> Iterator[sqlite3.Connection]:
    try:
        with closing(sqlite3.connect(path)) as connection:
            yield connection
    except sqlite3.Error as error:
        raise InputError(path, None, f"cannot be copied: {error}") from error


def _one(connection: sqlite3.Connection, query: str) -> str:
    row = connection.execute(query).fetchone()
    return "" if row is None else str(row[0])
