"""Writes a table of a run folder once, while its rows come: a folder of Parquet files, one after the other.

Memory does not grow with the table: rows, or whole blocks of columns, wait until there are enough for a file. The
folder gets its own name when the table is whole; a run that was killed leaves ``.part`` folders, which no command
reads. Polars, pandas, Arrow and Spark read such a folder as one table, by the name of the folder.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl

from leasehold.model.tables import COLUMNS, TableColumn

ROWS_PER_BLOCK = 5_000
"""As many rows wait in memory as objects of Python."""

ROWS_PER_FILE = 30_000
"""As many rows, at least, are a file."""

_TYPES = {"i64": pl.Int64(), "str": pl.String(), "bool": pl.Boolean()}

Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


class Coded(NamedTuple):
    """A column of names as small integers: each is the position of its name; negative where there is none."""

    codes: Sequence[int] | Ints
    names: Sequence[str]


Values = Coded | Sequence[int] | Sequence[str] | npt.NDArray[Any] | int | str | bool | None
"""A column of a block: its values, or one value for all rows; a negative number is null where null is allowed."""


class TableWriter:
    """One table of a run folder: rows, or whole blocks of columns, are appended in the order in which they come.

    Rows wait in one flat list, column after column of each row, until there are enough for a block of columns.
    """

    def __init__(self, folder: Path, name: str) -> None:
        """Begin an empty table below ``folder``."""
        self._columns = COLUMNS[name]
        self._target = folder / f"{name}.parquet"
        self._draft = folder / f"{name}.parquet.part"
        self._draft.mkdir()
        self._cells: list[object] = []
        self._limit = ROWS_PER_BLOCK * len(self._columns)
        self._blocks: list[pl.DataFrame] = []
        self._waiting = 0
        self._files = 0

    def add(self, row: tuple[object, ...]) -> None:
        """Append one row: its values in the order of the table's columns."""
        self._cells += row
        if len(self._cells) >= self._limit:
            self._close_rows()

    def extend(self, count: int, columns: Mapping[str, Values]) -> None:
        """Append ``count`` rows as columns, one of them at least with a value for each; those not given are null."""
        if not count:
            return
        self._close_rows()
        given = [(column, columns.get(column.name)) for column in self._columns]
        raw = {column.name: _raw(column, values) for column, values in given}
        block = pl.DataFrame([series for series in raw.values() if series is not None])
        # All columns in one go: each operation of its own has a price, whatever the number of rows.
        self._append(block.select([_made(column, values, raw[column.name]) for column, values in given]))

    def close(self, metadata: dict[str, str] | None = None) -> None:
        """Write what waits; the folder gets its name. ``metadata`` is kept by the last file."""
        self._close_rows()
        if self._blocks or not self._files or metadata:
            self._write(metadata)
        self._draft.replace(self._target)

    def _close_rows(self) -> None:
        """Turn the rows that wait into columns."""
        if not self._cells:
            return
        cells, width = self._cells, len(self._columns)
        self._cells = []
        self._append(
            pl.DataFrame(
                [
                    pl.Series(column.name, cells[place::width], dtype=_TYPES[column.kind])
                    for place, column in enumerate(self._columns)
                ]
            )
        )

    def _append(self, block: pl.DataFrame) -> None:
        self._blocks.append(block)
        self._waiting += block.height
        if self._waiting >= ROWS_PER_FILE:
            self._write()

    def _write(self, metadata: dict[str, str] | None = None) -> None:
        """Write what waits as a file; a table without rows has one that says its columns."""
        if not self._blocks:
            self._blocks.append(pl.DataFrame(schema={column.name: _TYPES[column.kind] for column in self._columns}))
        file = self._draft / f"{self._files:05}.parquet"
        pl.concat(self._blocks).write_parquet(file, compression="lz4", metadata=metadata)
        self._files += 1
        self._blocks.clear()
        self._waiting = 0


def _raw(column: TableColumn, values: Values) -> pl.Series | None:
    """Return the values that are one for each row, as they are; None where all rows have the same."""
    if isinstance(values, Coded):
        return pl.Series(column.name, values.codes, dtype=pl.Int64())
    return None if values is None or isinstance(values, int | str) else pl.Series(column.name, values)


def _made(column: TableColumn, values: Values, raw: pl.Series | None) -> pl.Expr:
    """Say how a column of the table is made of what `_raw` returned."""
    kind = _TYPES[column.kind]
    if raw is None:
        return pl.lit(values, dtype=kind).alias(column.name)
    made = pl.col(column.name)
    if raw.dtype == pl.Int64 and column.may_be_null:
        made = pl.when(made >= 0).then(made)
    if isinstance(values, Coded):
        return pl.lit(pl.Series(values.names, dtype=pl.String())).gather(made).alias(column.name)
    return made.cast(kind)  # numbers as text: a log's own numbers of its jobs
