"""What commands have written at sites with managers of their own: asked for by a message, and answered by one."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable

from leasehold.service.commands import AskForOutput, Command
from leasehold.service.drivers.facts import Output
from leasehold.service.engine.tasks import Heard
from leasehold.service.errors import Unavailable


class RemoteOutputs:
    """Asks the managers of sites, and waits for what they answer."""

    def __init__(self, do: Callable[[Command], Awaitable[object]]) -> None:
        self._do = do
        self._waiting: dict[int, list[asyncio.Future[Heard]]] = {}

    async def output(self, lease_id: int) -> Output:
        """Give what the command of a lease has written so far, once its site has answered; waits until then.

        Raises NoSuchSite where the lease is at no such site, and Unavailable where its site could not read it.
        """
        answer: asyncio.Future[Heard] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(lease_id, []).append(answer)
        try:
            await self._do(AskForOutput(lease_id))
            heard = await answer
        finally:
            self._forget(lease_id, answer)
        if heard.problem:
            raise Unavailable(heard.problem)
        return heard.output

    def take(self, heard: Iterable[Heard]) -> None:
        """Pass on what sites have answered; an answer that nobody waits for any more is dropped."""
        for one in heard:
            for answer in self._waiting.get(one.lease_id, ()):
                if not answer.done():
                    answer.set_result(one)

    def _forget(self, lease_id: int, answer: "asyncio.Future[Heard]") -> None:
        waiting = self._waiting[lease_id]
        waiting.remove(answer)
        if not waiting:
            del self._waiting[lease_id]
