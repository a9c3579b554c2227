"""A process that orders machines of a cloud until it is killed: three at once, then they are suspended."""

import asyncio
import os
from multiprocessing.connection import Connection
from pathlib import Path

from tests.service.drivers.ec2.cloud import CREDENTIALS, Cloud, Ec2Rig

from leasehold.service.drivers.protocol import Phase, Verb
from leasehold.testing.driver_rig import order

LEASES = (1, 2, 3)
VMS = 2


def main(connection: Connection, folder: str, url: str) -> None:
    """Order, say so, and go on for ever."""
    os.environ |= CREDENTIALS  # the server that forked us may be older than the fixture that set them
    asyncio.run(_order(connection, Ec2Rig(Path(folder), Cloud(url), slots=VMS * len(LEASES))))


async def _order(connection: Connection, rig: Ec2Rig) -> None:
    site = rig.open()
    for lease_id in LEASES:
        assert await site.carry_out([order(Verb.START, lease_id, vms=VMS)]) == {}
        connection.send(lease_id)
    while Phase.RUNNING not in {one.phase for one in await site.observe() if one.lease_id == LEASES[0]}:
        await rig.pass_time()
    assert await site.carry_out([order(Verb.SUSPEND, LEASES[0], vms=VMS)]) == {}
    connection.send("all")
    await asyncio.Event().wait()
