"""Places in a gateway at which it may be killed on purpose: where a random moment would hardly ever hit.

Between a commit and its answer there are microseconds, and they are where promises are broken. A mine kills
the process that it lies in, with a real SIGKILL, when its place has been passed so many times.
"""

import os
import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum

from leasehold.service.drivers.emulated.driver import EmulatedDriver
from leasehold.service.drivers.protocol import DriverSetup, Observation, Order, Problem
from leasehold.service.store.store import Batch, Store
from leasehold.service.store.store_url import read_url


class Spot(StrEnum):
    """Where a mine can lie."""

    CLAIMED = "the store is claimed"
    BEGUN = "a transaction has begun"
    WRITTEN = "everything is written, and not committed"
    COMMITTED = "a transaction is committed, and nobody knows"
    TELLING = "orders are on their way to the machines"
    TOLD = "the machines have their orders, and nobody knows"
    SEEN = "the machines have said how they are, and nobody has heard"
    ANSWERING = "an answer is ready, and not sent"


@dataclass(slots=True)
class Mine:
    """Goes off when ``spot`` is passed for the ``after``-th time."""

    spot: Spot
    after: int

    def passed(self, spot: Spot) -> None:
        """Go off, or do not."""
        if spot is self.spot:
            self.after -= 1
            if self.after == 0:
                os.kill(os.getpid(), signal.SIGKILL)


class MinedStore(Store):
    """A store in which somebody has laid a mine."""

    def __init__(self, url: str, mine: Mine) -> None:
        super().__init__(read_url(url))
        self._mine = mine
        self.bring_up_to_date()

    def acquire_writer_lock(self) -> None:
        super().acquire_writer_lock()
        self._mine.passed(Spot.CLAIMED)

    @contextmanager
    def writing(self) -> Iterator[Batch]:
        with super().writing() as batch:
            self._mine.passed(Spot.BEGUN)
            yield batch
            self._mine.passed(Spot.WRITTEN)
        self._mine.passed(Spot.COMMITTED)


class MinedDriver(EmulatedDriver):
    """Emulated machines, and a mine on the way to them. It is the gateway that dies; they go on."""

    def __init__(self, setup: DriverSetup, mine: Mine) -> None:
        super().__init__(setup)
        self._mine = mine

    async def carry_out(self, orders: Sequence[Order]) -> dict[str, Problem]:
        self._mine.passed(Spot.TELLING)
        problems = await super().carry_out(orders)
        self._mine.passed(Spot.TOLD)
        return problems

    async def observe(self) -> list[Observation]:
        seen = await super().observe()
        self._mine.passed(Spot.SEEN)
        return seen

    async def changes(self) -> list[Observation]:
        seen = await super().changes()
        self._mine.passed(Spot.SEEN)
        return seen
