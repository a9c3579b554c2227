"""The face of kept machines: a driver whose work is done in threads."""

import asyncio
from collections.abc import Sequence

from leasehold.service.drivers.kept.caretaker import Caretaker, Habits
from leasehold.service.drivers.kept.floor import Floor
from leasehold.service.drivers.kept.ledger import Ledger
from leasehold.service.drivers.kept.machine import World
from leasehold.service.drivers.kept.news import News
from leasehold.service.drivers.protocol import Capabilities, Observation, Order, Problem
from leasehold.service.drivers.setup import DriverSetup


class KeptDriver:
    """One site's machines, whatever world they are in. ``ledger`` and ``world`` are closed with it."""

    def __init__(self, setup: DriverSetup, ledger: Ledger, world: World, habits: Habits) -> None:
        self._able = world.capabilities
        self._news = News()
        holdings, gone = ledger.load()
        self._caretaker = Caretaker(
            Floor(setup.slots, self._able, holdings, gone),
            ledger,
            world,
            setup.clock,
            self._news.add,
            habits,
        )

    @property
    def capabilities(self) -> Capabilities:
        """What this driver can do."""
        return self._able

    async def carry_out(self, orders: Sequence[Order]) -> dict[str, Problem]:
        """Take on these orders, in their sequence; they are on the disk when this returns."""
        return await asyncio.to_thread(self._caretaker.take_on, orders)

    async def observe(self) -> list[Observation]:
        """Look at everything that is there, now; raises ConnectionError where that cannot be done."""
        return await asyncio.to_thread(self._caretaker.observe)

    async def changes(self) -> list[Observation]:
        """Wait until something changes, and say what."""
        return await self._news.take()

    async def console(self, lease_id: int) -> str:
        """Give what the machines of a lease have written; empty where there is nothing."""
        return await asyncio.to_thread(self._caretaker.console, lease_id)

    async def close(self) -> None:
        """Let go of the machines, which go on without us."""
        await asyncio.to_thread(self._caretaker.close)
