"""What tells that a machine is over: by itself, or because it is lost."""

import asyncio
from typing import NoReturn

import structlog

from leasehold.service.drivers.qemu.machine import OVER, RUNNING, GuestOver, Machine, status_of
from leasehold.service.drivers.qemu.process import MachineFailed
from leasehold.service.drivers.qemu.qmp import Qmp
from leasehold.service.drivers.qemu.wire import Silent

_MOST_SILENCES = 4
"""Each as long as `qmp.ANSWER_S`: then QEMU hangs, and its machine is lost."""

_PAUSE_S = 0.05
_UNPAUSE_EVERY_S = 1.0


async def until_over(machine: Machine) -> NoReturn:
    """Wait until a machine is over, and raise why: GuestOver by itself, MachineFailed where it is lost."""
    silences = 0
    while True:
        try:
            async with machine.talking() as qmp:
                silences = 0
                while True:
                    await _see_to_it_that_it_runs(qmp)
                    await qmp.next_event()
        except Silent as error:
            silences += 1
            if silences == _MOST_SILENCES:
                raise MachineFailed(str(error)) from error
        await asyncio.sleep(_PAUSE_S)


async def _see_to_it_that_it_runs(qmp: Qmp) -> None:
    """A machine stands still where its disk is full, or where whoever paused it was killed."""
    while (status := await status_of(qmp)) != RUNNING:
        if status in OVER:
            raise GuestOver(status)
        await qmp.ask("cont")
        if await status_of(qmp) != RUNNING:
            structlog.get_logger("leasehold.drivers.qemu").warning("a machine stands still", status=status)
            await asyncio.sleep(_UNPAUSE_EVERY_S)
