"""The Standard Workload Format 2.2 of the Parallel Workloads Archive: its header and its jobs.

https://www.cs.huji.ac.il/labs/parallel/workload/swf.html
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from leasehold.model.errors import InvalidField
from leasehold.model.tables import LogRecord
from leasehold.simulation.workload.log_record import LogFormat, ReadingNotes, log_records, text_lines

SWF = LogFormat(
    name="the Standard Workload Format (SWF)",
    comment=";",
    fields_of=str.split,
    fewest_fields=18,
    most_fields=18,
    partial=frozenset({"2", "3", "4"}),
    cancelled=frozenset({"5"}),
)


@dataclass(frozen=True, slots=True)
class SwfHeader:
    """The comment lines at the head of a log, all of them, exactly as they are, with or without a meaning."""

    lines: tuple[str, ...] = ()

    def values(self) -> dict[str, list[str]]:
        """Return the text of each label, in order; a line without a label continues the one above."""
        found: dict[str, list[str]] = {}
        last: list[str] = []
        for line in self.lines:
            text = line.strip().lstrip(SWF.comment).strip()
            label, colon, value = text.partition(":")
            if colon and len(label.split()) == 1 and value[:1].strip() == "":
                last = found.setdefault(label, [])
                last.append(value.strip())
            elif text and last:
                last[-1] = f"{last[-1]} {text}".strip()
        return found

    def names(self, label: str) -> dict[str, str]:
        """Return the names that lines such as ``Partition: 3 lxplus`` give to numbers, by number."""
        pairs = (value.split(maxsplit=1) for value in self.values().get(label, []))
        return {pair[0]: pair[1] for pair in pairs if len(pair) > 1}

    def max_procs(self) -> int | None:
        """Return the number of processors (MaxProcs, or else MaxNodes); None if the header does not say.

        Raises InvalidField if its value is not a number.
        """
        values = self.values()
        for label in ("MaxProcs", "MaxNodes"):
            for text in values.get(label, []):
                count = _first_number(label, text)
                if count > 0:
                    return count
        return None


def swf_header(path: Path) -> SwfHeader:
    """Return the header of a log: its comment lines before the first job.

    Raises InputError for a file that cannot be read.
    """
    lines = []
    for line in text_lines(path):
        text = line.strip()
        if text and text[0] != SWF.comment:
            break
        lines.append(line.rstrip("\r\n"))
    return SwfHeader(tuple(lines))


def swf_records(path: Path, notes: ReadingNotes) -> Iterator[LogRecord]:
    """Yield the jobs of an SWF log, plain or gzip.

    Raises InputError, with file and line, for text that is not SWF.
    """
    return log_records(path, SWF, notes)


def _first_number(label: str, text: str) -> int:
    try:
        return int(text.split(maxsplit=1)[0])
    except (IndexError, ValueError):
        raise InvalidField(label, text, "a number of processors in the header of the log") from None
