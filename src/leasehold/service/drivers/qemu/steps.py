"""The steps of an instance that stays here: boot, run its command, suspend, resume, remove.

Each begins by looking at how things stand, so that one that was interrupted anywhere, by a crash or by a new order,
is simply repeated.
"""

import asyncio
import shutil
from collections.abc import Awaitable, Callable
from contextlib import suppress
from secrets import token_hex

import structlog

from leasehold.service.drivers.guest_agent import Refused
from leasehold.service.drivers.guest_files import bring_inputs, fetch_outputs
from leasehold.service.drivers.output import discard_output, keep_latest, left_file, write_left_files
from leasehold.service.drivers.protocol import Phase
from leasehold.service.drivers.qemu.instances import MemoryPlace, QemuInstance
from leasehold.service.drivers.qemu.machine import GuestOver, VirtualMachine
from leasehold.service.drivers.qemu.process import gathered, uninterrupted, unless
from leasehold.service.drivers.qemu.qmp import NoAnswer, SerialAgent, agent_at
from leasehold.service.drivers.qemu.site import QemuSite
from leasehold.service.drivers.qemu.warm import warm_copy
from leasehold.service.drivers.reconciler.provider import MachineFailed

MAX_BOOTS = 3
"""A guest that dies while it boots has done nothing yet: it boots again, so many times in all."""

MAX_ATTEMPTS = 3
_RETRY_S = 1.0

_COMMAND_KEY = "command"
_SEED_BYTES = 64
"""Machines that started as copies of each other must not draw the same random numbers."""

_ASK_AFTER_S = (0.25, 0.5, 0.5, 1.0)
_LAST_LOOK_S = 1.0


# Booting


async def start(site: QemuSite, instance: QemuInstance) -> None:
    """Boot its machines, and start its command in them."""
    await gathered(_boot_and_set_up(site, instance, number) for number in range(instance.vms))
    await site.become(instance, Phase.RUNNING)


async def _boot_and_set_up(site: QemuSite, instance: QemuInstance, number: int) -> None:
    for boot in range(1, MAX_BOOTS + 1):
        try:
            await _boot(site, instance, number)
            await _set_up(site, instance, number)
        except MachineFailed:
            if boot == MAX_BOOTS or instance.progress[number].is_up:
                raise
            await site.machines(instance)[number].kill()
        else:
            return


async def _boot(site: QemuSite, instance: QemuInstance, number: int) -> None:
    """Boot a machine that was never up, as a copy of another where that is wanted and works."""
    machine = site.machines(instance)[number]
    if instance.progress[number].is_up or machine.is_alive():
        return
    site.make_folders(instance)
    discard_output(site.folder, instance.lease_id, number, instance.incarnation)
    if site.options.warm_start and machine.has_agent:
        assert instance.hardware is not None
        image = site.image(instance.hardware.image)
        try:
            await machine.start_as_copy(await warm_copy(image, instance.hardware, site.options))
        except (MachineFailed, OSError, TimeoutError) as error:
            log = structlog.get_logger("leasehold.drivers.qemu")
            log.warning("boots, as there is no warm copy", lease=instance.lease_id, why=str(error))
        else:
            return
    await machine.boot()


async def _set_up(site: QemuSite, instance: QemuInstance, number: int) -> None:
    """Wait until a guest has booted, and start its command."""
    machine, progress = site.machines(instance)[number], instance.progress[number]
    is_set_up = progress.is_up and (progress.job is not None or not instance.command)
    if machine.has_agent and not is_set_up:
        await unless(machine.wait_until_over(), _set_up_guest(site, instance, number, machine))


async def _set_up_guest(site: QemuSite, instance: QemuInstance, number: int, machine: VirtualMachine) -> None:
    boot_s = site.options.boot_ms / 1000
    try:
        async with asyncio.timeout(boot_s) as timeout, agent_at(machine.files.agent) as agent:
            await agent.sync()
            with suppress(Refused):
                await agent.set_time(site.now_ms())
            await _set_up_network(instance, number, agent)
            await site.progress(instance, number, is_up=True)
            if instance.files.inputs:
                timeout.reschedule(None)  # files take as long as they take
                await bring_inputs(agent, instance.files.inputs, site.inputs, site.transfers, set())
            if instance.command:
                await _start_command(site, instance, number, agent)
    except TimeoutError:
        raise MachineFailed(f"the guest was not up within {boot_s:g} s") from None


# Its network


async def _set_up_network(instance: QemuInstance, number: int, agent: SerialAgent) -> None:
    """Give a guest its address among the machines of its lease, and let its user in."""
    hardware = instance.hardware
    if hardware is None or not (hardware.has_lan or hardware.lets_in):
        return
    words = (str(number), str(instance.vms), instance.ssh_key if hardware.lets_in else "")
    try:
        await agent.set_up(words, {"LEASEHOLD_SEED": token_hex(_SEED_BYTES)})
    except Refused as error:
        raise MachineFailed(f"its network could not be set up: {error}") from error


def _addresses(machines: int) -> str:
    """List the addresses of a lease's machines, as the guest's own program gives them."""
    return " ".join(f"10.222.{(number + 1) // 256}.{(number + 1) % 256}" for number in range(machines))


# Its files


async def _keep_outputs(site: QemuSite, instance: QemuInstance, agent: SerialAgent) -> None:
    """Copy the files that a command has left out of its guest."""
    lease_id, incarnation = instance.lease_id, instance.incarnation
    names = instance.files.outputs
    problems = await fetch_outputs(agent, names, lambda number: left_file(site.folder, lease_id, incarnation, number))
    await uninterrupted(write_left_files, site.folder, lease_id, incarnation, problems)


# Its command


async def _start_command(site: QemuSite, instance: QemuInstance, number: int, agent: SerialAgent) -> None:
    """Start the command in a guest, or find it there."""
    environment = {
        "LEASEHOLD_LEASE": str(instance.lease_id),
        "LEASEHOLD_MACHINE": str(number),
        "LEASEHOLD_MACHINES": str(instance.vms),
        "LEASEHOLD_SEED": token_hex(_SEED_BYTES),
    }
    if instance.hardware is not None and instance.hardware.has_lan:
        environment["LEASEHOLD_ADDRESSES"] = _addresses(instance.vms)
    job = await agent.run_once(_COMMAND_KEY, instance.command, environment)
    await site.progress(instance, number, job=job)


async def _has_command_ended(site: QemuSite, instance: QemuInstance, number: int, agent: SerialAgent) -> bool:
    """Ask whether the command has ended, and record its exit status."""
    job = instance.progress[number].job
    if job is not None:
        with suppress(Refused):  # it reported that before a crash, or was restarted
            status = await agent.exit_status(job)
            if status is not None:
                if number == 0 and instance.files.outputs:
                    await _keep_outputs(site, instance, agent)
                await site.progress(instance, number, exit_status=status)
            return status is not None
    await _start_command(site, instance, number, agent)
    return False


async def watch(site: QemuSite, instance: QemuInstance) -> None:
    """Wait until its commands have ended on all machines; raises MachineFailed where one is lost before."""
    await gathered(_watch_machine(site, instance, number) for number in range(instance.vms))
    await site.become(instance, Phase.ENDED, _exit_statuses(instance))


async def _watch_machine(site: QemuSite, instance: QemuInstance, number: int) -> None:
    """Watch one machine; nothing depends on it any more when its command has ended."""
    if instance.progress[number].exit_status is None:
        machine = site.machines(instance)[number]
        await unless(machine.wait_until_over(), _watch_command(site, instance, number, machine))


async def _watch_command(site: QemuSite, instance: QemuInstance, number: int, machine: VirtualMachine) -> None:
    if not machine.has_agent:
        await asyncio.Event().wait()
    while True:
        try:
            async with agent_at(machine.files.agent) as agent:
                with suppress(Refused):
                    await agent.set_time(site.now_ms())
                if not instance.command:
                    await asyncio.Event().wait()
                pauses_s = iter(_ASK_AFTER_S)
                while not await _has_command_ended(site, instance, number, agent):  # noqa: ASYNC110 - in another machine
                    await asyncio.sleep(next(pauses_s, _ASK_AFTER_S[-1]))
                return
        except (NoAnswer, Refused):
            await asyncio.sleep(_RETRY_S)


def _exit_statuses(instance: QemuInstance) -> str:
    statuses = sorted({one.exit_status for one in instance.progress if one.exit_status is not None})
    return f"exit status {', '.join(map(str, statuses))}"


async def _has_just_ended(site: QemuSite, instance: QemuInstance) -> bool:
    """Ask one last time whether all commands have ended; a guest that does not answer at once has not."""
    if not instance.command or not all(one.is_up for one in instance.progress):
        return False
    try:
        async with asyncio.timeout(_LAST_LOOK_S):
            await gathered(_ask_once(site, instance, number) for number in range(instance.vms))
    except (TimeoutError, MachineFailed):
        return False
    return all(one.exit_status is not None for one in instance.progress)


async def _ask_once(site: QemuSite, instance: QemuInstance, number: int) -> None:
    if instance.progress[number].exit_status is None:
        async with agent_at(site.machines(instance)[number].files.agent) as agent:
            await _has_command_ended(site, instance, number, agent)


# Suspending and resuming


async def suspend(site: QemuSite, instance: QemuInstance) -> None:
    """Save the memory of all machines, and end them; nothing is saved where the command has just ended."""
    if instance.memory is not MemoryPlace.FILES and await _has_just_ended(site, instance):
        await site.become(instance, Phase.ENDED, _exit_statuses(instance))
        return
    await save_memory(site, instance)
    await site.become(instance, Phase.SAVED)


async def save_memory(site: QemuSite, instance: QemuInstance) -> None:
    """Save its memory to files, if it is not there yet, and end its machines."""
    if instance.memory is MemoryPlace.MACHINES:
        # if booting was interrupted, there has to be something to save
        await gathered(_boot(site, instance, number) for number in range(instance.vms))
        await gathered(_retried(machine.save) for machine in site.machines(instance))
        await site.update(instance, memory=MemoryPlace.FILES)
    await kill_all(site, instance)


async def resume(site: QemuSite, instance: QemuInstance) -> None:
    """Let all machines run with their memory; the files are removed only when all machines have it."""
    site.make_folders(instance)
    machines = site.machines(instance)
    if instance.memory is MemoryPlace.FILES:
        await gathered(_retried(machine.restore) for machine in machines)
        await site.update(instance, memory=MemoryPlace.MACHINES)
    for machine in machines:
        machine.files.state.unlink(missing_ok=True)
    await gathered(machine.resume() for machine in machines)
    await gathered(_set_up(site, instance, number) for number in range(instance.vms))
    await site.become(instance, Phase.RUNNING)


async def _retried(work: Callable[[], Awaitable[None]]) -> None:
    for attempt in range(1, MAX_ATTEMPTS + 1):
        try:
            await work()
        except GuestOver:
            raise
        except MachineFailed:
            if attempt == MAX_ATTEMPTS:
                raise
            await asyncio.sleep(_RETRY_S)
        else:
            return


# Ending


async def rest(site: QemuSite, instance: QemuInstance) -> None:
    """Keep what has ended, or was saved, without processes."""
    await kill_all(site, instance)
    await uninterrupted(site.limits.release, instance.folder)


async def remove(site: QemuSite, instance: QemuInstance) -> None:
    """Remove everything but its output."""
    await kill_all(site, instance)
    await uninterrupted(remove_files, site, instance)
    living = {one.lease_id for one in site.instances.all() if one is not instance}
    await uninterrupted(keep_latest, site.folder, site.options.keep_consoles, living)
    await site.change(lambda: site.instances.drop(instance))


async def kill_all(site: QemuSite, instance: QemuInstance) -> None:
    """End all of its processes."""
    for process in site.processes(instance):
        await uninterrupted(process.kill)


def remove_files(site: QemuSite, instance: QemuInstance) -> None:
    """Remove its folder, and the control groups of its machines."""
    shutil.rmtree(site.folder_of(instance), ignore_errors=True)
    site.limits.release(instance.folder)
