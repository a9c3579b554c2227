"""Lines to peers: this gateway calls each of them, as a site calls its gateway, so that it can be asked."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from leasehold.model.errors import LeaseholdError
from leasehold.service.messages.names import asking
from leasehold.service.messages.routing import MessageRouter
from leasehold.service.messages.uplink import Uplink
from leasehold.service.messages.wire import About
from leasehold.service.peers.purse import Purse
from leasehold.service.store.rows import PeerRow
from leasehold.service.store.store import Store
from leasehold.service.surroundings import Surroundings

Tell = Callable[[PeerRow], Awaitable[About]]
"""Says what a peer is to know of us."""


@dataclass(frozen=True, slots=True)
class OurSide:
    """This gateway as one peer sees it."""

    store: Store
    post: MessageRouter
    peer: PeerRow
    tell: Tell

    async def about(self) -> About:
        """Say what the peer is to know."""
        return await self.tell(self.peer)


@dataclass(slots=True)
class _Line:
    """One line, while it is held; ``problem`` says why it cannot even be tried."""

    uplink: Uplink | None = None
    task: asyncio.Task[None] | None = None
    problem: str = ""


class Lines:
    """The lines to all peers that are called."""

    def __init__(self, store: Store, post: MessageRouter, tell: Tell, purse: Purse, surroundings: Surroundings) -> None:
        self._store = store
        self._post = post
        self._tell = tell
        self._purse = purse
        self._surroundings = surroundings
        self._lines: dict[str, _Line] = {}

    async def hold(self, peer: PeerRow) -> None:
        """Call a peer from now on, as it is now; one without an address is not called."""
        await self.cut(peer.name)
        if not peer.url:
            return
        line = self._lines[peer.name] = _Line()
        try:
            token = await asyncio.to_thread(self._purse.read, peer.name)
        except LeaseholdError as error:
            line.problem = str(error)
            return
        side = OurSide(self._store, self._post, peer, self._tell)
        transport = self._surroundings.transport()
        line.uplink = Uplink(side, "", peer.url, token, asking(peer.name), transport=transport)
        line.task = asyncio.create_task(line.uplink.run())

    async def cut(self, name: str) -> None:
        """Call a peer no more."""
        line = self._lines.pop(name, None)
        if line is not None and line.task is not None:
            line.task.cancel()
            await asyncio.gather(line.task, return_exceptions=True)

    async def close(self) -> None:
        """Call nobody any more."""
        for name in list(self._lines):
            await self.cut(name)

    def problem(self, name: str) -> str:
        """Say why a peer cannot be reached now, "" while it can, or is not called."""
        line = self._lines.get(name)
        if line is None:
            return ""
        return line.problem if line.uplink is None else line.uplink.problem
