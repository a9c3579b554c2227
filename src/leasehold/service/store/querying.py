"""How a store is asked: one statement, one state of the store."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from sqlalchemy import CursorResult, Engine, Row, Select

from leasehold.service.store.errors import translated
from leasehold.service.store.mapping import RecordTable

R = TypeVar("R")

KEYS_AT_ONCE = 1_000  # a statement takes some ten thousand values at most
_HIGHEST = 2**63 - 1  # what a column can hold; users write larger numbers


def within(number: int) -> int:
    """Give the number nearest to this one that a column can hold."""
    return max(-_HIGHEST, min(number, _HIGHEST))


class Querying:
    """Asks a database through this engine; raises StoreUnavailable."""

    def __init__(self, engine: Engine) -> None:
        self._reading = engine

    @contextmanager
    def _result(self, query: Select[Any]) -> Iterator[CursorResult[Any]]:
        with translated(self), self._reading.connect() as connection:
            yield connection.execute(query)

    def _rows(self, table: RecordTable[R], query: Select[Any]) -> list[R]:
        """Give the rows that a query of `RecordTable.select` finds."""
        with self._result(query) as result:
            return [table.record(row) for row in result]

    def _row(self, table: RecordTable[R], query: Select[Any]) -> R | None:
        rows = self._rows(table, query)
        return rows[0] if rows else None

    def _fetch(self, query: Select[Any]) -> Sequence[Row[Any]]:
        with self._result(query) as result:
            return result.fetchall()

    def _number(self, query: Select[Any]) -> int:
        return self._fetch(query)[0][0] or 0
