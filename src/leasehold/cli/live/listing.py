"""Lists of leases: as a table once, or on the screen for as long as somebody looks."""

import asyncio
import sys
from collections.abc import Sequence
from contextlib import closing
from functools import cache

from rich.live import Live

from leasehold.cli.live.columns import Column, rows
from leasehold.cli.live.following import keep_painting
from leasehold.cli.live.lines import answer_line
from leasehold.cli.live.moments import now
from leasehold.cli.live.table import make_table, print_table, terminal
from leasehold.cli.live.wording import happening
from leasehold.client import Change, Client, Lease, LeaseFilter


def show(leases: Sequence[Lease], columns: Sequence[Column], *, head: bool) -> None:
    """Print leases as they are now."""
    print_table(_heads(columns), rows(leases, columns, now()), _figures(columns), head=head)


def watch(client: Client, which: LeaseFilter, columns: Sequence[Column], *, head: bool) -> None:
    """Show leases, and for ever what becomes of them: without a terminal, in one line for each change."""
    if sys.stdout.isatty():
        _watch_on_screen(which, columns, head=head)
    else:
        _watch_in_lines(client, which, columns, head=head)


def _watch_in_lines(client: Client, which: LeaseFilter, columns: Sequence[Column], *, head: bool) -> None:
    """Print the list once changes are listened to, so that none falls between the two; then print these."""

    @cache
    def show_once() -> None:
        show(list(client.leases.list(which)), columns, head=head)

    with closing(client.leases.watch(opened=show_once)) as changes:
        for change in changes:
            if _concerns(change, which):
                answer_line(happening(change))


def _concerns(change: Change, which: LeaseFilter) -> bool:
    """Whether a change is about the site and the consumer that are asked for, if any are."""
    site, consumer = which.site, which.consumer
    return (not site or change.site == site) and (not consumer or change.consumer == consumer)


def _watch_on_screen(which: LeaseFilter, columns: Sequence[Column], *, head: bool) -> None:
    with Live(console=terminal(), auto_refresh=False) as live:

        def paint(leases: Sequence[Lease]) -> None:
            shown = rows(leases, columns, now())
            live.update(make_table(_heads(columns), shown, _figures(columns), head=head), refresh=True)

        asyncio.run(keep_painting(which, paint))


def _heads(columns: Sequence[Column]) -> list[str]:
    return [column.head for column in columns]


def _figures(columns: Sequence[Column]) -> set[int]:
    return {index for index, column in enumerate(columns) if column.is_figure}
