"""A process that gives orders to sites under libvirt, says that they are taken on, waits to be killed."""

import asyncio
import sys
from collections.abc import Mapping, Sequence
from multiprocessing.connection import Connection
from pathlib import Path

from tests.service.drivers.libvirt.rigs import LibvirtRig

from leasehold.service.drivers.protocol import Order

Told = Sequence[tuple[str, Order]]
"""Orders, each with its site."""


def main(
    connection: Connection,
    library: str,
    folder: str,
    options: Mapping[str, object],
    more: Mapping[str, Mapping[str, object]],
    told: Told,
) -> None:
    """Give the orders, in their sequence."""
    sys.path.append(library)
    asyncio.run(_obey(connection, LibvirtRig(Path(folder), options, more), told))


async def _obey(connection: Connection, rig: LibvirtRig, told: Told) -> None:
    sites = {name: rig.open(name) for name in rig.more}
    for name, order in told:
        assert await sites[name].carry_out([order]) == {}
    connection.send("taken on")
    await asyncio.Event().wait()
