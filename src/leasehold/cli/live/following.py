"""Leases as they change: line by line until they are over, or as a list that is always up to date."""

import asyncio
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import aclosing, closing, contextmanager

from leasehold.cli.live.gateway import RETRY, advising
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
