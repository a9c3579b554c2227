"""The router of one service: messages in, messages out, and which endpoint was last heard of when."""

import asyncio
import json
from collections.abc import Callable, Iterable
from itertools import accumulate

from leasehold.service.commands import MessageBatch
from leasehold.service.engine_thread import Clock, EngineThread
from leasehold.service.feed import Feed
from leasehold.service.store.rows import MessageRow
from leasehold.service.store.store import Store

SILENT_AFTER_MS = 60_000
MOST_AT_ONCE = 100
MOST_BYTES_AT_ONCE = 512 * 1024
"""Of messages in one call, but for a single one that is larger."""

CALL_BYTES = 4 * 1024 * 1024
"""Of the body of a call: the messages, and the status with all nodes by which a site is planned."""
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

    def __init__(self, engine: EngineThread, store: Store, clock: Clock) -> None:
        self._engine = engine
        self._store = store
        self._clock = clock
        self._opened_ms = clock()
        self._heard_ms: dict[str, int] = {}
        self._feeds: dict[str, Feed] = {}
        self._is_closed = False

    def notify(self, endpoints: Iterable[str]) -> None:
        """Wake the calls that wait for messages to these endpoints."""
        for name in endpoints:
            feed = self._feed(name)
            feed.advance(feed.last_seq + 1)

    async def receive(self, batch: MessageBatch) -> int:
        """Let the engine take messages in; returns the number of the last that has been, now or before.

        Raises InvalidField where a message is missing, or for a site with the identity of another.
        """
        await self._engine.do(batch)
        self._heard_ms[batch.endpoint] = self._clock()
        return await self.received(batch.endpoint)

    async def received(self, endpoint: str) -> int:
        """Give the number of the last message of an endpoint that has been taken in."""
        return (await asyncio.to_thread(self._store.message_numbers, endpoint))[1]

    async def messages(self, endpoint: str, after: int, wait_s: float) -> list[MessageRow]:
        """Give the messages later than ``after``; where there are none, wait a while for some."""
        feed = self._feed(endpoint)
        seen = feed.last_seq
        messages = await self._waiting(endpoint, after)
        if messages or not wait_s or self._is_closed:
            return messages
        try:
            async with asyncio.timeout(wait_s):
                await feed.wait(seen)
        except TimeoutError:
            return []
        return await self._waiting(endpoint, after)

    def close(self) -> None:
        """Let no call wait any more."""
        self._is_closed = True
        self.notify(list(self._feeds))

    def last_heard_ms(self, endpoint: str) -> int | None:
        """When an endpoint was last heard of since this service was opened."""
        return self._heard_ms.get(endpoint)

    def forget(self, endpoints: Iterable[str]) -> None:
        """These endpoints are gone."""
        for name in endpoints:
            self._heard_ms.pop(name, None)

    def is_silent(self, endpoint: str) -> bool:
        """Whether an endpoint has not been heard of for too long."""
        return self.silent_ms(endpoint) > SILENT_AFTER_MS

    def silent_ms(self, endpoint: str) -> int:
        """For how long an endpoint has not been heard of, since this service was opened at most."""
        return self._clock() - self._heard_ms.get(endpoint, self._opened_ms)

    def is_away(self, endpoint: str) -> bool:
        """Whether an endpoint has not been heard of for too long, or not at all since this service was opened."""
        return endpoint not in self._heard_ms or self.is_silent(endpoint)

    async def _waiting(self, endpoint: str, after: int) -> list[MessageRow]:
        rows = await asyncio.to_thread(self._store.messages, endpoint, after, MOST_AT_ONCE)
        sizes = accumulate(len(row.body) for row in rows)
        return [
            row
            for number, (row, size) in enumerate(zip(rows, sizes, strict=True))
            if not number or size <= MOST_BYTES_AT_ONCE
        ]

    def _feed(self, endpoint: str) -> Feed:
        return self._feeds.setdefault(endpoint, Feed())
