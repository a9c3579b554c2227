"""The URL of a store, a SQLite file or a database of a PostgreSQL server, and connections to it.

One connection writes, and as many read as there are readers. SQLite is in WAL mode, so that readers never wait
for the writer; each transaction is on the disk when it has been committed (``synchronous=FULL``).
"""

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from sqlalchemy import URL, Connection, Dialect, Engine, NullPool, create_engine, event, make_url
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.exc import ArgumentError
from sqlalchemy.util import LRUCache

from leasehold.model.errors import InputError, InvalidField

_EXPECTED = "sqlite:///PATH or postgresql+psycopg://USER@HOST/DATABASE"
_POSTGRESQL = ("postgresql", "postgresql+psycopg")


def read_url(text: str) -> URL:
    """Read the URL of a store; InvalidField where it names none. Its str() hides the password."""
    try:
        url = make_url(text)
    except (ArgumentError, ValueError):
        raise InvalidField("store", _without_credentials(text), _EXPECTED) from None
    if url.drivername in _POSTGRESQL and url.database:
        return _with_password_in_its_place(url).set(drivername="postgresql+psycopg")
    if url.drivername == "sqlite" and url.database not in {None, "", ":memory:"} and not url.query:
        return url
    raise InvalidField("store", str(url), _EXPECTED)


def sqlite_path(url: URL) -> Path | None:
    """The file of a SQLite store; None for PostgreSQL."""
    return Path(url.database or "") if url.drivername == "sqlite" else None


def make_private_file(path: Path) -> None:
    """Make an empty file that only its owner may read, where there is none; SQLite's own follow it."""
    try:
        path.touch(mode=0o600)
    except OSError as error:
        raise InputError(path, None, f"cannot be a store: {error.strerror}") from error


def _with_password_in_its_place(url: URL) -> URL:
    """Move a password that is given as a parameter, ``?password=...``, to where messages hide it."""
    password = url.query.get("password")
    if password is None:
        return url
    last = password if isinstance(password, str) else password[-1]
    return url.difference_update_query(["password"]).set(password=last)


def _without_credentials(text: str) -> str:
    """What of an unreadable URL may be shown."""
    return text.rpartition("@")[2]


_BUSY_MS = 30_000
_READERS = 8
_MORE_READERS = 56  # while many ask at once; closed when they are done
_CONNECT_S = 10

_PRAGMAS = (
    "PRAGMA journal_mode = WAL",
    "PRAGMA synchronous = FULL",
    "PRAGMA foreign_keys = ON",
    f"PRAGMA busy_timeout = {_BUSY_MS}",
    "PRAGMA wal_autocheckpoint = 4000",  # pages; the default of 1000 is one batch, copied at each commit
)
# Where a gateway's machine is lost, the server releases its lock after half a minute, not after two hours.
_KEEPALIVES = (
    "SET tcp_keepalives_idle = 10",
    "SET tcp_keepalives_interval = 5",
    "SET tcp_keepalives_count = 4",
)


def writing_engine(url: URL) -> Engine:
    """An engine whose transactions hold the right to write from their beginning."""
    if url.drivername == "sqlite":
        engine = _sqlite(url, _PRAGMAS, poolclass=NullPool)
        event.listen(engine, "begin", _begin_immediately)
        return engine
    engine = _postgresql(url, poolclass=NullPool)
    event.listen(engine, "connect", _on_connect(_KEEPALIVES))
    return engine


def reading_engine(url: URL) -> Engine:
    """An engine for many threads; each statement sees what is committed when it begins."""
    if url.drivername == "sqlite":
        return _sqlite(url, (*_PRAGMAS, "PRAGMA query_only = ON"), pool_size=_READERS, max_overflow=_MORE_READERS)
    return _postgresql(
        url,
        isolation_level="AUTOCOMMIT",
        pool_size=_READERS,
        max_overflow=_MORE_READERS,
        pool_pre_ping=True,  # the server may have been restarted
    )


def _sqlite(url: URL, pragmas: tuple[str, ...], **options: object) -> Engine:
    # isolation_level None: the driver begins nothing by itself; named: rows are its parameters as they are
    engine = create_engine(
        url,
        paramstyle="named",
        connect_args={"isolation_level": None},
        execution_options={"compiled_cache": _COMPILED},
        **options,
    )
    engine.dialect = _sqlite_dialect()
    event.listen(engine, "connect", _on_connect(pragmas))
    return engine


_COMPILED: LRUCache[Any, Any] = LRUCache(1000)
"""The SQL of statements, by dialect and statement: what was compiled for one file is not compiled for the next."""


@cache
def _sqlite_dialect() -> Dialect:
    """SQLite's dialect, which is the same for every file: it depends on the library, and there is no server."""
    engine = create_engine("sqlite://", paramstyle="named")
    with engine.connect():  # the dialect learns the library's version
        pass
    engine.dispose()
    return engine.dialect


def _postgresql(url: URL, **options: object) -> Engine:
    return create_engine(url, connect_args={"connect_timeout": _CONNECT_S}, **options)


def _on_connect(statements: tuple[str, ...]) -> Callable[[DBAPIConnection, object], None]:
    def prepare(connection: DBAPIConnection, _record: object) -> None:
        cursor = connection.cursor()
        for statement in statements:
            cursor.execute(statement)
        cursor.close()
        connection.commit()

    return prepare


def _begin_immediately(connection: Connection) -> None:
    """A transaction that begins by reading and then writes could find that another wrote in between."""
    connection.exec_driver_sql("BEGIN IMMEDIATE")
