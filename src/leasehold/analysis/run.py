"""A run folder, opened: its manifest at once, its tables when they are first looked at.

A table is read whole (`Run.leases` and its like, for notebooks and checks), lazily (`Run.scan`), or slice by slice
(`Run.slices`), so that a summary of ten million leases needs no more memory than one of a thousand.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import polars as pl

from leasehold.model.errors import InputError
from leasehold.model.tables import ADDED, MANIFEST, OPTIONAL_TABLES, SCHEMA_VERSION, TABLES

if TYPE_CHECKING:
    from altair import LayerChart

SLICE_ROWS = 10_000
"""As many rows are read at a time: a part of a row group, of which the simulation writes whole multiples."""

_ROWS_PER_SAMPLE = 100

Window = tuple[int | None, int | None]
"""A span of numbers, the first included and the end not; open where there is None."""

_TYPES: dict[str, type[pl.DataType]] = {"i64": pl.Int64, "str": pl.String, "bool": pl.Boolean}


def load(path: str | Path) -> "Run":
    """Open the run folder at ``path``.

    Raises InputError where this is not a run folder, one of another schema version, or one in which a
    table is missing or has other columns. The tables themselves are read when they are used.
    """
    folder = Path(path)
    manifest = _read_manifest(folder)
    for table in TABLES:
        _check_table(folder, table)
    return Run(folder, manifest)


class Run:
    """One finished (or interrupted) run: what was asked, what was decided, what happened.

    ``path`` is its folder, ``manifest`` the record of how it was made. The tables are polars frames
    with the columns of `leasehold.model.tables`.
    """

    _repr_html_: ClassVar[Callable[["Run"], str]]
    """How a notebook shows a run; `leasehold.analysis` sets it, as the numbers shown are metrics of runs."""

    def __init__(self, path: Path, manifest: Mapping[str, Any]) -> None:
        self.path = path
        self.manifest = manifest
        self._extremes: dict[tuple[str, str], list[tuple[Path, int | None, int, int]]] = {}

    @property
    def name(self) -> str:
        """The folder's name, by which reports call the run."""
        return self.path.resolve().name

    @property
    def is_partial(self) -> bool:
        """Whether the run was interrupted before its end."""
        return self.manifest.get("status") != "complete"

    @cached_property
    def leases(self) -> pl.DataFrame:
        """One row for each request that was read."""
        return self._read("leases")

    @cached_property
    def segments(self) -> pl.DataFrame:
        """One row for each interval in which a lease held VMs."""
        return self._read("segments")

    @cached_property
    def decisions(self) -> pl.DataFrame:
        """One row for each decision, and for a preemption one for each victim."""
        return self._read("decisions")

    @cached_property
    def sites(self) -> pl.DataFrame:
        """One row for each cluster."""
        return self._read("sites")

    @cached_property
    def baseline(self) -> pl.DataFrame:
        """When each local job starts without guests; no rows for a run without guests."""
        return self._read("baseline")

    @cached_property
    def coallocations(self) -> pl.DataFrame:
        """One row for each co-allocation; no rows for a run without any."""
        return self._read("coallocations")

    @cached_property
    def nodes(self) -> pl.DataFrame:
        """One row for each node of clusters that are planned by nodes; no rows without any."""
        return self._read("nodes")

    @cached_property
    def placements(self) -> pl.DataFrame:
        """One row for each interval in which a lease held VMs of one node; no rows without such clusters."""
        return self._read("placements")

    @cached_property
    def machines(self) -> pl.DataFrame:
        """What each machine of a lease there needs; no rows for a run without any."""
        return self._read("machines")

    @cached_property
    def log(self) -> pl.DataFrame:
        """The jobs of the accounting that was simulated; no rows for a run of anything else."""
        return self._read("log")

    @cached_property
    def begin_ms(self) -> int:
        """The instant at which the first request came."""
        return _whole(streamed(self.scan("leases").select(pl.col("submit_ms").min())).item())

    @cached_property
    def end_ms(self) -> int:
        """The last instant of the run."""
        last = streamed(self.scan("segments").select(pl.col("end_ms").max())).item()
        return max(_whole(self.manifest.get("end_ms")), _whole(last))

    @property
    def span_ms(self) -> int:
        """From the first request to the end: what every share of time is a share of."""
        return self.end_ms - self.begin_ms

    def gantt(self, site: str | None = None, from_ms: int | None = None, to_ms: int | None = None) -> "LayerChart":
        """Draw who held which VMs; see `leasehold.analysis.report.gantt_chart`."""
        from leasehold.analysis.report import gantt_chart  # noqa: PLC0415 - it reads this module

        return gantt_chart(self, site, from_ms, to_ms)

    def compare(self, other: "Run") -> pl.DataFrame:
        """Put this run and another side by side; see `leasehold.analysis.compare`."""
        from leasehold.analysis.metrics import compare  # noqa: PLC0415 - it reads this module

        return compare(self, other)

    def __repr__(self) -> str:
        """Say which run this is and how far it came."""
        jobs = self.manifest.get("jobs", {})
        status = self.manifest.get("status", "unknown")
        return f"<Run {self.name}: {status}, {jobs.get('local', 0)} local, {jobs.get('external', 0)} external>"

    def scan(self, table: str) -> pl.LazyFrame:
        """Return a table to be queried without reading all of it; one that is not there has no rows."""
        return self._scan(table, _table_files(self.path, table))

    def _scan(self, table: str, files: Sequence[Path]) -> pl.LazyFrame:
        schema = polars_schema(table)
        if not files:
            return pl.LazyFrame(schema=schema)
        found = pl.scan_parquet(list(files))
        names = found.collect_schema().names()
        added = [pl.lit(None, schema[name]).alias(name) for name in schema if name not in names]
        return found.with_columns(added).select(schema.names())

    def within(self, table: str, column: str, window: Window) -> pl.LazyFrame:
        """Return the rows of a table in a span of a column; those without a value are before all others."""
        first, end = window
        value, is_before_all = pl.col(column), first is None
        rows = self._scan(table, self._files_with(table, column, first, None if end is None else end - 1))
        if first is not None:
            rows = rows.filter(value >= first)
        if end is not None:
            rows = rows.filter((value < end) | value.is_null() if is_before_all else value < end)
        return rows

    def of_leases(self, table: str, lease_ids: pl.Series) -> pl.LazyFrame:
        """Return the rows of a table that concern these leases."""
        least, most = lease_ids.min(), lease_ids.max()
        if not isinstance(least, int) or not isinstance(most, int):
            return self._scan(table, [])
        files = self._files_with(table, "lease_id", least, most)
        return self._scan(table, files).filter(pl.col("lease_id").is_in(lease_ids.implode()))

    def _files_with(self, table: str, column: str, least: int | None, most: int | None) -> list[Path]:
        """Return the files of a table that may have rows with such values: few, as rows are written in order of time.

        Without a least value, those with nulls are among them.
        """
        found = self._extremes.get((table, column))
        if found is None:
            found = self._extremes[table, column] = [
                (file, *pl.scan_parquet(file).select(*_extremes_of(column)).collect(engine="streaming").row(0))
                for file in _table_files(self.path, table)
            ]
        return [
            file
            for file, lowest, highest, nulls in found
            if (least is None and nulls)
            or (lowest is not None and (most is None or lowest <= most) and (least is None or highest >= least))
        ]

    def height(self, table: str) -> int:
        """Count the rows of a table."""
        return _whole(self.scan(table).select(pl.len()).collect().item())

    def slices(self, table: str, columns: Sequence[str]) -> Iterator[pl.DataFrame]:
        """Read some columns of a table slice by slice, in its order."""
        rest: pl.DataFrame | None = None
        for file in _table_files(self.path, table):
            chosen = self._scan(table, [file])
            for start in range(0, _whole(chosen.select(pl.len()).collect().item()), SLICE_ROWS):
                part = chosen.select(columns).slice(start, SLICE_ROWS).collect()
                rest = part if rest is None else pl.concat([rest, part])
                if rest.height >= SLICE_ROWS:
                    yield rest[:SLICE_ROWS]
                    rest = rest[SLICE_ROWS:]
        if rest is not None and rest.height:
            yield rest

    def windows(self, table: str, column: str, rows: int) -> Iterator[Window]:
        """Cut a table into spans of a column of numbers, in order, each of about so many rows."""
        samples = [
            part[column].drop_nulls().sort().gather_every(_ROWS_PER_SAMPLE, _ROWS_PER_SAMPLE - 1)
            for part in self.slices(table, [column])
        ]
        step = rows // _ROWS_PER_SAMPLE
        edges = pl.concat(samples).sort().gather_every(step, step - 1).unique().sort().to_list() if samples else []
        yield from pairwise([None, *edges, None])

    def _read(self, table: str) -> pl.DataFrame:
        return self.scan(table).collect()


def streamed(query: pl.LazyFrame) -> pl.DataFrame:
    """Collect a query without holding the tables that it reads in memory."""
    return query.collect(engine="streaming")


def polars_schema(table: str) -> pl.Schema:
    """Return the columns of a table with their polars types, in the order they are written."""
    return pl.Schema({column: _TYPES[kind] for column, kind in TABLES[table].items()})


def _table_files(folder: Path, table: str) -> list[Path]:
    """Return the files of a table, a folder of them in the order of their names; made elsewhere it may be one file."""
    there = folder / f"{table}.parquet"
    return [there] if there.is_file() else sorted(there.glob("*.parquet"))


def _extremes_of(column: str) -> tuple[pl.Expr, ...]:
    value = pl.col(column)
    return value.min().alias("least"), value.max().alias("most"), value.null_count().alias("nulls")


def _whole(value: object) -> int:
    return value if isinstance(value, int) else 0


def _read_manifest(folder: Path) -> Mapping[str, Any]:
    file = folder / MANIFEST
    if not file.is_file():
        raise InputError(folder, None, f"not a run folder: it has no {MANIFEST}")
    try:
        manifest = json.loads(file.read_text(encoding="utf-8"))
    except ValueError as error:
        raise InputError(file, None, f"not readable as JSON ({error})") from None
    version = manifest.get("schema_version") if isinstance(manifest, dict) else None
    if version != SCHEMA_VERSION or not isinstance(manifest, dict):
        raise InputError(file, None, f"schema_version is {version!r}, this Leasehold reads {SCHEMA_VERSION}")
    return manifest


def _check_table(folder: Path, table: str) -> None:
    files = _table_files(folder, table)
    if not files:
        if table in OPTIONAL_TABLES:
            return
        raise InputError(folder, None, f"not a whole run folder: {table}.parquet is missing")
    for file in files:
        _check_columns(file, table)


def _check_columns(file: Path, table: str) -> None:
    found = _schema_on_disk(file)
    for column, wanted in polars_schema(table).items():
        if column not in found and column in ADDED.get(table, ()):
            continue
        if found.get(column) != wanted:
            has = found.get(column, "no such column")
            raise InputError(file, None, f"column {column}: expected {wanted}, found {has}")


def _schema_on_disk(file: Path) -> Mapping[str, Any]:
    try:
        return pl.read_parquet_schema(file)
    except (OSError, pl.exceptions.PolarsError) as error:
        raise InputError(file, None, f"not readable as Parquet ({error})") from None
