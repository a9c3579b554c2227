"""The store: what outlives the process.

One writer and many readers. `Store.writing` is one transaction of the one writer; whatever reads may be
called from any thread at any time, and never waits for the writer. The steps from schema to schema are in
``migrations/versions``; Alembic runs them, and needs no configuration file.
"""

import json
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from alembic import command
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import URL, Connection, Engine, inspect, select, update
from sqlalchemy.exc import DBAPIError

from leasehold.model.errors import InputError, InvariantBroken
from leasehold.service.store.errors import StoreUnavailable, translated
from leasehold.service.store.mapping import METADATA, RecordTable, Statements, statements_for
from leasehold.service.store.reading import Reading
from leasehold.service.store.retention import Cutoffs, drop_outputs, prune
from leasehold.service.store.rows import SNAPSHOTS, TOKENS, SnapshotRow, TokenRow
from leasehold.service.store.store_url import make_private_file, read_url, reading_engine, sqlite_path, writing_engine
from leasehold.service.store.writer_lock import AdvisoryLock, FileLock, WriterLock

_FOLDER = Path(__file__).parent / "migrations"


def current_revision(connection: Connection) -> str | None:
    """The schema's revision; None where nothing is there yet."""
    return MigrationContext.configure(connection).get_current_revision()


def needs_migration(connection: Connection) -> bool:
    """Whether the schema is older than this program; InputError where it is newer."""
    current = current_revision(connection)
    refuse_newer(current, connection.engine.url)
    return current != _scripts().get_current_head()


def refuse_newer(revision: str | None, where: object) -> None:
    """InputError where the program does not know the revision of the schema at ``where``."""
    scripts = _scripts()
    if revision is not None and revision not in {script.revision for script in scripts.walk_revisions()}:
        known = scripts.get_current_head()
        raise InputError(where, None, f"has schema {revision}, newer than this program's ({known}): update it")


def upgrade(connection: Connection, revision: str = "head") -> None:
    """Bring the schema up to a revision, this program's by default, within the connection's transaction."""
    command.upgrade(_config(connection), revision)


def downgrade(connection: Connection, revision: str) -> None:
    """Bring the schema down to a revision, "base" for nothing at all; what is only in newer ones is lost."""
    command.downgrade(_config(connection), revision)


@cache
def _scripts() -> ScriptDirectory:
    return ScriptDirectory.from_config(_config())


def _config(connection: Connection | None = None) -> Config:
    config = Config(attributes={"connection": connection})
    config.set_main_option("script_location", str(_FOLDER).replace("%", "%%"))
    return config


R = TypeVar("R")

_DROP_MESSAGES = "DELETE FROM messages WHERE endpoint = :endpoint AND seq <= :seq"


class Batch:
    """One transaction. Whatever is written here is kept together or not at all.

    Rows that name a lease may be written before it, as long as it is there when the batch ends.
    """

    def __init__(self, connection: Connection, statements: Statements) -> None:
        self._connection = connection
        self._statements = statements

    def insert(self, table: RecordTable[R], rows: Sequence[R]) -> None:
        """Add rows; one whose key is there already is a defect (InvariantBroken)."""
        if rows:
            self._write(self._statements.insert(table), [table.values(row) for row in rows])

    def upsert(self, table: RecordTable[R], rows: Sequence[R]) -> None:
        """Keep these rows as they are now, new or not."""
        if rows:
            self._write(self._statements.upsert(table), [table.values(row) for row in rows])

    def update(self, table: RecordTable[R], rows: Sequence[R], key: str, columns: tuple[str, ...]) -> None:
        """Keep what these columns are now; a row that is not there (any more) is passed over."""
        if rows:
            read = table.reader_of((*columns, key))
            self._write(self._statements.update(table, key, columns), [read(row) for row in rows])

    def delete(self, table: RecordTable[Any], **columns: object) -> None:
        """Let go of the rows of which these columns have these values."""
        self._write(self._statements.delete(table, tuple(columns)), [tuple(columns.values())])

    def set_snapshot(self, name: str, text: str) -> None:
        """Keep a JSON text under this name."""
        self.upsert(SNAPSHOTS, [SnapshotRow(name, text)])

    def acknowledge_messages(self, endpoint: str, up_to_seq: int) -> None:
        """Delete the messages to this endpoint up to this one."""
        self._write(self._statements.text(_DROP_MESSAGES), [(endpoint, up_to_seq)])

    def drop_outputs(self, consumer: str, least_bytes: int) -> tuple[int, int]:
        """Let go of the oldest outputs of a consumer, of so many bytes; see `retention`."""
        return drop_outputs(self._connection, consumer, least_bytes)

    def prune(self, cutoffs: Cutoffs) -> Mapping[str, int]:
        """Let go of some of what is old, and say how many rows went, by table; see `retention`."""
        return prune(self._connection, cutoffs)

    def _write(self, statement: str, rows: Sequence[tuple[object, ...]]) -> None:
        try:
            self._connection.exec_driver_sql(statement, list(rows))
        except (OverflowError, UnicodeError) as error:
            raise InvariantBroken(f"a row that no store can keep: {error}") from error


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
        self._statements = statements_for(engine.dialect)
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
