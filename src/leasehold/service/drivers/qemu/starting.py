"""How machines come up: they boot, the guest agent answers, and the command is begun."""

import asyncio
from contextlib import suppress

import structlog

from leasehold.service.drivers.protocol import Phase
from leasehold.service.drivers.qemu.job import begin_job
from leasehold.service.drivers.qemu.lease import Lease
from leasehold.service.drivers.qemu.machine import VirtualMachine
from leasehold.service.drivers.qemu.output import discard_output
from leasehold.service.drivers.qemu.process import MachineFailed
from leasehold.service.drivers.qemu.qmp import Refused, agent_at
from leasehold.service.drivers.qemu.tasks import gathered, unless
from leasehold.service.drivers.qemu.warm import warm_copy

MOST_BOOTS = 3
"""A guest that dies while it boots has done nothing yet: it boots again, so many times in all."""


async def start(lease: Lease) -> None:
    """Boot what is not there, and let all of it run."""
    await gathered(_boot_until_settled(lease, number) for number in range(lease.record.vms))
    await lease.become(Phase.RUNNING)


async def begin_what_is_not_there(lease: Lease) -> None:
    """Let every machine be there that has never been up: whoever interrupts booting has something to save."""
    await gathered(_begin(lease, number) for number in range(lease.record.vms))


async def settle(lease: Lease, number: int) -> None:
    """Wait until a guest has booted, and see to it that its command is begun."""
    machine = lease.machines[number]
    if machine.has_agent and not _is_settled(lease, number):
        await unless(machine.wait_until_over(), _settle(lease, number, machine))


async def _boot_until_settled(lease: Lease, number: int) -> None:
    for attempt in range(1, MOST_BOOTS + 1):
        try:
            await _begin(lease, number)
            await settle(lease, number)
        except MachineFailed:
            if attempt == MOST_BOOTS or lease.record.progress[number].is_up:
                raise
            await lease.machines[number].kill()
        else:
            return


async def _begin(lease: Lease, number: int) -> None:
    machine = lease.machines[number]
    if not lease.record.progress[number].is_up and not machine.is_alive():
        lease.make_folders()
        discard_output(lease.home.folder, lease.record.lease_id, number, lease.record.incarnation)
        await _begin_quickly(lease, machine)


async def _begin_quickly(lease: Lease, machine: VirtualMachine) -> None:
    """Begin as a copy, if that is wanted and works; else boot."""
    record, options = lease.record, lease.home.options
    assert record.hardware is not None
    if options.warm_start and machine.has_agent:
        image = lease.home.image(record.hardware.image)
        try:
            await machine.start_as_copy(await warm_copy(image, record.hardware, options))
        except (MachineFailed, OSError, TimeoutError) as error:
            log = structlog.get_logger("leasehold.drivers.qemu")
            log.warning("boots, as there is no warm copy", lease=record.lease_id, why=str(error))
        else:
            return
    await machine.boot()


def _is_settled(lease: Lease, number: int) -> bool:
    progress = lease.record.progress[number]
    return progress.is_up and (progress.job is not None or not lease.record.command)


async def _settle(lease: Lease, number: int, machine: VirtualMachine) -> None:
    boot_s = lease.home.options.boot_ms / 1000
    try:
        async with asyncio.timeout(boot_s), agent_at(machine.files.agent) as agent:
            await agent.sync()
            with suppress(Refused):
                await agent.set_time(lease.home.now_ms())
            has_command = bool(lease.record.command)
            await lease.alter(lambda it: it.with_progress(number, is_up=True, is_told=has_command))
            if has_command:
                await begin_job(lease, number, agent)
    except TimeoutError:
        raise MachineFailed(f"the guest was not up within {boot_s:g} s") from None
