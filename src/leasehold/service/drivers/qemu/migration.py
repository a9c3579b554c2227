"""How an instance moves to another site of the same gateway, live if possible.

Only the site that it leaves decides where it may run, by ``handover`` in its store; the other one reads that and
follows, and only says how far it is:

* LIVE: the other site starts machines that listen. Memory is copied into them while ours run, or are paused where
  they are interpreted. When all has arrived, ours never run again: HANDED.
* Where that fails, for whatever reason, ours take back what they have given (nothing has run there yet), and their
  memory is saved to files: PARCEL. When these are complete they can be linked: READY.

At HANDED and READY nothing runs here any more. What is left are files and their record, until the other site has
given everything a name of its own, or was ordered to stop it.
"""

import asyncio
from collections.abc import Callable
from pathlib import Path

import structlog

from leasehold.service.drivers.qemu.instances import Handover, MemoryPlace, OtherSite, QemuInstance
from leasehold.service.drivers.qemu.machine import WAITING, VirtualMachine, link_shared
from leasehold.service.drivers.qemu.output import link_output, remove_output
from leasehold.service.drivers.qemu.process import MachineFailed
from leasehold.service.drivers.qemu.site import QemuSite, files_at
from leasehold.service.drivers.qemu.steps import kill_all, remove_files, save_memory
from leasehold.service.drivers.qemu.tasks import gathered, uninterrupted

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
