"""What is measured of one run."""

from math import fsum, nan
from typing import TYPE_CHECKING

from leasehold.jobs.job import JobRecord, JobState
from leasehold.matching.capabilities import idle
from leasehold.matching.needs import Job
from leasehold.matching.satisfying import Moment, judge
from leasehold.matching.verdict import Answer

if TYPE_CHECKING:
    from leasehold.experiments.hybrid.situation import Situation

METRICS = (
    "refused_pct",
    "machines",
    "builds",
    "needless_machines",
    "wait_s",
    "longest_wait_s",
    "in_time_pct",
    "attempts",
    "sure_by_plan",
    "done_in_time",
)
PERCENT = 100.0
MS_PER_S = 1_000


class Watch:
    """Counts what happens to jobs.

    ``refused_pct``        jobs that were refused, of all
    ``machines``           virtual machines that were made; ``builds``: images that were built for them
    ``needless_machines``  made for jobs for which there were nodes enough that have what they need
    ``wait_s``             from submission until the command begins, of jobs that began; the longest beside it
    ``in_time_pct``        jobs done by their deadline, of all
    ``sure_by_plan``       mean reliability of the plans by formula, of jobs that were planned
    ``done_in_time``       part of these jobs that were done by their deadline
    """

    def __init__(self, around: "Situation") -> None:
        """Begin with nothing."""
        self._around = around
        self._requests = {asked.request.id: asked.request.job for asked in around.jobs}
        self._machines = self._builds = self._needless = self._attempts = 0
        self._refused = self._in_time = self._planned_in_time = 0
        self._sure: list[float] = []
        self._waits_ms: dict[int, int] = {}

    def built(self) -> None:
        """An image is built."""
        self._builds += 1

    def machines_made(self, record: JobRecord, number: int) -> None:
        """So many machines are made for a job."""
        self._machines += number
        if self._around.runs and self._has_nodes(record.request.job):
            self._needless += number

    def _has_nodes(self, job: Job) -> bool:
        """Whether enough nodes have what a job needs, used by others or not: looked at one by one."""
        now = Moment(job.submitted_ms)
        able = (judge(job, idle(node), 0, now) for node in self._around.nodes)
        return sum(verdict.answer is Answer.FIT for verdict in able) >= job.needs.nodes

    def began(self, job_id: int, now_ms: int) -> None:
        """The command of a job begins."""
        self._waits_ms.setdefault(job_id, now_ms - self._requests[job_id].submitted_ms)

    def closed(self, record: JobRecord, now_ms: int) -> None:
        """A job is over."""
        deadline_ms = record.request.job.deadline_ms
        is_in_time = record.state is JobState.COMPLETED and (deadline_ms is None or now_ms <= deadline_ms)
        self._in_time += is_in_time
        self._refused += record.state is JobState.REFUSED
        self._attempts += len(record.attempts)
        if record.surest is not None and record.attempts:
            self._sure.append(record.surest)
            self._planned_in_time += is_in_time

    def read(self) -> dict[str, float]:
        """Give what was measured."""
        jobs, waits_ms, planned = len(self._requests), [*self._waits_ms.values()], len(self._sure)
        return {
            "refused_pct": PERCENT * self._refused / jobs,
            "machines": float(self._machines),
            "builds": float(self._builds),
            "needless_machines": float(self._needless),
            "wait_s": fsum(waits_ms) / len(waits_ms) / MS_PER_S if waits_ms else nan,
            "longest_wait_s": max(waits_ms, default=0) / MS_PER_S,
            "in_time_pct": PERCENT * self._in_time / jobs,
            "attempts": float(self._attempts),
            "sure_by_plan": fsum(self._sure) / planned if planned else nan,
            "done_in_time": self._planned_in_time / planned if planned else nan,
        }
