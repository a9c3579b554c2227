"""Watches the own queue of a site: what its users gave to its own scheduler has room made for it.

Room is counted in VMs, and a scheduler may need more than that: whole nodes, say, while guests are spread
over all of them. So where the first job in its queue does not start although there is room for it, more room
is asked for it, twice as much each time, until it starts. What does not start on the empty site either waits
for something else than guests, and they come back.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import replace
from typing import cast

import structlog

from leasehold.model.errors import LeaseholdError
from leasehold.service.commands import Command, OwnJobsSeen
from leasehold.service.drivers.protocol import HasOwnQueue, OwnJob

LOOK_EVERY_S = 1.0
_LOOKS_WITH_ROOM = 3
"""So often a job may be seen waiting beside the room that was made for it; schedulers have their rounds."""
_LOOKS_ON_EMPTY_SITE = 30

Do = Callable[[Command], Awaitable[object]]


class Width:
    """How much room is asked for each waiting job: what it says it needs, or more if that did not help."""

    def __init__(self, slots: int) -> None:
        self._slots = slots
        self._asked: dict[str, int] = {}
        self._looks: dict[str, int] = {}
        self._hopeless: set[str] = set()

    def of(self, job: OwnJob) -> OwnJob:
        """Give a job as it is asked for."""
        return job if job.running else replace(job, vms=max(job.vms, self._asked.get(job.name, 0)))

    def all_of(self, jobs: Sequence[OwnJob]) -> tuple[OwnJob, ...]:
        """Give those that guests are to make room for, or have made it for."""
        return tuple(self.of(job) for job in jobs if job.running or job.name not in self._hopeless)

    def learn(self, jobs: Sequence[OwnJob], with_room: Collection[str]) -> None:
        """The scheduler has had its chance: who comes first and still waits beside its room needs more."""
        waiting = [job for job in jobs if not job.running]
        self._forget_all_but({job.name for job in waiting})
        first = next((job for job in waiting if job.name not in self._hopeless), None)
        if first is None or first.name not in with_room:
            return
        self._looks[first.name] = self._looks.get(first.name, 0) + 1
        asked = self.of(first).vms
        if asked < self._slots and self._looks[first.name] >= _LOOKS_WITH_ROOM:
            self._asked[first.name] = min(self._slots, 2 * asked)
            self._looks[first.name] = 0
        elif self._looks[first.name] >= _LOOKS_ON_EMPTY_SITE:
            self._hopeless.add(first.name)

    def _forget_all_but(self, names: Collection[str]) -> None:
        for known in (self._asked, self._looks):
            for name in known.keys() - names:
                del known[name]
        self._hopeless &= set(names)


class OwnQueue:
    """Looks at one site's own queue, again and again, and tells the engine.

    ``problem`` says why it cannot be seen now, empty while it can; guests stay as they are meanwhile.
    """

    def __init__(self, site: str, slots: int, machines: HasOwnQueue, do: Do) -> None:
        self.problem = ""
        self._site = site
        self._machines = machines
        self._do = do
        self._width = Width(slots)

    async def run(self) -> None:
        """Look until cancelled."""
        while True:
            try:
                await self.look()
            except LeaseholdError as error:  # the store does not answer, or we are stopping
                self._note(str(error))
            await asyncio.sleep(LOOK_EVERY_S)

    async def look(self) -> None:
        """Look once."""
        try:
            jobs = await self._machines.own_jobs()
        except Exception as error:  # noqa: BLE001 - whatever keeps a scheduler from answering
            self._note(f"{type(error).__name__}: {error}")
            return
        self._note("")
        with_room = await self._do(OwnJobsSeen(self._site, self._width.all_of(jobs)))
        self._width.learn(jobs, cast("frozenset[str]", with_room))

    def _note(self, problem: str) -> None:
        if problem and problem != self.problem:
            structlog.get_logger("leasehold.own_queue").warning(
                "own queue out of sight", site=self._site, problem=problem
            )
        self.problem = problem
