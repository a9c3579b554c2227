"""Changes as they happen, as server-sent events.

A stream holds at most one page of the journal. It keeps its position, waits for more lines, and reads the next
page once the previous one was sent: a slow reader lags behind and costs nothing.
"""

from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from math import inf
from typing import Annotated

from anyio import CancelScope, current_time, sleep
from fastapi import APIRouter, Depends, Header, Query, Request
from fastapi.responses import StreamingResponse
from fastapi.sse import KEEPALIVE_COMMENT, format_sse_event
from starlette.concurrency import run_in_threadpool

from leasehold.protocol.fields import Number
from leasehold.protocol.leases import ChangesQuery
from leasehold.protocol.problems import Kind
from leasehold.service.api.authorizer import Authorized, Call, GuardedRoute, needs, seen_by
from leasehold.service.api.openapi import refuses
from leasehold.service.api.views import leases_named, show_change
from leasehold.service.auth.permissions import Permission, Target, allowed, visible
from leasehold.service.errors import NoSuchLease, TooManyStreams, Unavailable
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


router = APIRouter(prefix="/v1/changes", tags=["changes"], route_class=GuardedRoute)

Query_ = Annotated[ChangesQuery, Query()]
LastEventId = Annotated[
    Number | None,
    Header(
        alias="Last-Event-ID",
        description="The `id` of the last event that came; browsers send it automatically.",
    ),
]

_UNBUFFERED = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}
"""Headers that make proxies pass each event on at once."""


class EventStream(StreamingResponse):
    """Server-sent events, written by us.

    FastAPI would write them too, with a task and two queues between the events and the wire; what is under
    way there when a listener hangs up ends in a traceback.
    """

    media_type = "text/event-stream"


async def _place(call: Authorized, request: Request) -> AsyncIterator[None]:
    """Hold one of the caller's places for as long as the stream lasts."""
    with request.app.state.streams.place(call.principal.consumer):
        yield


async def _follower(call: Authorized, request: Request, query: Query_) -> Follower:
    """The follower of this request. Raises NoSuchLease before anything is sent."""
    for lease_id in query.lease:
        await run_in_threadpool(_check_lease, call, lease_id)
    return Follower(
        federation=call.federation,
        which=JournalFilter(visible(call.principal, Permission.CHANGES_SEE), leases=tuple(query.lease)),
        may_listen=lambda: request.app.state.authorizer.reauthorize(request, Permission.CHANGES_SEE),
    )


async def _start(call: Authorized, query: Query_, last_event_id: LastEventId = None) -> int:
    """After which line to begin: where the listener was, where they say, or with what happens now."""
    for place in (last_event_id, query.after):
        if place is not None:
            return place
    return await run_in_threadpool(call.federation.store.last_seq)


@router.get(
    "",
    operation_id="followChanges",
    response_class=EventStream,
    dependencies=[Depends(_place)],
    response_description="Events named `change`; their `id` is the `seq`, and their `data` a Change.",
    responses=refuses(Kind.NO_SUCH_LEASE, Kind.TOO_MANY_STREAMS),
)
@needs(Permission.CHANGES_SEE)
async def follow_changes(
    call: Authorized,
    request: Request,
    follower: Annotated[Follower, Depends(_follower)],
    start_seq: Annotated[int, Depends(_start)],
) -> EventStream:
    """Follow what happens to the leases that the caller may see.

    Server-sent events: a comment line comes at least every 15 seconds, and a client that was disconnected
    resumes with `Last-Event-ID` and misses nothing.
    """
    pages = follow(request.app.state.streams, follower, start_seq)
    return EventStream(_events(call, pages), headers=_UNBUFFERED)


def _check_lease(call: Call, lease_id: int) -> None:
    row = call.federation.store.lease(lease_id)
    if row is None or not allowed(call.principal, Permission.CHANGES_SEE, Target.lease(row)):
        raise NoSuchLease(lease_id)


async def _events(call: Call, pages: AsyncIterator[list[JournalRow]]) -> AsyncIterator[bytes]:
    """Write each line as an event, and no lines as a comment."""
    async for lines in pages:
        may_see = await run_in_threadpool(seen_by, call, Permission.CHANGES_SEE, leases_named(lines))
        yield b"".join(_event(line, may_see) for line in lines) or KEEPALIVE_COMMENT


def _event(line: JournalRow, may_see: Callable[[int], bool]) -> bytes:
    data = show_change(line, may_see).model_dump_json()
    return format_sse_event(event="change", id=str(line.seq), data_str=data)
