"""The run folder's tables as polars types."""

import polars as pl

from leasehold.model.tables import TABLES

_TYPES: dict[str, type[pl.DataType]] = {"i64": pl.Int64, "str": pl.String, "bool": pl.Boolean}


def polars_schema(table: str) -> pl.Schema:
    """Return the columns of a table with their polars types, in the order they are written."""
    return pl.Schema({column: _TYPES[kind] for column, kind in TABLES[table].items()})


def empty_table(table: str) -> pl.DataFrame:
    """Return a table without rows, for a run that had no reason to write it."""
    return pl.DataFrame(schema=polars_schema(table))
