"""Connections: one that writes, and as many that read as there are readers.

SQLite is in WAL mode, so that readers never wait for the writer; each transaction is on the disk when it
has been committed (``synchronous=FULL``).
"""

from collections.abc import Callable

from sqlalchemy import URL, Connection, Engine, NullPool, create_engine, event
from sqlalchemy.engine.interfaces import DBAPIConnection

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
# Where a gateway's machine is lost, the server gives its claim free after half a minute, not after two hours.
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
    engine = create_engine(url, paramstyle="named", connect_args={"isolation_level": None}, **options)
    event.listen(engine, "connect", _on_connect(pragmas))
    return engine


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
    """A transaction that begins by reading and then writes could find that somebody wrote in between."""
    connection.exec_driver_sql("BEGIN IMMEDIATE")
