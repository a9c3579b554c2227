"""Writes the tables of a run folder piece by piece, so that memory does not grow with the log.

Rows are collected in memory and written as numbered part files (Arrow, quick to write and to read
again); `TableWriter.close` joins the parts into one Parquet file. A run that was killed leaves its parts.
"""

from pathlib import Path
from shutil import rmtree

import polars as pl

from leasehold.model.tables import TABLES

ROWS_PER_PART = 20_000
_TYPES = {"i64": pl.Int64(), "str": pl.String(), "bool": pl.Boolean()}


class TableWriter:
    """One table of a run folder; rows are tuples in the order of the table's columns."""

    def __init__(self, folder: Path, name: str) -> None:
        """Begin an empty table below ``folder``."""
        self._schema = {column: _TYPES[kind] for column, kind in TABLES[name].items()}
        self._parts = folder / f"{name}.parts"
        self._target = folder / f"{name}.parquet"
        self._rows: list[tuple[object, ...]] = []
        self._written = 0
        self._parts.mkdir()

    def add(self, row: tuple[object, ...]) -> None:
        """Add one row."""
        self._rows.append(row)
        if len(self._rows) >= ROWS_PER_PART:
            self.flush()

    def flush(self) -> None:
        """Write the collected rows as a part."""
        columns = zip(*self._rows, strict=True) if self._rows else [()] * len(self._schema)
        series = [
            pl.Series(name, values, dtype=kind)
            for (name, kind), values in zip(self._schema.items(), columns, strict=True)
        ]
        pl.DataFrame(series).write_ipc(self._parts / f"{self._written:06}.arrow")
        self._written += 1
        self._rows.clear()

    def close(self) -> None:
        """Join all parts into one file."""
        if self._rows or not self._written:
            self.flush()
        pl.scan_ipc(self._parts / "*.arrow").sink_parquet(self._target, row_group_size=ROWS_PER_PART)
        rmtree(self._parts)
