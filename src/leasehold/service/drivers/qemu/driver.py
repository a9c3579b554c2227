"""The driver of virtual machines under QEMU.

It stands on the upper layers of `leasehold.service.drivers.reconciler`: order rules, instances, store, backoff. Its
loop is its own, as QEMU tells of changes by itself and live migration does not fit a comparison of states: one task
for each instance, which takes one step after another, and is interrupted by orders.
"""

import asyncio
import shutil
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import structlog

from leasehold.model.errors import InputError, UnknownName
from leasehold.service.drivers.facts import Buildable, ImageFacts, NodeFacts, Output
from leasehold.service.drivers.protocol import Capabilities, DriverSetup, Observation, Order, Phase, Problem, Verb
from leasehold.service.drivers.qemu.host import does_not_fit, hardware_for, memory_problem, node_facts, observe_host
from leasehold.service.drivers.qemu.images.build import ImageBuilder
from leasehold.service.drivers.qemu.images.image import Catalogue, default_folder
from leasehold.service.drivers.qemu.instances import Prechecks, QemuInstance
from leasehold.service.drivers.qemu.machine import VmHardware
from leasehold.service.drivers.qemu.migration import clean_up, receive, send
from leasehold.service.drivers.qemu.options import QemuOptions, read_options
from leasehold.service.drivers.qemu.output import bound_consoles, bound_outputs, console_text, output_of
from leasehold.service.drivers.qemu.process import MachineFailed, QemuProcess
from leasehold.service.drivers.qemu.site import QemuSite
from leasehold.service.drivers.qemu.steps import remove, rest, resume, start, suspend, watch
from leasehold.service.drivers.qemu.tasks import cancelled, uninterrupted
from leasehold.service.drivers.qemu.warm import sweep_warm
from leasehold.service.drivers.reconciler.backoff import Backoff
from leasehold.service.drivers.reconciler.desired import Desired
from leasehold.service.drivers.reconciler.instances import Key
from leasehold.service.drivers.reconciler.order_rules import Action, is_out_of_date

Step = Callable[[QemuSite, QemuInstance], Awaitable[None]]

_BOUND_EVERY_S = 10.0
_BY_PHASE: dict[Phase, Step] = {
    Phase.STARTING: start,
    Phase.RUNNING: watch,
    Phase.SAVING: suspend,
    Phase.SAVED: rest,
    Phase.RESUMING: resume,
    Phase.RECEIVING: resume,
    Phase.ENDED: rest,
}

_CLEANING_UP = frozenset({remove, clean_up})
"""These are retried, as there is nothing left that could fail."""


def next_step(instance: QemuInstance) -> Step | None:
    """Choose the next step; None: there is none until the next order, as after a failure."""
    if instance.is_handed_over:
        return clean_up
    if instance.desired is Desired.GONE:
        return remove
    if instance.is_awaited:
        return receive
    if instance.desired is Desired.AWAY:
        return send
    return _BY_PHASE.get(instance.phase)


class QemuReconciler:
    """Takes the steps of each instance in a task of its own.

    A machine that fails is a result of a step. Any other error, as a full disk, is retried with a backoff.
    """

    def __init__(self, site: QemuSite) -> None:
        self._site = site
        self._tasks: dict[Key, asyncio.Task[None]] = {}
        self._backoff = Backoff(time.monotonic)

    def start(self, instance: QemuInstance) -> None:
        """Start taking the steps of an instance."""
        task = asyncio.create_task(self._reconcile(instance), name=f"lease {instance.lease_id}")
        self._tasks[instance.key] = task
        task.add_done_callback(lambda done: self._forget(instance.key, done))

    def _forget(self, key: Key, task: asyncio.Task[None]) -> None:
        if self._tasks.get(key) is task:
            del self._tasks[key]

    async def interrupt(self, key: Key) -> None:
        """Stop until `start`; the step under way can be repeated."""
        task = self._tasks.pop(key, None)
        if task is not None:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    async def close(self) -> None:
        """Stop; the machines keep running."""
        for key in list(self._tasks):
            await self.interrupt(key)

    async def _reconcile(self, instance: QemuInstance) -> None:
        """Take one step after another, until there is none, or it changes nothing."""
        while (step := next_step(instance)) is not None:
            before = replace(instance)
            try:
                await self._take(step, instance)
            except Exception:  # no guest is to be lost by a full disk or a defect
                log = structlog.get_logger("leasehold.drivers.qemu")
                log.exception("is retried", lease=instance.lease_id, step=step.__name__)
                self._backoff.failed(instance.key)
                await asyncio.sleep(self._backoff.wait_s(instance.key))
                continue
            self._backoff.forget(instance.key)
            if instance == before:
                return

    async def _take(self, step: Step, instance: QemuInstance) -> None:
        try:
            await step(self._site, instance)
        except MachineFailed as error:
            if step in _CLEANING_UP:
                raise
            await self._site.fail(instance, error)


class QemuDriver:
    """One site's virtual machines. Reopened, it resumes the orders that it had accepted.

    Raises InvalidField or UnknownName for an option that makes no sense, InputError for a store that cannot be used.
    """

    def __init__(self, setup: DriverSetup) -> None:
        self._options: QemuOptions = read_options(setup.options)
        self._machines = setup.folder.absolute().parent
        work = self._machines.parent
        self._catalogue = Catalogue(work / "images", self._options.image or default_folder(work))
        self._builder = ImageBuilder(self._catalogue)
        self._site = QemuSite(setup, self._options)
        self._reconciler = QemuReconciler(self._site)
        self._has_begun = False
        self._background: list[asyncio.Task[None]] = []
        self._one_at_a_time = asyncio.Lock()
        self._orders: set[asyncio.Task[dict[str, Problem]]] = set()

    @property
    def capabilities(self) -> Capabilities:
        """What this driver can do."""
        return self._options.capabilities

    async def carry_out(self, orders: Sequence[Order]) -> dict[str, Problem]:
        """Take on these orders, in their sequence; cancelled, they are still taken on to the last."""
        await self._begin()
        task = asyncio.create_task(self._carry_out(orders))
        self._orders.add(task)
        task.add_done_callback(self._orders.discard)
        return await asyncio.shield(task)

    async def observe(self) -> list[Observation]:
        """Observe everything that is there, now."""
        await self._begin()
        return await self._site.observe()

    async def changes(self) -> list[Observation]:
        """Wait until something changes, and give it."""
        await self._begin()
        return await self._site.news()

    async def console(self, lease_id: int) -> str:
        """Give the consoles of a lease's machines, also after they are gone."""
        return await asyncio.to_thread(console_text, self._site.folder, lease_id)

    async def output(self, lease_id: int) -> Output:
        """Give the output of a lease's commands, apart from what else is on their consoles."""
        return await asyncio.to_thread(output_of, self._site.folder, lease_id, self._options.output_bytes)

    async def nodes(self) -> list[NodeFacts]:
        """Describe the computer that machines run on, and what of it is free for this site."""
        instances = self._site.instances
        free_slots = instances.slots - instances.used_vms
        return [await asyncio.to_thread(node_facts, self._machines, self._options, self._catalogue, free_slots)]

    async def images(self) -> list[ImageFacts]:
        """List the images that machines can boot from."""
        return await asyncio.to_thread(lambda: [image.facts for image in self._catalogue.images()])

    async def buildable(self) -> Buildable | None:
        """Say what images could be built with."""
        return await self._builder.buildable()

    async def build(self, packages: frozenset[tuple[str, str]]) -> ImageFacts:
        """Build an image with these packages, or find it; see `ImageBuilder.build`."""
        return await self._builder.build(packages)

    async def close(self) -> None:
        """Close; the machines keep running."""
        await asyncio.gather(*self._orders, return_exceptions=True)
        await cancelled(self._background)
        await self._reconciler.close()
        await self._site.close()

    # orders

    async def _carry_out(self, orders: Sequence[Order]) -> dict[str, Problem]:
        async with self._one_at_a_time:
            answers = [(order.id, await self._follow(order)) for order in orders]
        return {name: problem for name, problem in answers if problem is not None}

    async def _follow(self, order: Order) -> Problem | None:
        """Follow an order. It is decided on again once steps are interrupted: until then the instance changes."""
        instances = self._site.instances
        prechecks = await self._precheck(order)
        refuse = instances.refuses(order, prechecks)
        action = instances.decide(order, refuse)
        if isinstance(action, Problem):
            return action
        changed = instances.changed_by(order, action)
        if action is Action.NOTHING and not changed:
            await self._site.flush()
            return None
        for instance in changed:
            await self._reconciler.interrupt(instance.key)
        now_ms, fields = self._site.now_ms(), prechecks.fields(order)
        try:
            return await self._site.change(lambda: instances.follow(order, now_ms, refuse, **fields))
        finally:
            current = instances.current(order.lease_id)
            new = [] if current is None or current in changed else [current]
            for instance in (*changed, *new):
                self._reconciler.start(instance)

    async def _precheck(self, order: Order) -> Prechecks:
        current = self._site.instances.current(order.lease_id)
        if is_out_of_date(order, current, self._site.instances.tombstone(order.lease_id)):
            return Prechecks()
        if order.verb is Verb.START and current is None:
            return Prechecks(hardware=await self._hardware(order))
        if order.verb is Verb.RECEIVE:
            other = self._site.other(order.other_site)
            source = await asyncio.to_thread(other.sending, order.lease_id, order.incarnation - 1)
            return Prechecks(source=source)
        if order.verb is Verb.RESUME and current is not None and current.hardware is not None:
            host = await uninterrupted(observe_host, self._machines)
            return Prechecks(memory=memory_problem(current.vms, current.hardware, host))
        return Prechecks()

    async def _hardware(self, order: Order) -> VmHardware | Problem:
        try:
            return await uninterrupted(self._find_hardware, order)
        except UnknownName as error:
            return Problem(str(error), again=False)
        except (InputError, MachineFailed) as error:
            return Problem(str(error))

    def _find_hardware(self, order: Order) -> VmHardware | Problem:
        image = self._catalogue.find(order.constraints.image)
        folder, cores = self._catalogue.folder, order.constraints.cores
        hardware = hardware_for(self._options, image, order.memory_mib, folder, cores)
        return does_not_fit(order, hardware, observe_host(self._machines)) or hardware

    # the life of the site

    async def _begin(self) -> None:
        """Go on with everything, on the first call."""
        if not self._has_begun:
            self._has_begun = True
            await uninterrupted(self._sweep)
            self._background.append(asyncio.create_task(self._bound_output()))
            for instance in self._site.instances.all():
                self._reconciler.start(instance)

    def _sweep(self) -> None:
        """Remove what belongs to no instance, as after an older store was restored."""
        folders = {self._machines.with_name("images")}
        if self._options.image is not None:
            folders.add(self._options.image.resolve().parent)
        for images in folders:
            sweep_warm(images)
        known = {instance.folder for instance in self._site.instances.all()}
        for folder in (self._site.folder / "leases").glob("*"):
            if folder.name not in known:
                log = structlog.get_logger("leasehold.drivers.qemu")
                log.warning("removes machines of no lease", site=self._site.name, folder=str(folder))
                _remove_machines(folder)
        self._site.limits.sweep(known)

    async def _bound_output(self) -> None:
        """Bound what guests write, so that none fills the disk."""
        while True:
            await asyncio.sleep(_BOUND_EVERY_S)
            with suppress(OSError):  # a file that is gone meanwhile
                await uninterrupted(bound_consoles, self._site.folder, self._options.console_bytes)
                await uninterrupted(bound_outputs, self._site.folder, self._options.output_bytes)


def _remove_machines(folder: Path) -> None:
    for lock in folder.glob("*.lock"):
        QemuProcess(lock).kill()
    shutil.rmtree(folder, ignore_errors=True)
