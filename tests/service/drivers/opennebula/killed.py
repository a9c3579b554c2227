"""A process that orders machines of an OpenNebula until it is killed: three at once, then one of them is suspended."""

import asyncio
from multiprocessing.connection import Connection
from pathlib import Path

from tests.service.drivers.opennebula.cloud import Nebula, NebulaRig

from leasehold.service.drivers.protocol import Phase, Verb
from leasehold.testing.driver_rig import order

LEASES = (1, 2, 3)
VMS = 2


def main(connection: Connection, folder: str, url: str) -> None:
    """Order, say so, and go on for ever."""
    asyncio.run(_order(connection, NebulaRig(Path(folder), Nebula(), url, slots=VMS * len(LEASES), pause_s=0.01)))


async def _order(connection: Connection, rig: NebulaRig) -> None:
    site = rig.open()
    for lease_id in LEASES:
        assert await site.carry_out([order(Verb.START, lease_id, vms=VMS)]) == {}
        connection.send(lease_id)
    while Phase.RUNNING not in {one.phase for one in await site.observe() if one.lease_id == LEASES[0]}:
        await rig.pass_time()  # for our machines it passes where the server is
    assert await site.carry_out([order(Verb.SUSPEND, LEASES[0], vms=VMS)]) == {}
    connection.send("all")
    await asyncio.Event().wait()
