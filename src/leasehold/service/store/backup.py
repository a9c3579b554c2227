"""A copy of a whole store in one file, and a store from such a copy.

A backup is taken while the store is in use, and is of one moment. A file of that name is there only once the
backup in it is whole and has been read back. A restored store is whole, or as it was.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from leasehold.model.errors import InputError
from leasehold.service.store import backup_postgresql, backup_sqlite
from leasehold.service.store.migrating import refuse_newer
from leasehold.service.store.place import read_url
from leasehold.service.store.store import Store, open_store


@dataclass(frozen=True, slots=True)
class _Kind:
    """How it is done on one kind of database.

    ``begins``    how the file of such a backup begins
    ``save``      copy a store into a file
    ``revision``  read a copy, and say which schema it has; InputError where it cannot be read
    ``load``      put a copy in the place of what is in a store
    """

    begins: bytes
    save: Callable[[Store, Path], None]
    revision: Callable[[Path], str]
    load: Callable[[Path, Store], None]


_KINDS = {
    "sqlite": _Kind(b"SQLite format 3\0", backup_sqlite.save, backup_sqlite.revision, backup_sqlite.load),
    "postgresql": _Kind(b"PGDMP", backup_postgresql.save, backup_postgresql.revision, backup_postgresql.load),
}


def backup(store: Store, path: Path, *, replace: bool = False) -> None:
    """Copy a store into the file ``path``, which only its owner may read.

    InputError where there is such a file, unless ``replace`` says that it may go; where it cannot be written,
    or a program that is needed is not there.
    """
    if path.exists() and not replace:
        raise InputError(path, None, "exists already; --force overwrites it")
    kind = _KINDS[store.dialect]
    with _whole_or_not_at_all(path) as partial:
        kind.save(store, partial)
        kind.revision(partial)


def restore(path: Path, url: str, *, replace: bool = False) -> None:
    """Make the store at ``url`` what it was when the backup at ``path`` was taken.

    InputError where the file is no backup for this kind of store, is damaged, or newer than this program;
    where another gateway is using the store; or where the store is not empty, unless ``replace`` says that
    what is in it may go.
    """
    with Store(read_url(url)) as store:
        kind = _kind_of(path, store)
        refuse_newer(kind.revision(path), path)
        store.claim()
        if not (replace or store.is_empty()):
            raise InputError(store.url, None, "is not empty; --replace lets go of what is in it")
        kind.load(path, store)
    open_store(url).close()


def _kind_of(path: Path, store: Store) -> _Kind:
    found = next((name for name, kind in _KINDS.items() if _beginning(path).startswith(kind.begins)), None)
    if found is None:
        raise InputError(path, None, "is not a backup of a store")
    if found != store.dialect:
        raise InputError(path, None, f"is a backup of a {found} store, and cannot be restored to {store.dialect}")
    return _KINDS[found]


def _beginning(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(max(len(kind.begins) for kind in _KINDS.values()))
    except OSError as error:
        raise InputError(path, None, f"cannot be read: {error.strerror}") from error


@contextmanager
def _whole_or_not_at_all(path: Path) -> Iterator[Path]:
    """A file beside ``path`` to write to, which takes its name and is on the disk if the block succeeds."""
    partial = path.with_name(f"{path.name}.partial")
    try:
        os.close(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600))
        yield partial
        _flush(partial)
        partial.replace(path)
        _flush(path.parent)
    except OSError as error:
        raise InputError(path, None, f"cannot be written: {error.strerror}") from error
    finally:
        partial.unlink(missing_ok=True)


def _flush(path: Path) -> None:
    """Wait until a file, or the names in a folder, are on the disk."""
    file = os.open(path, os.O_RDONLY)
    try:
        os.fsync(file)
    finally:
        os.close(file)
