"""What is the next thing to be done with a lease? Asked after each, also when whoever did it was killed.

Each step begins by looking at how things stand, so that one that was cut short anywhere, by a crash or by a
new order, is simply begun once more.
"""

import asyncio
import shutil
from collections.abc import Awaitable, Callable

import structlog

from leasehold.service.drivers.protocol import Phase
from leasehold.service.drivers.qemu.lease import Lease
from leasehold.service.drivers.qemu.leaving import dismiss, leave
from leasehold.service.drivers.qemu.machine import uninterrupted
from leasehold.service.drivers.qemu.output import keep_latest
from leasehold.service.drivers.qemu.process import MachineFailed
from leasehold.service.drivers.qemu.receiving import is_to_be_received, receive
from leasehold.service.drivers.qemu.record import AWAY, Changes, Record
from leasehold.service.drivers.qemu.saving import go_on, kill_all, save
from leasehold.service.drivers.qemu.starting import start
from leasehold.service.drivers.qemu.watching import watch

Step = Callable[[Lease], Awaitable[None]]

_PAUSE_S = 1.0


async def keep(lease: Lease) -> None:
    """Do whatever is to be done with a lease, until nothing is."""
    while (step := next_step(lease.record)) is not None:
        before = lease.record
        try:
            await _do(step, lease)
        except Exception:  # a full disk, or a defect: whatever it is, no guest is to be lost by it
            log = structlog.get_logger("leasehold.drivers.qemu")
            log.exception("is tried again", lease=before.lease_id, step=step.__name__)
            await asyncio.sleep(_PAUSE_S)
            continue
        if lease.record is before:
            return


async def _do(step: Step, lease: Lease) -> None:
    try:
        await step(lease)
    except MachineFailed as error:
        await lease.is_lost(error)


def next_step(record: Record) -> Step | None:
    """Choose what is to be done next; None: nothing, as after a failure, until there is another order."""
    if record.handover in AWAY:
        return dismiss
    if record.is_doomed:
        return remove
    if is_to_be_received(record):
        return receive
    if record.to_site:
        return leave
    return _BY_PHASE.get(record.phase)


async def remove(lease: Lease) -> None:
    """Let nothing be left of a lease but its console."""
    await kill_all(lease)
    await uninterrupted(_clear, lease)
    await lease.home.write(lease, lease.record, Changes(records={lease.record.lease_id: None}))


async def rest(lease: Lease) -> None:
    """Keep what has ended, or was saved, without a process."""
    await kill_all(lease)
    lease.home.limits.release(lease.record.folder)


def _clear(lease: Lease) -> None:
    shutil.rmtree(lease.folder, ignore_errors=True)
    lease.home.limits.release(lease.record.folder)
    keep_latest(lease.home.folder, lease.home.options.keep_consoles, lease.home.living())


_BY_PHASE: dict[Phase, Step] = {
    Phase.STARTING: start,
    Phase.RUNNING: watch,
    Phase.SAVING: save,
    Phase.SAVED: rest,
    Phase.RESUMING: go_on,
    Phase.RECEIVING: go_on,
    Phase.ENDED: rest,
}
