"""Jobs, nodes and images, for the client that awaits its answers; see `leasehold.client.jobs`."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing
from typing import Unpack

from leasehold.client import job_calls
from leasehold.client.following import Looks
from leasehold.client.job_calls import JobWish, WhichJobs
from leasehold.client.job_records import Image, Job, JobProspect, JobResult, Node
from leasehold.client.wire import AsyncWire


class AsyncJobs:
    """Ask for commands to be run where there is what they need, and look after them."""

    def __init__(self, wire: AsyncWire) -> None:
        self._wire = wire

    async def submit(self, **wish: Unpack[JobWish]) -> Job:
        """Ask for a job; what may be said is in `JobWish`. Raises as `Leases.submit` does."""
        return await self._wire.ask(job_calls.submit_job(wish))

    async def explain(self, **wish: Unpack[JobWish]) -> JobProspect:
        """Say what would become of a job, without asking for it."""
        return await self._wire.ask(job_calls.explain_job(wish))

    async def get(self, job_id: int) -> Job:
        """Look at one; raises NotFound."""
        return await self._wire.ask(job_calls.job(job_id))

    def list(self, **which: Unpack[WhichJobs]) -> AsyncIterator[Job]:
        """Go through those that are asked for, the newest first."""
        return self._wire.pages(job_calls.jobs(which))

    async def cancel(self, job_id: int) -> Job:
        """Take one back, with all of its attempts; raises NotFound and NotAllowed."""
        return await self._wire.ask(job_calls.cancel_job(job_id))

    async def result(self, job_id: int) -> JobResult:
        """Give what came of one; raises NotFound, also while there is nothing."""
        return await self._wire.ask(job_calls.job_result(job_id))

    async def follow(self, job_id: int) -> AsyncGenerator[Job, None]:
        """Give a job as it stands now, and anew whenever it stands differently, until it is over."""
        looks = Looks()
        while True:
            job = await self.get(job_id)
            if looks.is_news(job):
                yield job
            if job.is_over:
                return
            await asyncio.sleep(looks.pause_s())

    async def wait(self, job_id: int) -> Job:
        """Wait until a job is over, and give it as it is then."""
        async with aclosing(self.follow(job_id)) as looks:
            return [job async for job in looks][-1]


class AsyncNodes:
    """Look at the nodes that jobs run on."""

    def __init__(self, wire: AsyncWire) -> None:
        self._wire = wire

    def list(self, site: str = "", software: Sequence[str] = (), *, brief: bool = False) -> AsyncIterator[Node]:
        """Go through them by name: all, those of a site, those that have all of this software."""
        return self._wire.pages(job_calls.nodes(site, software, brief=brief))


class AsyncImages:
    """Look at the images that machines are built with."""

    def __init__(self, wire: AsyncWire) -> None:
        self._wire = wire

    async def list(self) -> tuple[Image, ...]:
        """Look at all of them, those that are being built or could not be among them."""
        return await self._wire.ask(job_calls.images())
