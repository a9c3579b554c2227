"""What machines do while they run: until their commands have ended, or one is lost."""

import asyncio
from contextlib import suppress

from leasehold.service.drivers.protocol import Phase
from leasehold.service.drivers.qemu.job import has_job_ended
from leasehold.service.drivers.qemu.lease import Lease
from leasehold.service.drivers.qemu.machine import VirtualMachine
from leasehold.service.drivers.qemu.process import MachineFailed
from leasehold.service.drivers.qemu.qmp import GuestAgent, NoAnswer, Refused, agent_at
from leasehold.service.drivers.qemu.tasks import gathered, unless

_AGAIN_S = 1.0
_ASK_AFTER_S = (0.25, 0.5, 0.5, 1.0)
_LAST_LOOK_S = 1.0


async def watch(lease: Lease) -> None:
    """Wait until the commands of all machines have ended; raises MachineFailed where one is lost before."""
    await gathered(_watch_one(lease, number) for number in range(lease.record.vms))
    await lease.become(Phase.ENDED, how_it_ended(lease))


def how_it_ended(lease: Lease) -> str:
    """Say how the commands of all machines have ended."""
    statuses = sorted({one.exit_status for one in lease.record.progress if one.exit_status is not None})
    return f"exit status {', '.join(map(str, statuses))}"


async def has_ended_meanwhile(lease: Lease) -> bool:
    """Ask one last time whether all commands have ended; whoever does not answer at once has not."""
    if not lease.record.command or not all(one.is_told for one in lease.record.progress):
        return False
    try:
        async with asyncio.timeout(_LAST_LOOK_S):
            await gathered(_look_once(lease, number) for number in range(lease.record.vms))
    except (TimeoutError, MachineFailed):
        return False
    return all(one.exit_status is not None for one in lease.record.progress)


async def _look_once(lease: Lease, number: int) -> None:
    if lease.record.progress[number].exit_status is None:
        async with agent_at(lease.machines[number].files.agent) as agent:
            await has_job_ended(lease, number, agent)


async def _watch_one(lease: Lease, number: int) -> None:
    """Watch one machine; it may go when its command has ended."""
    if lease.record.progress[number].exit_status is None:
        machine = lease.machines[number]
        await unless(machine.wait_until_over(), _until_ended(lease, number, machine))


async def _until_ended(lease: Lease, number: int, machine: VirtualMachine) -> None:
    """Wait for the end of the command; without one there is none."""
    if not machine.has_agent:
        await asyncio.Event().wait()
    while True:
        try:
            async with agent_at(machine.files.agent) as agent:
                await _follow(lease, number, agent)
                return
        except (NoAnswer, Refused):
            await asyncio.sleep(_AGAIN_S)


async def _follow(lease: Lease, number: int, agent: GuestAgent) -> None:
    with suppress(Refused):
        await agent.set_time(lease.home.now_ms())
    if not lease.record.command:
        await asyncio.Event().wait()
    after_s = iter(_ASK_AFTER_S)
    while not await has_job_ended(lease, number, agent):  # noqa: ASYNC110 - in another machine
        await asyncio.sleep(next(after_s, _ASK_AFTER_S[-1]))
