"""A process that gives orders to emulated machines until it is killed, batch after batch, a second each.

``python -m tests.service.drivers.killed FOLDER [N]`` prints the number of each batch that was taken on. With
N it kills itself in the middle of writing the N-th.
"""

import asyncio
import os
import signal
import sqlite3
import sys
from collections.abc import Iterable
from itertools import count
from pathlib import Path

from tests.service.drivers.sites import START_MS, Clock, setup

from leasehold.service.drivers.emulated import record
from leasehold.service.drivers.emulated.driver import EmulatedDriver
from leasehold.service.drivers.emulated.record import AuditLine, write_lines
from leasehold.service.drivers.protocol import Order, Verb
from leasehold.testing.driver_rig import order

SLOTS = 1_000


def batch(number: int) -> list[Order]:
    """What is ordered in the n-th second: somebody starts, others are suspended, resumed, stopped."""
    plan = [
        (0, Verb.START, 1, ("sleep", 20)),
        (2, Verb.SUSPEND, 1, ()),
        (15, Verb.RESUME, 2, ()),
        (40, Verb.STOP, 2, ()),
    ]
    return [
        order(verb, number - age, incarnation, command=command)
        for age, verb, incarnation, command in plan
        if number > age
    ]


def at_ms(number: int) -> int:
    """When that is."""
    return START_MS + 1_000 * number


async def give_orders(folder: Path) -> None:
    """Do it for ever."""
    clock = Clock()
    site = EmulatedDriver(setup(folder, clock, slots=SLOTS))
    for number in count(1):
        clock.now_ms = at_ms(number)
        assert await site.carry_out(batch(number)) == {}
        print(number, flush=True)  # noqa: T201 - it tells whoever will kill it how far it is


def kill_in_the_middle_of(writing: int) -> None:
    """Lay the mine: in the transaction, after the machines and before the audit."""
    counter = count(1)

    def write_or_die(connection: sqlite3.Connection, lines: Iterable[AuditLine], keep: int) -> None:
        if next(counter) == writing:
            os.kill(os.getpid(), signal.SIGKILL)
        write_lines(connection, lines, keep)

    record.__dict__["write_lines"] = write_or_die


if __name__ == "__main__":
    for argument in sys.argv[2:]:
        kill_in_the_middle_of(int(argument))
    asyncio.run(give_orders(Path(sys.argv[1])))
