"""Questions to sites with managers of their own, and to peers: asked, and answered, by messages.

What commands have written and left there; and what would become of a request.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from itertools import count

from leasehold.model.request import Request
from leasehold.service.commands import AskForFiles, AskForOutput, AskForPlan, Command
from leasehold.service.drivers.facts import Output
from leasehold.service.engine.tasks import FilesHeard, Heard, OutputHeard, PlanHeard
from leasehold.service.engine_thread import Clock
from leasehold.service.errors import Unavailable
from leasehold.service.messages.about_plans import Planned
from leasehold.service.store.rows import LeaseMetadata, OutputFile

_Key = tuple[type[Heard], int, str]


class RemoteQueries:
    """Asks the managers of sites, and peers, and waits for what they answer."""

    def __init__(self, do: Callable[[Command], Awaitable[object]], clock: Clock) -> None:
        self._do = do
        self._clock = clock
        self._waiting: dict[_Key, list[asyncio.Future[Heard]]] = {}
        self._arriving_ms: dict[int, int] = {}
        self._numbers = count(max(1, clock()))  # those of an earlier life are answered to nobody

    async def output(self, lease_id: int) -> Output:
        """Give what the command of a lease has written so far, once its site has answered; waits until then.

        Raises NoSuchSite where the lease is at no such site, and Unavailable where its site could not read it.
        """
        heard = await self._answer(OutputHeard, AskForOutput(lease_id))
        assert isinstance(heard, OutputHeard)
        return heard.output

    async def files(self, lease_id: int) -> tuple[OutputFile, ...]:
        """Give what its site says of the files that the command of a lease has left, once they were sent.

        Raises NoSuchSite where the lease is at no such site, and Unavailable where its site could not send them.
        """
        heard = await self._answer(FilesHeard, AskForFiles(lease_id))
        assert isinstance(heard, FilesHeard)
        return heard.files

    async def plan(self, site: str, request: Request, metadata: LeaseMetadata, within_ms: int) -> Planned:
        """Give what a site or peer says within this time would become of a request.

        Raises Unavailable where it can say nothing, and TimeoutError.
        """
        number = next(self._numbers)
        async with asyncio.timeout(within_ms / 1_000):
            heard = await self._answer(PlanHeard, AskForPlan(number, site, request, metadata, within_ms))
        assert isinstance(heard, PlanHeard)
        return heard.planned

    def arriving(self, lease_id: int) -> None:
        """Note that something of these files arrives."""
        self._arriving_ms[lease_id] = self._clock()

    def arrived_ms(self, lease_id: int) -> int:
        """When something of these files arrived last; -1: nothing has."""
        return self._arriving_ms.get(lease_id, -1)

    def done(self, lease_id: int) -> None:
        """All that is to arrive of a lease has."""
        self._arriving_ms.pop(lease_id, None)

    def take(self, heard: Iterable[Heard]) -> None:
        """Pass on what sites have answered; an answer that nobody waits for any more is dropped."""
        for one in heard:
            for answer in self._waiting.get(_key_of(type(one), one), ()):
                if not answer.done():
                    answer.set_result(one)

    async def _answer(self, kind: type[Heard], command: AskForOutput | AskForFiles | AskForPlan) -> Heard:
        key = _key_of(kind, command)
        answer: asyncio.Future[Heard] = asyncio.get_running_loop().create_future()
        waiting = self._waiting.setdefault(key, [])
        waiting.append(answer)
        try:
            await self._do(command)
            heard = await answer
        finally:
            waiting.remove(answer)
            if not waiting:
                self._waiting.pop(key, None)
        if heard.problem:
            raise Unavailable(heard.problem)
        return heard


def _key_of(kind: type[Heard], one: Heard | AskForOutput | AskForFiles | AskForPlan) -> _Key:
    """Say which question it is, or answers; only who was asked what would become of a request can say so."""
    if isinstance(one, PlanHeard | AskForPlan):
        return kind, one.number, one.site
    return kind, one.lease_id, ""
