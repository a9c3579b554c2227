"""One lease at a site, as the steps work with it: what is known of it, its machines, and how both change."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

from leasehold.jobs.job import Fault
from leasehold.service.drivers.protocol import Phase
from leasehold.service.drivers.qemu.images.image import Image
from leasehold.service.drivers.qemu.ledger import Neighbour
from leasehold.service.drivers.qemu.limits import CgroupLimits
from leasehold.service.drivers.qemu.machine import GuestOver, MachineFiles, VirtualMachine
from leasehold.service.drivers.qemu.options import QemuOptions
from leasehold.service.drivers.qemu.output import console_file, output_folder
from leasehold.service.drivers.qemu.process import MachineDied, MachineFailed, QemuProcess
from leasehold.service.drivers.qemu.record import Changes, Record

_PRIVATE = 0o700

Alter = Callable[[Record], Record]


class Home(Protocol):
    """What a site offers to its leases."""

    name: str
    folder: Path
    options: QemuOptions
    limits: CgroupLimits

    def now_ms(self) -> int:
        """Tell the time."""
        ...

    def image(self, folder: str) -> Image:
        """Give an image; raises MachineFailed where it is not there any more."""
        ...

    def neighbour(self, site: str) -> Neighbour:
        """Look at what another site of the same gateway knows."""
        ...

    def is_here(self, lease_id: int) -> bool:
        """Whether a lease is here, other than as a note."""
        ...

    def living(self) -> set[int]:
        """Give the leases of which anything is here."""
        ...

    async def write(self, lease: "Lease", record: Record, changes: Changes) -> None:
        """Write down what has changed of a lease, and then let it be so."""
        ...


class Lease:
    """One lease. Steps change it by `alter` only, so that what is known of it always is on the disk."""

    def __init__(self, record: Record, home: Home) -> None:
        self.record = record
        self.home = home
        self._changing = asyncio.Lock()

    @property
    def folder(self) -> Path:
        """Where the files of its machines are."""
        return self.home.folder / "leases" / self.record.folder

    @property
    def processes(self) -> list[QemuProcess]:
        """The processes of its machines, whether they are there or not."""
        return [QemuProcess(self._files(number).lock) for number in range(self.record.vms)]

    def make_folders(self) -> None:
        """Have a place for the files of its machines, and for what they write."""
        self.folder.mkdir(mode=_PRIVATE, parents=True, exist_ok=True)
        output_folder(self.home.folder).mkdir(mode=_PRIVATE, parents=True, exist_ok=True)

    @property
    def machines(self) -> list[VirtualMachine]:
        """Its machines, whether they are there or not; raises MachineFailed where they cannot be known."""
        hardware = self.record.hardware
        if hardware is None:
            return []
        image = self.home.image(hardware.image)
        return [self._machine(number, image) for number in range(self.record.vms)]

    def _files(self, number: int) -> MachineFiles:
        record = self.record
        console = console_file(self.home.folder, record.lease_id, number, record.incarnation)
        return MachineFiles(self.folder, number, console)

    def _machine(self, number: int, image: Image) -> VirtualMachine:
        assert self.record.hardware is not None
        name = f"{self.home.name}/{self.record.folder}/{number}"
        hardware, limits = self.record.hardware, self.home.limits

        def cap(pid: int) -> None:
            limits.apply(f"{self.record.folder}.{number}", pid, hardware)

        return VirtualMachine(name, self._files(number), hardware, image, cap)

    async def alter(self, alter: Alter) -> None:
        """Let it become something else; on the disk, and known, when this returns."""
        async with self._changing:
            record = alter(self.record)
            await self.home.write(self, record, Changes(records={record.lease_id: record}))

    async def alter_to(self, **changes: Any) -> None:  # noqa: ANN401 - fields of Record
        """Let some of it be different."""
        await self.alter(lambda it: replace(it, **changes))

    async def become(self, phase: Phase, detail: str = "", **changes: Any) -> None:  # noqa: ANN401 - of Record
        """Come to another phase."""
        now_ms = self.home.now_ms()
        await self.alter(lambda it: replace(it, phase=phase, since_ms=now_ms, detail=detail, **changes))

    async def is_lost(self, error: MachineFailed) -> None:
        """A machine of it is lost, or is over by itself."""
        has_ended = isinstance(error, GuestOver) and not error.has_panicked and not self.record.command
        fault = "" if has_ended else _fault(error)
        await self.become(Phase.ENDED if has_ended else Phase.FAILED, str(error), fault=fault)


def _fault(error: MachineFailed) -> str:
    """Say whether a machine has died, or could not be made or led any further."""
    has_died = isinstance(error, MachineDied | GuestOver)
    return str(Fault.NODE_DIED if has_died else Fault.SERVICE_STOPPED)
