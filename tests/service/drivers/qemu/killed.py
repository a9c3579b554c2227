"""A site of virtual machines in a process of its own, which is there to be killed."""

import asyncio
import time
from collections.abc import Callable, Iterable
from itertools import count
from multiprocessing.connection import Connection
from pathlib import Path
from random import Random
from typing import Any

from tests.service.drivers.qemu.machines import setup
from tests.waiting import PATIENCE_S

from leasehold.service.drivers.protocol import Observation, Order, Phase
from leasehold.service.drivers.qemu.driver import QemuDriver
from leasehold.testing.killable import Killable


def main(connection: Connection, folder: Path, site: str, image: Path) -> None:
    """Have the machines of a site, and do with them whatever comes over the connection."""
    asyncio.run(_serve(connection, QemuDriver(setup(folder, site, image))))


async def _serve(connection: Connection, driver: QemuDriver) -> None:
    await driver.observe()
    connection.send((0, "ready"))
    while True:
        try:
            number, orders = await asyncio.to_thread(connection.recv)
        except (EOFError, OSError):
            return
        answer = await driver.carry_out(orders) if orders else await driver.observe()
        connection.send((number, answer))


class KillableSite:
    """A site whose manager is killed at moments that chance draws, and begun again."""

    def __init__(self, folder: Path, name: str, image: Path) -> None:
        self.folder = folder / "machines" / name
        self._arguments = (folder, name, image)
        self._process: Killable | None = None
        self._numbers = count(1)
        self.begin()

    def begin(self) -> None:
        """Let a manager be there, who goes on with whatever is to be done."""
        self._process = Killable(main, *self._arguments)
        assert self._answer(0) == "ready"

    def kill(self) -> None:
        """Kill the manager with SIGKILL."""
        assert self._process is not None
        self._process.close()

    def tell(self, *orders: Order) -> None:
        """Give orders until they are taken on, as the service would."""
        give_up_s = time.monotonic() + PATIENCE_S
        while problems := self._ask(list(orders)):
            assert all(problem.again for problem in problems.values()), problems
            assert time.monotonic() < give_up_s, problems
            time.sleep(0.05)

    def start_telling(self, *orders: Order) -> None:
        """Give orders, and do not wait for what becomes of it."""
        self._send(list(orders))

    def seen(self, lease_id: int = 1) -> Observation | None:
        """Look at a lease."""
        observations: list[Observation] = self._ask([])
        return next((one for one in observations if one.lease_id == lease_id), None)

    def until(self, is_so: Callable[[Observation | None], bool]) -> None:
        """Wait until a lease is seen so; never is it seen as lost."""
        give_up_s = time.monotonic() + PATIENCE_S
        while not is_so(seen := self.seen()):
            assert seen is None or seen.phase is not Phase.FAILED, seen
            assert time.monotonic() < give_up_s, seen
            time.sleep(0.02)

    def until_is(self, phase: Phase, incarnation: int) -> None:
        """Wait until a lease is in a phase."""
        self.until(lambda seen: seen is not None and (seen.phase, seen.incarnation) == (phase, incarnation))

    def _ask(self, orders: list[Order]) -> Any:
        return self._answer(self._send(orders))

    def _send(self, orders: list[Order]) -> int:
        assert self._process is not None
        number = next(self._numbers)
        self._process.tell((number, orders))
        return number

    def _answer(self, number: int) -> Any:
        assert self._process is not None
        give_up_s = time.monotonic() + PATIENCE_S
        while time.monotonic() < give_up_s:
            for answered, answer in self._process.hear(1.0):
                if answered == number:
                    return answer
        raise AssertionError("its manager does not answer")


def killed_after(chance: Random, longest_s: float, sites: Iterable[KillableSite], is_at_it: Callable[[], bool]) -> bool:
    """Let a time pass that chance draws, kill these, and let new ones begin; were they at it when killed?"""
    time.sleep(chance.uniform(0, longest_s))
    for site in sites:
        site.kill()
    were_at_it = is_at_it()
    for site in sites:
        site.begin()
    return were_at_it
