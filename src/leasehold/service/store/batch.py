"""What can be written in one transaction."""

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from sqlalchemy import Connection

from leasehold.model.errors import InvariantBroken
from leasehold.service.store.mapping import RecordTable, Statements
from leasehold.service.store.retention import Cutoffs, drop_outputs, prune
from leasehold.service.store.rows import MAIL, MEMORIES, MESSAGES, MemoryRow, MessageRow

R = TypeVar("R")

_SET_SENT = (
    "INSERT INTO mail (correspondent, last_sent_seq, last_received_seq) VALUES (:correspondent, :seq, 0)"
    " ON CONFLICT (correspondent) DO UPDATE SET last_sent_seq = excluded.last_sent_seq"
)
_SET_RECEIVED = (
    "INSERT INTO mail (correspondent, last_sent_seq, last_received_seq) VALUES (:correspondent, 0, :seq)"
    " ON CONFLICT (correspondent) DO UPDATE SET last_received_seq = excluded.last_received_seq"
)
_DROP_MESSAGES = "DELETE FROM messages WHERE correspondent = :correspondent AND seq <= :seq"


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
            places = [table.names.index(name) for name in (*columns, key)]
            values = [table.values(row) for row in rows]
            updates = [tuple(row[place] for place in places) for row in values]
            self._write(self._statements.update(table, key, columns), updates)

    def delete(self, table: RecordTable[Any], **columns: object) -> None:
        """Let go of the rows of which these columns have these values."""
        self._write(self._statements.delete(table, tuple(columns)), [tuple(columns.values())])

    def set_memory(self, name: str, text: str) -> None:
        """Keep a JSON text under this name."""
        self.upsert(MEMORIES, [MemoryRow(name, text)])

    def add_messages(self, rows: Sequence[MessageRow]) -> None:
        """Keep messages until they are acknowledged, and how far was written to each correspondent."""
        self.insert(MESSAGES, rows)
        if rows:
            self._write(self._statements.text(_SET_SENT), [(row.correspondent, row.seq) for row in rows])

    def acknowledge_messages(self, correspondent: str, up_to_seq: int) -> None:
        """Let go of the messages to this correspondent up to this one."""
        self._write(self._statements.text(_DROP_MESSAGES), [(correspondent, up_to_seq)])

    def set_received(self, correspondent: str, seq: int) -> None:
        """Remember the last message from this correspondent that was taken in."""
        self._write(self._statements.text(_SET_RECEIVED), [(correspondent, seq)])

    def forget_correspondent(self, correspondent: str) -> None:
        """Let go of all messages to somebody, and of the numbers: the next ones begin anew."""
        for table in (MESSAGES, MAIL):
            self.delete(table, correspondent=correspondent)

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
