"""How a lease goes to another site, seen from the one that it leaves.

Only this site says who may go on, by ``handover`` in its ledger; the other one reads that and follows:

* LIVE: the other site has machines that wait for memory. It is copied into them while ours run, or stand
  still where they are interpreted. When it says that all have arrived, ours are let go for good: HANDED.
* Where that does not work out, for whatever reason, ours take back what they have given (nothing has run
  there yet), and their memory goes to files: PARCEL. When these are complete they can be fetched: READY.

At HANDED and READY nothing runs here, nothing can be observed any more, and what is left is a note, until the
other site has everything under a name of its own, or has been told to stop it.
"""

import asyncio
import shutil
from collections.abc import Callable
from dataclasses import replace

import structlog

from leasehold.service.drivers.qemu.lease import Lease
from leasehold.service.drivers.qemu.ledger import Neighbour
from leasehold.service.drivers.qemu.machine import MachineFiles, uninterrupted
from leasehold.service.drivers.qemu.output import console_file, remove_output
from leasehold.service.drivers.qemu.process import MachineFailed
from leasehold.service.drivers.qemu.record import OVER, Changes, Handover, Memory, Record
from leasehold.service.drivers.qemu.saving import kill_all, save_memory
from leasehold.service.drivers.qemu.tasks import gathered

COMES_WITHIN_S = 5.0
"""The other site is told right after this one; who does not come finds a parcel."""

_LOOK_EVERY_S = 0.02
_LOOK_LATER_S = 2.0


async def leave(lease: Lease) -> None:
    """Hand a lease over, by whichever way works out."""
    if lease.record.phase in OVER:
        await depart(lease, Handover.HANDED)
        return
    if lease.record.handover is Handover.LIVE:
        try:
            await _move_live(lease)
        except MachineFailed as error:
            log = structlog.get_logger("leasehold.drivers.qemu")
            log.info("goes as a parcel", lease=lease.record.lease_id, why=str(error))
            await lease.alter_to(handover=Handover.PARCEL)
        else:
            await depart(lease, Handover.HANDED)
            return
    await save_memory(lease)
    await depart(lease, Handover.READY)


async def _move_live(lease: Lease) -> None:
    there = lease.home.neighbour(lease.record.to_site)
    theirs = await _when(lease, there, lambda record: record.is_listening)
    within_s = lease.home.options.move_ms / 1000
    await gathered(
        machine.move(_files_there(there, theirs, number).incoming, within_s)
        for number, machine in enumerate(lease.machines)
    )
    await _when(lease, there, lambda record: record.has_arrived)


def _files_there(there: Neighbour, theirs: Record, number: int) -> MachineFiles:
    console = console_file(there.folder, theirs.lease_id, number, theirs.incarnation)
    return MachineFiles(there.folder / "leases" / theirs.folder, number, console)


async def _when(lease: Lease, there: Neighbour, is_so: Callable[[Record], bool]) -> Record:
    """Wait until the other site says so, but not for long."""
    try:
        async with asyncio.timeout(COMES_WITHIN_S):
            while True:
                theirs = there.here(lease.record.lease_id)
                if theirs is not None and theirs.incarnation == lease.record.incarnation + 1 and is_so(theirs):
                    return theirs
                await asyncio.sleep(_LOOK_EVERY_S)
    except TimeoutError:
        raise MachineFailed(f"site {lease.record.to_site} was not ready within {COMES_WITHIN_S:g} s") from None


async def depart(lease: Lease, handover: Handover) -> None:
    """Let a lease be gone from here, and a note of it be left."""
    note = replace(lease.record, handover=handover)
    key = (note.lease_id, note.incarnation)
    changes = Changes({note.lease_id: None}, {key: note}, {note.lease_id: note.incarnation})
    await lease.home.write(lease, note, changes)


async def dismiss(lease: Lease) -> None:
    """Let nothing be left of a lease that has gone, as soon as the other site has everything."""
    await kill_all(lease)
    note = lease.record
    there = lease.home.neighbour(note.to_site)
    pause_s = _LOOK_EVERY_S
    while not _is_taken_in(there, note):
        await asyncio.sleep(pause_s)
        pause_s = min(2 * pause_s, _LOOK_LATER_S)
    await uninterrupted(_clear, lease)
    await lease.home.write(lease, note, Changes(notes={(note.lease_id, note.incarnation): None}))


def _is_taken_in(there: Neighbour, note: Record) -> bool:
    """Whether the other site has it under a name of its own, has sent it on, or was told to stop it."""
    theirs = there.here(note.lease_id)
    if theirs is not None and theirs.incarnation > note.incarnation:
        return theirs.memory is not Memory.ELSEWHERE or theirs.incarnation > note.incarnation + 1
    return there.last_gone(note.lease_id) > note.incarnation


def _clear(lease: Lease) -> None:
    """Remove the names that we have for its files; those of the other site are its own."""
    shutil.rmtree(lease.folder, ignore_errors=True)
    lease.home.limits.release(lease.record.folder)
    if not lease.home.is_here(lease.record.lease_id):  # it may have come back
        remove_output(lease.home.folder, lease.record.lease_id, lease.record.incarnation)
