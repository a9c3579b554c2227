"""Machines that need not boot: a guest that has booted once was saved then, and others begin as copies of it.

That takes half a second where booting takes several, and tens without KVM on a busy computer. The copy for
machines of the same hardware is made by the first that needs it, beside the image, and whoever comes
meanwhile waits for it. Copies are alike until each is given the time, and random bytes of its own (`job`).

Those are kept that were used last. Of the others the memory goes, which is nearly all of it; a disk stays for
as long as a machine may have a layer over it.
"""

import asyncio
import fcntl
import json
import os
import platform
import shutil
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import asdict
from hashlib import sha256
from pathlib import Path

from leasehold.service.drivers.qemu.agent import agent_at
from leasehold.service.drivers.qemu.alarm import until_over
from leasehold.service.drivers.qemu.command_line import KVM, MachineFiles
from leasehold.service.drivers.qemu.disks import base_of
from leasehold.service.drivers.qemu.images.image import Image
from leasehold.service.drivers.qemu.machine import Machine, to_its_end
from leasehold.service.drivers.qemu.options import QemuOptions
from leasehold.service.drivers.qemu.process import Process
from leasehold.service.drivers.qemu.record import Hardware
from leasehold.service.drivers.qemu.together import until

FOLDER = "warm"
"""Beside the image."""

_MESSAGES = 16
_LOOK_EVERY_S = 0.05


async def warm_copy(image: Image, hardware: Hardware, options: QemuOptions) -> MachineFiles:
    """Give the files of a guest that has booted and was saved; made where there is none yet.

    Raises MachineFailed or OSError where that does not work.
    """
    folder = image.folder.parent / FOLDER / _name(image, hardware)
    async with _alone(folder):
        if _latest(folder) is None:
            await _make(folder, image, hardware, options.boot_ms / 1000)
            await to_its_end(keep_warm, folder.parent, options.keep_warm)
        files = _latest(folder)
        if files is None:
            raise FileNotFoundError(f"{folder.name} was given up at once")
        os.utime(files.state)
        return files


def sweep_warm(images: Path) -> None:
    """End the machines of whoever was killed while it made a copy in this folder of images."""
    for lock in (images / FOLDER).glob("*.lock"):
        with lock.open("a") as claim:
            try:
                fcntl.flock(claim, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                continue
            _remove(lock.with_suffix(".partial"))


def keep_warm(warm: Path, most: int) -> None:
    """Let so many copies be, those that were used last; a machine that just wants another boots."""
    states = {state: state.stat().st_mtime_ns for state in _complete(warm, "*.state")}
    for state in sorted(states, key=lambda one: states[one], reverse=True)[most:]:
        state.unlink(missing_ok=True)
    _forget_disks(warm)


def _forget_disks(warm: Path) -> None:
    """Remove the disks of copies that are gone, where all machines are known that may have layers over them.

    That is so for images in the data folder of a gateway. An image elsewhere may be that of several gateways.
    """
    machines = warm.parent.with_name("machines")
    if not machines.is_dir():
        return
    needed = {base_of(layer) for layer in machines.glob("*/leases/*/*.qcow2")}
    for disk in _complete(warm, "*.qcow2"):
        if not disk.with_suffix(".state").exists() and disk not in needed:
            disk.unlink(missing_ok=True)


def _complete(warm: Path, pattern: str) -> Iterator[Path]:
    """List the files of copies that are not being made."""
    return (path for path in warm.glob(f"*/{pattern}") if not path.parent.suffix)


def _name(image: Image, hardware: Hardware) -> str:
    """Name a copy by everything that has to be the same, or it could not go on."""
    processor = platform.node() if hardware.accelerator == KVM else ""
    told = json.dumps([asdict(hardware), image.folder.name, processor], sort_keys=True)
    return sha256(told.encode()).hexdigest()[:_MESSAGES]


def _latest(folder: Path) -> MachineFiles | None:
    """Find the copy in a folder; there may be disks of earlier ones, without their memory."""
    numbers = sorted(int(state.stem) for state in folder.glob("*.state"))
    return _files(folder, numbers[-1]) if numbers else None


def _files(folder: Path, number: int = 0) -> MachineFiles:
    return MachineFiles(folder, number, folder / "console.log")


async def _make(folder: Path, image: Image, hardware: Hardware, boot_s: float) -> None:
    partial = folder.with_suffix(".partial")
    await to_its_end(_remove, partial)
    partial.mkdir(mode=0o700)
    files = _files(partial)
    machine = Machine(f"warm/{folder.name}", files, hardware, image, lambda _: None)
    try:
        await machine.boot()
        async with asyncio.timeout(boot_s):
            await until(_meet(files.agent), until_over(machine))
        await machine.save()
        await machine.kill()
        await to_its_end(_take_in, folder, files)
    finally:
        await to_its_end(_remove, partial)


def _take_in(folder: Path, made: MachineFiles) -> None:
    """Let a copy be there: its memory last, as it is what a copy is known by."""
    folder.mkdir(mode=0o700, exist_ok=True)
    number = max((int(disk.stem) for disk in folder.glob("*.qcow2")), default=-1) + 1
    files = _files(folder, number)
    made.disk.rename(files.disk)
    made.state.rename(files.state)


async def _meet(socket: Path) -> None:
    async with agent_at(socket) as agent:
        await agent.meet()


def _remove(partial: Path) -> None:
    if partial.exists():
        Process(_files(partial).lock).kill()
        shutil.rmtree(partial, ignore_errors=True)


@asynccontextmanager
async def _alone(folder: Path) -> AsyncIterator[None]:
    """Let only one process, and one task of it, make a copy at a time."""
    folder.parent.mkdir(mode=0o700, exist_ok=True)
    claim = os.open(folder.with_suffix(".lock"), os.O_RDWR | os.O_CREAT, 0o600)
    try:
        while True:
            try:
                fcntl.flock(claim, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                await asyncio.sleep(_LOOK_EVERY_S)
        yield
    finally:
        os.close(claim)
