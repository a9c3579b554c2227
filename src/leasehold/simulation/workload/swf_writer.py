"""Jobs written as SWF 2.2, so that existing tools open them."""

import gzip
import io
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple, TextIO

from leasehold.simulation.workload.job import Job
from leasehold.simulation.workload.swf import SwfHeader


class SwfRow(NamedTuple):
    """The 18 fields of a line in their order: milliseconds for the times, -1 for what is not known."""

    job: int
    submit_ms: int
    wait_ms: int = -1
    run_ms: int = -1
    allocated: int = -1
    cpu_ms: int = -1
    used_memory_kib: int = -1
    requested: int = -1
    requested_ms: int = -1
    requested_memory_kib: int = -1
    status: int = -1
    user: int = -1
    group: int = -1
    executable: int = -1
    queue: int = -1
    partition: int = -1
    preceding_job: int = -1
    think_ms: int = -1

    def line(self) -> str:
        """Return the line, times in seconds with as many decimals as they need."""
        return " ".join(
            _seconds(value) if name.endswith("_ms") else str(value)
            for name, value in zip(self._fields, self, strict=True)
        )


def swf_rows(jobs: Iterable[Job]) -> Iterator[SwfRow]:
    """Yield a row for each job, as asked for and not yet run.

    Jobs are numbered from 1 in their order; consumers and home clusters as users and partitions from 1 in the
    order in which they occur, external jobs being partition 0.
    """
    users: dict[str, int] = {}
    partitions: dict[str | None, int] = {None: 0}
    for number, job in enumerate(jobs, 1):
        yield SwfRow(
            number,
            job.submit_ms,
            run_ms=job.actual_ms,
            requested=job.vms,
            requested_ms=job.requested_ms,
            requested_memory_kib=job.memory_mib * 1024,
            user=users.setdefault(job.consumer, len(users) + 1),
            partition=partitions.setdefault(job.site, len(partitions)),
        )


def write_swf(path: Path, header: SwfHeader, rows: Iterable[SwfRow]) -> None:
    """Write a log, packed if its name ends in ``.gz``; it appears when it is whole, or not at all.

    Equal contents make equal files, packed ones too.
    """
    unfinished = path.with_name(path.name + ".part")
    try:
        with _created(unfinished, packed=path.suffix == ".gz") as file:
            file.writelines(f"{line}\n" for line in header.lines)
            file.writelines(f"{row.line()}\n" for row in rows)
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)


@contextmanager
def _created(path: Path, *, packed: bool) -> Iterator[TextIO]:
    with path.open("wb") as file:
        if not packed:
            with io.TextIOWrapper(file, encoding="utf-8", errors="surrogateescape") as text:
                yield text
            return
        with (
            gzip.GzipFile("", "wb", fileobj=file, mtime=0) as archive,
            io.TextIOWrapper(archive, encoding="utf-8", errors="surrogateescape") as text,
        ):
            yield text


def _seconds(milliseconds: int) -> str:
    if milliseconds < 0:
        return "-1"
    whole, rest = divmod(milliseconds, 1000)
    return f"{whole}.{rest:03d}".rstrip("0") if rest else str(whole)
