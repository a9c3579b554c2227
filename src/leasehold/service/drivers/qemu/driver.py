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
from leasehold.service.drivers.facts import Access, Buildable, ImageFacts, NodeFacts, Output
from leasehold.service.drivers.output import (
    bound_consoles,
    bound_outputs,
    console_text,
    left_files,
    link_output,
    link_shared,
    output_of,
    remove_output,
)
from leasehold.service.drivers.protocol import Capabilities, DriverSetup, Observation, Order, Phase, Problem, Verb
from leasehold.service.drivers.qemu.host import does_not_fit, hardware_for, memory_problem, node_facts, observe_host
from leasehold.service.drivers.qemu.images.build import ImageBuilder
from leasehold.service.drivers.qemu.images.image import Catalogue, default_folder
from leasehold.service.drivers.qemu.instances import Handover, MemoryPlace, OtherSite, Prechecks, QemuInstance
from leasehold.service.drivers.qemu.machine import WAITING, VirtualMachine, VmHardware
from leasehold.service.drivers.qemu.options import QemuOptions, read_options
from leasehold.service.drivers.qemu.process import QemuProcess, cancelled, gathered, uninterrupted
from leasehold.service.drivers.qemu.site import QemuSite, files_at
from leasehold.service.drivers.qemu.steps import (
    kill_all,
    remove,
    remove_files,
    rest,
    resume,
    save_memory,
    start,
    suspend,
    watch,
)
from leasehold.service.drivers.qemu.warm import sweep_warm
from leasehold.service.drivers.reconciler.desired import Desired
from leasehold.service.drivers.reconciler.instances import Key
from leasehold.service.drivers.reconciler.loop import Backoff
from leasehold.service.drivers.reconciler.order_rules import Action, is_out_of_date
from leasehold.service.drivers.reconciler.provider import MachineFailed

# How an instance moves to another site of the same gateway, live if possible.
#
# Only the site that it leaves decides where it may run, by ``handover`` in its store; the other one reads that and
# follows, and only says how far it is:
#
# * LIVE: the other site starts machines that listen. Memory is copied into them while ours run, or are paused where
#   they are interpreted. When all has arrived, ours never run again: HANDED.
# * Where that fails, for whatever reason, ours take back what they have given (nothing has run there yet), and their
#   memory is saved to files: PARCEL. When these are complete they can be linked: READY.
#
# At HANDED and READY nothing runs here any more. What is left are files and their record, until the other site has
# given everything a name of its own, or was ordered to stop it.

LISTENS_WITHIN_S = 5.0
"""The other site receives its order right after this one; if it is late, it finds a parcel."""

_POLL_S = 0.02
_SLOWEST_POLL_S = 2.0
_MAX_ABSENCES = 3
_ABSENT_S = 1.0


# The site that it leaves


async def send(site: QemuSite, instance: QemuInstance) -> None:
    """Hand an instance over, live or as a parcel."""
    if instance.is_over:
        await site.update(instance, handover=Handover.HANDED)
        return
    if instance.handover is Handover.LIVE:
        try:
            await _move_live(site, instance)
        except MachineFailed as error:
            log = structlog.get_logger("leasehold.drivers.qemu")
            log.info("is moved as a parcel", lease=instance.lease_id, why=str(error))
            await site.update(instance, handover=Handover.PARCEL)
        else:
            await site.update(instance, handover=Handover.HANDED)
            return
    await save_memory(site, instance)
    await site.update(instance, handover=Handover.READY)


async def _move_live(site: QemuSite, instance: QemuInstance) -> None:
    there = site.other(instance.other_site)
    theirs = await _wait_for(there, instance, lambda one: one.is_listening)
    within_s = site.options.move_ms / 1000
    await gathered(
        machine.move(files_at(there.folder, theirs, number).incoming, within_s)
        for number, machine in enumerate(site.machines(instance))
    )
    await _wait_for(there, instance, lambda one: one.has_arrived)


async def _wait_for(there: OtherSite, instance: QemuInstance, is_so: Callable[[QemuInstance], bool]) -> QemuInstance:
    """Wait a short while until the other site is so far."""
    try:
        async with asyncio.timeout(LISTENS_WITHIN_S):
            while True:
                theirs, _ = there.receiving(instance.lease_id, instance.incarnation + 1)
                if theirs is not None and is_so(theirs):
                    return theirs
                await asyncio.sleep(_POLL_S)
    except TimeoutError:
        raise MachineFailed(f"site {instance.other_site} was not ready within {LISTENS_WITHIN_S:g} s") from None


async def clean_up(site: QemuSite, instance: QemuInstance) -> None:
    """Remove an instance that was handed over, as soon as the other site has everything."""
    await kill_all(site, instance)
    there = site.other(instance.other_site)
    pause_s = _POLL_S
    while not _is_taken_over(there, instance):
        await asyncio.sleep(pause_s)
        pause_s = min(2 * pause_s, _SLOWEST_POLL_S)
    await uninterrupted(remove_files, site, instance)  # our names of them; those of the other site are its own
    if site.instances.of_lease(instance.lease_id) == [instance]:  # else it has come back
        await uninterrupted(remove_output, site.folder, instance.lease_id, instance.incarnation)
    await site.change(lambda: site.instances.drop(instance))


def _is_taken_over(there: OtherSite, instance: QemuInstance) -> bool:
    """Whether the other site has named all of it, or has removed it since."""
    theirs, tombstone = there.receiving(instance.lease_id, instance.incarnation + 1)
    return tombstone > instance.incarnation if theirs is None else theirs.memory is not MemoryPlace.ELSEWHERE


# The site that it comes to


async def receive(site: QemuSite, instance: QemuInstance) -> None:
    """Follow what the other site says, until the instance is ours."""
    there = site.other(instance.from_site)
    while instance.is_awaited and not instance.is_over:
        theirs = await _find_sent(there, instance)
        match theirs.handover:
            case Handover.HANDED:
                await _take_over(site, instance, there, theirs, MemoryPlace.MACHINES)
            case Handover.READY:
                await _end_listening(site, instance)
                await _take_over(site, instance, there, theirs, MemoryPlace.FILES)
            case Handover.LIVE if theirs.memory is not MemoryPlace.ELSEWHERE:
                await _receive_live(site, instance, there, theirs)
            case _:
                await _end_listening(site, instance)
        await asyncio.sleep(_POLL_S)


async def _find_sent(there: OtherSite, instance: QemuInstance) -> QemuInstance:
    """Find it at the other site; raises MachineFailed where that has nothing of it."""
    for _ in range(_MAX_ABSENCES):
        theirs = there.sending(instance.lease_id, instance.generation - 1)
        if theirs is not None:
            return theirs
        await asyncio.sleep(_ABSENT_S)
    raise MachineFailed(f"site {instance.from_site} has nothing of it")


async def _receive_live(site: QemuSite, instance: QemuInstance, there: OtherSite, theirs: QemuInstance) -> None:
    """Start machines to which memory can be moved, and say when it has arrived."""
    try:
        if not instance.is_listening:
            await _end_listening(site, instance)
            await _listen(site, instance, there, theirs)
        await _check_arrival(site, instance)
    except MachineFailed as error:
        log = structlog.get_logger("leasehold.drivers.qemu")
        log.info("cannot be received live yet", lease=instance.lease_id, why=str(error))
        await _end_listening(site, instance)


async def _listen(site: QemuSite, instance: QemuInstance, there: OtherSite, theirs: QemuInstance) -> None:
    site.make_folders(instance)
    machines = site.machines(instance)
    for machine in machines:
        link_shared(_folder_there(there, theirs) / machine.files.disk.name, machine.files.disk)
    await gathered(machine.listen() for machine in machines)
    await site.update(instance, is_listening=True)


async def _check_arrival(site: QemuSite, instance: QemuInstance) -> None:
    machines = site.machines(instance)
    if not instance.has_arrived:
        if all(await gathered(_has_arrived(machine) for machine in machines)):
            await site.update(instance, has_arrived=True)
    elif not all(machine.is_alive() for machine in machines):
        raise MachineFailed("a machine died before it could run here")


async def _has_arrived(machine: VirtualMachine) -> bool:
    return await machine.status() != WAITING


async def _end_listening(site: QemuSite, instance: QemuInstance) -> None:
    if instance.is_listening:
        await site.update(instance, is_listening=False, has_arrived=False)
    await kill_all(site, instance)


async def _take_over(
    site: QemuSite, instance: QemuInstance, there: OtherSite, theirs: QemuInstance, memory: MemoryPlace
) -> None:
    """Give everything a name of our own, and only then say that it is ours."""
    await uninterrupted(_link_files, site, instance, there, theirs)
    now_ms = site.now_ms()

    def change() -> None:
        instance.memory, instance.progress, instance.hardware = memory, theirs.progress, theirs.hardware
        instance.is_listening = instance.has_arrived = False
        if theirs.is_over:  # on its way, or just before
            status, fault = theirs.exit_status, theirs.fault
            site.instances.become(instance, theirs.phase, now_ms, theirs.detail, exit_status=status, fault=fault)
        site.instances.touch(instance)

    await site.change(change)


def _link_files(site: QemuSite, instance: QemuInstance, there: OtherSite, theirs: QemuInstance) -> None:
    site.make_folders(instance)
    link_output(there.folder, site.folder, theirs.lease_id)
    if theirs.is_over:
        return
    for machine in site.machines(instance):
        names = [machine.files.disk.name]
        if theirs.handover is Handover.READY:
            names.append(machine.files.state.name)
        for name in names:
            link_shared(_folder_there(there, theirs) / name, site.folder_of(instance) / name)


def _folder_there(there: OtherSite, theirs: QemuInstance) -> Path:
    return there.folder / "leases" / theirs.folder


# The driver

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
        self._catalogue = Catalogue(work / "images", self._options.image or default_folder(work), self._options.images)
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
        return self._options.able

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

    async def access(self, lease_id: int) -> list[Access]:
        """Say at which ports of this computer the user of a lease can log in; empty where nobody is let in."""
        instance = self._site.instances.current(lease_id)
        if instance is None or instance.hardware is None or not instance.hardware.lets_in:
            return []
        found: list[Access] = []
        for number, machine in enumerate(self._site.machines(instance)):
            port = machine.port() if instance.progress[number].is_up else None
            if port is not None:
                found.append(Access(number, self._options.login_address, port, "root"))
        return found

    async def output(self, lease_id: int) -> Output:
        """Give the output of a lease's commands, apart from what else is on their consoles."""
        return await asyncio.to_thread(output_of, self._site.folder, lease_id, self._options.output_bytes)

    @property
    def input_folder(self) -> Path:
        """Where inputs are brought to."""
        return self._site.inputs

    async def output_files(self, lease_id: int) -> dict[str, Path | str]:
        """Give the files to be kept that the command of a lease's first machine has left."""
        return await asyncio.to_thread(left_files, self._site.folder, lease_id)

    async def nodes(self) -> list[NodeFacts]:
        """Describe the computer that machines run on, and what of it is free for this site."""
        instances = self._site.instances
        free_slots = instances.slots - instances.used_vms
        host = await asyncio.to_thread(node_facts, self._machines, self._options, self._catalogue, free_slots)
        return [replace(host, bytes_per_s=self._site.transfers.bytes_per_s)]

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
        if order.ssh_key and not image.description.has_network:
            return Problem(f"image {image.name} has no server of SSH: leasehold image build --anew", again=False)
        hardware = hardware_for(self._options, image, order, self._catalogue.folder)
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
