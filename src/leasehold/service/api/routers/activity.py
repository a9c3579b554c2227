"""What goes on across leases: the queue in groups, the feed of decisions, and the timeline."""

from collections.abc import Callable, Iterable, Sequence
from typing import Annotated, cast

from fastapi import APIRouter, Query, Request, Response
from starlette.concurrency import run_in_threadpool

from leasehold.model.errors import InvalidField
from leasehold.model.reason import Outcome
from leasehold.model.request import LeaseType
from leasehold.protocol.activity import (
    DECIDED,
    DecisionFilter,
    DecisionPage,
    Held,
    Queue,
    QueuedLeases,
    QueuedLeasesFilter,
    QueueFilter,
    QueueGroup,
    Timeline,
    TimelineFilter,
    TimelinePreemption,
    TimelineSite,
)
from leasehold.protocol.fields import LeaseTypeName, moment_at, show_moment, unix_ms
from leasehold.service.accounting import Window, together
from leasehold.service.agreements import Accounts
from leasehold.service.api.authorizer import Authorized, Call, GuardedRoute, needs, seen_by
from leasehold.service.api.paging import cursor_at, cut_page, place_of
from leasehold.service.api.views import explain, leases_named, show_change, show_lease
from leasehold.service.auth.permissions import Permission, reach, visible
from leasehold.service.store import filters
from leasehold.service.store.reading import QueuedAlike
from leasehold.service.store.rows import JournalRow, UsageRow

router = APIRouter(prefix="/v1", tags=["activity"], route_class=GuardedRoute)

_HOUR_MS = 3_600_000
_MOST_LINES = 400


# --- the queue -----------------------------------------------------------------------------------------------


@router.get("/queue", operation_id="showQueue")
@needs(Permission.LEASE_SEE)
async def show_groups_of_queue(call: Authorized, query: Annotated[QueueFilter, Query()]) -> Queue:
    """Show what waits in groups: by consumer, type, reason and state, those of the largest consumer first."""
    which = _queued(call, query)
    alike = await run_in_threadpool(call.federation.store.queue, which)
    groups = _grouped(alike)
    return Queue(
        leases=sum(group.leases for group in groups),
        vms=sum(group.vms for group in groups),
        groups=groups,
    )


@router.get("/queue/leases", operation_id="listQueuedLeases")
@needs(Permission.LEASE_SEE)
async def list_queued_leases(
    call: Authorized, query: Annotated[QueuedLeasesFilter, Query()], request: Request, response: Response
) -> QueuedLeases:
    """List the leases of the queue, the oldest first."""
    after_id = place_of(query.cursor) or 0
    which = _queued(call, query)
    rows = await run_in_threadpool(call.federation.store.queued_leases, which, query.limit + 1, after_id)
    page, cursor = cut_page(rows, query.limit, lambda row: cursor_at(row.lease.id), request, response)
    return QueuedLeases(leases=tuple(map(show_lease, page)), next=cursor)


def _queued(call: Call, query: QueueFilter) -> filters.LeaseFilter:
    return filters.LeaseFilter(
        visible(call.principal, Permission.LEASE_SEE),
        queued=True,
        site=query.site,
        consumer=query.consumer,
        lease_type=query.type,
        reason=query.reason,
    )


def _grouped(alike: Iterable[QueuedAlike]) -> tuple[QueueGroup, ...]:
    """Join what differs in its site alone, and put the consumers with most leases first."""
    joined: dict[tuple[str, str, bool, str, str], list[QueuedAlike]] = {}
    leases: dict[str, int] = {}
    for one in alike:
        joined.setdefault((one.consumer, one.lease_type, one.is_local, one.reason, one.state), []).append(one)
        leases[one.consumer] = leases.get(one.consumer, 0) + one.leases
    groups = [_group(key, some) for key, some in joined.items()]
    return tuple(
        sorted(groups, key=lambda one: (-leases[one.consumer], one.consumer, one.local, one.type, -one.leases))
    )


def _group(key: tuple[str, str, bool, str, str], some: Sequence[QueuedAlike]) -> QueueGroup:
    consumer, lease_type, is_local, reason, state = key
    starts_ms = [one.next_start_ms for one in some if one.next_start_ms is not None]
    return QueueGroup(
        consumer=consumer,
        type=cast("LeaseTypeName", lease_type),
        local=is_local,
        state=state,
        reason=reason,
        explanation=explain(reason),
        sites=tuple(one.site for one in some if one.site),
        leases=sum(one.leases for one in some),
        vms=sum(one.vms for one in some),
        oldest_at=moment_at(min(one.oldest_ms for one in some)),
        next_start_at=moment_at(min(starts_ms)) if starts_ms else None,
    )


# --- decisions -----------------------------------------------------------------------------------------------


@router.get("/decisions", operation_id="listDecisions")
@needs(Permission.CHANGES_SEE)
async def list_decisions(
    call: Authorized, query: Annotated[DecisionFilter, Query()], request: Request, response: Response
) -> DecisionPage:
    """List what was decided about the leases that the caller may see, latest first."""
    if query.what and query.what not in DECIDED:
        raise InvalidField("what", query.what, f"one of {', '.join(DECIDED)}")
    which = filters.JournalFilter(
        visible(call.principal, Permission.CHANGES_SEE),
        site=query.site or None,
        leases=() if query.lease is None else (query.lease,),
        whats=(query.what,) if query.what else DECIDED,
        reason=query.reason or None,
        consumer=query.consumer or None,
    )
    before_seq = place_of(query.cursor)
    found = await run_in_threadpool(call.federation.store.lines_before, before_seq, query.limit + 1, which)
    page, cursor = cut_page(found, query.limit, lambda line: cursor_at(line.seq), request, response)
    may_see = await run_in_threadpool(seen_by, call, Permission.LEASE_SEE, leases_named(page))
    return DecisionPage(decisions=tuple(show_change(line, may_see) for line in page), next=cursor)


# --- the timeline --------------------------------------------------------------------------------------------


@router.get("/timeline", operation_id="showTimeline")
@needs(Permission.USAGE_SEE)
async def show_what_was_held(call: Authorized, query: Annotated[TimelineFilter, Query()]) -> Timeline:
    """Show what leases held between two moments, site by site, and who took room from whom."""
    federation, now_ms = call.federation, call.federation.clock()
    until_ms = now_ms if query.until is None else min(now_ms, unix_ms(query.until))
    since_ms = until_ms - _HOUR_MS if query.since is None else unix_ms(query.since)
    if since_ms >= until_ms:
        raise InvalidField("since", show_moment(since_ms), f"a time before {show_moment(until_ms)}")
    if query.site:
        await federation.sites.check_name(query.site)
    window = (since_ms, until_ms)
    which = filters.UsageFilter(visible(call.principal, Permission.USAGE_SEE), *window, domain=query.site)

    def look(accounts: Accounts) -> tuple[list[UsageRow], frozenset[int]]:
        open_ = accounts.going_on.latest(which, query.limit + 1)
        finished = federation.store.holding_between(which, query.limit + 1)
        return together(finished, open_), frozenset(row.lease_id for row in open_)

    uses, open_ids = await federation.agreements.drawn_up(look)
    latest = sorted(uses, key=lambda use: (use.begin_ms, use.lease_id))[-query.limit :]
    lines = await run_in_threadpool(_preempt_lines, call, window, query.site)
    guests = sorted({use.lease_id for use in latest if not use.is_local})
    types = await run_in_threadpool(federation.store.types_of, guests)
    may_see = await run_in_threadpool(seen_by, call, Permission.LEASE_SEE, leases_named(lines))
    sites = (TimelineSite(name=site.name, slots=site.slots) for site in federation.config.clusters)
    return Timeline(
        since=moment_at(since_ms),
        until=moment_at(until_ms),
        sites=tuple(site for site in sites if query.site in (None, site.name)),
        held=tuple(_held(use, types, is_open=use.lease_id in open_ids and use.end_ms >= until_ms) for use in latest),
        preemptions=_by_taker(lines, may_see),
        more=len(uses) > len(latest),
    )


def _held(use: UsageRow, types: dict[int, str], *, is_open: bool) -> Held:
    return Held(
        lease=use.lease_id,
        consumer=use.consumer,
        type=LeaseType.NON_PREEMPTABLE.label if use.is_local else types.get(use.lease_id, ""),
        local=bool(use.is_local),
        vms=use.vms,
        site=use.site,
        begin=moment_at(use.begin_ms),
        end=None if is_open else moment_at(use.end_ms),
    )


def _preempt_lines(call: Call, window: Window, site: str | None) -> list[JournalRow]:
    store, principal = call.federation.store, call.principal
    sees = visible(principal, Permission.LEASE_SEE) if reach(principal, Permission.LEASE_SEE) else filters.Visible()
    which = filters.JournalFilter(sees, site=site, whats=(Outcome.PREEMPT.value,))
    return store.lines_between(store.seq_at(window[0]), store.seq_at(window[1] + 1), _MOST_LINES, which=which)


def _by_taker(lines: Sequence[JournalRow], may_see: Callable[[int], bool]) -> tuple[TimelinePreemption, ...]:
    """Put the preemptions among these lines together: when, where, for which lease, and which gave way."""
    moments: dict[tuple[int, str, int], list[int]] = {}
    for line in lines:
        taker = show_change(line, may_see).detail.get("preemption", {}).get("for_lease")
        if isinstance(taker, int) and line.lease_id is not None:
            moments.setdefault((line.at_ms, line.site, taker), []).append(line.lease_id)
    return tuple(
        TimelinePreemption(at=moment_at(at_ms), site=site, for_lease=taker, leases=tuple(victims))
        for (at_ms, site, taker), victims in moments.items()
    )
