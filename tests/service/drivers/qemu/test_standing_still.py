"""An interpreted machine stands still while it moves, for QEMU would lose what it writes meanwhile."""

import asyncio
import os
import socket
import tempfile
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import pytest

from leasehold.service.drivers.qemu.images.image import Image
from leasehold.service.drivers.qemu.machine import KVM, TCG, MachineFiles, VirtualMachine, VmHardware
from leasehold.service.drivers.qemu.qmp import QmpConnection

_SAID: Mapping[str, Mapping[str, str]] = {
    "query-status": {"status": "running"},
    "query-migrate": {"status": "completed"},
}


class Recorded(VirtualMachine):
    """A machine without a process, and what QEMU is asked of it."""

    def __init__(self, folder: Path, accelerator: str) -> None:
        files = MachineFiles(folder, 0, folder / "console")
        hardware = VmHardware("", 64, 1, accelerator, "pc")
        super().__init__("guest", files, hardware, cast("Image", None), lambda _: None)
        self.asked: list[str] = []

    @asynccontextmanager
    async def qmp(self) -> AsyncIterator[QmpConnection]:
        yield cast("QmpConnection", self)

    async def execute(self, command: str, **_: object) -> Any:
        self.asked.append(command)
        return _SAID.get(command, {})

    async def pass_descriptor(self, descriptor: int, _name: str) -> None:
        os.fstat(descriptor)  # raises where it is not open


_MOVED = ["migrate-set-parameters", "migrate"]


@pytest.mark.parametrize(("accelerator", "expected"), [(TCG, ["stop", *_MOVED]), (KVM, _MOVED)])
def test_a_machine_is_stopped_before_it_goes_where_it_is_interpreted(accelerator: str, expected: list[str]) -> None:
    with tempfile.TemporaryDirectory() as name, socket.socket(socket.AF_UNIX) as there:
        folder = Path(name)
        there.bind(str(folder / "there"))
        there.listen()
        machine = Recorded(folder, accelerator)
        asyncio.run(machine.move(folder / "there", 60))
    assert [asked for asked in machine.asked if not asked.startswith("query")] == expected
