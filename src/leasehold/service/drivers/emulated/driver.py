"""The emulated driver: machines that go on while their manager is dead, because their clock does."""

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TypeVar

from leasehold.jobs.job import Fault
from leasehold.service.drivers.emulated.console import console_text
from leasehold.service.drivers.emulated.faults import Faults
from leasehold.service.drivers.emulated.hardware import Hardware
from leasehold.service.drivers.emulated.ledger import Ledger, work_sent
from leasehold.service.drivers.emulated.line import Line
from leasehold.service.drivers.emulated.machines import EmulatedMachines
from leasehold.service.drivers.emulated.mishaps import Mishaps
from leasehold.service.drivers.emulated.options import read_options
from leasehold.service.drivers.facts import NodeFacts, Output
from leasehold.service.drivers.protocol import Capabilities, Observation, Order, Problem, Verb
from leasehold.service.drivers.setup import DriverSetup

LEDGER = "emulated.sqlite3"
"""The name of the file in the driver's folder."""

_CONSOLE_LINES = 100
_LONGEST_WAIT_S = 60.0
"""A clock that was set, or slept with its computer, is noticed after so long."""

Result = TypeVar("Result")


class EmulatedDriver:
    """One site's emulated machines.

    Its file holds them all. Opened again, it goes on by the clock: what should have ended meanwhile has
    ended, at its time. All work is done in one thread of its own, one thing after another, so that whoever
    is cancelled while waiting for it leaves nothing half-done.

    ``mishaps`` and ``line`` let things go wrong on demand; see there.

    Raises InvalidField or UnknownName for an option that makes no sense, InputError for a file that cannot be
    used; see `Ledger`.
    """

    def __init__(self, setup: DriverSetup) -> None:
        options = read_options(setup.options)
        self._hardware = Hardware(
            setup.slots,
            setup.speed_mips,
            setup.reference_mips,
            setup.overhead,
            options.boot_ms,
            options.capabilities,
            options.nodes,
        )
        self._clock = setup.clock
        self._neighbours = setup.folder.parent
        self.mishaps = Mishaps(options.faults, setup.site)
        self.line = Line(options.faults, setup.site)
        self._ledger = Ledger(setup.folder / LEDGER, options.audit_lines)
        self._machines = self._as_written()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix=f"emulated-{setup.site}")
        self._stirred = asyncio.Event()

    @property
    def capabilities(self) -> Capabilities:
        """What this driver can do."""
        return self._hardware.capabilities

    async def carry_out(self, orders: Sequence[Order]) -> dict[str, Problem]:
        """Take on these orders, in their sequence; raises ConnectionError where the line is cut."""
        await self.line.reach()
        return await self._act(
            lambda now_ms: self._machines.carry_out([self._with_memory(order) for order in orders], now_ms)
        )

    async def observe(self) -> list[Observation]:
        """Look at everything that is there, now; raises ConnectionError where the line is cut."""
        await self.line.reach()
        return await self._act(lambda _: self._machines.observe())

    async def changes(self) -> list[Observation]:
        """Wait until something changes, and say what; raises ConnectionError where the line is cut."""
        while True:
            await self.line.reach()
            self._stirred.clear()
            next_ms = await self._in_turn(self._settled, lambda _: self._machines.next_change_ms())
            news = self.line.receive(self._clock())
            if news:
                return news
            await self._wait_until(next_ms, self.line.next_arrival_ms())

    async def console(self, lease_id: int) -> str:
        """Say what was done to a lease's machines; raises ConnectionError where the line is cut."""
        await self.line.reach()
        await self._act(lambda _: None)
        return console_text(await self._in_turn(self._ledger.audit_of, lease_id, _CONSOLE_LINES))

    async def output(self, lease_id: int) -> Output:
        """Give what a lease's command wrote, once it has ended; raises ConnectionError if the line is cut."""
        await self.line.reach()
        here = await self._act(lambda _: self._machines.output(lease_id))
        return Output(await self._in_turn(self._ledger.output_of, lease_id) if here is None else here)

    async def nodes(self) -> list[NodeFacts]:
        """Look at all nodes; raises ConnectionError where the line is cut."""
        await self.line.reach()
        return await self._act(self._machines.nodes)

    async def close(self) -> None:
        """Let go of the machines, which go on without us."""
        await self._in_turn(self._ledger.close)
        self._thread.shutdown()

    # on demand

    @property
    def faults(self) -> Faults:
        """How often what goes wrong; setting it holds for whatever is ordered from then on."""
        return self.mishaps.faults

    @faults.setter
    def faults(self, faults: Faults) -> None:
        self.mishaps.faults = self.line.faults = faults

    async def crash(self, lease_id: int) -> None:
        """Lose the machines of a lease now, or its saved memory."""
        await self._act(lambda now_ms: self._machines.crash(lease_id, now_ms))

    async def kill_node(self, node: str, down_ms: int) -> None:
        """Let a node die with all that it has; a new one stands in its place after that time."""
        await self._act(lambda now_ms: self._machines.befall(node, Fault.NODE_DIED, now_ms, down_ms))

    async def stop_service(self, node: str, down_ms: int) -> None:
        """Let a node's own manager stop, and so all that it runs; it is started again after that time."""
        await self._act(lambda now_ms: self._machines.befall(node, Fault.SERVICE_STOPPED, now_ms, down_ms))

    async def cut_off(self, node: str, for_ms: int) -> None:
        """Let a node not be reached for so long. What it runs goes on, and is seen again afterwards."""
        await self._act(lambda now_ms: self._machines.befall(node, Fault.NETWORK_FAILED, now_ms, for_ms))

    async def lose_software(self, node: str, software: str, for_ms: int) -> None:
        """Let software be gone from a node for so long; commands of that name are not found there."""
        await self._act(lambda now_ms: self._machines.lose_software(node, software, now_ms, for_ms))

    def clock_was_moved(self) -> None:
        """Let whoever waits for changes look again: the clock has moved by other means than waiting."""
        self._stirred.set()

    # how it is done

    async def _act(self, work: Callable[[int], Result]) -> Result:
        """Do something with the machines, and let whoever waits for changes look what came of it."""
        try:
            return await self._in_turn(self._settled, work)
        finally:
            self._stirred.set()

    async def _in_turn(self, work: Callable[..., Result], *details: object) -> Result:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work, *details)

    def _settled(self, work: Callable[[int], Result]) -> Result:
        """Work with the machines as they are now, and write down what has become of them."""
        now_ms = self._clock()
        try:
            told = self._machines.pass_time(now_ms)
            result = work(now_ms)
            told += self._machines.pass_time(now_ms)
            unwritten = self._machines.take_unwritten()
            if unwritten:
                self._ledger.write(unwritten)
        except BaseException:
            self._machines = self._as_written()
            raise
        self.line.send(told, now_ms)
        return result

    def _with_memory(self, order: Order) -> Order:
        """What is received has done as much as its old site knows: the order only says what was planned."""
        if order.verb is not Verb.RECEIVE:
            return order
        old_site = self._neighbours / order.other_site / LEDGER
        done = work_sent(old_site, order.lease_id, order.incarnation - 1)
        return order if done is None else replace(order, work_done=done)

    def _as_written(self) -> EmulatedMachines:
        return EmulatedMachines(self._hardware, self.mishaps, self._ledger.load())

    async def _wait_until(self, *times_ms: int | None) -> None:
        """Wait for the first of these times, or until something was done here."""
        now_ms = self._clock()
        waits_s = [max(0, at_ms - now_ms) / 1000 for at_ms in times_ms if at_ms is not None]
        try:
            async with asyncio.timeout(min([_LONGEST_WAIT_S, *waits_s])):
                await self._stirred.wait()
        except TimeoutError:
            return
