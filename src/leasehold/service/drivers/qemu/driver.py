"""The driver of virtual machines under QEMU: it takes orders on, and says what it sees."""

import asyncio
from collections.abc import Sequence

from leasehold.model.errors import InputError, UnknownName
from leasehold.service.drivers.facts import Buildable, ImageFacts, NodeFacts, Output
from leasehold.service.drivers.protocol import Capabilities, Observation, Order, Problem, Verb
from leasehold.service.drivers.qemu.host import does_not_fit, hardware_for, memory_problem, node_facts, observe_host
from leasehold.service.drivers.qemu.images.build import ImageBuilder
from leasehold.service.drivers.qemu.images.image import Catalogue, default_folder
from leasehold.service.drivers.qemu.judging import Leave, Nothing, Standing, Verdict, judge
from leasehold.service.drivers.qemu.lease import Lease
from leasehold.service.drivers.qemu.machine import VmHardware, uninterrupted
from leasehold.service.drivers.qemu.options import QemuOptions, read_options
from leasehold.service.drivers.qemu.output import console_text, output_of
from leasehold.service.drivers.qemu.process import MachineFailed
from leasehold.service.drivers.qemu.record import Changes, Record
from leasehold.service.drivers.qemu.site import Site
from leasehold.service.drivers.setup import DriverSetup


class QemuDriver:
    """One site's virtual machines. Opened again, it goes on with whatever it had taken on.

    Raises InvalidField or UnknownName for an option that makes no sense, InputError for a ledger that cannot
    be used; see `Ledger`.
    """

    def __init__(self, setup: DriverSetup) -> None:
        self._options: QemuOptions = read_options(setup.options)
        self._slots = setup.slots
        self._machines = setup.folder.absolute().parent
        work = self._machines.parent
        self._catalogue = Catalogue(work / "images", self._options.image or default_folder(work))
        self._workshop = ImageBuilder(self._catalogue)
        self._site = Site(setup, self._options)
        self._one_by_one = asyncio.Lock()
        self._told: set[asyncio.Task[dict[str, Problem]]] = set()

    @property
    def capabilities(self) -> Capabilities:
        """What this driver can do."""
        return self._options.capabilities

    async def carry_out(self, orders: Sequence[Order]) -> dict[str, Problem]:
        """Take on these orders, in their sequence; whoever stops waiting leaves none half taken on."""
        await self._site.begin()
        task = asyncio.create_task(self._carry_out(orders))
        self._told.add(task)
        task.add_done_callback(self._told.discard)
        return await asyncio.shield(task)

    async def observe(self) -> list[Observation]:
        """Look at everything that is there, now."""
        await self._site.begin()
        return self._site.observe()

    async def changes(self) -> list[Observation]:
        """Wait until something changes, and say what."""
        await self._site.begin()
        while not (news := self._site.take_news()):
            self._site.stirred.clear()
            await self._site.stirred.wait()
        return news

    async def console(self, lease_id: int) -> str:
        """Give what a lease's machines wrote on their consoles, also when they are gone."""
        return await asyncio.to_thread(console_text, self._site.folder, lease_id)

    async def output(self, lease_id: int) -> Output:
        """Give what a lease's commands wrote, apart from what else is on their consoles."""
        return await asyncio.to_thread(output_of, self._site.folder, lease_id, self._options.output_bytes)

    async def nodes(self) -> list[NodeFacts]:
        """Say what the computer has that machines are built on, and what of it is free for this site."""
        free_slots = self._slots - self._site.used_vms()
        return [await asyncio.to_thread(node_facts, self._machines, self._options, self._catalogue, free_slots)]

    async def images(self) -> list[ImageFacts]:
        """List the images that machines can boot from."""
        return await asyncio.to_thread(lambda: [image.facts for image in self._catalogue.images()])

    async def buildable(self) -> Buildable | None:
        """Say what images could be built with."""
        return await self._workshop.buildable()

    async def build(self, packages: frozenset[tuple[str, str]]) -> ImageFacts:
        """Build an image with these packages, or find it; see `ImageBuilder.build`."""
        return await self._workshop.build(packages)

    async def close(self) -> None:
        """Let go of the machines, which go on without us."""
        await asyncio.gather(*self._told, return_exceptions=True)
        await self._site.close()

    # how orders are taken on

    async def _carry_out(self, orders: Sequence[Order]) -> dict[str, Problem]:
        async with self._one_by_one:
            answers = [(order.id, await self._follow(order)) for order in orders]
        return {name: problem for name, problem in answers if problem is not None}

    async def _follow(self, order: Order) -> Problem | None:
        """Judge twice where there is something to do: until it is halted, a lease goes on changing."""
        lease = self._site.here(order.lease_id)
        verdict = judge(order, await self._standing(order))
        if lease is None or isinstance(verdict, Problem | Nothing):
            return await self._let_be(order, verdict, lease)
        await self._site.halt(lease)
        try:
            return await self._let_be(order, judge(order, await self._standing(order)), lease)
        finally:
            self._site.look_after(lease)

    async def _let_be(self, order: Order, verdict: Verdict, lease: Lease | None) -> Problem | None:
        gone = {order.lease_id: order.incarnation} if order.verb is Verb.STOP else {}
        match verdict:
            case Problem():
                return verdict
            case Record():
                new = lease or Lease(verdict, self._site)
                await self._site.write(new, verdict, Changes({order.lease_id: verdict}, {}, gone))
                if lease is None:
                    self._site.look_after(new)
            case Leave():
                await self._site.write_gone(order.lease_id, order.incarnation)
            case Nothing():
                pass
        return None

    async def _standing(self, order: Order) -> Standing:
        lease = self._site.here(order.lease_id)
        source = None
        if order.verb is Verb.RECEIVE:
            neighbour = self._site.neighbour(order.other_site)
            source = await asyncio.to_thread(neighbour.leaving, order.lease_id, order.incarnation - 1)
        return Standing(
            now_ms=self._site.now_ms(),
            slots=self._slots,
            used_vms=self._site.used_vms() - (lease.record.room_vms if lease else 0),
            can=self.capabilities,
            here=lease.record if lease else None,
            last_gone=self._site.last_gone(order.lease_id),
            hardware=await self._hardware(order) if order.verb is Verb.START and lease is None else None,
            source=source,
            tight=await self._tight(lease) if order.verb is Verb.RESUME and lease is not None else None,
        )

    async def _tight(self, lease: Lease) -> Problem | None:
        hardware = lease.record.hardware
        if hardware is None:
            return None
        host = await uninterrupted(observe_host, self._machines)
        return memory_problem(lease.record.vms, hardware, host)

    async def _hardware(self, order: Order) -> VmHardware | Problem:
        try:
            return await uninterrupted(self._find_hardware, order)
        except UnknownName as error:
            return Problem(str(error), again=False)
        except (InputError, MachineFailed) as error:
            return Problem(str(error))

    def _find_hardware(self, order: Order) -> VmHardware | Problem:
        image = self._catalogue.find(order.on.image)
        folder, cores = self._catalogue.folder, order.on.cores
        hardware = hardware_for(self._options, image, order.memory_mib, folder, cores)
        return does_not_fit(order, hardware, observe_host(self._machines)) or hardware
