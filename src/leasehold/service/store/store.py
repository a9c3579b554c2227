"""The store: what outlives the process.

One writer and many readers. `Store.writing` is one transaction of the one writer; whatever reads may be
called from any thread at any time, and never waits for the writer.
"""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Self

from sqlalchemy import URL, Connection, Engine, inspect, select, update
from sqlalchemy.exc import DBAPIError

from leasehold.model.errors import InputError
from leasehold.service.store.batch import Batch
from leasehold.service.store.errors import StoreUnavailable, translated
from leasehold.service.store.mapping import METADATA, Statements
from leasehold.service.store.migrating import needs_migration, upgrade
from leasehold.service.store.reading import Reading
from leasehold.service.store.rows import TOKENS, TokenRow
from leasehold.service.store.store_url import make_private_file, read_url, reading_engine, sqlite_path, writing_engine
from leasehold.service.store.writer_lock import AdvisoryLock, FileLock, WriterLock

_PROBE = "probe"


def open_store(url: str) -> "Store":
    """Open the store at ``sqlite:///PATH`` or ``postgresql+psycopg://...``, with the schema of this program.

    A store that is not there yet is made, an older one is brought up to date. InvalidField where the URL
    names no store; InputError where the schema is newer than this program, or old and in use by another
    gateway; StoreUnavailable where its server cannot be reached.
    """
    store = Store(read_url(url))
    try:
        store.bring_up_to_date()
    except BaseException:
        store.close()
        raise
    return store


class Store(Reading):
    """An open store; `open_store` makes it. Close it, or use it as a context manager."""

    def __init__(self, url: URL) -> None:
        self.url = url
        self.path = sqlite_path(url)
        if self.path is not None:
            make_private_file(self.path)
        super().__init__(reading_engine(url))
        engine = writing_engine(url)
        self._statements = Statements(engine.dialect)
        self._writer = _Writer(engine, AdvisoryLock() if self.path is None else FileLock(self.path))

    @property
    def dialect(self) -> str:
        """Which kind of database it is: "sqlite" or "postgresql"."""
        return self.url.get_backend_name()

    def __str__(self) -> str:
        return f"store {self.url}"

    def acquire_writer_lock(self) -> None:
        """Become the only writer, until the store is closed or this process ends, however it ends.

        Raises InputError if another gateway is the writer.
        """
        with translated(self):
            self._writer.acquire_writer_lock()

    @contextmanager
    def writing(self) -> Iterator[Batch]:
        """One transaction: committed at the end of the block, undone where anything is raised in it.

        InvariantBroken where rows contradict each other; StoreUnavailable where the store cannot keep them.
        """
        with translated(self), self._writer.transaction() as connection:
            yield Batch(connection, self._statements)

    def prove_writable(self, room_bytes: int = 0) -> None:
        """Write so many bytes, in the place of those written last; StoreUnavailable where that cannot be."""
        if self.path is not None and not self.path.exists():
            # its open file would take everything, and nothing of that would be found after a restart
            raise StoreUnavailable(f"{self}: the file has been removed")
        with self.writing() as batch:
            batch.set_snapshot(_PROBE, json.dumps("0" * room_bytes))

    # Tokens are written in transactions of their own, between the writer's, from whatever thread

    def add_token(self, row: TokenRow) -> None:
        """Keep a token; one with the same id or hash is a defect (InvariantBroken)."""
        with translated(self), self._writer.transaction() as connection:
            Batch(connection, self._statements).insert(TOKENS, [row])

    def revoke_token(self, token_id: str, now_ms: int) -> bool:
        """Mark a token as revoked since now; False where it is not known, or was revoked before."""
        tokens = TOKENS.table
        valid = update(tokens).where(tokens.c.id == token_id, tokens.c.revoked_ms.is_(None))
        with translated(self), self._writer.transaction() as connection:
            return connection.execute(valid.values(revoked_ms=now_ms)).rowcount > 0

    # Opening and closing

    def is_empty(self) -> bool:
        """Whether nothing is kept in it; its tables may not even be there."""
        with translated(self), self._reading.connect() as connection:
            there = set(inspect(connection).get_table_names())
            rows = (select(table).limit(1) for table in METADATA.sorted_tables if table.name in there)
            return all(connection.execute(row).first() is None for row in rows)

    def bring_up_to_date(self) -> None:
        """Give the store this program's schema; as `open_store` says."""
        with translated(self):
            if self._is_out_of_date():
                self._migrate_alone()

    def close(self) -> None:
        """Close all connections, and release the writer lock."""
        self._writer.release()
        self._reading.dispose()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _is_out_of_date(self) -> bool:
        with self._reading.connect() as connection:
            return needs_migration(connection)

    def _migrate_alone(self) -> None:
        """Under the writer lock, and only if no other process has done it meanwhile."""
        self._writer.acquire_writer_lock()
        try:
            with self._writer.transaction() as connection:
                if needs_migration(connection):
                    upgrade(connection)
        finally:
            self._writer.release()


class _Writer:
    """The one connection that writes: for one thread at a time, and one transaction at a time."""

    def __init__(self, engine: Engine, lock: WriterLock) -> None:
        self._engine = engine
        self._lock = lock
        self._is_locked = False
        self._turn = threading.RLock()  # a transaction within a transaction is then an error, and no silence
        self._connection: Connection | None = None

    @contextmanager
    def transaction(self) -> Iterator[Connection]:
        """One transaction: committed at the end, rolled back where anything is raised."""
        with self._turn, self._surviving() as connection, connection.begin():
            yield connection

    def acquire_writer_lock(self) -> None:
        """Become the only writer, until `release`; raises InputError if another process is."""
        with self._turn, self._surviving() as connection:
            self._take(connection)
            self._is_locked = True

    def release(self) -> None:
        """Give connection and lock back; the next transaction opens a new connection."""
        with self._turn:
            self._hang_up()
            self._lock.release()
            self._is_locked = False

    @contextmanager
    def _surviving(self) -> Iterator[Connection]:
        """The connection, fit for the next transaction afterwards; one that broke gives way to a new one."""
        connection = self._connected()
        try:
            yield connection
        except DBAPIError as error:
            if error.connection_invalidated:
                self._hang_up()
            else:
                connection.connection.rollback()  # SQLite keeps a transaction whose commit it refused
            raise

    def _connected(self) -> Connection:
        if self._connection is None:
            connection = self._engine.connect()
            if self._is_locked:
                self._take(connection)
            self._connection = connection
        return self._connection

    def _take(self, connection: Connection) -> None:
        if not self._lock.acquire(connection):
            self._hang_up()
            raise InputError(self._engine.url, None, "is in use by another gateway")

    def _hang_up(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
