"""Streams made from streams: merged, shifted, denser or thinner, cut to a window, split into components; each lazily.

Every job handed on is a new one; those that went in are left as they were.
"""

import heapq
from collections.abc import Generator, Iterator, Sequence
from dataclasses import replace
from operator import attrgetter
from typing import Literal

import numpy as np

from leasehold.model.agreement import MILLION
from leasehold.model.coallocation import CoAllocationRequest, Component
from leasehold.model.request import LeaseType
from leasehold.simulation.workload.job import WorkloadJob
from leasehold.simulation.workload.job_block import COLUMNS, NO_DEADLINE, NO_SITE, JobBlock, OfStream
from leasehold.simulation.workload.log_columns import Ints, as_texts
from leasehold.simulation.workload.streams import check_number, check_positive, random_stream
from leasehold.simulation.workload.together import StreamCoAllocations


def merged(*streams: Iterator[WorkloadJob]) -> Iterator[WorkloadJob]:
    """Yield the jobs of all streams by submission; at equal times, the earlier stream's go first."""
    if len(streams) == 1:
        return streams[0]
    return heapq.merge(*streams, key=attrgetter("submit_ms"))


def scaled(jobs: Iterator[WorkloadJob], load: float) -> Iterator[WorkloadJob]:
    """Yield the same jobs, ``load`` times as many in the same time: all gaps divided by it, from time zero.

    Sizes and durations stay. Raises InvalidField unless the load is above zero.
    """
    check_positive("load", load)
    return (_moved(job, round(job.submit_ms / load)) for job in jobs)


def shifted(jobs: Iterator[WorkloadJob], by_ms: int) -> Iterator[WorkloadJob]:
    """Yield the same jobs this much later, or earlier if negative.

    Raises InvalidField at a job that would be submitted before time zero.
    """
    for job in jobs:
        check_number("submit time after the shift", job.submit_ms + by_ms, 0)
        yield _moved(job, job.submit_ms + by_ms)


def within(jobs: Iterator[WorkloadJob], start_ms: int, end_ms: int | None = None) -> Iterator[WorkloadJob]:
    """Yield the jobs submitted from ``start_ms`` until just before ``end_ms``; reads no further than that."""
    for job in jobs:
        if end_ms is not None and job.submit_ms >= end_ms:
            return
        if job.submit_ms >= start_ms:
            yield job


def _moved(job: WorkloadJob, submit_ms: int) -> WorkloadJob:
    """Return the job at another submit time, its ready time and deadline moved along."""
    later_ms = submit_ms - job.submit_ms
    deadline_ms = None if job.deadline_ms is None else job.deadline_ms + later_ms
    return replace(job, submit_ms=submit_ms, ready_ms=job.ready_ms + later_ms, deadline_ms=deadline_ms)


def split_some(
    jobs: Iterator[WorkloadJob], together: StreamCoAllocations, seed: int, stream: str
) -> Iterator[WorkloadJob]:
    """Mark the share of the jobs from outside that are co-allocations.

    Chosen by a random stream of its own, which advances with every job from outside: another share or number
    of components changes no other job's draw. Components are Non-preemptable, and a deadline that was drawn
    for another type does not hold for them.
    """
    draws = random_stream(seed, stream, "together")
    for job in jobs:
        if job.site is None and draws.random() < together.share and job.vms >= together.components:
            job.together, job.lease_type, job.deadline_ms = together, LeaseType.NON_PREEMPTABLE, None
        yield job


def widest_part(job: WorkloadJob) -> int:
    """Give the VMs that a job has to have at one cluster."""
    return job.vms if job.together is None else job.together.widths(job.vms)[0]


def moved(block: JobBlock, submit_ms: Ints) -> JobBlock:
    """Return the jobs at other submit times, their deadlines moved along."""
    later_ms = submit_ms - block.submit_ms
    deadline_ms = np.where(block.deadline_ms == NO_DEADLINE, NO_DEADLINE, block.deadline_ms + later_ms)
    return replace(block, submit_ms=submit_ms, deadline_ms=deadline_ms)


def scaled_block(block: JobBlock, load: float) -> JobBlock:
    """Return the jobs of a block as `scaled` does."""
    return moved(block, np.rint(block.submit_ms / check_positive("load", load)).astype(np.int64))


def cut(block: JobBlock, start_ms: int, end_ms: int | None) -> tuple[JobBlock, bool]:
    """Return the jobs of a block that are `within` the bounds, and whether the stream has reached the last bound.

    Of what follows, the first job counts as read: it showed that the bound was reached.
    """
    first = int(np.searchsorted(block.submit_ms, start_ms))
    last = len(block) if end_ms is None else int(np.searchsorted(block.submit_ms, end_ms))
    is_over = last < len(block)
    if first == 0 and not is_over:
        return block, False
    kept = block.taken(slice(first, max(first, last)))
    if is_over and block.lines is not None:
        kept.lines = replace(block.lines, findings=block.lines.findings[: block.line[last]])
    return kept, is_over


def cut_off(blocks: Iterator[JobBlock], end_ms: int | None) -> Iterator[JobBlock]:
    """Yield the blocks up to the last job submitted before ``end_ms``."""
    for block in blocks:
        kept, is_over = cut(block, 0, end_ms)
        yield kept
        if is_over:
            return


def split_blocks(
    blocks: Iterator[JobBlock], together: StreamCoAllocations, seed: int, stream: str
) -> Iterator[JobBlock]:
    """Mark co-allocations as `split_some` does."""
    draws = random_stream(seed, stream, "together").random
    for block in blocks:
        is_external = block.site == NO_SITE
        chosen = np.zeros(len(block), np.bool_)
        chosen[is_external] = [draws() < together.share for _ in range(np.count_nonzero(is_external))]
        chosen &= block.vms >= together.components
        yield replace(
            block,
            is_coallocation=chosen,
            lease_type=np.where(chosen, int(LeaseType.NON_PREEMPTABLE), block.lease_type),
            deadline_ms=np.where(chosen, NO_DEADLINE, block.deadline_ms),
        )


def merged_blocks(streams: Sequence[Iterator[JobBlock]]) -> Iterator[JobBlock]:
    """Yield the jobs of all streams as `merged` does, in blocks; all streams have the same ``names``.

    What is noted of the lines of a block counts as soon as its jobs are handed on.
    """
    heads = [_Head(blocks, number) for number, blocks in enumerate(streams)]
    of = list[OfStream]()
    for head in heads:
        of.append(OfStream("") if head.block is None else head.block.streams[0])
    while left := [head for head in heads if head.block is not None]:
        # No job that is still to be read comes before the last of the block that is over first.
        last = min(head.last for head in left)
        parts = [head.take(last) for head in left]
        parts = [part for part in parts if len(part)]
        if len(parts) == 1:
            yield replace(parts[0], streams=tuple(of), lines=None)
        else:
            block = joined(parts, tuple(of))
            yield block.taken(np.argsort(block.submit_ms, kind="stable"))
        for head in left:
            head.refill()


class _Head:
    """The block of one stream that is being merged, from the first job on that was not handed on."""

    def __init__(self, blocks: Iterator[JobBlock], number: int) -> None:
        self._blocks, self._number = blocks, number
        self.block: JobBlock | None = None
        self._taken = 0
        self._next()

    @property
    def last(self) -> tuple[int, int]:
        """When the last job of the block comes, and of which stream it is."""
        assert self.block is not None
        return int(self.block.submit_ms[-1]), self._number

    def take(self, last: tuple[int, int]) -> JobBlock:
        """Return the jobs up to one of this time and stream."""
        assert self.block is not None
        side: Literal["left", "right"] = "right" if self._number <= last[1] else "left"
        end = int(np.searchsorted(self.block.submit_ms, last[0], side=side))
        part = self.block.taken(slice(self._taken, end))
        self._taken = end
        part.stream = np.full(len(part), self._number)
        if end == len(self.block):
            self.block.note()
        else:
            self.block.note(end)
        return part

    def refill(self) -> None:
        """Read on if the block was handed on."""
        if self.block is not None and self._taken == len(self.block):
            self._next()

    def _next(self) -> None:
        self._taken = 0
        self.block = None
        for block in self._blocks:
            if len(block):
                self.block = block
                return
            block.note()


def joined(blocks: Sequence[JobBlock], streams: tuple[OfStream, ...]) -> JobBlock:
    """Put blocks one after the other; their ``stream`` columns are about ``streams``."""
    columns = {
        name: np.concatenate([getattr(block, name) for block in blocks]) for name in COLUMNS if name != "source_id"
    }
    is_plain = all(block.source_id.dtype != np.object_ for block in blocks)
    ids = np.concatenate([block.source_id if is_plain else as_texts(block.source_id) for block in blocks])
    return JobBlock(**columns, source_id=ids, names=blocks[0].names, streams=streams, lines=None)


def numbered_blocks(blocks: Iterator[JobBlock]) -> Iterator[JobBlock]:
    """Number the jobs as `numbered` does."""
    first = 1
    for block in blocks:
        takes = np.ones(len(block), np.int64)
        if block.is_coallocation.any():
            of = [0 if one.together is None else one.together.components * one.together.tries for one in block.streams]
            takes[block.is_coallocation] = np.array(of)[block.stream[block.is_coallocation]]
        after = first + np.cumsum(takes)
        block.number = after - takes
        first = int(after[-1]) if len(after) else first
        yield block


def whole_instants(blocks: Iterator[JobBlock]) -> Iterator[tuple[JobBlock, int | None]]:
    """Yield the same jobs, those of one instant in one block, and with each block when the next job comes, if any."""
    held: list[JobBlock] = []  # all of one instant
    for block in blocks:
        block.note()
        next_ms = int(block.submit_ms[-1])
        last = int(np.searchsorted(block.submit_ms, next_ms))
        if held and (last or held[0].submit_ms[0] != next_ms):
            yield joined([*held, block.taken(slice(0, last))], block.streams), next_ms
            held = []
        elif last:
            yield block.taken(slice(0, last)), next_ms
        held.append(block.taken(slice(last, len(block))))
    if held:
        yield joined(held, held[0].streams), None


def numbered(jobs: Iterator[WorkloadJob]) -> Generator[tuple[int, WorkloadJob]]:
    """Number the jobs from 1; one that is split takes a number for each lease that it may come to have."""
    number = 1
    for job in jobs:
        yield number, job
        together = job.together
        number += 1 if together is None else together.components * together.tries


def coallocation_request(
    job: WorkloadJob, together: StreamCoAllocations, coallocation_id: int, first_lease_id: int
) -> CoAllocationRequest:
    """Make the co-allocation that a job is."""
    files = tuple(together.files.items())
    return CoAllocationRequest(
        coallocation_id,
        tuple(
            Component(vms, job.requested_ms, "", files, job.memory_mib, job.image) for vms in together.widths(job.vms)
        ),
        job.submit_ms,
        job.ready_ms,
        first_lease_id,
        consumer=job.consumer,
        group=job.group,
        claim=together.claim,
        place=together.place,
        tries=together.tries,
        margin_ms=together.margin_ms,
        wait_ppm=round(together.claim_part * MILLION),
    )


def component_of(job: WorkloadJob, vms: int) -> WorkloadJob:
    """Give the job that a component of a split job is: as long as the whole, and only narrower."""
    return replace(job, vms=vms, together=None)
