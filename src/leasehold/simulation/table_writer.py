"""Writes a table of a run folder once, while its rows come: as Parquet, one row group after the other.

Memory does not grow with the table: rows, or whole blocks of columns, become pages, pages wait encoded until they are a
row group, and of a row group only its directory is kept. A file gets its own name when it is whole; a run that was
killed leaves ``.part`` files, in which no reader finds a table.

Of the format only what these tables need is written: integers as the differences between neighbours, in as many bytes
as the largest needs; names as codes of a dictionary; other texts one after the other; nothing is compressed further.
That takes a fifth of the time of a general library, and about as much room as one that compresses quickly.

https://parquet.apache.org/docs/file-format/
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from struct import pack
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from leasehold.model.tables import COLUMNS, TableColumn

ROWS_PER_PAGE = 5_000
"""As many rows wait in memory before they are encoded."""

ROWS_PER_GROUP = 60_000
"""As many rows, at least, are a row group: each has its own directory, which every reader has to hold."""

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

    Rows wait in one flat list, column after column of each row, until there are enough for a page of each column.
    """

    def __init__(self, folder: Path, name: str) -> None:
        """Begin an empty table below ``folder``."""
        self._columns = COLUMNS[name]
        self._chunks = [_ColumnChunk(column) for column in self._columns]
        self._target = folder / f"{name}.parquet"
        self._draft = folder / f"{name}.parquet.part"
        self._cells: list[object] = []
        self._limit = ROWS_PER_PAGE * len(self._columns)
        self._rows = self._rows_in_group = 0
        self._groups: list[bytes] = []
        self._written = self._draft.write_bytes(_MAGIC)

    def add(self, row: tuple[object, ...]) -> None:
        """Append one row: its values in the order of the table's columns."""
        self._cells += row
        if len(self._cells) >= self._limit:
            self._flush()

    def extend(self, count: int, columns: Mapping[str, Values]) -> None:
        """Append ``count`` rows as columns; those not given are null."""
        if not count:
            return
        self._flush()
        for column, chunk in zip(self._columns, self._chunks, strict=True):
            values, is_there = columns.get(column.name), None
            if column.may_be_null:
                values, is_there = _without_negatives(values)
            chunk.add(count, values, is_there)
        self._count(count)

    def close(self) -> None:
        """Write what waits, and the directory that makes the file whole."""
        self._flush()
        self._end_group()
        root = _struct({4: _text("schema"), 5: _i32(len(self._chunks))})
        footer = _struct(
            {
                1: _i32(1),
                2: _list(_STRUCT, [root, *(chunk.schema() for chunk in self._chunks)]),
                3: _i64(self._rows),
                4: _list(_STRUCT, self._groups),
                6: _text("leasehold"),
                7: _list(_STRUCT, [_struct({1: (_STRUCT, _struct({}))})] * len(self._chunks)),  # ordered as usual
            }
        )
        self._append([footer, pack("<I", len(footer)), _MAGIC])
        self._draft.replace(self._target)

    def _flush(self) -> None:
        """Turn the rows that wait into a page of each column."""
        if not self._cells:
            return
        cells, width = self._cells, len(self._columns)
        self._cells = []
        count = len(cells) // width
        for place, chunk in enumerate(self._chunks):
            chunk.add(count, *_without_nones(cells[place::width]))
        self._count(count)

    def _count(self, rows: int) -> None:
        self._rows += rows
        self._rows_in_group += rows
        if self._rows_in_group >= ROWS_PER_GROUP:
            self._end_group()

    def _end_group(self) -> None:
        """Write the row group whose pages wait."""
        if not self._rows_in_group:
            return
        directory, began = [], self._written
        for chunk in self._chunks:
            pages, entry = chunk.taken(self._written)
            directory.append(entry)
            self._append(pages)
        size, rows = self._written - began, self._rows_in_group
        self._groups.append(_struct({1: _list(_STRUCT, directory), 2: _i64(size), 3: _i64(rows)}))
        self._rows_in_group = 0

    def _append(self, pieces: Sequence[bytes]) -> None:
        with self._draft.open("ab") as file:
            file.writelines(pieces)
        self._written += sum(map(len, pieces))


def _without_negatives(values: Values) -> tuple[Values, Flags | None]:
    """Return the values that are there, and which rows have one; None for all."""
    if values is None or isinstance(values, int | str):
        return values, None
    found = np.asarray(values.codes if isinstance(values, Coded) else values)
    if found.dtype.kind != "i" or (is_there := found >= 0).all():
        return values, None
    there = found[is_there]
    return (Coded(there, values.names) if isinstance(values, Coded) else there) if len(there) else None, is_there


def _without_nones(values: list[Any]) -> tuple[list[Any] | None, Flags | None]:
    """Return the values that are there, and which rows have one; None for all."""
    if None not in values:
        return values, None
    there = [value for value in values if value is not None]
    return there or None, np.fromiter((value is not None for value in values), np.bool_, len(values))


class _ColumnChunk:
    """The pages of one column in the row group that is being collected."""

    def __init__(self, column: TableColumn) -> None:
        self._name = _text(column.name)
        self._encoded = {"i64": self._numbers, "bool": self._flags, "str": self._texts}[column.kind]
        self._physical_type = {"i64": _INT64, "bool": _BOOLEAN, "str": _BYTE_ARRAY}[column.kind]
        self._logical_type = {6: _i32(_UTF8), 10: (_STRUCT, _struct({1: (_STRUCT, _struct({}))}))}
        self._begin()

    def _begin(self) -> None:
        self._pages: list[bytes] = []
        self._rows = self._nulls = 0
        self._extremes: list[int] = []
        self._codes: dict[str, int] = {}

    def schema(self) -> bytes:
        """Describe the column: its values may be null."""
        described = {1: _i32(self._physical_type), 3: _i32(_OPTIONAL), 4: self._name}
        return _struct(described | (self._logical_type if self._physical_type == _BYTE_ARRAY else {}))

    def add(self, count: int, values: Values, is_there: Flags | None) -> None:
        """Append a page of so many rows: the values that are there, None for none, and which rows have one."""
        present = 0 if values is None else count if is_there is None else int(np.count_nonzero(is_there))
        encoding, body = self._encoded(present, values) if present else (_PLAIN, b"")
        page = _levels(is_there, count, present) + body
        about = _struct({1: _i32(count), 2: _i32(encoding), 3: _i32(_RLE), 4: _i32(_RLE)})
        self._pages += [_page_header(_DATA_PAGE, len(page), {5: (_STRUCT, about)}), page]
        self._rows += count
        self._nulls += count - present

    def _numbers(self, count: int, values: Values) -> tuple[int, bytes]:
        numbers = np.full(count, values) if isinstance(values, int) else np.asarray(values, np.int64)
        self._extremes += int(numbers.min()), int(numbers.max())
        return _DELTA_BINARY_PACKED, _deltas(numbers)

    def _flags(self, count: int, values: Values) -> tuple[int, bytes]:
        flags = np.full(count, values) if isinstance(values, bool) else np.asarray(values, np.bool_)
        return _PLAIN, np.packbits(flags, bitorder="little").tobytes()

    def _texts(self, count: int, values: Values) -> tuple[int, bytes]:
        if isinstance(values, str):
            values = Coded(np.zeros(count, np.int64), [values])
        if isinstance(values, Coded):
            given, names = np.asarray(values.codes), values.names
            used = np.flatnonzero(np.bincount(given))
            if len(self._codes) + len(used) <= _MOST_NAMES:
                code_of = np.zeros(len(names), np.int64)
                code_of[used] = [self._code(names[code]) for code in used.tolist()]
                return _RLE_DICTIONARY, _small(code_of[given])
            values = [names[code] for code in given.tolist()]
        if isinstance(values, np.ndarray):
            texts, distinct = [*map(str, values.tolist())], count
        else:
            texts, distinct = [*map(str, values)], len(set(values))  # type: ignore[arg-type]
        if 2 * distinct <= count and len(self._codes) + distinct <= _MOST_NAMES:
            return _RLE_DICTIONARY, _small(np.array([*map(self._code, texts)], np.int64))
        joined = "".join(texts)
        sizes = map(len, texts) if joined.isascii() else (len(text.encode()) for text in texts)
        return _DELTA_LENGTH_BYTE_ARRAY, _deltas(np.fromiter(sizes, np.int64, count)) + joined.encode()

    def _code(self, name: str) -> int:
        return self._codes.setdefault(name, len(self._codes))

    def taken(self, at: int) -> tuple[list[bytes], bytes]:
        """Return all pages, and the entry of a directory for them where they begin at ``at``; another group begins."""
        dictionary: list[bytes] = []
        if self._codes:
            words = [name.encode() for name in self._codes]
            page = b"".join(pack("<I", len(word)) + word for word in words)
            about = _struct({1: _i32(len(words)), 2: _i32(_PLAIN)})
            dictionary = [_page_header(_DICTIONARY_PAGE, len(page), {7: (_STRUCT, about)}), page]
        pages = dictionary + self._pages
        size = _i64(sum(map(len, pages)))
        statistics = {3: _i64(self._nulls)}
        if self._extremes:
            most, least = (_bytes(pack("<q", value)) for value in (max(self._extremes), min(self._extremes)))
            statistics |= {5: most, 6: least}
        entry = {
            1: _i32(self._physical_type),
            2: _list(_I32, [_varint(2 * encoding) for encoding in _ENCODINGS]),
            3: _list(_BINARY, [self._name[1]]),
            4: _i32(_UNCOMPRESSED),
            5: _i64(self._rows),
            6: size,
            7: size,
            9: _i64(at + sum(map(len, dictionary))),
        }
        if dictionary:
            entry[11] = _i64(at)
        entry[12] = _STRUCT, _struct(statistics)
        self._begin()
        return pages, _struct({2: _i64(at), 3: (_STRUCT, _struct(entry))})


# How the values of a page are encoded: https://parquet.apache.org/docs/file-format/data-pages/encodings/

_BOOLEAN, _INT64, _BYTE_ARRAY = 0, 2, 6
_PLAIN, _RLE, _DELTA_BINARY_PACKED, _DELTA_LENGTH_BYTE_ARRAY, _RLE_DICTIONARY = 0, 3, 5, 6, 8
_ENCODINGS = _PLAIN, _RLE, _DELTA_BINARY_PACKED, _DELTA_LENGTH_BYTE_ARRAY, _RLE_DICTIONARY
_MOST_NAMES = 1 << 16
"""A dictionary has no more names, so that codes fit into 16 bits; other texts are written as they are."""
_DELTAS_PER_BLOCK = 128


def _levels(is_there: Flags | None, count: int, present: int) -> bytes:
    """Say of each row whether it has a value."""
    body = _run(count, int(present > 0), 1) if is_there is None or present in {0, count} else _packed(is_there, 1)
    return pack("<I", len(body)) + body


def _small(codes: Ints) -> bytes:
    """Encode codes in as few bits as all of them need: 1, 2, 4, 8 or 16; as one run where all are alike."""
    least, most = int(codes.min()), int(codes.max())
    bits = next(bits for bits in (1, 2, 4, 8, 16) if most < 1 << bits)
    return bytes([bits]) + (_run(len(codes), most, bits) if least == most else _packed(codes, bits))


def _run(count: int, value: int, bits: int) -> bytes:
    return _varint(2 * count) + value.to_bytes((bits + 7) // 8, "little")


def _packed(values: Ints | Flags, bits: int) -> bytes:
    groups = -(-len(values) // 8)
    padded = np.zeros(8 * groups, "<u2" if bits > 8 else np.uint8)  # noqa: PLR2004 - a byte
    padded[: len(values)] = values
    if bits < 8:  # noqa: PLR2004
        several = padded.reshape(-1, 8 // bits) << np.arange(0, 8, bits, dtype=np.uint8)
        padded = np.bitwise_or.reduce(several, axis=1)
    return _varint(2 * groups + 1) + padded.tobytes()


def _deltas(values: Ints) -> bytes:
    """Encode numbers as the differences between neighbours, less the least of these, in whole bytes."""
    head = b"".join(map(_varint, (_DELTAS_PER_BLOCK, 1, len(values), _zigzag(int(values[0])))))
    if len(values) == 1:
        return head
    steps = values[1:] - values[:-1]  # wraps where that is too much for 64 bits, as the format wants it
    least = steps.min()
    above = (steps - least).view(np.uint64)
    width = (int(above.max()).bit_length() + 7) // 8
    before = np.frombuffer(_varint(_zigzag(int(least))) + bytes([8 * width]), np.uint8)
    blocks = -(-len(above) // _DELTAS_PER_BLOCK)
    padded = np.zeros(blocks * _DELTAS_PER_BLOCK, "<u8")
    padded[: len(above)] = above
    body = np.empty((blocks, len(before) + width * _DELTAS_PER_BLOCK), np.uint8)
    body[:, : len(before)] = before
    of_each = body[:, len(before) :].reshape(blocks, _DELTAS_PER_BLOCK, width)
    of_each[:] = padded.view(np.uint8).reshape(blocks, _DELTAS_PER_BLOCK, 8)[:, :, :width]
    return head + body.tobytes()


# The directories of a file, in Thrift's compact protocol: https://parquet.apache.org/docs/file-format/metadata/

_MAGIC = b"PAR1"
_I32, _I64, _BINARY, _LIST, _STRUCT = 5, 6, 8, 9, 12
_UTF8, _OPTIONAL, _UNCOMPRESSED = 0, 1, 0
_DATA_PAGE, _DICTIONARY_PAGE = 0, 2
_LONG_LIST = 15

_Field = tuple[int, bytes]
"""The type of a field, and what it says."""


def _varint(value: int) -> bytes:
    found = bytearray()
    while value > 0x7F:  # noqa: PLR2004 - seven bits in each byte
        found.append(value & 0x7F | 0x80)
        value >>= 7
    found.append(value)
    return bytes(found)


def _zigzag(value: int) -> int:
    return 2 * value if value >= 0 else -2 * value - 1


def _i32(value: int) -> _Field:
    return _I32, _varint(_zigzag(value))


def _i64(value: int) -> _Field:
    return _I64, _varint(_zigzag(value))


def _bytes(value: bytes) -> _Field:
    return _BINARY, _varint(len(value)) + value


def _text(value: str) -> _Field:
    return _bytes(value.encode())


def _list(kind: int, values: Sequence[bytes]) -> _Field:
    size = bytes([len(values) << 4 | kind]) if len(values) < _LONG_LIST else bytes([0xF0 | kind]) + _varint(len(values))
    return _LIST, size + b"".join(values)


def _struct(fields: Mapping[int, _Field]) -> bytes:
    """Put fields together, which come in the order of their numbers."""
    found, last = bytearray(), 0
    for number, (kind, value) in fields.items():
        found.append((number - last) << 4 | kind)
        found += value
        last = number
    return bytes(found) + b"\0"


def _page_header(kind: int, size: int, about: Mapping[int, _Field]) -> bytes:
    return _struct({1: _i32(kind), 2: _i32(size), 3: _i32(size), **about})
