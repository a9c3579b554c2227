"""The post office of one service: messages in, messages out, and who has been heard of when."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterable

from leasehold.service.commands import Command, MessageBatch
from leasehold.service.engine_thread import Clock
from leasehold.service.feed import Feed
from leasehold.service.store.rows import MessageRow
from leasehold.service.store.store import Store

SILENT_AFTER_MS = 60_000
MOST_AT_ONCE = 100
"""So many reports fit into a body of the usual size."""
_IDENTITY = "identity"


def identity_of(store: Store, new_id: Callable[[], str]) -> str:
    """Give the name that this store, and no other, goes by; it gets one at the first time."""
    known = store.snapshots().get(_IDENTITY)
    if known is None:
        known = json.dumps(new_id())
        with store.writing() as batch:
            batch.set_snapshot(_IDENTITY, known)
    name: str = json.loads(known)
    return name


class MessageRouter:
    """Passes messages between endpoints and the engine; what it says was received is in the store."""

    def __init__(self, do: Callable[[Command], Awaitable[object]], store: Store, clock: Clock) -> None:
        self._do = do
        self._store = store
        self._clock = clock
        self._opened_ms = clock()
        self._heard_ms: dict[str, int] = {}
        self._bells: dict[str, Feed] = {}
        self._is_closed = False

    def has_messages_to(self, endpoints: Iterable[str]) -> None:
        """Ring for those who wait for messages."""
        for name in endpoints:
            bell = self._bell(name)
            bell.advance(bell.last_seq + 1)

    async def take_in(self, mail: MessageBatch) -> int:
        """Let the engine take messages in; returns the number of the last that has been, now or before.

        Raises InvalidField where a message is missing, or for a site that is not who it was.
        """
        await self._do(mail)
        self._heard_ms[mail.endpoint] = self._clock()
        _, received = await asyncio.to_thread(self._store.message_numbers, mail.endpoint)
        return received

    async def messages(self, endpoint: str, after: int, wait_s: float) -> list[MessageRow]:
        """Give the messages later than ``after``; where there are none, wait a while for some."""
        bell = self._bell(endpoint)
        rung = bell.last_seq
        messages = await self._waiting(endpoint, after)
        if messages or not wait_s or self._is_closed:
            return messages
        try:
            async with asyncio.timeout(wait_s):
                await bell.wait(rung)
        except TimeoutError:
            return []
        return await self._waiting(endpoint, after)

    def close(self) -> None:
        """Let nobody wait any more."""
        self._is_closed = True
        self.has_messages_to(list(self._bells))

    def last_heard_ms(self, endpoint: str) -> int | None:
        """When somebody was last heard of since this service was opened."""
        return self._heard_ms.get(endpoint)

    def forget(self, endpoints: Iterable[str]) -> None:
        """Nobody of these names is there any more."""
        for name in endpoints:
            self._heard_ms.pop(name, None)

    def is_silent(self, endpoint: str) -> bool:
        """Whether somebody has not been heard of for too long."""
        heard_ms = self._heard_ms.get(endpoint, self._opened_ms)
        return self._clock() - heard_ms > SILENT_AFTER_MS

    async def _waiting(self, endpoint: str, after: int) -> list[MessageRow]:
        return await asyncio.to_thread(self._store.messages, endpoint, after, MOST_AT_ONCE)

    def _bell(self, endpoint: str) -> Feed:
        return self._bells.setdefault(endpoint, Feed())
