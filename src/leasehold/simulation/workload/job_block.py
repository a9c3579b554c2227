"""Jobs as columns: a block of the jobs of one stream, or of several that were merged, in the order of submission."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields, replace
from itertools import islice, repeat
from typing import Any

import numpy as np
import numpy.typing as npt

from leasehold.model.request import LeaseType
from leasehold.simulation.workload.job import WorkloadJob
from leasehold.simulation.workload.log_columns import Flags, Ints, Machine, Names, Texts, as_texts
from leasehold.simulation.workload.log_record import ReadingNotes
from leasehold.simulation.workload.together import StreamCoAllocations

NO_SITE = -1
NO_DEADLINE = -1
AS_STREAM = -1
_TYPES = tuple(LeaseType)


@dataclass(frozen=True, slots=True)
class OfStream:
    """What all jobs of a stream have in common, as in a `WorkloadJob`."""

    source: str
    domain: str = ""
    claims: tuple[tuple[str, int], ...] = ()
    together: StreamCoAllocations | None = None
    cores: int = 1
    gpu_model: str = ""
    gpu_milli: int = 0
    image: str = ""


@dataclass(slots=True)
class LinesRead:
    """What is to be noted about the lines that a block of jobs was read from, once its jobs are taken.

    ``findings`` has what was found about each line, as bits; ``phrases`` say of each bit, in the order in which it is
    looked for, whether the line is left out, and how that is told.
    """

    notes: ReadingNotes
    findings: npt.NDArray[np.uint16]
    phrases: tuple[tuple[bool, str], ...]
    noted: int = 0

    def note(self, lines: int) -> None:
        """Note the lines up to here, those that were noted before excepted."""
        found = self.findings[self.noted : lines]
        if not len(found):
            return
        self.noted = lines
        self.notes.read += len(found)
        counts = np.bincount(found)
        kinds = np.flatnonzero(counts)
        firsts = []
        for bit, (is_left_out, phrase) in enumerate(self.phrases):
            count = int(counts[kinds[(kinds >> bit) & 1 == 1]].sum())
            if count:
                first = int(np.argmax((found >> bit) & 1))
                firsts.append((first, bit, count, self.notes.skipped if is_left_out else self.notes.assumed, phrase))
        # Phrases found equally often are told in the order in which they were first found.
        for _, _, count, counted, phrase in sorted(firsts, key=lambda one: one[:2]):
            counted[phrase] += count


@dataclass(slots=True)
class JobBlock:
    """Jobs by submission, as columns of numbers; each is ready when it is submitted.

    ``deadline_ms``     `NO_DEADLINE` for none
    ``lease_type``      the number of the `LeaseType`
    ``site``            the home cluster, as a code of ``names``; `NO_SITE` for requests from outside
    ``consumer``        as a code of ``names``
    ``is_coallocation`` whether it is split as its stream says
    ``stream``          which of ``streams`` the job is of
    ``number``          as `combine.numbered` would number it; 0 before it was numbered
    ``line``            how many lines of its log had been read when the job came, see ``lines``
    ``cancelled_after_ms``  as in a `WorkloadJob`
    ``machine``         what each of its VMs needs, as a code of the machines of ``names``; `AS_STREAM` for what its
                        stream says
    """

    submit_ms: Ints
    vms: Ints
    requested_ms: Ints
    actual_ms: Ints
    memory_mib: Ints
    deadline_ms: Ints
    lease_type: Ints
    site: Ints
    consumer: Ints
    source_id: Texts
    is_coallocation: Flags
    stream: Ints
    number: Ints
    line: Ints
    cancelled_after_ms: Ints
    machine: Ints
    names: Names
    streams: tuple[OfStream, ...]
    lines: LinesRead | None = None

    def __len__(self) -> int:
        """Return the number of jobs."""
        return len(self.submit_ms)

    def taken(self, rows: "Ints | Flags | slice") -> "JobBlock":
        """Return some of the jobs, in the order given."""
        return replace(self, **{name: getattr(self, name)[rows] for name in COLUMNS})

    def note(self, jobs: int | None = None) -> None:
        """Count in the notes the lines up to that of the last of so many jobs; None: all lines of the block."""
        if self.lines is not None:
            lines = len(self.lines.findings) if jobs is None else int(self.line[jobs - 1]) if jobs else 0
            self.lines.note(lines)

    def widest_part(self) -> Ints:
        """Return the VMs that each job has to have at one cluster."""
        if not self.is_coallocation.any():
            return self.vms
        of = np.array([1 if one.together is None else one.together.components for one in self.streams], np.int64)
        components = np.where(self.is_coallocation, of[self.stream], 1)
        return self.vms // components + self.vms % components

    def source_ids(self) -> list[str]:
        """Return the texts of ``source_id``."""
        texts: list[str] = as_texts(self.source_id).tolist()
        return texts

    def jobs(self) -> Iterator[WorkloadJob]:
        """Make the jobs one by one; how far the log was read is noted when they are all taken, or no longer wanted."""
        came = 0
        try:
            for job in map(WorkloadJob, *self._arguments()):
                came += 1
                yield job
            came = -1
        finally:
            self.note(None if came < 0 else came)

    def _arguments(self) -> Iterator[Iterable[Any]]:
        """Yield the arguments of `WorkloadJob`, in their order."""
        submits_ms, texts = self.submit_ms.tolist(), self.names.texts
        of = [self.streams[0]] if len(self.streams) == 1 else [self.streams[code] for code in self.stream.tolist()]
        yield submits_ms
        yield self.vms.tolist()
        yield self.requested_ms.tolist()
        yield self.actual_ms.tolist()
        yield [texts[code] for code in self.consumer.tolist()]
        yield self.source_ids()
        yield _spread([_TYPES[code] for code in _unspread(self.lease_type)])
        yield _spread([None if code == NO_SITE else texts[code] for code in _unspread(self.site)])
        yield submits_ms
        yield _spread([None if at_ms == NO_DEADLINE else at_ms for at_ms in _unspread(self.deadline_ms)])
        yield self.memory_mib.tolist()
        yield _spread([one.source for one in of])
        yield repeat("")
        yield _spread([one.domain for one in of])
        yield _spread([one.claims for one in of])
        together = [one.together for one in of]
        if not self.is_coallocation.any():
            yield repeat(None)
        else:
            split = self.is_coallocation.tolist()
            pairs = zip(split, together * len(split) if len(of) == 1 else together, strict=True)
            yield [one if is_split else None for is_split, one in pairs]
        yield _spread(_unspread(self.cancelled_after_ms))
        is_stated = bool((self.machine != AS_STREAM).any())
        if is_stated or any(one.cores > 1 or one.gpu_milli or one.image for one in of):
            each = [Machine(one.cores, one.gpu_model, one.gpu_milli) for one in of]
            if is_stated:
                machines = self.names.machines
                by_job = each * len(self) if len(each) == 1 else each
                codes = self.machine.tolist()
                each = [one if code < 0 else machines[code] for code, one in zip(codes, by_job, strict=True)]
            yield repeat(False)  # noqa: FBT003 - a column: none of them waits
            yield _spread([one.cores for one in each])
            yield _spread([one.gpu_model for one in each])
            yield _spread([one.gpu_milli for one in each])
            yield _spread([one.image for one in of])


COLUMNS = tuple(one.name for one in fields(JobBlock))[:16]


def _unspread(column: Ints) -> list[int]:
    """Return the values, or only the first if all are alike."""
    alike = len(column) > 0 and bool((column == column[0]).all())
    values: list[int] = column[:1].tolist() if alike else column.tolist()
    return values


def _spread(values: list[Any]) -> Iterable[Any]:
    return repeat(values[0]) if len(values) == 1 else values


def block_of(jobs: list[WorkloadJob], names: Names, of: OfStream) -> JobBlock:
    """Put the jobs of one stream that no log brought into a block."""

    def numbers(name: str) -> Ints:
        return np.array([getattr(job, name) for job in jobs], np.int64)

    none = np.zeros(len(jobs), np.int64)
    return JobBlock(
        numbers("submit_ms"),
        numbers("vms"),
        numbers("requested_ms"),
        numbers("actual_ms"),
        numbers("memory_mib"),
        np.array([NO_DEADLINE if job.deadline_ms is None else job.deadline_ms for job in jobs], np.int64),
        numbers("lease_type"),
        np.array([NO_SITE if job.site is None else names.code(job.site) for job in jobs], np.int64),
        np.array([names.code(job.consumer) for job in jobs], np.int64),
        np.array([job.source_id for job in jobs], np.object_),
        np.array([job.together is not None for job in jobs], np.bool_),
        none,
        none,
        none,
        numbers("cancelled_after_ms"),
        np.full(len(jobs), AS_STREAM),
        names,
        (of,),
    )


def blocks_of(jobs: Iterator[WorkloadJob], names: Names, of: OfStream, jobs_per_block: int) -> Iterator[JobBlock]:
    """Put the jobs of a model into blocks."""
    while some := list(islice(jobs, jobs_per_block)):
        yield block_of(some, names, of)
