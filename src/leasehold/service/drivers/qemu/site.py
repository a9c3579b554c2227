"""One site of virtual machines, as the steps work with it: its instances, how they change, and their machines.

A change is durable before it is observed.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import Any

from leasehold.jobs.job import Fault
from leasehold.model.errors import InputError
from leasehold.service.drivers.output import console_file, output_folder
from leasehold.service.drivers.protocol import DriverSetup, Observation, Phase, fault_of_exit
from leasehold.service.drivers.qemu.images.image import Image, open_image
from leasehold.service.drivers.qemu.instances import OtherSite, QemuInstance, QemuInstances, open_store
from leasehold.service.drivers.qemu.limits import CgroupLimits
from leasehold.service.drivers.qemu.machine import GuestOver, MachineFiles, Place, VirtualMachine
from leasehold.service.drivers.qemu.options import QemuOptions
from leasehold.service.drivers.qemu.process import MachineDied, QemuProcess, Result, shielded
from leasehold.service.drivers.reconciler.driver import News
from leasehold.service.drivers.reconciler.provider import MachineFailed
from leasehold.service.drivers.staging import TransferRate

_PRIVATE = 0o700


class QemuSite:
    """One site. Steps change its instances by the methods below only. Raises InputError; see `InstanceStore`.

    ``inputs``     where inputs of commands are brought to
    ``transfers``  how fast they get from there into guests
    """

    def __init__(self, setup: DriverSetup, options: QemuOptions) -> None:
        self.name = setup.site
        self.folder = setup.folder.absolute()
        self.inputs = self.folder / "inputs"
        self.transfers = TransferRate()
        self.options = options
        self.now_ms = setup.clock
        self._store = open_store(self.folder)
        stored, tombstones = self._store.instances(), self._store.tombstones()
        self.instances = QemuInstances(QemuInstance, setup.slots, options.able, stored, tombstones)
        self.limits = CgroupLimits(self.folder, wanted=options.limits)
        self._news = News()
        self._news.add(self.instances.observe())
        self._changing = asyncio.Lock()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix=f"qemu-{setup.site}")

    # changing instances

    async def change(self, change: Callable[[], Result]) -> Result:
        """Change instances; this is durable when it returns, and done even if it is cancelled."""
        return await shielded(asyncio.ensure_future(self._change(change)))

    async def _change(self, change: Callable[[], Result]) -> Result:
        async with self._changing:
            result = change()
            write = self._store.write
            await asyncio.get_running_loop().run_in_executor(self._thread, self.instances.flush, write)
            self._news.add(self.instances.take_news())
            return result

    async def update(self, instance: QemuInstance, **fields: Any) -> None:  # noqa: ANN401 - fields of QemuInstance
        """Change fields of an instance."""

        def change() -> None:
            for name, value in fields.items():
                setattr(instance, name, value)
            self.instances.touch(instance)

        await self.change(change)

    async def progress(self, instance: QemuInstance, number: int, **fields: Any) -> None:  # noqa: ANN401 - fields of GuestProgress
        """Change the progress of one machine."""

        def change() -> None:
            instance.set_progress(number, **fields)
            self.instances.touch(instance)

        await self.change(change)

    async def become(self, instance: QemuInstance, phase: Phase, detail: str = "", fault: str = "") -> None:
        """Move an instance to another phase."""
        status = instance.command_status if phase is Phase.ENDED else None
        fault = fault or fault_of_exit(status)
        now_ms = self.now_ms()
        await self.change(
            lambda: self.instances.become(instance, phase, now_ms, detail, exit_status=status, fault=fault)
        )

    async def fail(self, instance: QemuInstance, error: MachineFailed) -> None:
        """Record that a machine is lost, or over by itself: well, where it shut down and had no command."""
        if isinstance(error, GuestOver) and not error.has_panicked and not instance.command:
            await self.become(instance, Phase.ENDED, str(error))
        else:
            has_died = isinstance(error, MachineDied | GuestOver)
            fault = Fault.NODE_DIED if has_died else Fault.SERVICE_STOPPED
            await self.become(instance, Phase.FAILED, str(error), str(fault))

    async def flush(self) -> None:
        """Write what an earlier change could not write."""
        await self.change(lambda: None)

    async def observe(self) -> list[Observation]:
        """Report everything that is here, as it is on the disk."""
        async with self._changing:
            return self.instances.observe()

    async def news(self) -> list[Observation]:
        """Wait until something changes that is still here, and report it."""
        while True:
            news = await self._news.take()
            if here := [one for one in news if any(it.is_observed for it in self.instances.of_lease(one.lease_id))]:
                return here

    async def close(self) -> None:
        """Close the store; everything is written."""
        await asyncio.get_running_loop().run_in_executor(self._thread, self._store.close)
        self._thread.shutdown()

    # the machines of an instance

    def folder_of(self, instance: QemuInstance) -> Path:
        """Where the files of its machines are."""
        return self.folder / "leases" / instance.folder

    def make_folders(self, instance: QemuInstance) -> None:
        """Make the folders of its machines' files, and of what they write."""
        self.folder_of(instance).mkdir(mode=_PRIVATE, parents=True, exist_ok=True)
        output_folder(self.folder).mkdir(mode=_PRIVATE, parents=True, exist_ok=True)

    def processes(self, instance: QemuInstance) -> list[QemuProcess]:
        """The processes of its machines, whether they are there or not."""
        return [QemuProcess(self._files(instance, number).lock) for number in range(instance.vms)]

    def machines(self, instance: QemuInstance) -> list[VirtualMachine]:
        """Its machines, whether they are there or not; raises MachineFailed where their image is lost."""
        if instance.hardware is None:
            return []
        image = self.image(instance.hardware.image)
        return [self._machine(instance, number, image) for number in range(instance.vms)]

    def image(self, folder: str) -> Image:
        """Open an image; raises MachineFailed where it is not there any more."""
        try:
            return _image(folder)
        except InputError as error:
            raise MachineFailed(str(error)) from None

    def _files(self, instance: QemuInstance, number: int) -> MachineFiles:
        return files_at(self.folder, instance, number)

    def _machine(self, instance: QemuInstance, number: int, image: Image) -> VirtualMachine:
        hardware = instance.hardware
        assert hardware is not None
        name, group = f"{self.name}/{instance.folder}/{number}", f"{instance.folder}.{number}"
        files = self._files(instance, number)
        place = Place(number, instance.vms, self.options.login_address)
        return VirtualMachine(name, files, hardware, image, lambda pid: self.limits.apply(group, pid, hardware), place)

    # other sites

    def other(self, name: str) -> OtherSite:
        """Another site of the same gateway."""
        return OtherSite(self.folder.parent / name)


def files_at(site: Path, instance: QemuInstance, number: int) -> MachineFiles:
    """The files of a machine at the site with this folder."""
    console = console_file(site, instance.lease_id, number, instance.incarnation)
    return MachineFiles(site / "leases" / instance.folder, number, console)


@cache
def _image(folder: str) -> Image:
    return open_image(Path(folder))
