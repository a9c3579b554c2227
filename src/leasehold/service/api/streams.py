"""Streams of changes: the journal, read on and on for as long as somebody listens.

A stream holds no more than one page of the journal. It knows how far it has come, waits until there is more,
and reads the next page when the one before has left: a slow reader is late, and costs nothing.
"""

from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from math import inf

from anyio import CancelScope, current_time, sleep
from starlette.concurrency import run_in_threadpool

from leasehold.service.errors import TooManyStreams, Unavailable
from leasehold.service.federation import Federation
from leasehold.service.feed import Feed
from leasehold.service.metrics import Metrics
from leasehold.service.store.errors import StoreUnavailable
from leasehold.service.store.filters import JournalFilter
from leasehold.service.store.rows import JournalRow
from leasehold.service.store.store import Store

PAGE = 200
GATHER_S = 0.05
"""After something happened, so long is waited for more of it: one look at the store shows many changes."""
HEARTBEAT_S = 15.0
"""A listener hears something at least so often; and so often it is checked whether it may listen at all."""


class Streams:
    """The streams that are open: so many for each consumer, and all of them end when the API stops."""

    def __init__(self, most: int, metrics: Metrics) -> None:
        self._most = most
        self._metrics = metrics
        self._open: Counter[str] = Counter()
        self._waiting: set[CancelScope] = set()
        self.closing = False

    @contextmanager
    def place(self, consumer: str) -> Iterator[None]:
        """Take one of a consumer's places. Raises TooManyStreams, and Unavailable while the API stops."""
        if self.closing:
            raise Unavailable("the service is stopping")
        if self._open[consumer] >= self._most:
            raise TooManyStreams(consumer, self._most)
        self._open[consumer] += 1
        try:
            with self._metrics.streaming():
                yield
        finally:
            self._open[consumer] -= 1
            if not self._open[consumer]:
                del self._open[consumer]

    async def wait(self, feed: Feed, after_seq: int, until_s: float) -> None:
        """Wait for a later line; not beyond ``until_s`` (by the event loop), and not when the API stops."""
        with CancelScope(deadline=-inf if self.closing else until_s) as scope:
            self._waiting.add(scope)
            try:
                await feed.wait(after_seq)
                await sleep(GATHER_S)
            finally:
                self._waiting.discard(scope)

    def close(self) -> None:
        """Let all streams end, and no new ones begin."""
        self.closing = True
        for scope in self._waiting:
            scope.cancel()


@dataclass(frozen=True, slots=True)
class Follower:
    """Somebody who listens: to what, and how it is found out whether they still may."""

    federation: Federation
    which: JournalFilter
    may_listen: Callable[[], Awaitable[bool]]


async def follow(streams: Streams, follower: Follower, after_seq: int) -> AsyncIterator[list[JournalRow]]:
    """Give all lines later than ``after_seq`` that are for this follower, page by page, and those to come.

    An empty page comes first and whenever there was nothing to tell for HEARTBEAT_S. It ends when the API
    stops, the follower may no longer listen, or the store cannot be read: who listens asks again, and goes on
    where this ended.
    """
    heard_s = -inf
    store, feed = follower.federation.store, follower.federation.feed
    while not streams.closing and await follower.may_listen():
        try:
            lines, after_seq = await run_in_threadpool(_page, store, follower, after_seq)
        except StoreUnavailable:
            return
        if lines or current_time() >= heard_s + HEARTBEAT_S:
            heard_s = current_time()
            yield lines
        if len(lines) < PAGE:
            await streams.wait(feed, after_seq, heard_s + HEARTBEAT_S)


def _page(store: Store, follower: Follower, after_seq: int) -> tuple[list[JournalRow], int]:
    """Read the next lines, and say how far that was: a page that is not full was everything up to now."""
    last_seq = store.last_seq()
    lines = store.journal(after_seq, PAGE, which=follower.which)
    read_to = lines[-1].seq if lines else after_seq
    return lines, read_to if len(lines) == PAGE else max(read_to, last_seq)
