"""The emulated driver: its machines keep running while their manager is down, because their clock does."""

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from leasehold.jobs.job import Fault
from leasehold.service.drivers.emulated.fault_injection import FaultInjector, Faults, Line
from leasehold.service.drivers.emulated.images import ImageCatalogue
from leasehold.service.drivers.emulated.machines import EmulatedMachines
from leasehold.service.drivers.emulated.options import Hardware, planned_nodes, read_options
from leasehold.service.drivers.emulated.record import EmulatedStore, work_sent
from leasehold.service.drivers.facts import Buildable, ImageFacts, NodeFacts, Output
from leasehold.service.drivers.protocol import Capabilities, DriverSetup, Observation, Order, Problem, Verb
from leasehold.service.drivers.staging import StagedFile, content_path

_CONSOLE_LINES = 100
_READ_BYTES = 64 * 1024
_LONGEST_WAIT_S = 60.0
"""A clock that was set, or slept with its computer, is noticed after so long."""
_NOW_MS = 0
"""When the next change of machines is due that have to be looked at to know."""

Result = TypeVar("Result")


class EmulatedDriver:
    """One site's emulated machines.

    Its file holds them all. Reopened, it catches up with the clock: what should have ended meanwhile has ended, at
    its time. All work is done in order in one thread of its own, so that a call that is cancelled while it waits
    leaves nothing half-done.

    ``injector`` and ``line`` inject faults on demand; see there.

    Raises InvalidField or UnknownName for an option that makes no sense, InputError for a file that cannot be used.
    """

    def __init__(self, setup: DriverSetup) -> None:
        options = read_options(setup.options)
        self._hardware = Hardware(
            setup.slots,
            setup.speed_mips,
            setup.reference_mips,
            setup.overhead,
            options.boot_ms,
            options.able,
            options.nodes or planned_nodes(setup.nodes),
            options.building,
        )
        self._clock = setup.clock
        self._inputs = setup.folder / "inputs"
        self._neighbours = setup.folder.parent
        self.injector = FaultInjector(options.faults, setup.site)
        self.line = Line(options.faults, setup.site)
        self._store = EmulatedStore(setup.folder, options.audit_lines)
        self._machines = self._as_written()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix=f"emulated-{setup.site}")
        self._changed = asyncio.Event()
        self._next_change_ms: int | None = _NOW_MS

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
            self._changed.clear()
            if self._next_change_ms is not None and self._next_change_ms <= self._clock():
                await self._in_turn(self._settled, lambda _: None)
            news = self.line.receive(self._clock())
            if news:
                return news
            await self._wait_until(self._next_change_ms, self.line.next_arrival_ms())

    async def console(self, lease_id: int) -> str:
        """Say what was done to a lease's machines; raises ConnectionError where the line is cut."""
        await self.line.reach()
        await self._act(lambda _: None)
        lines = await self._in_turn(self._store.audit_of, lease_id, _CONSOLE_LINES)
        return "".join(line.on_console() for line in lines)

    async def output(self, lease_id: int) -> Output:
        """Give what a lease's command wrote, once it has ended; raises ConnectionError if the line is cut."""
        await self.line.reach()
        here = await self._act(lambda _: self._machines.output(lease_id))
        return await self._in_turn(self._store.output_of, lease_id) if here is None else here

    async def notify(self, order: Order, until_ms: int) -> None:
        """Tell a guest that it will be preempted: that is written to its console."""
        await self.line.reach()
        await self._act(lambda now_ms: self._machines.tell(order, until_ms, now_ms))

    @property
    def input_folder(self) -> Path:
        """Where inputs are brought to."""
        return self._inputs

    async def output_files(self, lease_id: int) -> dict[str, Path | str]:
        """Give the files that a lease's command has left; raises ConnectionError where the line is cut."""
        await self.line.reach()
        here = await self._act(lambda _: self._machines.left_by(lease_id))
        left = await self._in_turn(self._store.left_by, lease_id) if here is None else here
        return {file.name: content_path(self._inputs, file.sha256) for file in left}

    async def nodes(self) -> list[NodeFacts]:
        """Look at all nodes; raises ConnectionError where the line is cut."""
        await self.line.reach()
        return await self._act(self._machines.nodes)

    async def close(self) -> None:
        """Close; the machines keep running."""
        await self._in_turn(self._store.close)
        self._thread.shutdown()

    # on demand

    @property
    def faults(self) -> Faults:
        """How often what goes wrong; setting it holds for all orders from then on."""
        return self.injector.faults

    @faults.setter
    def faults(self, faults: Faults) -> None:
        self.injector.faults = self.line.faults = faults
        self._next_change_ms = _NOW_MS

    async def crash(self, lease_id: int) -> None:
        """Lose the machines of a lease now, or its saved memory."""
        await self._act(lambda now_ms: self._machines.crash(lease_id, now_ms))

    async def kill_node(self, node: str, down_ms: int) -> None:
        """Let a node die with all that it has; a new one stands in its place after that time."""
        await self._act(lambda now_ms: self._machines.inject(node, Fault.NODE_DIED, now_ms, down_ms))

    async def stop_service(self, node: str, down_ms: int) -> None:
        """Let a node's own manager stop, and so all that it runs; it is started again after that time."""
        await self._act(lambda now_ms: self._machines.inject(node, Fault.SERVICE_STOPPED, now_ms, down_ms))

    async def cut_off(self, node: str, for_ms: int) -> None:
        """Make a node unreachable for so long. Its machines keep running, and are observed again afterwards."""
        await self._act(lambda now_ms: self._machines.inject(node, Fault.NETWORK_FAILED, now_ms, for_ms))

    async def lose_software(self, node: str, software: str, for_ms: int) -> None:
        """Let software be gone from a node for so long; commands of that name are not found there."""
        await self._act(lambda now_ms: self._machines.lose_software(node, software, now_ms, for_ms))

    def clock_was_moved(self) -> None:
        """Wake what waits for changes: the clock has moved by other means than waiting."""
        self._changed.set()

    # how it is done

    async def _act(self, work: Callable[[int], Result]) -> Result:
        """Do something with the machines, and wake what waits for changes."""
        try:
            return await self._in_turn(self._settled, work)
        finally:
            self._changed.set()

    async def _in_turn(self, work: Callable[..., Result], *details: object) -> Result:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work, *details)

    def _settled(self, work: Callable[[int], Result]) -> Result:
        """Work with the machines as they are now, and write what has become of them."""
        now_ms = self._clock()
        try:
            seen = self._machines.pass_time(now_ms)
            result = work(now_ms)
            seen += self._machines.pass_time(now_ms)
            unwritten = self._machines.take_unwritten()
            if unwritten:
                self._store.save(unwritten)
            self._next_change_ms = self._machines.next_change_ms()
        except BaseException:
            self._machines, self._next_change_ms = self._as_written(), _NOW_MS
            raise
        self.line.send(seen, now_ms)
        return result

    def _with_memory(self, order: Order) -> Order:
        """What is received has done as much as its old site knows: the order only says what was planned."""
        if order.verb is not Verb.RECEIVE:
            return order
        done = work_sent(self._neighbours / order.other_site, order.lease_id, order.incarnation - 1)
        return order if done is None else replace(order, work_done=done)

    def _as_written(self) -> EmulatedMachines:
        return EmulatedMachines(self._hardware, self.injector, self._store.load(), self._read)

    def _read(self, file: StagedFile) -> str:
        with content_path(self._inputs, file.sha256).open("rb") as content:
            return content.read(_READ_BYTES).decode(errors="replace")

    async def _wait_until(self, *times_ms: int | None) -> None:
        """Wait for the first of these times, or until something was done here."""
        now_ms = self._clock()
        waits_s = [max(0, at_ms - now_ms) / 1000 for at_ms in times_ms if at_ms is not None]
        try:
            async with asyncio.timeout(min([_LONGEST_WAIT_S, *waits_s])):
                await self._changed.wait()
        except TimeoutError:
            return


class EmulatedBuilder(EmulatedDriver):
    """One whose hosts boot machines from images, and that builds more of them."""

    async def images(self) -> list[ImageFacts]:
        """List the images that are there; raises ConnectionError where the line is cut."""
        await self.line.reach()
        return self._catalogue.images()

    async def buildable(self) -> Buildable | None:
        """Say what could be built; raises ConnectionError where the line is cut."""
        await self.line.reach()
        return self._catalogue.buildable()

    async def build(self, packages: frozenset[tuple[str, str]]) -> ImageFacts:
        """Build an image with these packages, or find it; raises as `ImageCatalogue.build`."""
        await self.line.reach()
        if self._catalogue.lacks(packages):
            await asyncio.sleep(self._catalogue.build_ms / 1000)
        return await self._act(lambda _: self._catalogue.build(packages))

    @property
    def _catalogue(self) -> ImageCatalogue:
        assert self._machines.images is not None, "made by `emulated_driver`, where the configuration has it build"
        return self._machines.images


def emulated_driver(setup: DriverSetup) -> EmulatedDriver:
    """Make the driver of one site. Raises as `EmulatedDriver`."""
    building = read_options(setup.options).building
    return EmulatedDriver(setup) if building is None else EmulatedBuilder(setup)
