"""QEMU's own protocol: what a machine is told and asked, each with a deadline.

The library qemu.qmp does the same for this one; the guest agent speaks nearly the same on its line, and it
does not know how. So both go over one `Wire` here.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path
from typing import Any

from leasehold.service.drivers.qemu.process import MachineFailed
from leasehold.service.drivers.qemu.wire import IsThere, Silent, Wire

ANSWER_S = 30.0
"""A machine on a busy computer takes its time; one that says nothing for so long hangs."""


class Refused(MachineFailed):
    """QEMU will not do that; says why."""


class Qmp:
    """One conversation; QEMU has one at a time, and begins the next when this one is closed."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire
        self._numbers = count(1)

    async def ask(self, command: str, **arguments: object) -> Any:  # noqa: ANN401 - whatever QEMU returns
        """Ask and give the answer; raises Refused or Silent. ``_`` in names is ``-`` to QEMU."""
        told = {name.replace("_", "-"): value for name, value in arguments.items()}
        return await self._exchange({"execute": command, "arguments": told})

    async def hand_over(self, descriptor: int, name: str) -> None:
        """Give QEMU an open descriptor, to be called by that name."""
        command = {"execute": "getfd", "arguments": {"fdname": name}}
        await self._exchange(command, descriptor)

    async def next_event(self) -> tuple[str, Mapping[str, Any]]:
        """Wait for the next event and give its name and data; raises Silent where the machine is dead."""
        while True:
            message = await self._wire.read()
            if "event" in message:
                return message["event"], message.get("data", {})

    async def _exchange(self, command: Mapping[str, Any], descriptor: int | None = None) -> Any:  # noqa: ANN401
        number = next(self._numbers)
        message = {**command, "id": number}
        try:
            async with asyncio.timeout(ANSWER_S):
                if descriptor is None:
                    await self._wire.write(message)
                else:
                    self._wire.write_with(message, [descriptor])
                return await self._answer(number, str(command["execute"]))
        except TimeoutError:
            raise Silent(f"QEMU did not answer {command['execute']} within {ANSWER_S:g} s") from None

    async def _answer(self, number: int, command: str) -> Any:  # noqa: ANN401
        while True:
            message = await self._wire.read()
            if message.get("id") != number:
                continue
            if "error" in message:
                raise Refused(f"{command}: {message['error'].get('desc', 'no reason given')}")
            return message["return"]


@asynccontextmanager
async def talking_to(socket: Path, is_there: IsThere) -> AsyncIterator[Qmp]:
    """Talk to a machine for as long as the block runs; raises Silent where it does not greet."""
    wire = await Wire.open(socket, ANSWER_S, is_there)
    try:
        try:
            async with asyncio.timeout(ANSWER_S):
                while "QMP" not in await wire.read():
                    pass
        except TimeoutError:
            raise Silent(f"QEMU did not greet within {ANSWER_S:g} s") from None
        qmp = Qmp(wire)
        await qmp.ask("qmp_capabilities")
        yield qmp
    finally:
        await wire.close()


@asynccontextmanager
async def passing(qmp: Qmp, descriptor: int, name: str) -> AsyncIterator[str]:
    """Let QEMU use an open descriptor; it is closed here, and QEMU has its own copy. Gives its address."""
    try:
        await qmp.hand_over(descriptor, name)
    finally:
        os.close(descriptor)
    yield f"fd:{name}"
