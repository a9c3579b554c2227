"""Jobs that a log says were cancelled while they waited: asked for again, and cancelled at the time that is logged.

A log in the SWF has a line for such a job, with status 5, the time that it waited and no run time. Readers leave it
out, because it never ran. Here it gets a run time, the one that it asked for, and all else is as the log has it.
"""

from collections.abc import Iterator
from pathlib import Path

from leasehold.simulation.workload.log_record import text_lines
from leasehold.simulation.workload.swf import SWF

_JOB, _WAIT, _RUN, _ASKED, _STATUS = 0, 2, 3, 8, 10
_CANCELLED = "5"


def cancelled_after_ms(path: Path) -> dict[str, int]:
    """Give, for each job that was cancelled while it waited, after how long; by its number in the log."""
    return {fields[_JOB]: round(float(fields[_WAIT]) * 1000) for fields in _cancelled(path)}


def _cancelled(path: Path) -> Iterator[list[str]]:
    for line in text_lines(path):
        fields = line.split()
        if _was_cancelled(fields):
            yield fields


def _was_cancelled(fields: list[str]) -> bool:
    """Whether a line is about a job that never ran, waited and said for how long it would run."""
    if len(fields) != SWF.fewest_fields or fields[_STATUS] != _CANCELLED:
        return False
    try:
        return float(fields[_RUN]) <= 0 <= float(fields[_WAIT]) and float(fields[_ASKED]) > 0
    except ValueError:
        return False  # the reader says what is wrong with it


def log_with_cancelled(path: Path, folder: Path) -> Path:
    """Write the log into a folder with these jobs as ones that ran, line by line; returns the new file."""
    copy = folder / path.name.removesuffix(".gz")
    with copy.open("w", encoding="utf-8", errors="surrogateescape") as file:
        for line in text_lines(path):
            fields = line.split()
            if _was_cancelled(fields):
                fields[_RUN] = fields[_ASKED]
                file.write(f"{' '.join(fields)}\n")
            else:
                file.write(line)
    return copy
