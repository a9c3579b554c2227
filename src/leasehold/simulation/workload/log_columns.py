"""The job lines of a workload log as columns, a block of lines at a time.

Plain lines are read all at once: where each token begins and ends is found for the whole block, and a column of whole
numbers is read by a few operations on all its lines. Every other line (decimals, bytes that are not ASCII, a wrong
number of fields) is read alone by `log_record.careful_record`, so that both ways give the same numbers and errors.
"""

import gzip
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from leasehold.model.errors import InputError
from leasehold.model.tables import LogRecord
from leasehold.simulation.workload.log_record import (
    ID_FIELDS,
    LARGEST,
    UNKNOWN,
    LogFormat,
    ReadingNotes,
    careful_record,
    job_text,
    opened,
    out_of_order,
    text_lines,
)

Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
Texts = npt.NDArray[Any]
"""Numbers where all texts are plain numbers, else Python strings."""

BYTES_PER_BLOCK = 1 << 18
"""How much of a log is read at a time: some 4,500 lines. Larger blocks take more memory and little less time."""

_NUMBERS = ("submit_ms", "run_ms", "allocated_vms", "requested_vms", "requested_ms", "memory_mib", "wait_ms")
_STATUS = 10
_COLUMN_OF = {"user": 11, "group": 12, "queue": 14, "partition": 15}
_LARGEST_S = LARGEST // 1000
_WIDEST_TABLE = 1 << 16
_MARGIN = 16  # bytes before a chunk, so that two words before any token's end lie within
_LONGEST_NUMBER = 15
_WORD = 8

_TAB, _NEWLINE, _SPACE, _MINUS, _ZERO = b"\t\n -0"
_NO_ASCII = 0x80

_u64 = np.uint64
_Words = npt.NDArray[np.uint64]
_ZEROS = _u64(0x3030303030303030)
_BEYOND_NINE = _u64(0x7676767676767676)
_HIGH_BITS = _u64(0x8080808080808080)
_LOW_NIBBLES = _u64(0x0F0F0F0F0F0F0F0F)


class Names:
    """Texts that occur again and again, each kept once: its code is its place in ``texts``.

    ``machines`` are kept the same way: what VMs of jobs need, by the codes of `machine_code`.
    """

    def __init__(self) -> None:
        """Begin without any."""
        self.texts: list[str] = []
        self.machines: list[Machine] = []
        self._codes: dict[str, int] = {}
        self._machine_codes: dict[Machine, int] = {}

    def code(self, text: str) -> int:
        """Give the code of a text."""
        code = self._codes.get(text)
        if code is None:
            code = self._codes[text] = len(self.texts)
            self.texts.append(text)
        return code

    def machine_code(self, machine: "Machine") -> int:
        """Give the code of what a VM needs."""
        code = self._machine_codes.setdefault(machine, len(self.machines))
        if code == len(self.machines):
            self.machines.append(machine)
        return code


class Machine(NamedTuple):
    """What each VM of a job needs on its node."""

    cores: int = 1
    gpu_model: str = ""
    gpu_milli: int = 0


@dataclass(slots=True)
class RecordBlock:
    """Job lines in the order of the log, each as a `LogRecord`; where ``partial``, the numbers mean nothing.

    ``fields`` holds the fields that were asked for, as codes of the `Names` of each. Only tables have the last three
    columns, ``gpu_model`` as texts.
    """

    fields: dict[str, Ints]
    source_id: Texts
    partial: Flags
    never_began: Flags
    submit_ms: Ints
    run_ms: Ints
    allocated_vms: Ints
    requested_vms: Ints
    requested_ms: Ints
    memory_mib: Ints
    wait_ms: Ints
    nodes: Ints | None = None
    gpu_milli: Ints | None = None
    gpu_model: Texts | None = None

    def __len__(self) -> int:
        """Return the number of lines."""
        return len(self.submit_ms)

    def columns(self) -> list[npt.NDArray[Any]]:
        """Return the columns of numbers, in their order above."""
        return [getattr(self, name) for name in ("partial", "never_began", *_NUMBERS)]

    def taken(self, rows: "Ints | Flags | slice") -> "RecordBlock":
        """Return some of the rows, in the order given."""
        fields = {name: codes[rows] for name, codes in self.fields.items()}
        machines = (None if part is None else part[rows] for part in (self.nodes, self.gpu_milli, self.gpu_model))
        return RecordBlock(fields, self.source_id[rows], *[column[rows] for column in self.columns()], *machines)


class RecordBlocks(Protocol):
    """A log, read once; ``names`` has the texts of the fields that were asked for."""

    names: dict[str, Names]

    def blocks(self) -> Iterator[RecordBlock]:
        """Yield the jobs of the log in the order of their submission; raises InputError for what is wrong."""


class LogColumns:
    """One log, read once; ``names`` has the texts of the fields that were asked for."""

    def __init__(
        self, path: Path, log_format: LogFormat, notes: ReadingNotes, fields: Iterable[str] = ID_FIELDS
    ) -> None:
        """Open nothing yet. Of all lines read, only one that is wrong is counted in the notes here."""
        self._path, self._format, self._notes = path, log_format, notes
        self.names = {name: Names() for name in fields}
        self._lines_read = 0
        self._last_ms = 0
        self._error: tuple[int, str] | None = None

    def blocks(self) -> Iterator[RecordBlock]:
        """Yield the jobs of a log; what is wrong is raised as by `log_record.log_records`, after the jobs before."""
        is_empty = True
        for chunk in self._chunks():
            block = self._block(chunk)
            if len(block):
                is_empty = False
                yield block
            if self._error is not None:
                self._notes.read += 1
                line, problem = self._error
                raise InputError(self._path, self._lines_read + line + 1, problem)
            self._lines_read += chunk.count(b"\n")
        if is_empty:
            raise InputError(self._path, None, f"holds no job, expected a workload log in {self._format.name}")

    def _chunks(self) -> Iterator[bytes]:
        """Yield whole lines; of a damaged file those that `text_lines` can read, and then its error."""
        try:
            with opened(self._path) as file:
                yield from _whole_lines(file)
        except (EOFError, zlib.error, gzip.BadGzipFile):
            yield from self._chunks_before_damage()
        except OSError as error:
            raise InputError(self._path, None, f"cannot be read: {error.strerror}") from error

    def _chunks_before_damage(self) -> Iterator[bytes]:
        unread, damage = list[str](), None
        try:
            unread.extend(islice(text_lines(self._path), self._lines_read, None))
        except InputError as error:
            damage = error
        if unread:
            yield "".join((*unread, "\n")).encode(errors="surrogateescape")
        if damage is not None:
            raise damage

    def _block(self, chunk: bytes) -> RecordBlock:
        """Read whole lines, up to the first that is wrong; what is wrong with it waits in ``_error``."""
        tokens = _Tokens(chunk, self._format)
        lines, block = self._plain(tokens)
        if tokens.doubtful.any():
            careful_lines, careful = self._careful(tokens)
            lines = np.concatenate((lines, careful_lines))
            rows = np.argsort(lines, kind="stable")
            if self._error is not None:
                rows = rows[: np.searchsorted(lines[rows], self._error[0])]
            lines, block = lines[rows], _joined(block, careful).taken(rows)
        return self._in_order(lines, block)

    def _in_order(self, lines: Ints, block: RecordBlock) -> RecordBlock:
        """Return the block, cut off before the first job that was submitted before the one above it."""
        whole = np.flatnonzero(~block.partial)
        submits_ms = np.concatenate(([self._last_ms], block.submit_ms[whole]))
        wrong = np.flatnonzero(submits_ms[1:] < submits_ms[:-1])
        if len(wrong):
            at = int(wrong[0])
            last_ms, submit_ms = int(submits_ms[at]), int(submits_ms[at + 1])
            self._error = int(lines[whole[at]]), out_of_order(last_ms, submit_ms, self._format)
            return block.taken(slice(0, int(whole[at])))
        self._last_ms = int(submits_ms[-1])
        return block

    def _plain(self, tokens: "_Tokens") -> tuple[Ints, RecordBlock]:
        """Read all lines that have nothing special, and mark those that turn out to have."""
        lines = np.flatnonzero(tokens.plain)
        first = tokens.first[lines]
        partial = tokens.is_one_of(first + _STATUS, self._format.partial)
        submit, is_submit = tokens.numbers(first + 1, 0, _LARGEST_S)
        run, is_run = tokens.numbers(first + 3, -LARGEST, _LARGEST_S)
        allocated, is_allocated = tokens.numbers(first + 4, -LARGEST, LARGEST)
        requested, is_requested = tokens.numbers(first + 7, -LARGEST, LARGEST)
        time, is_time = tokens.numbers(first + 8, -LARGEST, _LARGEST_S)
        memory, is_memory = tokens.numbers(first + 9, -LARGEST, _LARGEST_S)
        never_began = tokens.is_one_of(first + _STATUS, self._format.cancelled) & (run <= 0)
        wait_ms, is_wait = np.full(len(lines), -1), np.ones(len(lines), np.bool_)
        if never_began.any():
            wait, is_wait[never_began] = tokens.numbers(first[never_began] + 2, -LARGEST, _LARGEST_S)
            wait_ms[never_began] = wait * 1000
        good = partial | (is_wait & is_submit & is_run & is_allocated & is_requested & is_time & is_memory)
        memory_mib = np.where(memory > 0, -(-memory // 1024), -1)
        columns = [partial, never_began, submit * 1000, run * 1000, allocated, requested, time * 1000, memory_mib]
        columns.append(wait_ms)
        if not good.all():
            tokens.doubtful[lines[~good]] = True
            lines, first = lines[good], first[good]
            columns = [column[good] for column in columns]
        fields = {name: self._codes(tokens, first, name) for name in self.names}
        return lines, RecordBlock(fields, tokens.texts(first), *columns)

    def _codes(self, tokens: "_Tokens", first: Ints, name: str) -> Ints:
        column = self._format.site_column if name == "site" else _COLUMN_OF[name]
        if column is None:
            return np.full(len(first), self.names[name].code(UNKNOWN))
        return tokens.codes(first + column, self.names[name])

    def _careful(self, tokens: "_Tokens") -> tuple[Ints, RecordBlock]:
        """Read the doubtful lines one by one, up to the first that is wrong."""
        lines, records = list[int](), list[LogRecord]()
        for line in np.flatnonzero(tokens.doubtful).tolist():
            text = job_text(tokens.line(line), self._format)
            if not text:
                continue
            try:
                record = careful_record(text, self._format)
            except ValueError as error:
                self._error = line, str(error)
                break
            lines.append(line)
            records.append(_NO_RECORD if record is None else record)
        return np.array(lines, np.int64), self._block_of(records)

    def _block_of(self, records: list[LogRecord]) -> RecordBlock:
        def numbers(name: str) -> Ints:
            return np.array([max(getattr(record, name), -LARGEST) for record in records], np.int64)

        fields = {
            name: np.array([names.code(getattr(record, name)) for record in records], np.int64)
            for name, names in self.names.items()
        }
        partial = np.array([record is _NO_RECORD for record in records], np.bool_)
        never_began = np.array([record.never_began for record in records], np.bool_)
        source_id = np.array([record.source_id for record in records], np.object_)
        return RecordBlock(fields, source_id, partial, never_began, *map(numbers, _NUMBERS))


_NO_RECORD = LogRecord("", False, 0, 0, 0, 0, 0, 0, 0, "", "", "", "", "")  # noqa: FBT003 - a row


def _joined(one: RecordBlock, other: RecordBlock) -> RecordBlock:
    texts = [as_texts(block.source_id) for block in (one, other)] if len(other) else [one.source_id]
    columns = [np.concatenate(pair) for pair in zip(one.columns(), other.columns(), strict=True)]
    fields = {name: np.concatenate((codes, other.fields[name])) for name, codes in one.fields.items()}
    return RecordBlock(fields, np.concatenate(texts), *columns)


def as_texts(texts: Texts) -> Texts:
    """Return the texts as Python strings, numbers or not."""
    return texts if texts.dtype == np.object_ else np.array([*map(str, texts.tolist())], np.object_)


def _whole_lines(file: BinaryIO) -> Iterator[bytes]:
    """Yield the file in pieces of whole lines, each line ending in a newline and nothing else."""
    pieces = list[bytes]()
    while piece := file.read(BYTES_PER_BLOCK):
        end = piece.rfind(b"\n") + 1
        if end:
            yield _with_newlines(b"".join((*pieces, piece[:end])))
            pieces.clear()
        pieces.append(piece[end:])
    if rest := b"".join(pieces):
        yield _with_newlines(rest + b"\n")


def _with_newlines(chunk: bytes) -> bytes:
    return chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n") if b"\r" in chunk else chunk


class _Tokens:
    """Where the tokens of a chunk of whole lines begin and end.

    ``plain``     lines with the tokens of a job and nothing special
    ``doubtful``  lines that have to be looked at carefully: no job, perhaps
    ``first``     the first token of each line
    """

    def __init__(self, chunk: bytes, log_format: LogFormat) -> None:
        by_tab = log_format.has_tabs and b"\t" in chunk
        self._bytes = np.frombuffer(b"\t" * _MARGIN + chunk, np.uint8)
        data = self._bytes
        # Eight bytes from each place on, as one number; places are not aligned.
        self._words = np.ndarray((len(data) - 7,), np.dtype("<u8"), data, 0, (1,))
        between = (data == _TAB) | (data == _NEWLINE) if by_tab else data <= _SPACE
        edges = np.flatnonzero(between[1:] != between[:-1]) + 1
        self._starts, self._ends = edges[0::2], edges[1::2]
        self._newlines = np.flatnonzero(data == _NEWLINE)
        upto = np.searchsorted(self._starts, self._newlines)
        self.first = np.concatenate(([0], upto[:-1]))
        count = upto - self.first
        odd = self._lines_with((data >= _NO_ASCII) | ((data < _SPACE) & (data != _NEWLINE) & (data != _TAB)))
        if by_tab:
            odd |= self._not_by_single_tabs(count)
        is_job = count > 0
        is_job[is_job] = data[self._starts[self.first[is_job]]] != ord(log_format.comment)
        self.plain = is_job & ~odd & (count >= log_format.fewest_fields) & (count <= log_format.most_fields)
        self.doubtful = odd | (is_job & ~self.plain)

    def _lines_with(self, bytes_found: Flags) -> Flags:
        found = np.zeros(len(self._newlines), np.bool_)
        if bytes_found.any():
            found[np.searchsorted(self._newlines, np.flatnonzero(bytes_found))] = True
        return found

    def _not_by_single_tabs(self, count: Ints) -> Flags:
        """Find lines in which tokens are not just what is between two tabs."""
        data = self._bytes
        tabs = np.searchsorted(np.flatnonzero(data[_MARGIN:] == _TAB) + _MARGIN, self._newlines)
        tabs[1:] -= tabs[:-1].copy()
        padded = (data[self._starts] == _SPACE) | (data[self._ends - 1] == _SPACE)
        odd: Flags = (count > 0) & (tabs != count - 1)
        odd[np.searchsorted(self._newlines, self._starts[padded])] = True
        return odd

    def line(self, line: int) -> str:
        """Return the text of one line."""
        start = self._newlines[line - 1] + 1 if line else _MARGIN
        return bytes(self._bytes[start : self._newlines[line]]).decode(errors="surrogateescape")

    def is_one_of(self, tokens: Ints, texts: Iterable[str]) -> Flags:
        """Say which of the tokens are one of these single characters."""
        codes = [ord(text) for text in texts]
        starts = self._starts[tokens]
        found: Flags = (self._ends[tokens] - starts == 1) & np.isin(self._bytes[starts], codes)
        return found

    def numbers(self, tokens: Ints, least: int, most: int) -> tuple[Ints, Flags]:
        """Read tokens as whole numbers; also say which are plainly written numbers within the bounds."""
        values, is_number, _ = self._whole(tokens)
        return values, is_number & (values >= least) & (values <= most)

    def _whole(self, tokens: Ints) -> tuple[Ints, Flags, Flags]:
        """Read tokens as whole numbers: the values, which are numbers, and which are written as ``str`` writes them."""
        starts, ends = self._starts[tokens], self._ends[tokens]
        first = self._bytes[starts]
        is_negative = first == _MINUS
        digits = ends - starts - is_negative
        values, are_digits = _eight_digits(self._words[ends - _WORD], digits)
        if (digits > _WORD).any():
            above, are_above = _eight_digits(self._words[ends - 2 * _WORD], digits - _WORD)
            values += above * 100_000_000
            are_digits &= are_above
        is_number = are_digits & (digits >= 1) & (digits <= _LONGEST_NUMBER)
        leads_with_zero = self._bytes[ends - np.maximum(digits, 1)] == _ZERO
        is_usual = is_number & ~(leads_with_zero & ((digits > 1) | is_negative))
        return np.where(is_negative, -values, values), is_number, is_usual

    def texts(self, tokens: Ints) -> Texts:
        """Return the tokens as they are; as numbers if all are written as numbers are."""
        values, _, is_usual = self._whole(tokens)
        if is_usual.all():
            return values
        return np.array(self._strings(tokens), np.object_)

    def codes(self, tokens: Ints, names: Names) -> Ints:
        """Return the codes of the tokens."""
        values, _, is_usual = self._whole(tokens)
        least = int(values.min()) if values.size else 0
        if is_usual.all() and values.size and int(values.max()) - least < _WIDEST_TABLE:
            values -= least
            counts = np.bincount(values)
            table = np.zeros(len(counts), np.int64)
            for place in np.flatnonzero(counts).tolist():
                table[place] = names.code(str(place + least))
            return table[values]
        return np.array([*map(names.code, self._strings(tokens))], np.int64)

    def _strings(self, tokens: Ints) -> list[str]:
        data = bytes(self._bytes)
        bounds = zip(self._starts[tokens].tolist(), self._ends[tokens].tolist(), strict=True)
        return [data[start:end].decode() for start, end in bounds]


def _eight_digits(words: _Words, digits: Ints) -> tuple[Ints, Flags]:
    """Read the last eight characters of tokens, of which so many are digits; also say where they are digits."""
    drop = ((8 - np.clip(digits, 0, 8)) * 8).astype(np.uint64)
    nibbles = ((words ^ _ZEROS) >> drop) << drop
    are_digits = ((nibbles + _BEYOND_NINE) | nibbles) & _HIGH_BITS == 0
    # Neighbours are put together: digits to numbers below 100, these to numbers below 10,000, and once more.
    pairs = ((nibbles & _LOW_NIBBLES) * _u64(10 * 2**8 + 1)) >> _u64(8)
    fours = ((pairs & _u64(0x00FF00FF00FF00FF)) * _u64(100 * 2**16 + 1)) >> _u64(16)
    eights = ((fours & _u64(0x0000FFFF0000FFFF)) * _u64(10_000 * 2**32 + 1)) >> _u64(32)
    return eights.astype(np.int64), are_digits
