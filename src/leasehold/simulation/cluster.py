"""A cluster that only its own users use, simulated in integers: jobs in as rows, decisions and ends out as columns.

Where no guest can come, a site is its queue and its plan. `ClusterRun` passes time over just these: the same
`ReservationQueue` by which `leasehold.gateway.site.Site` plans, without leases, events and effects as objects. Whatever
else a scenario has (guests, co-allocations, agreements, a timeline) needs the gateway, and runs in
`leasehold.simulation.kernel.SimulatedWorld`; the tables of both are the same, to the last row (and are tested to be).

Compiled, this is machine code too: `cluster.pxd` has the C types.
"""

from typing import Any

from leasehold.leasing.kernel import Profile, ReservationQueue, RowHeap, why_waiting
from leasehold.model.request import NEVER_MS

ClusterJob = tuple[Any, ...]
"""Number, submission, ready time, VMs, requested and needed wall time (ms); whatever follows is carried along."""

# Below they stand as the numbers that they are: compiled, a name would be looked up for each job.
NUMBER, SUBMIT_MS, READY_MS, VMS, SPAN_MS, RUN_MS = range(6)

TOO_WIDE, QUEUE_CLOSED = 6, 7
"""What is decided about a job beside the reasons of the kernel, why it starts and why it waits: it is refused."""

ENDED = 0
"""How a job that ran to its end, or to its requested time, is closed; refused ones have the code of the decision."""


class ClusterRun:
    """One cluster, and the jobs that have come to it.

    ``now_ms``      the last instant at which anything happened
    ``alarm_ms``    the latest time at which a reservation was due, as it was planned at some time
    ``decided_*``   a row for each decision, in order: when, which job, its code, and the reserved start of one that
                    waits (negative without)
    ``closed_*``    a row for each job that is over, in order: the job, its code, its start (negative if it was refused)
                    and its end

    Who reads the columns clears them; nothing here grows with the number of jobs that are over.
    """

    def __init__(self, slots: int, depth: int, *, queues: bool) -> None:
        """Begin empty; where a cluster does not ``queues``, a job is refused that cannot start when it is ready."""
        self.slots = slots
        self.plan = Profile(slots)
        self.queue = ReservationQueue(self.plan, depth)
        self.queues = queues
        self.now_ms = 0
        self.alarm_ms = 0
        self.decided_ms: list[int] = []
        self.decided_job: list[int] = []
        self.decided_code: list[int] = []
        self.decided_start_ms: list[int] = []
        self.closed_job: list[ClusterJob] = []
        self.closed_code: list[int] = []
        self.closed_start_ms: list[int] = []
        self.closed_end_ms: list[int] = []
        self._ends = RowHeap()
        self._started = 0
        self._job_of: list[ClusterJob] = []
        self._wake_ms = NEVER_MS

    def clear(self) -> None:
        """Forget what was decided, and what is over."""
        for column in (self.decided_ms, self.decided_job, self.decided_code, self.decided_start_ms):
            column.clear()
        for column in (self.closed_code, self.closed_start_ms, self.closed_end_ms):
            column.clear()
        self.closed_job.clear()

    def open_jobs(self) -> list[tuple[ClusterJob, int]]:
        """Return every job that is not over, in order of submission, with its start (negative if it waits)."""
        running = {row: self.queue.start_of(row) for row in self._ends.rows()}
        waiting = dict.fromkeys([*self.queue.reserved, *self.queue.others], -1)
        rows = sorted(running | waiting, key=lambda row: self._job_of[row][NUMBER])
        return [(self._job_of[row], running.get(row, -1)) for row in rows]

    def advance(self, jobs: list[ClusterJob], until_ms: int) -> None:
        """Let these jobs come, and time pass until just before ``until_ms``; they come before that, in order."""
        queue, ends = self.queue, self._ends
        count = len(jobs)
        at = 0
        submit_ms = jobs[0][1] if count else NEVER_MS
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
                submit_ms = jobs[at][1] if at < count else NEVER_MS
            arrived = self._take_in(jobs, first, at, now_ms) if first < at else None
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
            self._close(self._job_of[row], ENDED, start_ms, now_ms)
            queue.release_row(row)

    def _close(self, job: ClusterJob, code: int, start_ms: int, end_ms: int) -> None:
        self.closed_job.append(job)
        self.closed_code.append(code)
        self.closed_start_ms.append(start_ms)
        self.closed_end_ms.append(end_ms)

    def _decide(self, number: int, code: int, start_ms: int, now_ms: int) -> None:
        self.decided_ms.append(now_ms)
        self.decided_job.append(number)
        self.decided_code.append(code)
        self.decided_start_ms.append(start_ms)

    def _take_in(self, jobs: list[ClusterJob], first: int, last: int, now_ms: int) -> list[int]:
        """Put jobs at the end of the queue; returns their rows."""
        queue, job_of = self.queue, self._job_of
        arrived: list[int] = []
        for at in range(first, last):
            job = jobs[at]
            if job[3] > self.slots:
                self._decide(job[0], TOO_WIDE, -1, now_ms)
                self._close(job, TOO_WIDE, -1, now_ms)
                continue
            row = queue.add_row(job[3], job[4], job[2], job[0])
            if row == len(job_of):
                job_of.append(job)
            else:
                job_of[row] = job
            arrived.append(row)
            if self.queues:
                queue.submit(row)
        if not self.queues:
            self.plan.trim(now_ms)
            arrived = [row for row in arrived if self._fits_when_ready(row, now_ms)]
        return arrived

    def _fits_when_ready(self, row: int, now_ms: int) -> bool:
        """Reserve the start of a job at its ready time, or refuse it (the reading of JPDC 2012)."""
        queue = self.queue
        start_ms = queue.earliest(row, now_ms)
        ready_ms = queue.ready_ms[row]
        if start_ms <= (ready_ms if ready_ms > now_ms else now_ms):
            queue.reserve(row, start_ms)
            return True
        job = self._job_of[row]
        self._decide(job[0], QUEUE_CLOSED, -1, now_ms)
        self._close(job, QUEUE_CLOSED, -1, now_ms)
        queue.release_row(row)
        return False

    def _start(self, now_ms: int) -> None:
        """The jobs that the queue has started run until they have what they need, or have used what they asked for."""
        queue = self.queue
        rows, reasons = queue.started, queue.reasons
        for i in range(len(rows)):
            row = rows[i]
            job = self._job_of[row]
            self._started += 1
            self._ends.push(now_ms + job[5], self._started, row)
            self._decide(job[0], reasons[i], -1, now_ms)

    def _explain(self, arrived: list[int], now_ms: int) -> None:
        """Say of jobs that could not start at once what they wait for."""
        queue = self.queue
        for row in arrived:
            start_ms = queue.start_ms[row]
            if 0 <= start_ms <= now_ms:
                continue
            code = why_waiting(self.plan, queue.ready_ms[row], queue.vms[row], now_ms)
            self._decide(self._job_of[row][0], code, start_ms, now_ms)
