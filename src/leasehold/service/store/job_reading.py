"""Whatever can be read from a store about jobs, and the nodes and images for them."""

from collections.abc import Sequence
from typing import cast

from sqlalchemy import func, select, tuple_

from leasehold.service.store.conditions import jobs_that
from leasehold.service.store.filters import JobFilter
from leasehold.service.store.job_schema import (
    OPEN_JOBS,
    attempts,
    images,
    job_answers,
    jobs,
    nodes,
    outputs,
)
from leasehold.service.store.querying import KEYS_AT_ONCE, Querying, within
from leasehold.service.store.rows import AttemptRow, ImageRow, JobAnswerRow, JobRow, NodeRow, OutputRow


class JobReading(Querying):
    """Reads what is committed of jobs."""

    def open_jobs(self) -> list[JobRow]:
        """All jobs that are not over, by number."""
        return cast("list[JobRow]", self._rows(select(jobs).where(OPEN_JOBS).order_by(jobs.c.id)))

    def job(self, job_id: int) -> JobRow | None:
        """One job; None where there is none of that number."""
        return cast("JobRow | None", self._row(select(jobs).where(jobs.c.id == within(job_id))))

    def jobs(self, which: JobFilter, limit: int, before_id: int | None = None) -> list[JobRow]:
        """The newest jobs first, ``limit`` of them; ``before_id`` goes on where a page ended."""
        page = select(jobs).where(jobs_that(which)).order_by(jobs.c.id.desc()).limit(limit)
        if before_id is not None:
            page = page.where(jobs.c.id < within(before_id))
        return cast("list[JobRow]", self._rows(page))

    def attempts(self, job_ids: Sequence[int]) -> list[AttemptRow]:
        """All attempts of these jobs, by job and number."""
        return [
            row
            for first in range(0, len(job_ids), KEYS_AT_ONCE)
            for row in self._attempts(job_ids[first : first + KEYS_AT_ONCE])
        ]

    def _attempts(self, job_ids: Sequence[int]) -> list[AttemptRow]:
        of_them = select(attempts).where(attempts.c.job_id.in_([within(job_id) for job_id in job_ids]))
        return cast("list[AttemptRow]", self._rows(of_them.order_by(attempts.c.job_id, attempts.c.number)))

    def attempts_of_leases(self, lease_ids: Sequence[int]) -> list[AttemptRow]:
        """The attempts that these leases are, those that are attempts."""
        return [
            cast("AttemptRow", row)
            for first in range(0, len(lease_ids), KEYS_AT_ONCE)
            for row in self._rows(
                select(attempts).where(attempts.c.lease_id.in_(lease_ids[first : first + KEYS_AT_ONCE]))
            )
        ]

    def output(self, job_id: int, number: int) -> OutputRow | None:
        """What the command of an attempt wrote; None where that is not known (yet)."""
        of_it = select(outputs).where(outputs.c.job_id == within(job_id), outputs.c.number == number)
        return cast("OutputRow | None", self._row(of_it))

    def output_bytes(self) -> dict[str, int]:
        """How much is kept of what commands wrote, in bytes, by consumer."""
        sums = select(outputs.c.consumer, func.sum(outputs.c.size_bytes).label("bytes"))
        rows = self._rows(sums.group_by(outputs.c.consumer))
        return {str(row["consumer"]): int(str(row["bytes"])) for row in rows}

    def highest_job_id(self) -> int:
        """The highest number that a job ever had; 0 before the first."""
        return self._number(select(func.max(jobs.c.id)))

    def job_answers(self, keys: Sequence[tuple[str, str]]) -> dict[tuple[str, str], JobAnswerRow]:
        """The jobs that were answered with before, by (consumer, Idempotency-Key)."""
        key = tuple_(job_answers.c.consumer, job_answers.c.key)
        found = [
            cast("JobAnswerRow", row)
            for first in range(0, len(keys), KEYS_AT_ONCE)
            for row in self._rows(select(job_answers).where(key.in_(keys[first : first + KEYS_AT_ONCE])))
        ]
        return {(answer["consumer"], answer["key"]): answer for answer in found}

    def nodes(self) -> list[NodeRow]:
        """All nodes that were ever seen, by name."""
        return cast("list[NodeRow]", self._rows(select(nodes).order_by(nodes.c.name)))

    def nodes_after(self, name: str, limit: int, site: str | None = None) -> list[NodeRow]:
        """The next nodes by name, ``limit`` of them; at one site where it is given."""
        page = select(nodes).where(nodes.c.name > name).order_by(nodes.c.name).limit(limit)
        if site is not None:
            page = page.where(nodes.c.site == site)
        return cast("list[NodeRow]", self._rows(page))

    def images(self) -> list[ImageRow]:
        """All images, and those that are being built or could not be, by name and site."""
        return cast("list[ImageRow]", self._rows(select(images).order_by(images.c.name, images.c.site)))
