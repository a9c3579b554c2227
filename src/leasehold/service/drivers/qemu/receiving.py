"""How a lease comes from another site, seen from the one that it comes to; see `leaving` for who decides."""

import asyncio
from dataclasses import replace

import structlog

from leasehold.service.drivers.protocol import Phase
from leasehold.service.drivers.qemu.lease import Lease
from leasehold.service.drivers.qemu.ledger import Neighbour
from leasehold.service.drivers.qemu.machine import WAITING, VirtualMachine, link_shared, uninterrupted
from leasehold.service.drivers.qemu.output import link_output
from leasehold.service.drivers.qemu.process import MachineFailed
from leasehold.service.drivers.qemu.record import OVER, Handover, Memory, Record
from leasehold.service.drivers.qemu.saving import kill_all
from leasehold.service.drivers.qemu.tasks import gathered

_LOOK_EVERY_S = 0.02
_MOST_ABSENCES = 3
_ABSENT_S = 1.0


async def receive(lease: Lease) -> None:
    """Follow what the other site says, until the lease is ours."""
    there = lease.home.neighbour(lease.record.from_site)
    while lease.record.memory is Memory.ELSEWHERE and lease.record.phase not in OVER:
        theirs = await _theirs(lease, there)
        match theirs.handover:
            case Handover.HANDED:
                await _take_over(lease, there, theirs, Memory.MACHINES)
            case Handover.READY:
                await _drop(lease)
                await _take_over(lease, there, theirs, Memory.FILES)
            case Handover.LIVE if theirs.memory is not Memory.ELSEWHERE:
                await _offer(lease, there, theirs)
            case _:
                await _drop(lease)
        await asyncio.sleep(_LOOK_EVERY_S)


async def _theirs(lease: Lease, there: Neighbour) -> Record:
    """Find what the other site has of it; raises MachineFailed where it has nothing."""
    record = lease.record
    for _ in range(_MOST_ABSENCES):
        theirs = there.leaving(record.lease_id, record.incarnation - 1)
        if theirs is not None:
            return theirs
        await asyncio.sleep(_ABSENT_S)
    raise MachineFailed(f"site {record.from_site} has nothing of it")


# Live


async def _offer(lease: Lease, there: Neighbour, theirs: Record) -> None:
    """Have machines that memory can be moved to, and say when it has arrived."""
    try:
        if not lease.record.is_listening:
            await _drop(lease)
            await _listen(lease, there, theirs)
        await _look_for_arrival(lease)
    except MachineFailed as error:
        log = structlog.get_logger("leasehold.drivers.qemu")
        log.info("cannot be received live yet", lease=lease.record.lease_id, why=str(error))
        await _drop(lease)


async def _listen(lease: Lease, there: Neighbour, theirs: Record) -> None:
    lease.make_folders()
    for machine in lease.machines:
        link_shared(there.folder / "leases" / theirs.folder / machine.files.disk.name, machine.files.disk)
    await gathered(machine.listen() for machine in lease.machines)
    await lease.alter_to(is_listening=True)


async def _look_for_arrival(lease: Lease) -> None:
    if not lease.record.has_arrived:
        arrived = await gathered(_has_arrived(machine) for machine in lease.machines)
        if all(arrived):
            await lease.alter_to(has_arrived=True)
    elif not all(machine.is_alive() for machine in lease.machines):
        raise MachineFailed("a machine died before it could go on here")


async def _has_arrived(machine: VirtualMachine) -> bool:
    return await machine.status() != WAITING


async def _drop(lease: Lease) -> None:
    """Have no machines that wait for memory."""
    if lease.record.is_listening:
        await lease.alter_to(is_listening=False, has_arrived=False)
    await kill_all(lease)


# Taking over


async def _take_over(lease: Lease, there: Neighbour, theirs: Record, memory: Memory) -> None:
    """Have everything under a name of our own, and only then say that it is ours."""
    await uninterrupted(_share_files, lease, there, theirs)
    now_ms = lease.home.now_ms()

    def ours(record: Record) -> Record:
        taken = replace(record, memory=memory, progress=theirs.progress, hardware=theirs.hardware)
        taken = replace(taken, is_listening=False, has_arrived=False)
        if theirs.phase in OVER:  # on its way, or just before
            return replace(taken, phase=theirs.phase, detail=theirs.detail, since_ms=now_ms)
        return taken

    await lease.alter(ours)


def _share_files(lease: Lease, there: Neighbour, theirs: Record) -> None:
    lease.make_folders()
    link_output(there.folder, lease.home.folder, theirs.lease_id)
    if theirs.phase in OVER:
        return
    folder = there.folder / "leases" / theirs.folder
    for machine in lease.machines:
        names = [machine.files.disk.name]
        if theirs.handover is Handover.READY:
            names.append(machine.files.state.name)
        for name in names:
            link_shared(folder / name, lease.folder / name)


def is_to_be_received(record: Record) -> bool:
    """Whether everything else has to wait until the other site has let it go."""
    return record.memory is Memory.ELSEWHERE and record.phase is not Phase.FAILED
