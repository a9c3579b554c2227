"""How the memory of machines is saved, and how they go on from it."""

import asyncio
from collections.abc import Awaitable, Callable

from leasehold.service.drivers.protocol import Phase
from leasehold.service.drivers.qemu.lease import Lease
from leasehold.service.drivers.qemu.machine import GuestOver, uninterrupted
from leasehold.service.drivers.qemu.process import MachineFailed
from leasehold.service.drivers.qemu.record import Memory
from leasehold.service.drivers.qemu.starting import begin_what_is_not_there, settle
from leasehold.service.drivers.qemu.tasks import gathered
from leasehold.service.drivers.qemu.watching import has_ended_meanwhile, how_it_ended

MOST_ATTEMPTS = 3
_PAUSE_S = 1.0


async def save(lease: Lease) -> None:
    """Save the memory of all machines, of which nothing runs from then on."""
    if await is_over(lease):
        return
    await save_memory(lease)
    await lease.become(Phase.SAVED)


async def is_over(lease: Lease) -> bool:
    """Whether the commands have just ended, so that nothing is left to be saved."""
    if lease.record.memory is Memory.FILES or not await has_ended_meanwhile(lease):
        return False
    await lease.become(Phase.ENDED, how_it_ended(lease))
    return True


async def save_memory(lease: Lease) -> None:
    """Let the files have the memory that counts; nothing of it is done where they have it already."""
    if lease.record.memory is Memory.MACHINES:
        await begin_what_is_not_there(lease)
        await gathered(_patiently(machine.save) for machine in lease.machines)
        await lease.alter_to(memory=Memory.FILES)
    await kill_all(lease)


async def go_on(lease: Lease) -> None:
    """Let all machines run with their memory; only when all have it, the files are no more."""
    lease.make_folders()
    if lease.record.memory is Memory.FILES:
        await gathered(_patiently(machine.restore) for machine in lease.machines)
        await lease.alter_to(memory=Memory.MACHINES)
    for machine in lease.machines:
        machine.files.state.unlink(missing_ok=True)
    await gathered(machine.resume() for machine in lease.machines)
    await gathered(settle(lease, number) for number in range(lease.record.vms))
    await lease.become(Phase.RUNNING)


async def kill_all(lease: Lease) -> None:
    """End all processes of a lease."""
    for process in lease.processes:
        await uninterrupted(process.kill)


async def _patiently(work: Callable[[], Awaitable[None]]) -> None:
    """Do something with a machine, again where it went wrong; not where it is over."""
    for attempt in range(1, MOST_ATTEMPTS + 1):
        try:
            await work()
        except GuestOver:
            raise
        except MachineFailed:
            if attempt == MOST_ATTEMPTS:
                raise
            await asyncio.sleep(_PAUSE_S)
        else:
            return
