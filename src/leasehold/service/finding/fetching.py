"""Fetches what the command of a lease wrote, before its end counts.

It is tried again with growing pauses, for as long as the configuration says; then the job is over with an
empty output, which is said to be not whole. The machines themselves may be gone by then: drivers keep what
commands wrote for some time after a lease is over (`HasOutput`).
"""

import asyncio

from leasehold.service.commands import JobOutput
from leasehold.service.config import JobsSpec
from leasehold.service.drivers.facts import HasOutput, Output
from leasehold.service.drivers.protocol import Driver
from leasehold.service.engine_thread import Clock
from leasehold.service.finding.asking import PAUSE_S, Asking, Do, longer

NOTHING = Output("", is_whole=False)
NOT_KEPT = "the store cannot keep it"


class Fetching:
    """Fetches from one site."""

    def __init__(self, site: str, driver: Driver, do: Do, clock: Clock, spec: JobsSpec) -> None:
        self._driver = driver
        self._clock = clock
        self._spec = spec
        self._asking = Asking(site, do)

    async def fetch(self, lease_id: int) -> None:
        """Fetch, and tell the engine."""
        until_ms, pause_s = self._clock() + self._spec.output_for_ms, PAUSE_S
        while (output := await self._try(lease_id)) is None and self._clock() < until_ms:
            await asyncio.sleep(pause_s)
            pause_s = longer(pause_s)
        problem = self._asking.problem if output is None else ""
        lost = JobOutput(lease_id, NOTHING, NOT_KEPT)
        await self._asking.tell_until_heard(JobOutput(lease_id, output or NOTHING, problem), lost)

    async def _try(self, lease_id: int) -> Output | None:
        """Where commands have no output apart, what is on the console has to do, which is not the same."""
        if isinstance(self._driver, HasOutput):
            return await self._asking.ask(self._driver.output(lease_id))
        text = await self._asking.ask(self._driver.console(lease_id))
        return None if text is None else Output(text, is_whole=False)
