"""Leases as they change: line by line until they are over, or as a list that is always up to date."""

import asyncio
import sys
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import aclosing, closing, contextmanager
from functools import cache

from rich.live import Live

from leasehold.cli.live.gateway import RETRY, advising
from leasehold.cli.live.leases import happening
from leasehold.cli.live.table import (
    Column,
    answer_line,
    figures,
    heads,
    make_table,
    print_rows,
    rows,
    terminal,
)
from leasehold.cli.live.times import now
from leasehold.cli.screen import talk
from leasehold.client import AsyncClient, Change, Client, JournalEntry, Lease, LeaseFilter, Lost
from leasehold.model.errors import LeaseholdError
from leasehold.model.lease import LeaseState

REDRAW_S = 1.0
"""A list on the screen is drawn anew this often, for its clocks, and looked up no more often than that."""

Paint = Callable[[Sequence[Lease]], None]

_FINAL = frozenset(str(state) for state in LeaseState if state.is_final)


@contextmanager
def going_on(lease_ids: Sequence[int]) -> Iterator[None]:
    """Say beside a connection that ended that the leases are not over, and how to follow them again."""
    try:
        yield
    except Lost as error:
        command = " ".join(["leasehold lease watch", *map(str, lease_ids)])
        advice = f"the connection ended, the leases go on; `{command}` follows them again"
        raise Lost(error.url, f"{error.why} ({advice})", error.key) from error


def until_over(client: Client, lease_ids: Sequence[int]) -> Iterator[Change]:
    """Tell what happened to these leases, and go on until all of them are over."""
    latest = dict.fromkeys(lease_ids, 0)
    left = set(lease_ids)
    with closing(_told(client, lease_ids)) as changes:
        for change in changes:
            number = change.lease or 0
            if change.seq <= latest[number]:
                continue
            latest[number] = change.seq
            yield change
            if change.state in _FINAL:
                left.discard(number)
            if not left:
                return


def _told(client: Client, lease_ids: Sequence[int]) -> Generator[Change, None, None]:
    """Give the journals of these leases, then what comes after the first of them ends, some of it twice."""
    journals = [[_change(number, entry) for entry in client.leases.journal(number)] for number in lease_ids]
    yield from sorted((change for journal in journals for change in journal), key=lambda change: change.seq)
    ends = [journal[-1].seq if journal else 0 for journal in journals]
    yield from client.leases.watch(*lease_ids, after=min(ends))


def _change(lease_id: int, entry: JournalEntry) -> Change:
    return Change(lease=lease_id, job=None, consumer="", **dict(entry))


async def keep_painting(which: LeaseFilter, paint: Paint) -> None:
    """Paint the leases that are asked for, anew whenever something changes; goes on for ever.

    Raises whatever asking raises.
    """
    async with AsyncClient(retry=RETRY) as client:
        stale = asyncio.Event()
        with advising(client.access):
            try:
                async with asyncio.TaskGroup() as group:
                    group.create_task(_note_changes(client, stale))
                    group.create_task(_paint_on(client, stale, which, paint))
            except* LeaseholdError as errors:
                raise errors.exceptions[0] from None


async def _note_changes(client: AsyncClient, stale: asyncio.Event) -> None:
    async with aclosing(client.leases.watch(opened=stale.set)) as changes:
        async for _ in changes:
            stale.set()


async def _paint_on(client: AsyncClient, stale: asyncio.Event, which: LeaseFilter, paint: Paint) -> None:
    await stale.wait()
    leases: list[Lease] = []
    while True:
        if stale.is_set():
            stale.clear()
            leases = [lease async for lease in client.leases.list(which)]
        paint(leases)
        await asyncio.sleep(REDRAW_S)


def waited_for(client: Client, lease: Lease) -> Lease:
    """Say what happens to a lease until it is over, and give it as it is then."""
    if lease.is_over:
        return lease
    try:
        with going_on([lease.id]):
            for change in until_over(client, [lease.id]):
                talk(happening(change))
    except KeyboardInterrupt:
        talk(
            f"leasehold: lease {lease.id} goes on; `leasehold lease watch {lease.id}` follows it, "
            f"`leasehold lease cancel {lease.id}` ends it"
        )
        raise
    return client.leases.get(lease.id)


# Lists


def watch(client: Client, which: LeaseFilter, columns: Sequence[Column[Lease]], *, head: bool) -> None:
    """Show leases, and for ever what becomes of them: without a terminal, in one line for each change."""
    if sys.stdout.isatty():
        _watch_on_screen(which, columns, head=head)
    else:
        _watch_in_lines(client, which, columns, head=head)


def _watch_in_lines(client: Client, which: LeaseFilter, columns: Sequence[Column[Lease]], *, head: bool) -> None:
    """Print the list once changes are listened to, so that none falls between the two; then print these."""

    @cache
    def show_once() -> None:
        print_rows(columns, client.leases.list(which), head=head)

    with closing(client.leases.watch(opened=show_once)) as changes:
        for change in changes:
            if _concerns(change, which):
                answer_line(happening(change))


def _concerns(change: Change, which: LeaseFilter) -> bool:
    """Whether a change is about the site and the consumer that are asked for, if any are."""
    site, consumer = which.site, which.consumer
    return (not site or change.site == site) and (not consumer or change.consumer == consumer)


def _watch_on_screen(which: LeaseFilter, columns: Sequence[Column[Lease]], *, head: bool) -> None:
    with Live(console=terminal(), auto_refresh=False) as live:

        def paint(leases: Sequence[Lease]) -> None:
            shown = rows(leases, columns, now())
            live.update(make_table(heads(columns), shown, figures(columns), head=head), refresh=True)

        asyncio.run(keep_painting(which, paint))
