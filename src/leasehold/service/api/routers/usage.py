"""Usage: what was used, by whom and of what; and the statement of a consumer for a month."""

from typing import Annotated

from fastapi import APIRouter, Query

from leasehold.model.agreement import MILLION
from leasehold.model.errors import InvalidField
from leasehold.model.request import GPU_MILLI
from leasehold.protocol.fields import moment_at, show_duration, show_moment, unix_ms
from leasehold.protocol.usage import Share, Statement, StatementLine, StatementQuery, Usage, UsageFilter, Use
from leasehold.service.accounting import Line, Window, account, month_of, read_month, statement, together, windows
from leasehold.service.accounting import Share as AgreedShare
from leasehold.service.accounting import Use as UseOfWindow
from leasehold.service.agreements import Accounts
from leasehold.service.api.authorizer import Authorized, Call, GuardedRoute, needs
from leasehold.service.api.routers.agreements import may_see, show_penalty
from leasehold.service.auth.permissions import Permission, visible
from leasehold.service.store import filters
from leasehold.service.store.rows import UsageRow

router = APIRouter(prefix="/v1/usage", tags=["usage"], route_class=GuardedRoute)


@router.get("", operation_id="showUsage")
@needs(Permission.USAGE_SEE)
async def show_use(call: Authorized, query: Annotated[UsageFilter, Query()]) -> Usage:
    """Report the usage between two moments, by consumer and virtual domain.

    It is exact to the millisecond: the sum of the times for which leases held VMs. Open leases count up
    to now.
    """
    time = _time(query, call.federation.clock())
    parts = windows(*time, query.by)
    which = filters.UsageFilter(_visible(call), *time, query.consumer, query.domain)
    depth = max(query.depth, len((query.consumer or "").split("/")))

    def sum_up(accounts: Accounts) -> Usage:
        return show_usage(time, account(rows_of(call, accounts, which), parts, depth))

    return await call.federation.agreements.drawn_up(sum_up)


@router.get("/statement", operation_id="showStatement")
@needs(Permission.USAGE_SEE)
async def show_one_statement(call: Authorized, query: Annotated[StatementQuery, Query()]) -> Statement:
    """Give the statement of a consumer for a month: what was agreed, used and punished, by virtual domain."""
    time = read_month(query.month)
    which = filters.UsageFilter(_visible(call), *time, query.consumer)

    def draw_up(accounts: Accounts) -> Statement:
        records = [state.record for state in accounts.states if may_see(call.principal, state)]
        names = {record.name for record in records}
        known = {state.record.name: state.record for state in accounts.states}
        penalties = [row for row in call.federation.store.penalties() if row.penalty.agreement in names]
        rows = rows_of(call, accounts, which)
        lines = statement(query.consumer, time, rows, records, penalties, accounts.ground, known=known)
        return show_statement(query.month, query.consumer, time, lines, call.federation.clock())

    return await call.federation.agreements.drawn_up(draw_up)


def _visible(call: Call) -> filters.Visible:
    return visible(call.principal, Permission.USAGE_SEE)


def rows_of(call: Call, accounts: Accounts, which: filters.UsageFilter) -> list[UsageRow]:
    """Finished and open usage; open usage was read first, so that nothing is missed in between."""
    going_on = accounts.going_on.rows(which)
    return together(call.federation.store.usage(which), going_on)


def _time(query: UsageFilter, now_ms: int) -> Window:
    until_ms = now_ms if query.until is None else unix_ms(query.until)
    since_ms = month_of(min(now_ms, until_ms))[0] if query.since is None else unix_ms(query.since)
    if since_ms >= until_ms:
        raise InvalidField("until", show_moment(until_ms), f"a time after {show_moment(since_ms)}")
    return since_ms, until_ms


def show_usage(time: Window, uses: list[UseOfWindow]) -> Usage:
    """Show use."""
    return Usage(since=moment_at(time[0]), until=moment_at(time[1]), usage=tuple(_use(use) for use in uses))


def _use(use: UseOfWindow) -> Use:
    return Use.of(
        use,
        begin=moment_at(use.window[0]),
        end=moment_at(use.window[1]),
        local=use.is_local,
        slot_s=show_duration(use.vm_ms),
        gpu_s=_gpu_s(use.gpu_milli_ms),
    )


def show_statement(month: str, consumer: str, time: Window, lines: list[Line], now_ms: int) -> Statement:
    """Show a statement."""
    return Statement(
        month=month,
        consumer=consumer,
        begin=moment_at(time[0]),
        end=moment_at(time[1]),
        lines=tuple(_line(line, now_ms) for line in lines),
    )


def _line(line: Line, now_ms: int) -> StatementLine:
    part = round(line.used_vm_ms / line.capacity_vm_ms, 6) if line.capacity_vm_ms else 0
    return StatementLine.of(
        line,
        shares=tuple(_share(share) for share in line.shares),
        slot_s=show_duration(line.used_vm_ms),
        gpu_s=_gpu_s(line.gpu_milli_ms),
        capacity_slot_s=show_duration(line.capacity_vm_ms),
        used_share=part,
        penalties=tuple(show_penalty(row, now_ms) for row in line.penalties),
    )


def _share(share: AgreedShare) -> Share:
    return Share.of(
        share,
        share=share.share_ppm / MILLION,
        burst_share=share.burst_ppm / MILLION,
        slot_s=show_duration(share.vm_ms),
    )


def _gpu_s(gpu_milli_ms: int) -> float | None:
    """Give GPU-seconds; nothing where no GPU was used."""
    return show_duration(-(-gpu_milli_ms // GPU_MILLI)) if gpu_milli_ms else None
