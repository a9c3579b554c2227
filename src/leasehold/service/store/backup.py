"""A copy of a whole store in one file, and a store from such a copy.

A backup is taken while the store is in use, and is of one moment. A file of that name is there only once the
backup in it is whole and has been read back. A restored store is whole, or as it was.
"""

import os
import re
import shutil
import sqlite3
import subprocess
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import URL

from leasehold.model.errors import InputError
from leasehold.service.store.store import Store, open_store, refuse_newer
from leasehold.service.store.store_url import read_url


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

    InputError where the file is not a backup for this kind of store, is damaged, or newer than this program;
    where another gateway is using the store; or where the store is not empty, unless ``replace`` says that
    what is in it may go.
    """
    with Store(read_url(url)) as store:
        kind = _kind_of(path, store)
        refuse_newer(kind.revision(path), path)
        store.acquire_writer_lock()
        if not (replace or store.is_empty()):
            raise InputError(store.url, None, "is not empty; --replace deletes what is in it")
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


# SQLite: its own online backup, which is one transaction on both sides


def _save_sqlite(store: Store, path: Path) -> None:
    """Copy the store as it is at this moment; a plain file that needs no others beside it."""
    assert store.path is not None
    with _opened(store.path) as source, _opened(path) as copy:
        source.backup(copy)
        copy.execute("PRAGMA journal_mode = DELETE")


def _revision_of_sqlite(path: Path) -> str:
    """Read all of a copy, and say which schema it has."""
    with _opened(path) as copy:
        problem = _one(copy, "PRAGMA integrity_check")
        if problem != "ok":
            raise InputError(path, None, f"is damaged: {problem}")
        return _one(copy, "SELECT version_num FROM alembic_version")


def _load_sqlite(path: Path, store: Store) -> None:
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


# PostgreSQL: its own programs

_DEBIAN_BINARIES = Path("/usr/lib/postgresql")
_REVISION = re.compile(r"^COPY \S*alembic_version .*\n(\S+)$", re.MULTILINE)


def _save_postgresql(store: Store, path: Path) -> None:
    """Copy the store as it is at this moment."""
    _run_on(store.url, "pg_dump", "--format=custom", "--no-owner", "--no-privileges", f"--file={path}")


def _revision_of_postgresql(path: Path) -> str:
    """Read the copy, and say which schema it has."""
    _run(path, "pg_restore", "--file=/dev/null", str(path))
    version = _run(path, "pg_restore", "--data-only", "--table=alembic_version", "--file=-", str(path))
    found = _REVISION.search(version)
    if found is None:
        raise InputError(path, None, "is a copy of a database that is not a store")
    return found[1]


def _load_postgresql(path: Path, store: Store) -> None:
    """Put the copy in the place of what is in the store, in one transaction."""
    wholly = ("--single-transaction", "--exit-on-error", "--clean", "--if-exists")
    _run_on(store.url, "pg_restore", *wholly, "--no-owner", "--no-privileges", str(path))


def _run_on(url: URL, program: str, *arguments: str) -> None:
    """Run a program on the database at ``url``; other users of the machine do not see the password."""
    # a new URL: URL.set(password=None) leaves the password as it is
    address = URL.create("postgresql", url.username, None, url.host, url.port, url.database, url.query)
    password = {} if url.password is None else {"PGPASSWORD": str(url.password)}
    _run(url, program, f"--dbname={address.render_as_string()}", *arguments, environment=password)


def _run(about: object, program: str, *arguments: str, environment: dict[str, str] | None = None) -> str:
    """Run a program, and give what it prints; InputError with its first complaint where it fails."""
    done = subprocess.run(  # noqa: S603 - one of two programs, with arguments that no shell reads
        [_find(program), *arguments],
        env=os.environ | (environment or {}),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        complaint = done.stderr.strip().partition("\n")[0]
        raise InputError(about, None, complaint or f"{program} ended with {done.returncode}")
    return done.stdout


def _find(program: str) -> str:
    """The newest of its kind: it reads and writes for all older servers."""
    newest = max(_DEBIAN_BINARIES.glob(f"*/bin/{program}"), key=_version, default=None)
    found = str(newest) if newest else shutil.which(program)
    if found is None:
        raise InputError(program, None, "is not installed: `apt-get install -y postgresql-client` as root")
    return found


def _version(program: Path) -> float:
    return float(program.parent.parent.name)


_KINDS = {
    "sqlite": _Kind(b"SQLite format 3\0", _save_sqlite, _revision_of_sqlite, _load_sqlite),
    "postgresql": _Kind(b"PGDMP", _save_postgresql, _revision_of_postgresql, _load_postgresql),
}
