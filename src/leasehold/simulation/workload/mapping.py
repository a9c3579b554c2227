"""Mapping files: which columns of a CSV, Parquet or JSON log mean what, in which unit, and which rows count.

A mapping is a short TOML file; those of public logs come with Leasehold (the folder ``mappings``). Under ``[columns]``
each field of a job (`FIELDS`) names its column, or several whose values are multiplied, with its unit; what no column
says may be a constant. A row counts if it agrees with every ``[[filter]]``. Of a JSON document, a column is a path
(`_path`).
"""

import csv
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta, tzinfo
from importlib.resources import files
from math import ceil, isfinite
from operator import itemgetter
from pathlib import Path
from typing import Annotated, Any

import polars as pl

from leasehold.configuration.declaration import Choice, Key, Table, Text, Texts
from leasehold.configuration.keys import Keys
from leasehold.configuration.toml import read_toml
from leasehold.model.errors import InputError, InvalidField, UnknownName
from leasehold.model.tables import LogRecord
from leasehold.simulation.workload.json_objects import objects_in
from leasehold.simulation.workload.log_record import ID_FIELDS, LARGEST, UNKNOWN, ReadingNotes, text_lines

FORMATS = CSV, PARQUET, JSON = ("csv", "parquet", "json")

_TIME_MS = {"ns": 1e-6, "us": 1e-3, "ms": 1, "s": 1e3, "min": 6e4, "h": 3.6e6, "d": 8.64e7}
_ISO, _SPAN, _QUANTITY = "iso", "span", "quantity"
_MEMORY_MIB = {
    "B": 2.0**-20,
    "KiB": 2.0**-10,
    "MiB": 1.0,
    "GiB": 2.0**10,
    "TiB": 2.0**20,
    "kB": 1e3 / 2**20,
    "MB": 1e6 / 2**20,
    "GB": 1e9 / 2**20,
    "TB": 1e12 / 2**20,
}
_COUNTS = {"1": 1.0, "milli": 1e-3, "percent": 1e-2}
PER = JOB, CPU, NODE = ("job", "cpu", "node")

TIMES = ("submit", "eligible", "start", "end")
SPANS = ("run", "wait", "limit")
COUNTS = ("cpus", "cpus_requested", "nodes", "gpus")
MEMORY = "memory"
TEXTS = ("job", "user", "group", "queue", "partition", "site", "gpu_model")
FIELDS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(TIMES, (*_TIME_MS, _ISO)),
    **dict.fromkeys(SPANS, (*_TIME_MS, _SPAN)),
    **dict.fromkeys(COUNTS, (*_COUNTS, _QUANTITY)),
    MEMORY: (*_MEMORY_MIB, _QUANTITY),
    **dict.fromkeys(TEXTS, ()),
}
"""The fields of a job, each with the units in which a column may state it."""

NO_SUBMISSION = "were left out: no time of submission"
FILTERED = "were left out by a filter of the mapping"
BACKWARDS = "were left out: they end before they begin"
LATER = "became eligible after their submission; they are submitted then"

_NOTHING = frozenset({"", "NULL", "null", "None", "NaN", "nan", "NaT", "NA", "N/A", "\\N", "-1", "-1.0"})


@dataclass(frozen=True, slots=True)
class MappedColumn:
    """Where a field is found: the product of columns, in a unit, for a whole job or for each of its CPUs or nodes."""

    columns: tuple[str, ...]
    unit: str = ""
    per: str = JOB


class MappedColumns(Key):
    """A table of `MappedColumn` by field."""

    accepts = "table: the name of a column, or `{ column, unit, per }`, for each field"

    def read(self, keys: Keys, name: str, default: object) -> object:  # noqa: ARG002 - it must be there
        """Take the table; raises InvalidField or UnknownName."""
        table = keys.table(name)
        found: dict[str, MappedColumn] = {}
        for one in table.left():
            if one not in FIELDS:
                raise UnknownName(table.where(one), one, FIELDS)
            found[one] = _column(table, one)
        if "submit" not in found:
            raise InvalidField(table.where("submit"), None, "the column with the time of submission")
        return found


def _column(table: Keys, name: str) -> MappedColumn:
    if isinstance(table.peek(name), str):
        column = MappedColumn(table.texts(name))
    else:
        of = table.table(name)
        columns = of.texts("column")
        unit = of.name_of("unit", FIELDS[name], "") if FIELDS[name] else ""
        per = of.name_of("per", PER, JOB) if name == MEMORY or name in COUNTS else JOB
        of.done()
        column = MappedColumn(columns, unit, per)
    if FIELDS[name] and not column.unit:
        if name not in COUNTS:
            raise InvalidField(f"{table.where(name)}.unit", None, f"one of {', '.join(FIELDS[name])}")
        column = replace(column, unit="1")
    if len(column.columns) > 1 and (not FIELDS[name] or column.unit in {_ISO, _SPAN}):
        raise InvalidField(f"{table.where(name)}.column", list(column.columns), "one column")
    return column


class Constants(Key):
    """Values of fields that no column has."""

    accepts = "table of numbers and texts"

    def read(self, keys: Keys, name: str, default: object) -> object:  # noqa: ARG002 - an absent table is empty
        """Take the table; times are in seconds and memory in MiB."""
        table = keys.table(name)
        found: dict[str, float | str] = {}
        for one in table.left():
            if one not in FIELDS or one in TIMES:
                raise UnknownName(table.where(one), one, [each for each in FIELDS if each not in TIMES])
            found[one] = table.text(one) if one in TEXTS else table.number(one, least=0)
        return found


@dataclass(frozen=True, slots=True)
class RowFilter:
    """Rows whose column has one of these values, or, with ``is_not``, none of them."""

    column: Annotated[str, Text("column")]
    is_: Annotated[tuple[str, ...], Texts("values that count", name="is", optional=True)] = ()
    is_not: Annotated[tuple[str, ...], Texts("values that do not count", optional=True)] = ()


FILTER = Table(RowFilter, "Rows that count.")


@dataclass(frozen=True, slots=True)
class LogMapping:
    """What the columns of a log mean."""

    columns: Annotated[Mapping[str, MappedColumn], MappedColumns("columns")]
    format: Annotated[str, Choice("format of the log", of=FORMATS)] = CSV
    title: Annotated[str, Text("what log it is about", unset="none", optional=True)] = ""
    separator: Annotated[str, Text("what separates the columns of a CSV log", optional=True)] = ","
    header: Annotated[
        tuple[str, ...],
        Texts("names of the columns of a CSV log without a header", unset="its first line", optional=True),
    ] = ()
    items: Annotated[str, Text("the list of a JSON document that has the jobs", optional=True)] = "items"
    constants: Annotated[Mapping[str, float | str], Constants("values of fields that no column has")] = field(
        default_factory=dict
    )
    filters: tuple[RowFilter, ...] = ()
    external: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


MAPPING = Table(LogMapping, "What the columns of a log mean.")


def load_mapping(name: str) -> LogMapping:
    """Read a mapping file, or one that comes with Leasehold by its name.

    Raises InputError with the line of what is wrong, and UnknownName for a name that is neither.
    """
    path = Path(name)
    if not path.is_file():
        if name not in packaged_mappings():
            raise UnknownName("--mapping", name, [*packaged_mappings(), "FILE.toml"])
        path = packaged_mappings()[name]
    file = read_toml(path)
    with file.naming_lines():
        keys = Keys(file.values, folder=path.parent)
        values = MAPPING.values(keys)
        filters = tuple(FILTER.read(table) for table in keys.tables("filter"))
        for index, one in enumerate(filters):
            if bool(one.is_) == bool(one.is_not):
                raise InvalidField(f"filter[{index}].is", None, "either is or is_not, a list of values")
        table = keys.table("external")
        table.expect(ID_FIELDS)
        external = {one: table.texts(one) for one in ID_FIELDS if one in table}
        table.done()
        keys.done()
        if len(values["separator"]) != 1:
            raise InvalidField("separator", values["separator"], "one character")
    return LogMapping(**values, filters=filters, external=external)


def packaged_mappings() -> dict[str, Path]:
    """Find the mappings that come with Leasehold, by name."""
    folder = Path(str(files("leasehold.simulation.workload") / "mappings"))
    return {path.stem: path for path in sorted(folder.glob("*.toml"))}


_Row = Sequence[Any] | Mapping[str, Any]
_Get = Callable[[Any], object]


def mapped_records(path: Path, mapping: LogMapping, zone: tzinfo, notes: ReadingNotes) -> Iterator[LogRecord]:
    """Yield the jobs of a log as a mapping says, in the order of the log, and count each in the notes.

    Times as text without a zone are in ``zone``. Raises InputError, with file and line (of Parquet: row), for a log
    that lacks a column and for a value that is not what the mapping says.
    """
    source = {CSV: _csv_rows, PARQUET: _parquet_rows, JSON: _json_rows}[mapping.format](path, mapping)
    line, find = next(source)
    assert callable(find)
    try:
        reader = _Reader(mapping, find, zone)
    except ValueError as error:
        raise InputError(path, line, str(error)) from None
    for number, (line, row) in enumerate(source, 1):
        notes.read += 1
        try:
            record = reader.record(row, number)
        except ValueError as error:
            raise InputError(path, line, str(error)) from None
        if isinstance(record, str):
            notes.skip(record)
            continue
        if reader.is_late:
            notes.assume(LATER)
        yield record


class _Reader:
    """Makes a record of each row."""

    def __init__(self, mapping: LogMapping, find: Callable[[str], _Get], zone: tzinfo) -> None:
        """Find the columns; raises ValueError for one that is not there."""
        self._zone = zone
        self._constants = mapping.constants
        self._numbers: dict[str, Callable[[Any], float | None]] = {}
        self._texts: dict[str, _Get] = {}
        for name, column in mapping.columns.items():
            if name in TEXTS:
                self._texts[name] = find(column.columns[0])
            else:
                self._numbers[name] = self._number(name, column, [find(one) for one in column.columns])
        self._per = {name: column.per for name, column in mapping.columns.items()}
        self._filters = [(find(one.column), frozenset(one.is_ or one.is_not), bool(one.is_)) for one in mapping.filters]
        self.is_late = False

    def record(self, row: _Row, number: int) -> LogRecord | str:
        """Say what a row means, or why it is left out."""
        for get, values, wanted in self._filters:
            if (_text(get(row)) in values) is not wanted:
                return FILTERED
        submit_ms = self._value("submit", row)
        if submit_ms is None:
            return NO_SUBMISSION
        eligible_ms, start_ms, end_ms = (self._value(name, row) for name in ("eligible", "start", "end"))
        run_ms, wait_ms, limit_ms = (self._value(name, row) for name in SPANS)
        self.is_late = eligible_ms is not None and eligible_ms > submit_ms
        ready_ms = max(submit_ms, eligible_ms or 0)
        if start_ms is None and wait_ms is not None:
            start_ms = submit_ms + wait_ms
        if start_ms is not None:
            ready_ms = min(ready_ms, max(submit_ms, start_ms))
        if run_ms is None and start_ms is not None and end_ms is not None:
            run_ms = end_ms - start_ms
            if run_ms < 0:
                return BACKWARDS
        nodes = ceil(self._value("nodes", row) or 0)
        cpus = self._of_all("cpus", row, 0, nodes)
        asked = self._of_all("cpus_requested", row, 0, nodes)
        size = ceil(cpus or asked or 0)
        memory_mib = self._of_all(MEMORY, row, size, nodes)
        gpus = self._of_all("gpus", row, size, nodes)
        model = self._said("gpu_model", row, "")
        user, group, queue, partition, site = (
            self._said(name, row, UNKNOWN) for name in ("user", "group", "queue", "partition", "site")
        )
        return LogRecord(
            source_id=self._said("job", row, str(number)),
            never_began=False,
            submit_ms=int(ready_ms),
            run_ms=-1 if run_ms is None else int(run_ms),
            allocated_vms=ceil(cpus) if cpus else -1,
            requested_vms=ceil(asked or cpus) if asked or cpus else -1,
            requested_ms=int(limit_ms) if limit_ms else -1,
            memory_mib=ceil(memory_mib / max(size, 1)) if memory_mib else -1,
            wait_ms=-1 if start_ms is None else max(int(start_ms - ready_ms), 0),
            user=user,
            group=group,
            queue=queue,
            partition=partition,
            site=site,
            nodes=nodes or -1,
            # Alternatives, as V100M16|V100M32, are any model.
            gpu_model="" if not gpus or "|" in model else model,
            gpu_milli=round(gpus * 1000),
        )

    def _value(self, name: str, row: _Row) -> float | None:
        get = self._numbers.get(name)
        found = None if get is None else get(row)
        if found is None and name in self._constants:
            constant = float(self._constants[name])
            return constant * 1000 if name in SPANS else constant
        return found

    def _of_all(self, name: str, row: _Row, cpus: int, nodes: int) -> float:
        """Give an amount of the whole job, 0 where it is not known."""
        found = self._value(name, row) or 0.0
        return found * max({CPU: cpus, NODE: nodes}.get(self._per.get(name, JOB), 1), 1)

    def _said(self, name: str, row: _Row, unknown: str) -> str:
        get = self._texts.get(name)
        said = "" if get is None else _text(get(row))
        said = said or str(self._constants.get(name, ""))
        return said if said not in _NOTHING else unknown

    def _number(self, name: str, column: MappedColumn, gets: list[_Get]) -> Callable[[Any], float | None]:
        unit, zone = column.unit, self._zone
        is_time = name in TIMES
        scale = (_TIME_MS if is_time or name in SPANS else _MEMORY_MIB if name == MEMORY else _COUNTS).get(unit)
        if name == MEMORY and unit == _QUANTITY:
            scale = _MEMORY_MIB["B"]
        where = " * ".join(column.columns)

        def value(row: _Row) -> float | None:
            product = 1.0 if scale is None else scale
            for get in gets:
                found = get(row)
                if isinstance(found, datetime):
                    return _moment(found, zone)
                if isinstance(found, timedelta):
                    return found / timedelta(milliseconds=1)
                one = _read(found, unit, zone, where)
                if one is None:
                    return None
                product *= one
            if product > LARGEST:
                raise ValueError(f"column {where}: got {product:g}, expected at most {LARGEST:g}")
            return product

        return value


def _text(value: object) -> str:
    return "" if value is None else str(value).strip()


def _moment(found: datetime, zone: tzinfo) -> float:
    return (found if found.tzinfo is not None else found.replace(tzinfo=zone)).timestamp() * 1000


def _read(value: object, unit: str, zone: tzinfo, where: str) -> float | None:
    """Read a value as its unit says, None where there is none: numbers as they are, moments and spans in ms."""
    if isinstance(value, list):
        found = [_read(one, unit, zone, where) for one in value]
        numbers = [one for one in found if one is not None]
        return sum(numbers) if numbers else None
    text = _text(value)
    if text in _NOTHING:
        return None
    try:
        if unit == _ISO:
            return _moment(datetime.fromisoformat(text), zone)
        if unit == _SPAN:
            return _span_ms(text)
        if unit == _QUANTITY:
            return _quantity(text)
        number = float(text)
    except (ValueError, OverflowError):
        number = float("nan")
    if not isfinite(number):
        expected = {_ISO: "a time such as 2026-01-31T12:00:00", _SPAN: "a time span such as 1-02:30:00"}
        raise ValueError(f"column {where}: got {text!r}, expected {expected.get(unit, f'a number ({unit})')}")
    return number if number >= 0 else None


_SPAN_FORM = re.compile(r"(?:(\d{1,7})(?:-| days? ?,? ?))?(\d{1,9}):(\d\d)(?::(\d\d(?:\.\d+)?))?", re.ASCII)


def _span_ms(text: str) -> float:
    found = _SPAN_FORM.fullmatch(text)
    if found is None:
        raise ValueError
    days, first, second, third = found.groups()
    parts = (int(first), int(second), float(third)) if third else (0, int(first), float(second))
    return (int(days or 0) * 86_400 + parts[0] * 3600 + parts[1] * 60 + parts[2]) * 1000


_SUFFIXES = {
    "n": 1e-9,
    "u": 1e-6,
    "m": 1e-3,
    "": 1.0,
    "k": 1e3,
    "M": 1e6,
    "G": 1e9,
    "T": 1e12,
    "P": 1e15,
    "Ki": 2.0**10,
    "Mi": 2.0**20,
    "Gi": 2.0**30,
    "Ti": 2.0**40,
    "Pi": 2.0**50,
}


def _quantity(text: str) -> float:
    """Read a quantity as Kubernetes writes it: ``500m``, ``16Gi``; the suffix is applied, memory is in bytes."""
    digits = text.rstrip("numkKMGTPi")
    return float(digits) * _SUFFIXES[text[len(digits) :]] if text[len(digits) :] in _SUFFIXES else float(text)


# Rows of a log: first how a column is found, then each row with its line


def _csv_rows(path: Path, mapping: LogMapping) -> Iterator[tuple[int, Any]]:
    rows = csv.reader(text_lines(path), delimiter=mapping.separator)
    try:
        header = list(mapping.header) or next(rows, [])
        header = [name.strip().lstrip("\ufeff") for name in header]
        yield 1, _finder({name: itemgetter(at) for at, name in enumerate(header)})
        for row in rows:
            if not row:
                continue
            if len(row) != len(header):
                raise InputError(path, rows.line_num, f"found {len(row)} columns, expected {len(header)}")
            yield rows.line_num, row
    except csv.Error as error:
        raise InputError(path, rows.line_num, f"is not valid CSV: {error}") from None


def _finder(getters: Mapping[str, _Get]) -> Callable[[str], _Get]:
    def find(name: str) -> _Get:
        if name not in getters:
            raise ValueError(f"has no column {name}, which the mapping names; it has {', '.join(getters) or 'none'}")
        return getters[name]

    return find


_ROWS_AT_ONCE = 20_000


def _parquet_rows(path: Path, mapping: LogMapping) -> Iterator[tuple[int, Any]]:
    named = [name for column in mapping.columns.values() for name in column.columns]
    wanted = list(dict.fromkeys([*named, *(one.column for one in mapping.filters)]))
    try:
        table = pl.scan_parquet(path)
        there = table.collect_schema().names()
        yield 0, _finder({name: itemgetter(wanted.index(name)) for name in there if name in wanted})
        table, offset = table.select(wanted), 0
        while len(rows := table.slice(offset, _ROWS_AT_ONCE).collect()):
            yield from enumerate(rows.iter_rows(), offset + 1)
            offset += _ROWS_AT_ONCE
    except (OSError, pl.exceptions.PolarsError) as error:
        raise InputError(path, None, f"cannot be read as Parquet: {str(error).splitlines()[0]}") from None


def _json_rows(path: Path, mapping: LogMapping) -> Iterator[tuple[int, Any]]:
    yield 0, _path
    yield from objects_in(path, mapping.items)


_STEP = re.compile(r'\.?(?:"([^"]+)"|([A-Za-z0-9_-]+)|\[(\*|[A-Za-z0-9_]+=[^\]]+)\])')


def _path(text: str) -> _Get:
    """Read a path such as ``status.conditions[type=Finished].lastTransitionTime``.

    ``[*]`` stands for all entries of a list, whose numbers are added up; ``[KEY=VALUE]`` for the last entry that has
    this value; a name with dots is in quotes. What is not there is nothing. Raises ValueError for text that is not a
    path.
    """
    steps, at = list[str | tuple[str, str]](), 0
    while at < len(text):
        found = _STEP.match(text, at)
        if found is None:
            raise ValueError(
                f"column {text}: expected a path such as status.conditions[type=Finished].lastTransitionTime"
            )
        quoted, name, inside = found.groups()
        if inside is None:
            steps.append(quoted or name)
        else:
            key, _, value = inside.partition("=")
            steps.append((key, value))
        at = found.end()

    def get(row: object) -> object:
        return _followed(row, steps)

    return get


def _followed(value: object, steps: Sequence[str | tuple[str, str]]) -> object:
    for place, step in enumerate(steps):
        if isinstance(step, str):
            value = value.get(step) if isinstance(value, Mapping) else None
            continue
        entries = value if isinstance(value, list) else []
        key, wanted = step
        if key == "*":
            return [_followed(entry, steps[place + 1 :]) for entry in entries]
        value = next((e for e in reversed(entries) if isinstance(e, Mapping) and str(e.get(key)) == wanted), None)
    return value
