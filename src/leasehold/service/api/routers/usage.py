"""Usage: what was used, by whom and of what; and the statement of a consumer for a month."""

from typing import Annotated

from fastapi import APIRouter, Query

from leasehold.model.errors import InvalidField
from leasehold.service.accounting import Window, account, month_of, read_month, statement, together, windows
from leasehold.service.agreements import Accounts
from leasehold.service.api.door import Admitted, Call, GuardedRoute, needs
from leasehold.service.api.models.usage import (
    Statement,
    StatementQuery,
    Usage,
    UsageQuery,
    show_statement,
    show_usage,
)
from leasehold.service.api.moments import show_moment
from leasehold.service.api.parties import may_see
from leasehold.service.auth.permissions import Permission, visible
from leasehold.service.store.filters import UsageFilter, Visible
from leasehold.service.store.rows import UsageRow

router = APIRouter(prefix="/v1/usage", tags=["usage"], route_class=GuardedRoute)


@router.get("", operation_id="showUsage")
@needs(Permission.USAGE_SEE)
async def show_use(call: Admitted, query: Annotated[UsageQuery, Query()]) -> Usage:
    """Tell what was used between two moments, by consumer and virtual domain.

    It is exact to the millisecond: the sum of the times for which leases held VMs. What goes on counts until
    now.
    """
    time = _time(query, call.federation.clock())
    parts = windows(*time, query.by)
    which = UsageFilter(_visible(call), *time, query.consumer, query.domain)
    depth = max(query.depth, len((query.consumer or "").split("/")))

    def sum_up(accounts: Accounts) -> Usage:
        return show_usage(time, account(_rows(call, accounts, which), parts, depth))

    return await call.federation.agreements.drawn_up(sum_up)


@router.get("/statement", operation_id="showStatement")
@needs(Permission.USAGE_SEE)
async def show_one_statement(call: Admitted, query: Annotated[StatementQuery, Query()]) -> Statement:
    """Give the statement of a consumer for a month: what was agreed, used and punished, by virtual domain."""
    time = read_month(query.month)
    which = UsageFilter(_visible(call), *time, query.consumer)

    def draw_up(accounts: Accounts) -> Statement:
        records = [state.record for state in accounts.states if may_see(call.principal, state)]
        names = {record.name for record in records}
        known = {state.record.name: state.record for state in accounts.states}
        penalties = [row for row in call.federation.store.penalties() if row.agreement in names]
        rows = _rows(call, accounts, which)
        lines = statement(query.consumer, time, rows, records, penalties, accounts.ground, known=known)
        return show_statement(query.month, query.consumer, time, lines, call.federation.clock())

    return await call.federation.agreements.drawn_up(draw_up)


def _visible(call: Call) -> Visible:
    return visible(call.principal, Permission.USAGE_SEE)


def _rows(call: Call, accounts: Accounts, which: UsageFilter) -> list[UsageRow]:
    """What is over and what goes on; the latter was looked up first, so that nothing is left out between."""
    going_on = accounts.going_on.rows(which)
    return together(call.federation.store.usage(which), going_on)


def _time(query: UsageQuery, now_ms: int) -> Window:
    until_ms = now_ms if query.until_ms is None else query.until_ms
    since_ms = month_of(min(now_ms, until_ms))[0] if query.since_ms is None else query.since_ms
    if since_ms >= until_ms:
        raise InvalidField("until", show_moment(until_ms), f"a time after {show_moment(since_ms)}")
    return since_ms, until_ms
