"""A Slurm site in a process of its own, which dies at the worst of moments."""

import asyncio
import os
import signal
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from tests.service.drivers.slurm.sites import setup

from leasehold.service.drivers.protocol import DriverSetup, Order, Verb
from leasehold.service.drivers.slurm.commands import Slurm
from leasehold.service.drivers.slurm.driver import SlurmDriver
from leasehold.testing.driver_rig import order


def dies_after_submitting(connection: Connection, folder: str, options: dict[str, Any]) -> None:
    """Be told to start a lease, and die when Slurm has the job and nobody has written down its number."""
    submit = Slurm.submit

    def submit_and_die(self: Slurm, *details: Any, **options: Any) -> int:
        submit(self, *details, **options)
        os.kill(os.getpid(), signal.SIGKILL)
        raise AssertionError("still alive")

    Slurm.submit = submit_and_die  # type: ignore[method-assign]  # this process is there to die
    driver = SlurmDriver(setup(Path(folder), **options))
    asyncio.run(_start(driver))
    connection.close()


async def _start(driver: SlurmDriver) -> None:
    await driver.carry_out([order(Verb.START)])


def lives_of_leases(leases: int) -> list[Order]:
    """What is ordered one after the other: each lease starts, is suspended, and resumed."""
    lives = [
        [
            order(Verb.START, lease_id, command=("sh", "-c", "echo up; exec tail -f /dev/null")),
            order(Verb.SUSPEND, lease_id),
            order(Verb.RESUME, lease_id, 2),
            order(Verb.SUSPEND, lease_id, 2),
            order(Verb.RESUME, lease_id, 3),
        ]
        for lease_id in range(1, leases + 1)
    ]
    return [one for step in zip(*lives, strict=True) for one in step]


def gives_orders(connection: Connection, folder: str, options: dict[str, Any], told: int, leases: int) -> None:
    """Tell the last orders again, and then those that follow; says the number of each that was taken on."""
    asyncio.run(_give_orders(connection, setup(Path(folder), **options), told, leases))


async def _give_orders(connection: Connection, site: DriverSetup, told: int, leases: int) -> None:
    driver = SlurmDriver(site)
    lives = lives_of_leases(leases)
    for number, one in enumerate(lives):
        while number >= told - leases and await driver.carry_out([one]):  # noqa: ASYNC110 - Slurm is polled
            await asyncio.sleep(0.02)  # not yet: what came before it is still under way
        if number >= told:
            connection.send(number + 1)
