"""A log as a table of Parquet files, by submission: what other formats are read into, once, before they are simulated.

Accounting comes in any order, and a simulation reads its log several times, by submission. So it is read into a
table of `leasehold.model.tables.LogRecord`: rows are sorted a batch at a time, and the batches merged. Of each batch
only the rows around the present instant are in memory. The table also keeps what was noted about the log, and the size
of its cluster.
"""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import count, islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import polars as pl

from leasehold.model.errors import InputError
from leasehold.model.tables import TABLES, LogRecord
from leasehold.simulation.table_writer import TableWriter
from leasehold.simulation.workload.log_columns import Ints, Names, RecordBlock
from leasehold.simulation.workload.log_record import ID_FIELDS, ReadingNotes

LOG_TABLE = "log.parquet"
"""Its name in a run folder."""

TWICE = "were left out: they are in the accounting twice, and the fuller record counts"

_TABLE = "log"
ROWS_IN_MEMORY = 100_000
"""So many records are sorted at a time; they take some 80 MB."""

_ROWS_AT_ONCE = 5_000
_KINDS = {"i64": pl.Int64(), "str": pl.String(), "bool": pl.Boolean()}
_SCHEMA = {name: _KINDS[kind] for name, kind in TABLES[_TABLE].items()}
_FOUND = "leasehold.log"
_ORDER = ["submit_ms", "source_id", "run_ms"]


@dataclass(slots=True)
class LogSummary:
    """What a log was found to hold.

    ``used_vms``  the most processors in use at once, by the times at which its jobs began and ended
    ``used_vm_ms``  processor time of its jobs
    """

    jobs: int = 0
    first_ms: int = 0
    last_ms: int = 0
    widest_vms: int = 0
    used_vms: int = 0
    used_vm_ms: int = 0
    _in_use_vms: int = 0
    _pending: tuple[Ints, Ints] = field(default_factory=lambda: (np.zeros(0, np.int64), np.zeros(0, np.int64)))

    def add(self, rows: pl.DataFrame) -> None:
        """Count more jobs, submitted no earlier than the last: until then, none of them can begin or end."""
        columns = rows.select("submit_ms", "run_ms", "wait_ms", "allocated_vms", "requested_vms").to_dict()
        submit, run, wait, allocated, requested = (column.to_numpy() for column in columns.values())
        if not self.jobs:
            self.first_ms = int(submit[0])
        self.jobs += len(rows)
        self.last_ms = int(submit[-1])
        vms = np.where(allocated > 0, allocated, requested)
        self.widest_vms = max(self.widest_vms, int(vms.max()))
        ran = (run > 0) & (vms > 0)
        self.used_vm_ms += int((run[ran] * vms[ran]).sum())
        ran &= wait >= 0
        begin, vms = (submit + wait)[ran], vms[ran]
        times = np.concatenate((self._pending[0], begin, begin + run[ran]))
        changes = np.concatenate((self._pending[1], vms, -vms))
        self._count(times, changes, self.last_ms)

    def close(self) -> None:
        """Count what is still to begin and to end."""
        if len(self._pending[0]):
            self._count(*self._pending, int(self._pending[0].max()) + 1)

    def _count(self, times: Ints, changes: Ints, before_ms: int) -> None:
        by_time = np.lexsort((changes, times))  # at one instant, what ends goes first
        times, changes = times[by_time], changes[by_time]
        over = int(np.searchsorted(times, before_ms))
        in_use = self._in_use_vms + np.cumsum(changes[:over])
        if over:
            self.used_vms = max(self.used_vms, int(in_use.max()))
            self._in_use_vms = int(in_use[-1])
        self._pending = times[over:], changes[over:]


def write_log(
    records: Iterable[LogRecord], folder: Path, notes: ReadingNotes, *, distinct: bool, procs: int | None = None
) -> LogSummary:
    """Write the table below ``folder``, of records in any order; the folder must exist.

    With ``distinct`` two records of the same job and submission are one: the one that ran longer counts. ``procs`` is
    the size of the cluster, by default the most processors in use at once. Raises InputError where no job is left.
    """
    summary = LogSummary()
    table = TableWriter(folder, _TABLE)
    with TemporaryDirectory(dir=folder, prefix=".sorting-") as place:
        pieces = _merged(list(_sorted_batches(records, Path(place))))
        for rows in _distinct(pieces, notes) if distinct else pieces:
            summary.add(rows)
            table.extend(len(rows), {name: rows[name].to_list() for name in _SCHEMA})
    if not summary.jobs:
        reasons = "; ".join(f"{count:,} {phrase}" for phrase, count in notes.skipped.most_common()) or "it is empty"
        raise InputError(notes.source, None, f"no job is left of the {notes.read:,} in this log: {reasons}")
    summary.close()
    found = {
        "notes": [*counted_phrases(notes), *notes.remarks],
        "max_procs": max(procs or 0, summary.used_vms, summary.widest_vms),
    }
    table.close({_FOUND: json.dumps(found)})
    return summary


def counted_phrases(notes: ReadingNotes) -> list[str]:
    """Say what was left out and assumed, the frequent before the rare, without the source."""
    counted = [*notes.skipped.most_common(), *notes.assumed.most_common()]
    return [f"{count:,} of {notes.read:,} jobs {phrase}" for phrase, count in counted]


def _sorted_batches(records: Iterable[LogRecord], place: Path) -> Iterator[Iterator[pl.DataFrame]]:
    """Sort as many records at a time as fit in memory; give each batch as pieces, of a file if there are several."""
    coming = iter(records)
    batch = _frame(list(islice(coming, ROWS_IN_MEMORY)))
    for number in count():
        following = _frame(list(islice(coming, ROWS_IN_MEMORY)))
        if not number and not len(following):
            yield batch.iter_slices(_ROWS_AT_ONCE)
            return
        path = place / f"{number}.parquet"
        batch.write_parquet(path, compression="lz4", row_group_size=_ROWS_AT_ONCE)
        yield _slices(path)
        if not len(following):
            return
        batch = following


def _frame(records: list[LogRecord]) -> pl.DataFrame:
    return pl.DataFrame(records, schema=_SCHEMA, orient="row").sort(_ORDER)


def _slices(path: Path) -> Iterator[pl.DataFrame]:
    """Read a file a few rows at a time."""
    of = pl.scan_parquet(path)
    for offset in count(0, _ROWS_AT_ONCE):
        rows = of.slice(offset, _ROWS_AT_ONCE).collect()
        if len(rows):
            yield rows
        if len(rows) < _ROWS_AT_ONCE:
            return


class _Batch:
    """A sorted batch that is being merged: the rows that were read of it and not yet handed on."""

    def __init__(self, pieces: Iterator[pl.DataFrame]) -> None:
        self._pieces = pieces
        self.rows = _frame([])
        self.is_read = False
        self.read_on()

    def read_on(self) -> None:
        piece = next(self._pieces, None)
        if piece is None:
            self.is_read = True
        else:
            self.rows = pl.concat((self.rows, piece))

    @property
    def last_ms(self) -> int:
        return int(self.rows["submit_ms"][-1])

    def take(self, before_ms: int | None) -> pl.DataFrame:
        """Hand on what was submitted before this time."""
        end = len(self.rows) if before_ms is None else int(self.rows["submit_ms"].search_sorted(before_ms))
        taken, self.rows = self.rows.head(end), self.rows.slice(end)
        return taken


def _merged(batches: list[Iterator[pl.DataFrame]]) -> Iterator[pl.DataFrame]:
    """Yield the rows of all batches in order, those of one instant in one piece."""
    left = [_Batch(pieces) for pieces in batches]
    while left:
        unread = [batch for batch in left if not batch.is_read]
        before_ms = min((batch.last_ms for batch in unread), default=None)
        rows = pl.concat([batch.take(before_ms) for batch in left]).sort(_ORDER)
        if len(rows):
            yield rows
        for batch in unread:
            if batch.last_ms == before_ms:
                batch.read_on()
        left = [batch for batch in left if len(batch.rows) or not batch.is_read]


def _distinct(pieces: Iterator[pl.DataFrame], notes: ReadingNotes) -> Iterator[pl.DataFrame]:
    """Yield the rows but for those whose job and submission come again."""
    for rows in pieces:
        kept = rows.unique(_ORDER[:2], keep="last", maintain_order=True)
        if len(kept) < len(rows):
            notes.skipped[TWICE] += len(rows) - len(kept)
        yield kept


def max_procs_of(path: Path) -> int | None:
    """Return the size of the cluster that a table states; None for a table that another program wrote."""
    found = _found_in(path).get("max_procs")
    return found if isinstance(found, int) and found > 0 else None


def _found_in(path: Path) -> dict[str, Any]:
    said = pl.read_parquet_metadata(_files(path)[-1]).get(_FOUND)
    found = {} if said is None else json.loads(said)
    return found if isinstance(found, dict) else {}


def _files(path: Path) -> list[Path]:
    """Find the files of a table: itself, or those of its folder. Raises InputError where there is none."""
    files = sorted(path.glob("*.parquet")) if path.is_dir() else [path]
    if not files:
        raise InputError(path, None, "holds no file *.parquet")
    return files


class TableColumns:
    """A log that is a table, read once; see `log_columns.RecordBlocks`."""

    def __init__(self, path: Path, notes: ReadingNotes, fields: Iterable[str] = ID_FIELDS) -> None:
        """Open nothing yet."""
        self._path, self._notes = path, notes
        self.names = {name: Names() for name in fields}

    def blocks(self) -> Iterator[RecordBlock]:
        """Yield the jobs; raises InputError for a file that is not such a table, or not by submission."""
        last_ms, rows_read = 0, 0
        try:
            for remark in _found_in(self._path).get("notes", []):
                self._notes.remark(f"as it was read from the accounting, {remark}")
            for file in _files(self._path):
                for rows in self._pieces(file):
                    submit_ms = rows["submit_ms"].to_numpy()
                    wrong = np.flatnonzero(np.diff(submit_ms, prepend=last_ms) < 0)
                    if len(wrong):
                        row = rows_read + int(wrong[0]) + 1
                        raise InputError(self._path, row, "submit_ms is before that of the row above it")
                    last_ms, rows_read = int(submit_ms[-1]), rows_read + len(rows)
                    yield self._block(rows)
        except (OSError, pl.exceptions.PolarsError) as error:
            raise InputError(self._path, None, f"is not a table of a log: {error}".splitlines()[0]) from None
        if not rows_read:
            raise InputError(self._path, None, "holds no job")

    def _pieces(self, file: Path) -> Iterator[pl.DataFrame]:
        has = pl.read_parquet_schema(file)
        for name, kind in _SCHEMA.items():
            if name not in has:
                expected = "a log written by `sim from-slurm` or `sim from-log`; a mapping reads other Parquet files"
                raise InputError(file, None, f"has no column {name}, expected {expected}")
            if has[name] != kind:
                raise InputError(file, None, f"column {name} is {has[name]}, expected {kind}")
        for rows in _slices(file):
            if any(rows[name].null_count() for name in _SCHEMA):
                raise InputError(file, None, "has empty values, expected -1 for what is not known")
            yield rows

    def _block(self, rows: pl.DataFrame) -> RecordBlock:
        numbers = {name: rows[name].to_numpy() for name, kind in _SCHEMA.items() if kind == pl.Int64()}
        return RecordBlock(
            fields={name: _codes(rows[name], names) for name, names in self.names.items()},
            source_id=np.array(rows["source_id"].to_list(), np.object_),
            partial=np.zeros(len(rows), np.bool_),
            never_began=rows["never_began"].to_numpy(),
            gpu_model=np.array(rows["gpu_model"].to_list(), np.object_),
            **numbers,
        )


def _codes(texts: pl.Series, names: Names) -> Ints:
    different = texts.unique(maintain_order=True)
    codes = [names.code(text) for text in different.to_list()]
    coded: Ints = texts.replace_strict(different, codes, return_dtype=pl.Int64).to_numpy()
    return coded
