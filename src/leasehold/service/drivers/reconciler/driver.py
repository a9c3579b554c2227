"""A driver whose machines a `Reconciler` looks after in threads: all that is left to say is its `Provider`."""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from threading import Lock

from leasehold.service.drivers.facts import Access
from leasehold.service.drivers.protocol import Capabilities, DriverSetup, Observation, Order, Problem
from leasehold.service.drivers.reconciler.desired import DesiredState
from leasehold.service.drivers.reconciler.loop import Reconciler, ReconcilerSettings
from leasehold.service.drivers.reconciler.provider import MachineInstance, Provider
from leasehold.service.drivers.reconciler.store import InstanceStore

MakeProvider = Callable[[InstanceStore[MachineInstance]], Provider]


class ReconciledDriver:
    """The driver of one site; it closes its provider.

    Raises InputError for a store that cannot be used, and whatever ``make_provider`` raises.
    """

    def __init__(self, setup: DriverSetup, make_provider: MakeProvider, settings: ReconcilerSettings) -> None:
        store = InstanceStore(setup.folder, MachineInstance, "machines")
        try:
            provider = make_provider(store)
        except BaseException:
            store.close()
            raise
        self._capabilities = provider.capabilities
        self._news = News()
        stored, tombstones = store.instances(), store.tombstones()
        instances = DesiredState(MachineInstance, setup.slots, self._capabilities, stored, tombstones)
        self._reconciler = Reconciler(instances, store, provider, setup.clock, self._news.add, settings)
        self._reconciler.start()

    @property
    def capabilities(self) -> Capabilities:
        """What this driver can do."""
        return self._capabilities

    async def carry_out(self, orders: Sequence[Order]) -> dict[str, Problem]:
        """Take on these orders, in their sequence; they are on the disk when this returns."""
        return await asyncio.to_thread(self._reconciler.carry_out, orders)

    async def observe(self) -> list[Observation]:
        """Observe everything that is there, now; raises ConnectionError where that cannot be done."""
        return await asyncio.to_thread(self._reconciler.observe)

    async def changes(self) -> list[Observation]:
        """Wait until something changes, and return it."""
        return await self._news.take()

    async def console(self, lease_id: int) -> str:
        """Return what the machines of a lease have written; empty where there is nothing."""
        return await asyncio.to_thread(self._reconciler.console, lease_id)

    async def access(self, lease_id: int) -> list[Access]:
        """Say where the user of a lease can log in; empty where nobody is let in."""
        return await asyncio.to_thread(self._reconciler.access, lease_id)

    async def close(self) -> None:
        """Close; the machines keep running."""
        await asyncio.to_thread(self._reconciler.close)


class News:
    """What has changed, from threads to an event loop: of each lease the last, until it is taken."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._untold: dict[int, Observation] = {}
        self._waiting: tuple[asyncio.AbstractEventLoop, asyncio.Event] | None = None

    def add(self, news: Iterable[Observation]) -> None:
        """Add some, from any thread."""
        with self._lock:
            self._untold.update((one.lease_id, one) for one in news)
            waiting = self._waiting if self._untold else None
        if waiting is not None:
            loop, event = waiting
            with suppress(RuntimeError):  # the loop is closed, and does not wait any more
                loop.call_soon_threadsafe(event.set)

    async def take(self) -> list[Observation]:
        """Wait until there is some, and take it; cancelled meanwhile, nothing is taken."""
        event = asyncio.Event()
        with self._lock:
            self._waiting = (asyncio.get_running_loop(), event)
        while not (taken := self._take()):
            await event.wait()
            event.clear()
        return taken

    def _take(self) -> list[Observation]:
        with self._lock:
            taken, self._untold = self._untold, {}
        return list(taken.values())
