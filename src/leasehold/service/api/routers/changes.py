"""Changes as they happen, as server-sent events."""

from collections.abc import AsyncIterator, Callable
from typing import Annotated

from fastapi import APIRouter, Depends, Header, Query, Request
from fastapi.responses import StreamingResponse
from fastapi.sse import KEEPALIVE_COMMENT, format_sse_event
from starlette.concurrency import run_in_threadpool

from leasehold.protocol.fields import Number
from leasehold.protocol.journal import ChangesQuery
from leasehold.protocol.problems import Kind
from leasehold.service.api.authorizer import Authorized, Call, GuardedRoute, needs, seen_by
from leasehold.service.api.openapi import refuses
from leasehold.service.api.streams import Follower, follow
from leasehold.service.api.views import leases_named, show_change
from leasehold.service.auth.permissions import Permission, Target, allowed, visible
from leasehold.service.errors import NoSuchLease
from leasehold.service.store.filters import JournalFilter
from leasehold.service.store.rows import JournalRow

router = APIRouter(prefix="/v1/changes", tags=["changes"], route_class=GuardedRoute)

Query_ = Annotated[ChangesQuery, Query()]
LastEventId = Annotated[
    Number | None,
    Header(
        alias="Last-Event-ID",
        description="The `id` of the last event that came; browsers send it by themselves.",
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
