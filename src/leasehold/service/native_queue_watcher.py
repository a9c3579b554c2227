"""Watches the native queue of a site, so that guests make room for the jobs of the site's own users.

Room is counted in VMs, and a scheduler may need more than that, such as whole nodes while guests are spread over
all of them. So if the first job in the queue does not start although there is room for it, more room is requested
for it, twice as much each time, until it starts. A job that does not start on the empty site either waits for
something other than guests, and the guests come back.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import replace
from typing import cast

import structlog

from leasehold.model.errors import LeaseholdError
from leasehold.service.commands import Command, NativeJobsSeen
from leasehold.service.drivers.protocol import HasNativeQueue, NativeJob

LOOK_EVERY_S = 1.0
_LOOKS_WITH_ROOM = 3
"""How often a job may be seen waiting beside the room made for it: a scheduler works in cycles."""
_LOOKS_ON_EMPTY_SITE = 30

Do = Callable[[Command], Awaitable[object]]


class Width:
    """How much room each waiting job gets: what it asked for, or more if that did not help."""

    def __init__(self, slots: int) -> None:
        self._slots = slots
        self._asked: dict[str, int] = {}
        self._looks: dict[str, int] = {}
        self._stuck: set[str] = set()

    def of(self, job: NativeJob) -> NativeJob:
        """Return the job with the room requested for it."""
        return job if job.running else replace(job, vms=max(job.vms, self._asked.get(job.name, 0)))

    def all_of(self, jobs: Sequence[NativeJob]) -> tuple[NativeJob, ...]:
        """Return the jobs that guests make room for, or have made it for."""
        return tuple(self.of(job) for job in jobs if job.running or job.name not in self._stuck)

    def learn(self, jobs: Sequence[NativeJob], with_room: Collection[str]) -> None:
        """Request more room for the first job if the scheduler has not started it in the room it has."""
        waiting = [job for job in jobs if not job.running]
        self._forget_all_but({job.name for job in waiting})
        first = next((job for job in waiting if job.name not in self._stuck), None)
        if first is None or first.name not in with_room:
            return
        self._looks[first.name] = self._looks.get(first.name, 0) + 1
        requested_vms = self.of(first).vms
        if requested_vms < self._slots and self._looks[first.name] >= _LOOKS_WITH_ROOM:
            self._asked[first.name] = min(self._slots, 2 * requested_vms)
            self._looks[first.name] = 0
        elif self._looks[first.name] >= _LOOKS_ON_EMPTY_SITE:
            self._stuck.add(first.name)

    def _forget_all_but(self, names: Collection[str]) -> None:
        for known in (self._asked, self._looks):
            for name in known.keys() - names:
                del known[name]
        self._stuck &= set(names)


class NativeQueueWatcher:
    """Polls the native queue of one site and reports it to the engine.

    ``problem``  why the queue cannot be read now, empty while it can; guests stay as they are meanwhile
    """

    def __init__(self, site: str, slots: int, machines: HasNativeQueue, do: Do) -> None:
        self.problem = ""
        self._site = site
        self._machines = machines
        self._do = do
        self._width = Width(slots)

    async def run(self) -> None:
        """Poll until cancelled."""
        while True:
            try:
                await self.look()
            except LeaseholdError as error:  # the store does not answer, or the service is stopping
                self._note(str(error))
            await asyncio.sleep(LOOK_EVERY_S)

    async def look(self) -> None:
        """Poll once."""
        try:
            jobs = await self._machines.native_jobs()
        except Exception as error:  # noqa: BLE001 - a driver may fail in any way
            self._note(f"{type(error).__name__}: {error}")
            return
        self._note("")
        with_room = await self._do(NativeJobsSeen(self._site, self._width.all_of(jobs)))
        self._width.learn(jobs, cast("frozenset[str]", with_room))

    def _note(self, problem: str) -> None:
        if problem and problem != self.problem:
            structlog.get_logger("leasehold.native_queue").warning(
                "native queue cannot be read", site=self._site, problem=problem
            )
        self.problem = problem
