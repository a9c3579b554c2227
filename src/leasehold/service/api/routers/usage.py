"""Usage: what was used, by whom and of what; and the statement of a consumer for a month."""

from dataclasses import replace
from typing import Annotated

from fastapi import APIRouter, Query

from leasehold.model.agreement import MILLION
from leasehold.model.errors import InvalidField
from leasehold.model.request import GPU_MILLI
from leasehold.protocol.fields import moment_at, show_duration, show_moment, unix_ms
from leasehold.protocol.usage import (
    Balance,
    BalanceList,
    BalanceQuery,
    Share,
    Statement,
    StatementLine,
    StatementQuery,
    Usage,
    UsageFilter,
    Use,
)
from leasehold.service.accounting import (
    Line,
    StepUse,
    Window,
    account,
    balances,
    month_of,
    read_month,
    statement,
    together,
    use_by_step,
    windows,
)
from leasehold.service.accounting import Share as AgreedShare
from leasehold.service.accounting import Use as UseOfWindow
from leasehold.service.agreements import Accounts
from leasehold.service.api.authorizer import Authorized, Call, GuardedRoute, needs
from leasehold.service.api.routers.agreements import may_see, show_penalty
from leasehold.service.auth.permissions import Permission, visible
from leasehold.service.engine.usage import GoingOn
from leasehold.service.store import filters
from leasehold.service.store.reading import Reading, UseChange
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


@router.get("/balance", operation_id="showBalance")
@needs(Permission.USAGE_SEE)
async def show_balance(call: Authorized, query: Annotated[BalanceQuery, Query()]) -> BalanceList:
    """Say who owes whom for a period: for each pair, what one lent to the other, and what it got in return.

    A consumer stands for the provider whose name it has, or whose own user it is; else for itself.
    """
    time = _time(UsageFilter(since=query.since, until=query.until), call.federation.clock())
    which = filters.UsageFilter(_visible(call), *time)

    def sum_up(accounts: Accounts) -> BalanceList:
        used, _ = used_in_steps(call.federation.store, accounts.going_on, which, time[1] - time[0])
        return BalanceList(since=moment_at(time[0]), until=moment_at(time[1]), balances=show_balances(used))

    return await call.federation.agreements.drawn_up(sum_up)


def show_balances(used: StepUse) -> tuple[Balance, ...]:
    """Show who owes whom by this use."""
    return tuple(
        Balance.of(
            one,
            lent_slot_s=show_duration(one.lent_vm_ms),
            returned_slot_s=show_duration(one.returned_vm_ms),
            owed_slot_s=show_duration(one.lent_vm_ms - one.returned_vm_ms),
        )
        for one in balances(used)
    )


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


def used_in_steps(
    store: Reading, going_on: GoingOn, which: filters.UsageFilter, step_ms: int
) -> tuple[StepUse, list[Window]]:
    """Sum up finished and open usage in steps, where it is kept: no row is read for what ended within the time.

    Whatever is held at the end of the time counts until then: open usage, and what has ended since. Each counts once.
    """
    from_ms, to_ms = which.from_ms, min(which.to_ms, going_on.now_ms)
    which = replace(which, to_ms=to_ms)
    steps = [(at_ms, min(at_ms + step_ms, to_ms)) for at_ms in range(from_ms, to_ms, step_ms)]
    if not steps:
        return {}, []
    ended_since = store.usage(replace(which, from_ms=max(from_ms, to_ms - 1)))
    begun = ((row, max(0, row.begin_ms - from_ms)) for row in ended_since)
    opened = [
        UseChange(row.domain or row.site, row.path, bool(row.is_local), at_ms // step_ms, row.vms, row.vms * at_ms)
        for row, at_ms in begun
    ]
    running = going_on.changes(which, step_ms, but={row.lease_id for row in ended_since})
    return use_by_step([*store.use_changes(which, step_ms), *opened, *running], steps), steps


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
