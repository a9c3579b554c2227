"""What one step of the engine writes: rows, in one transaction, and what follows once they are in the store."""

from collections.abc import Callable
from typing import Any, TypeVar

from leasehold.model.effect import Decision, ExtendLease
from leasehold.model.errors import InvariantBroken
from leasehold.service.store.mapping import RecordTable
from leasehold.service.store.store import Batch

R = TypeVar("R")
Rows = dict[Any, Any]
"""Rows by their key."""


class UnitOfWork:
    """Rows that are not in the store yet; of each the last state is written.

    A row is read when it is written: one that changes after it was put here is written as it is then.

    ``acknowledged``  endpoints, each with the number of the last message that has arrived there
    ``decisions``     what was decided in this step
    ``extensions``    what came of each extension that was requested in this step: a decision, or a site is asked
    ``causes``        what machines said about their failure in this step, by lease
    """

    def __init__(self) -> None:
        self.acknowledged: dict[str, int] = {}
        self.decisions: list[Decision] = []
        self.extensions: list[Decision | ExtendLease] = []
        self.causes: dict[int, str] = {}
        self._added: dict[RecordTable[Any], Rows] = {}
        self._put: dict[RecordTable[Any], Rows] = {}
        self._changed: dict[tuple[RecordTable[Any], tuple[str, ...]], Rows] = {}
        self._removed: list[tuple[RecordTable[Any], dict[str, object]]] = []
        self._after_commit: list[Callable[[], object]] = []

    def add(self, table: RecordTable[R], row: R) -> None:
        """Write a new row; one whose key is there already is a defect (InvariantBroken)."""
        rows, key = self._added.setdefault(table, {}), table.key(row)
        if key in rows:
            raise InvariantBroken(f"{table.table.name}: the row {key!r} is added twice in one step")
        rows[key] = row

    def put(self, table: RecordTable[R], row: R) -> None:
        """Write a row, in the place of the one with its key if there is one."""
        self._put.setdefault(table, {})[table.key(row)] = row

    def change(self, table: RecordTable[R], row: R, columns: tuple[str, ...]) -> None:
        """Write these columns of a row that is in the store, or all of one that is new in this step."""
        key = table.key(row)
        for pending in (self._added.get(table, {}), self._put.get(table, {})):
            if key in pending:
                pending[key] = row
                return
        self._changed.setdefault((table, columns), {})[key] = row

    def remove(self, table: RecordTable[Any], **columns: object) -> None:
        """Delete the rows of which these columns have these values, those of this step included."""
        for pending in (self._added.get(table, {}), self._put.get(table, {})):
            for key, row in list(pending.items()):
                if all(getattr(row, name) == value for name, value in columns.items()):
                    del pending[key]
        self._removed.append((table, columns))

    def find(self, table: RecordTable[R], key: object) -> R | None:
        """Give a row as this step writes it; None where the step does not write it."""
        row: R | None = self._put.get(table, {}).get(key) or self._added.get(table, {}).get(key)
        return row

    def rows(self, table: RecordTable[R]) -> list[R]:
        """Give all rows of a table that this step writes as a whole."""
        return [*self._put.get(table, {}).values(), *self._added.get(table, {}).values()]

    def after_commit(self, call: Callable[[], object]) -> None:
        """Call this once everything is in the store; never where it could not be written."""
        self._after_commit.append(call)

    def is_empty(self) -> bool:
        """Whether there is nothing to write."""
        rows = (*self._added.values(), *self._put.values(), *self._changed.values())
        return not (any(rows) or self._removed or self.acknowledged)

    def write(self, batch: Batch) -> None:
        """Write everything."""
        for table, columns in self._removed:
            batch.delete(table, **columns)
        for table, rows in self._put.items():
            batch.upsert(table, list(rows.values()))
        for table, rows in self._added.items():
            batch.insert(table, list(rows.values()))
        for (table, names), rows in self._changed.items():
            batch.update(table, list(rows.values()), table.key_columns[0], names)
        for endpoint, up_to_seq in self.acknowledged.items():
            batch.acknowledge_messages(endpoint, up_to_seq)

    def clear(self) -> None:
        """Everything is in the store: do what had to wait for that, and begin with nothing to write."""
        calls, self._after_commit = self._after_commit, []
        for kept in (self.acknowledged, self.decisions, self.extensions, self.causes):
            kept.clear()
        for rows in (self._added, self._put, self._changed, self._removed):
            rows.clear()
        for call in calls:
            call()
