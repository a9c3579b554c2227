"""Jobs of a live gateway: taken in, looked at, and what came of them; the nodes and images for them."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from leasehold.service.commands import CancelJob, SubmitJob
from leasehold.service.errors import NoSuchJob
from leasehold.service.explaining_jobs import Prospect, prospect
from leasehold.service.store.filters import JobFilter
from leasehold.service.store.rows import AttemptRow, ImageRow, JobRow, NodeRow

if TYPE_CHECKING:
    from leasehold.service.federation import Federation

NODES_AT_ONCE = 500
"""How many nodes are read from the store at a time."""


@dataclass(frozen=True, slots=True)
class JobResult:
    """What came of a job: of its attempt whose result counts.

    ``is_whole``  whether ``output`` is all that its command wrote
    ``is_kept``   whether the store still has it: it lets go of what is old, or beyond its consumer's quota
    """

    job_id: int
    attempt: int
    exit_status: int | None
    output: str
    is_whole: bool
    is_kept: bool = True


class Jobs:
    """What `Federation` has to do with jobs."""

    def __init__(self, federation: "Federation") -> None:
        self._federation = federation

    async def submit(self, command: SubmitJob) -> tuple[JobRow, bool]:
        """Take a job in; True with it if it is new, False if it came before under the same key.

        Raises InvalidField, TooManyOpen, IdempotencyConflict.
        """
        return cast("tuple[JobRow, bool]", await self._federation.do(command))

    async def cancel(self, job_id: int) -> JobRow:
        """Take a job back; one that is over stays as it is. Raises NoSuchJob."""
        return cast("JobRow", await self._federation.do(CancelJob(job_id)))

    async def job(self, job_id: int) -> tuple[JobRow, list[AttemptRow]]:
        """Look at one, with its attempts in their order; raises NoSuchJob."""

        def read() -> tuple[JobRow, list[AttemptRow]]:
            row = self._federation.store.job(job_id)
            if row is None:
                raise NoSuchJob(job_id)
            return row, self._federation.store.attempts([job_id])

        return await asyncio.to_thread(read)

    async def jobs(
        self, which: JobFilter, limit: int, before_id: int | None = None
    ) -> list[tuple[JobRow, list[AttemptRow]]]:
        """The newest jobs first, ``limit`` of them; ``before_id`` goes on where a page ended."""

        def read() -> list[tuple[JobRow, list[AttemptRow]]]:
            rows = self._federation.store.jobs(which, limit, before_id)
            attempts: dict[int, list[AttemptRow]] = {row.id: [] for row in rows}
            for attempt in self._federation.store.attempts(list(attempts)):
                attempts[attempt.job_id].append(attempt)
            return [(row, attempts[row.id]) for row in rows]

        return await asyncio.to_thread(read)

    async def explain(self, command: SubmitJob) -> Prospect:
        """Say what would become of a job that came now; nothing is changed. Raises InvalidField."""
        now_ms = self._federation.clock()
        return await self._federation.ask(lambda engine: prospect(engine, command, now_ms), whose=command.consumer)

    async def nodes(
        self,
        after: str = "",
        limit: int = NODES_AT_ONCE,
        site: str | None = None,
        is_wanted: Callable[[NodeRow], bool] = lambda _: True,
    ) -> list[NodeRow]:
        """The next nodes by name as they were last seen, of those that are wanted; ``limit`` of them."""

        def read() -> list[NodeRow]:
            found: list[NodeRow] = []
            last = after
            while len(found) < limit:
                rows = self._federation.store.nodes_after(last, NODES_AT_ONCE, site)
                found += [row for row in rows if is_wanted(row)]
                if len(rows) < NODES_AT_ONCE:
                    break
                last = rows[-1].name
            return found[:limit]

        return await asyncio.to_thread(read)

    async def images(self) -> list[ImageRow]:
        """All images, and those that are being built or could not be, by name and site."""
        return await asyncio.to_thread(self._federation.store.images)

    async def result(self, job_id: int) -> JobResult | None:
        """Give what came of a job, always the same; None while there is nothing. Raises NoSuchJob."""

        def read() -> JobResult | None:
            row = self._federation.store.job(job_id)
            if row is None:
                raise NoSuchJob(job_id)
            if not row.delivered:
                return None
            wrote = self._federation.store.output(job_id, row.delivered)
            known = job_id, row.delivered, row.exit_status
            if wrote is None:
                return JobResult(*known, "", is_whole=False, is_kept=False)
            return JobResult(*known, wrote.text, bool(wrote.is_whole))

        return await asyncio.to_thread(read)
