"""What can be written in one transaction."""

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from sqlalchemy import Connection

from leasehold.model.errors import InvariantBroken
from leasehold.service.store.mapping import RecordTable, Statements
from leasehold.service.store.retention import Cutoffs, drop_outputs, prune
from leasehold.service.store.rows import SNAPSHOTS, SnapshotRow

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
