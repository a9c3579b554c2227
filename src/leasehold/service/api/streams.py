"""Streams of changes: the journal, read for as long as the client stays connected.

A stream holds at most one page of the journal. It keeps its position, waits for more lines, and reads the next
page once the previous one was sent: a slow reader lags behind and costs nothing.
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
"""Pause after a change, to gather more of them: one read of the store then returns many."""
HEARTBEAT_S = 15.0
"""Longest time without an event or a comment, and the interval at which permissions are checked again."""


class Streams:
    """The open streams: a limited number for each consumer; all end when the API stops."""

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
        """End all streams, and refuse new ones."""
        self.closing = True
        for scope in self._waiting:
            scope.cancel()


@dataclass(frozen=True, slots=True)
class Follower:
    """A subscriber: which lines it follows, and the check that it still may."""

    federation: Federation
    which: JournalFilter
    may_listen: Callable[[], Awaitable[bool]]


async def follow(streams: Streams, follower: Follower, after_seq: int) -> AsyncIterator[list[JournalRow]]:
    """Yield all lines after ``after_seq`` that this follower may see, page by page, and then new ones.

    An empty page comes first, and after HEARTBEAT_S without a line. The stream ends when the API stops, the
    follower may no longer listen, or the store cannot be read; the client reconnects and resumes where it ended.
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
    """Read the next lines and return the position reached; a page that is not full reaches the end."""
    last_seq = store.last_seq()
    lines = store.journal(after_seq, PAGE, which=follower.which)
    read_to = lines[-1].seq if lines else after_seq
    return lines, read_to if len(lines) == PAGE else max(read_to, last_seq)
