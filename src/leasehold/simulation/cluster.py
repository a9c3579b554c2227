"""A cluster that only its own users use, simulated in integers: jobs in as rows, decisions and ends out as columns.

Where no guest can come, a site is its queue and its plan. `ClusterRun` passes time over just these: the same
`ReservationQueue` by which `leasehold.gateway.site.Site` plans, without leases, events and effects as objects. Whatever
else a scenario has (guests, co-allocations, agreements, a timeline) needs the gateway, and runs in
`leasehold.simulation.kernel.SimulatedWorld`; the tables of both are the same, to the last row (and are tested to be).

Compiled, this is machine code too: `cluster.pxd` has the C types.
"""

from array import array
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from leasehold.leasing.kernel import Profile, ReservationQueue, RowHeap, why_waiting
from leasehold.model.request import NEVER_MS

try:
    import cython  # type: ignore[import-untyped,unused-ignore]
except ImportError:  # what compiles this is not needed to run it
    from leasehold.leasing import plain as cython


class ClusterJobs(NamedTuple):
    """Jobs in the order in which they come: ready when they are submitted, with requested and needed wall time.

    Lists or arrays of integers; compiled, arrays of 64 bits each.
    """

    number: Sequence[int]
    submit_ms: Sequence[int]
    vms: Sequence[int]
    span_ms: Sequence[int]
    run_ms: Sequence[int]


NO_JOBS = ClusterJobs(*[array("q")] * 5)

TOO_WIDE, QUEUE_CLOSED = 6, 7
"""What is decided about a job beside the reasons of the kernel, why it starts and why it waits: it is refused."""

ENDED = 0
"""How a job that ran to its end, or to its requested time, is closed; refused ones have the code of the decision."""

_ROOM = 1 << 12


class Rows:
    """Rows of four integers each, until they are taken."""

    __slots__ = ("_cells", "count")

    def __init__(self) -> None:
        """Begin without any."""
        self.count = 0
        self._cells: Any = array("q", bytes(8 * _ROOM)) if cython.compiled else []

    def add(self, first: int, second: int, third: int, fourth: int) -> None:
        """Append a row."""
        self.count += 1
        if cython.compiled:
            end = 4 * self.count
            if end > len(self._cells):
                self._cells = array("q", 2 * bytes(self._cells))
            self._cells[end - 4] = first
            self._cells[end - 3] = second
            self._cells[end - 2] = third
            self._cells[end - 1] = fourth
        else:
            self._cells += (first, second, third, fourth)

    def taken(self) -> npt.NDArray[np.int64]:
        """Return the four columns, and forget the rows."""
        count, self.count = self.count, 0
        if cython.compiled:
            return np.array(self._cells[: 4 * count]).reshape(count, 4).T
        cells, self._cells = self._cells, []
        return np.frombuffer(array("q", cells), np.int64).reshape(count, 4).T


class ClusterRun:
    """One cluster, and the jobs that have come to it.

    ``now_ms``   the last instant at which anything happened
    ``alarm_ms`` the latest time at which a reservation was due, as it was planned at some time
    ``decided``  a row for each decision, in order: when, which job, its code, and the reserved start of one that waits
                 (negative without)
    ``closed``   a row for each job that is over, in order: which job, its code, its start (negative if it was refused)
                 and its end

    What reads these rows takes them; nothing here grows with the number of jobs that are over.
    """

    def __init__(self, slots: int, depth: int, *, queues: bool) -> None:
        """Begin empty; where a cluster does not ``queues``, a job is refused that cannot start when it is ready."""
        self.slots = slots
        self.plan = Profile(slots)
        self.queue = ReservationQueue(self.plan, depth)
        self.queues = queues
        self.now_ms = 0
        self.alarm_ms = 0
        self.decided = Rows()
        self.closed = Rows()
        self._ends = RowHeap()
        self._started = 0
        self._run_ms = array("q")
        self._numbers, _, self._sizes, self._spans_ms, self._runs_ms = NO_JOBS
        self._wake_ms = NEVER_MS

    def open_jobs(self) -> list[tuple[int, int]]:
        """Return every job that is not over, in order of submission, with its start (negative if it waits)."""
        queue = self.queue
        found = [(queue.order[row], queue.start_ms[row]) for row in self._ends.rows()]
        found += [(queue.order[row], -1) for row in (*queue.reserved, *queue.others)]
        return sorted(found)

    def advance(self, jobs: ClusterJobs, until_ms: int) -> None:
        """Let these jobs come, and time pass until just before ``until_ms``; they come before that, in order."""
        queue, ends = self.queue, self._ends
        self._numbers, submits_ms, self._sizes, self._spans_ms, self._runs_ms = jobs
        count = len(submits_ms)
        at = 0
        submit_ms = submits_ms[0] if count else NEVER_MS
        end_ms = ends.first_ms()
        wake_ms = self._wake_ms
        while True:
            now_ms = submit_ms if submit_ms < end_ms else end_ms
            if wake_ms < now_ms:
                now_ms = wake_ms
            if now_ms >= until_ms:
                break
            self.now_ms = now_ms
            has_changed = wake_ms == now_ms
            if end_ms == now_ms:
                has_changed = True
                self._end(now_ms)
                end_ms = ends.first_ms()
            first = at
            while submit_ms == now_ms:
                at += 1
                submit_ms = submits_ms[at] if at < count else NEVER_MS
            arrived = self._take_in(first, at, now_ms) if first < at else None
            if arrived or has_changed:
                if queue.step(now_ms):
                    self._start(now_ms)
                    end_ms = ends.first_ms()
                if arrived:
                    self._explain(arrived, now_ms)
                wake_ms = queue.next_pass_ms()
                if wake_ms != NEVER_MS and wake_ms > self.alarm_ms:
                    self.alarm_ms = wake_ms
        self._wake_ms = wake_ms

    def _end(self, now_ms: int) -> None:
        """Jobs are over, in the order in which they started; what they asked for beyond that is free."""
        queue, ends = self.queue, self._ends
        while ends.first_ms() == now_ms:
            row = ends.first_row()
            ends.pop()
            start_ms = queue.start_ms[row]
            planned_ms = start_ms + queue.span_ms[row]
            if planned_ms > now_ms:
                self.plan.give(now_ms, planned_ms, queue.vms[row])
            self.closed.add(queue.order[row], ENDED, start_ms, now_ms)
            queue.release_row(row)

    def _take_in(self, first: int, last: int, now_ms: int) -> list[int]:
        """Put jobs at the end of the queue; returns their rows."""
        queue = self.queue
        arrived: list[int] = []
        for at in range(first, last):
            vms = self._sizes[at]
            if vms > self.slots:
                self._refuse(self._numbers[at], TOO_WIDE, now_ms)
                continue
            row = queue.add_row(vms, self._spans_ms[at], now_ms, self._numbers[at])
            if row == len(self._run_ms):
                self._run_ms = array("q", bytes(self._run_ms) + bytes(8 * _ROOM))
            self._run_ms[row] = self._runs_ms[at]
            arrived.append(row)
            if self.queues:
                queue.submit(row)
        if not self.queues:
            self.plan.trim(now_ms)
            arrived = [row for row in arrived if self._fits_now(row, now_ms)]
        return arrived

    def _refuse(self, number: int, code: int, now_ms: int) -> None:
        self.decided.add(now_ms, number, code, -1)
        self.closed.add(number, code, -1, now_ms)

    def _fits_now(self, row: int, now_ms: int) -> bool:
        """Reserve the start of a job at its ready time, or refuse it (the reading of JPDC 2012)."""
        queue = self.queue
        start_ms = queue.earliest(row, now_ms)
        if start_ms <= now_ms:
            queue.reserve(row, start_ms)
            return True
        self._refuse(queue.order[row], QUEUE_CLOSED, now_ms)
        queue.release_row(row)
        return False

    def _start(self, now_ms: int) -> None:
        """The jobs that the queue has started run until they have what they need, or have used what they asked for."""
        queue = self.queue
        rows, reasons = queue.started, queue.reasons
        for i in range(len(rows)):
            row = rows[i]
            self._started += 1
            self._ends.push(now_ms + self._run_ms[row], self._started, row)
            self.decided.add(now_ms, queue.order[row], reasons[i], -1)

    def _explain(self, arrived: list[int], now_ms: int) -> None:
        """Say of jobs that could not start at once what they wait for."""
        queue = self.queue
        for row in arrived:
            start_ms = queue.start_ms[row]
            if 0 <= start_ms <= now_ms:
                continue
            code = why_waiting(self.plan, queue.ready_ms[row], queue.vms[row], now_ms)
            self.decided.add(now_ms, queue.order[row], code, start_ms)
