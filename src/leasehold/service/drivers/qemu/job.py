"""The command of a lease in one of its guests: begun once, however often it is told, and how it ended."""

from contextlib import suppress
from secrets import token_hex

from leasehold.service.drivers.qemu.lease import Lease
from leasehold.service.drivers.qemu.qmp import GuestAgent, Refused

_KEY = "command"
_SEED_BYTES = 64
"""Of chance: machines that began as copies of each other must not draw the same numbers."""


async def begin_job(lease: Lease, number: int, agent: GuestAgent) -> None:
    """Let a guest run the command, or find it there."""
    record = lease.record
    environment = {
        "LEASEHOLD_LEASE": str(record.lease_id),
        "LEASEHOLD_MACHINE": str(number),
        "LEASEHOLD_MACHINES": str(record.vms),
        "LEASEHOLD_SEED": token_hex(_SEED_BYTES),
    }
    job = await agent.run_once(_KEY, record.command, environment)
    await lease.alter(lambda it: it.with_progress(number, job=job))


async def has_job_ended(lease: Lease, number: int, agent: GuestAgent) -> bool:
    """Ask whether the command has ended, and keep how."""
    job = lease.record.progress[number].job
    if job is not None:
        with suppress(Refused):  # the agent has told it to somebody who was killed then, or has begun anew
            status = await agent.exit_status(job)
            if status is not None:
                await lease.alter(lambda it: it.with_progress(number, exit_status=status))
            return status is not None
    await begin_job(lease, number, agent)
    return False
