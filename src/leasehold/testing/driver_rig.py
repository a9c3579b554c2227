"""What drives the conformance suite of drivers: a rig for each kind of driver, and sites under test."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Mapping
from collections.abc import Set as AbstractSet
from contextlib import asynccontextmanager, suppress
from functools import wraps
from typing import Any, Protocol, runtime_checkable

from leasehold.service.drivers.facts import HasNodes, NodeFacts
from leasehold.service.drivers.protocol import (
    REACHES,
    Driver,
    Observation,
    Order,
    Phase,
    Problem,
    Verb,
    order_id,
)

MEMORY_MIB = 64
_A_WHILE = 8


class Rig(Protocol):
    """How to get at one kind of driver. A site's machines outlive its driver, and the rig cleans up.

    ``slots``           how many VMs of MEMORY_MIB fit at a site, at least 2
    ``nap_s``           how long a command sleeps so that something can be done meanwhile, in whole seconds
    ``reference_mips``  the speed that work units are counted by
    ``patience``        how often `pass_time` is worth calling until something must have come about
    """

    slots: int
    nap_s: int
    reference_mips: int
    patience: int

    def open(self, site: str) -> Driver:
        """Make the driver of a site, empty at first; after a kill it finds its machines again."""
        ...

    async def kill(self, driver: Driver) -> None:
        """End a driver abruptly, as a crash of its process would; its machines keep running."""
        ...

    async def pass_time(self) -> None:
        """Let a little time pass for all machines: a small part of a nap."""
        ...


LIES = ("9" * 31, "9" * 5_000, "-1", "256", "garbage", "\0\0", "", "[" * 100_000, "x" * 1_000_000)
"""What a guest may say of how its command has ended, and none has."""


@runtime_checkable
class CanLie(Protocol):
    """A rig whose machines can report false results, as machines with a root guest can."""

    def lie(self, lease_id: int, report: str) -> None:
        """Make the machines of a lease report this as the result of their command."""
        ...


def order(
    verb: Verb,
    lease_id: int = 1,
    incarnation: int = 1,
    *,
    vms: int = 1,
    command: Iterable[object] = (),
    work_done: int = 0,
    other_site: str = "",
) -> Order:
    """An order as the service would give it, small enough for any machine."""
    words = tuple(str(word) for word in command)
    name = order_id(lease_id, incarnation, verb)
    return Order(name, verb, lease_id, incarnation, vms, MEMORY_MIB, words, work_done, other_site)


def played(test: Callable[[Any, Rig], Coroutine[Any, Any, None]]) -> Callable[[Any, Rig], None]:
    """Make a plain test of an asynchronous one."""

    @wraps(test)
    def play(self: Any, rig: Rig) -> None:  # noqa: ANN401 - any suite
        asyncio.run(test(self, rig))

    return play


@asynccontextmanager
async def site(rig: Rig, name: str = "a") -> "AsyncIterator[Site]":
    """Have a site for as long as the block runs."""
    opened = Site(rig, name)
    try:
        yield opened
    finally:
        await opened.driver.close()


class Site:
    """One site under test: its driver, and patience with it."""

    def __init__(self, rig: Rig, name: str) -> None:
        """Open the site."""
        self._rig = rig
        self._name = name
        self.driver = rig.open(name)

    async def crash(self) -> None:
        """Kill the driver, let a little time pass, and open the site again."""
        await self._rig.kill(self.driver)
        await self._rig.pass_time()
        self.driver = self._rig.open(self._name)

    # orders

    async def tell(self, *orders: Order) -> dict[str, Problem]:
        """Give orders once, and return the problems."""
        return await self.driver.carry_out(orders)

    async def do(self, *orders: Order) -> None:
        """Give orders one after the other, each until it is taken on, as the service would."""
        for one in orders:
            await self._until_taken_on(one)

    async def _until_taken_on(self, order: Order) -> None:
        problem: Problem | None = None
        for _ in range(self._rig.patience):
            problem = (await self.tell(order)).get(order.id)
            if problem is None:
                return
            assert problem.again, f"{order.id} was refused: {problem.text}"
            await self._rig.pass_time()
        raise AssertionError(f"{order.id} was never taken on: {problem}")

    async def refuses(self, order: Order) -> None:
        """Check that an order is refused permanently."""
        problem = (await self.tell(order)).get(order.id)
        assert problem is not None, f"{order.id} was taken on by a driver that cannot do it"
        assert not problem.again, f"{order.id} is refused as if it could be sent again: {problem.text}"

    async def has_no_room_for(self, order: Order) -> None:
        """Check that an order is refused temporarily, and may be sent again."""
        problem = (await self.tell(order)).get(order.id)
        assert problem is not None, f"{order.id} was taken on where there is no room"
        assert problem.again, f"{order.id} is refused permanently although room is only lacking now: {problem.text}"

    # observations

    async def seen(self, lease_id: int = 1) -> Observation | None:
        """Look at the machines of one lease; None where there is nothing of it."""
        found = [one for one in await self.driver.observe() if one.lease_id == lease_id]
        assert len(found) <= 1, f"lease {lease_id} is observed more than once: {found}"
        return found[0] if found else None

    async def until(self, phase: Phase, lease_id: int = 1) -> Observation:
        """Wait until the machines of a lease are in a phase."""
        return await self.until_any({phase}, lease_id)

    async def until_any(self, phases: AbstractSet[Phase], lease_id: int = 1) -> Observation:
        """Wait until the machines of a lease are in one of some phases."""
        seen: Observation | None = None
        for _ in range(self._rig.patience):
            seen = await self.seen(lease_id)
            if seen is not None and seen.phase in phases:
                return seen
            await self._rig.pass_time()
        raise AssertionError(f"lease {lease_id} never came to be {' or '.join(sorted(phases))}: {seen}")

    async def until_gone(self, lease_id: int = 1) -> None:
        """Wait until nothing is left of a lease."""
        seen: Observation | None = None
        for _ in range(self._rig.patience):
            seen = await self.seen(lease_id)
            if seen is None:
                return
            await self._rig.pass_time()
        raise AssertionError(f"lease {lease_id} never went: {seen}")

    async def stays(self, expected: Observation | None, lease_id: int = 1) -> None:
        """See that the machines of a lease stay as they are for a while."""
        for _ in range(_A_WHILE):
            seen = await self.seen(lease_id)
            assert seen == expected, f"lease {lease_id} was {expected}, and now it is {seen}"
            await self._rig.pass_time()

    async def runs_for_ms(self, lease_id: int) -> int:
        """Wait until a command ends, and say for how long it ran since it was last brought up.

        0 where it had ended before it was seen to run, as happens on computers that stall for a while.
        """
        begun = await self.until_any(REACHES[Verb.START], lease_id)
        ended = await self.until(Phase.ENDED, lease_id)
        return ended.since_ms - begun.since_ms

    async def looks_at(self, node: str) -> AsyncIterator[NodeFacts]:
        """Look at a node again and again, as long as patience goes."""
        assert isinstance(self.driver, HasNodes)
        for _ in range(self._rig.patience):
            for found in await self.driver.nodes():
                if found.name == node:
                    yield found
            await self._rig.pass_time()

    # changes

    @asynccontextmanager
    async def listening(self) -> AsyncIterator[dict[int, Observation]]:
        """Listen for changes while the block runs, and keep the last observation of each lease."""
        heard: dict[int, Observation] = {}
        listener = asyncio.create_task(self._listen(heard))
        try:
            yield heard
        finally:
            listener.cancel()
            with suppress(asyncio.CancelledError):
                await listener

    async def _listen(self, heard: dict[int, Observation]) -> None:
        while True:
            for one in await self.driver.changes():
                heard[one.lease_id] = one

    async def until_told(self, heard: Mapping[int, Observation]) -> None:
        """Wait until the listener has heard, of each lease, what can be observed."""
        seen: dict[int, Observation] = {}
        for _ in range(self._rig.patience):
            seen = {one.lease_id: one for one in await self.driver.observe()}
            if heard == seen:
                return
            await self._rig.pass_time()
        raise AssertionError(f"observed: {seen}; last change heard: {heard}")
