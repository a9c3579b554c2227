"""Warm copies: a guest that has booted once is saved, and machines of the same hardware start as copies of it.

That takes half a second where booting takes several, and tens without KVM on a busy computer. The copy is made
by the first machine that needs it, beside the image; others wait for it meanwhile. Copies are alike until each
is given the time, and random bytes of its own.

The copies used last are kept. Of the others the memory is removed, which is nearly all of it; a disk stays for
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

from leasehold.service.drivers.qemu.images.image import Image
from leasehold.service.drivers.qemu.machine import (
    KVM,
    MachineFiles,
    VirtualMachine,
    VmHardware,
    base_of,
)
from leasehold.service.drivers.qemu.options import QemuOptions
from leasehold.service.drivers.qemu.process import QemuProcess, uninterrupted, unless
from leasehold.service.drivers.qemu.qmp import agent_at

FOLDER = "warm"
"""Beside the image."""

_DIGITS = 16
_POLL_S = 0.05


async def warm_copy(image: Image, hardware: VmHardware, options: QemuOptions) -> MachineFiles:
    """Give the files of a guest that has booted and was saved; made where there is none yet.

    Raises MachineFailed or OSError where that fails.
    """
    folder = image.folder.parent / FOLDER / _name(image, hardware)
    async with _exclusively(folder):
        if _latest(folder) is None:
            await _make(folder, image, hardware, options.boot_ms / 1000)
            await uninterrupted(prune_warm, folder.parent, options.keep_warm)
        files = _latest(folder)
        if files is None:
            raise FileNotFoundError(f"{folder.name} was removed at once")
        os.utime(files.state)
        return files


def sweep_warm(images: Path) -> None:
    """End the machines that were left by a crash while a copy was made in this folder of images."""
    for lock in (images / FOLDER).glob("*.lock"):
        with lock.open("a") as claim:
            try:
                fcntl.flock(claim, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                continue
            _remove(lock.with_suffix(".partial"))


def prune_warm(warm: Path, most: int) -> None:
    """Keep so many copies, those used last; a machine that is about to use another boots."""
    states = {state: state.stat().st_mtime_ns for state in _complete(warm, "*.state")}
    for state in sorted(states, key=lambda one: states[one], reverse=True)[most:]:
        state.unlink(missing_ok=True)
    _prune_disks(warm)


def _prune_disks(warm: Path) -> None:
    """Remove the disks of pruned copies, where all machines are known that may have layers over them.

    That is so for images in the data folder of a gateway. An image elsewhere may serve several gateways.
    """
    machines = warm.parent.with_name("machines")
    if not machines.is_dir():
        return
    needed = {base_of(layer) for layer in machines.glob("*/leases/*/*.qcow2")}
    for disk in _complete(warm, "*.qcow2"):
        if not disk.with_suffix(".state").exists() and disk not in needed:
            disk.unlink(missing_ok=True)


def _complete(warm: Path, pattern: str) -> Iterator[Path]:
    """List the files of copies that are complete."""
    return (path for path in warm.glob(f"*/{pattern}") if not path.parent.suffix)


def _name(image: Image, hardware: VmHardware) -> str:
    """Name a copy by everything that has to be the same where it is restored."""
    processor = platform.node() if hardware.accelerator == KVM else ""
    content = json.dumps([asdict(hardware), image.folder.name, processor], sort_keys=True)
    return sha256(content.encode()).hexdigest()[:_DIGITS]


def _latest(folder: Path) -> MachineFiles | None:
    """Find the copy in a folder; there may be disks of earlier ones, without their memory."""
    numbers = sorted(int(state.stem) for state in folder.glob("*.state"))
    return _files(folder, numbers[-1]) if numbers else None


def _files(folder: Path, number: int = 0) -> MachineFiles:
    return MachineFiles(folder, number, folder / "console.log")


async def _make(folder: Path, image: Image, hardware: VmHardware, boot_s: float) -> None:
    partial = folder.with_suffix(".partial")
    await uninterrupted(_remove, partial)
    partial.mkdir(mode=0o700)
    files = _files(partial)
    machine = VirtualMachine(f"warm/{folder.name}", files, hardware, image, lambda _: None)
    try:
        await machine.boot()
        async with asyncio.timeout(boot_s):
            await unless(machine.wait_until_over(), _sync(files.agent))
        await machine.save()
        await machine.kill()
        await uninterrupted(_publish, folder, files)
    finally:
        await uninterrupted(_remove, partial)


def _publish(folder: Path, made: MachineFiles) -> None:
    """Publish a copy: its memory last, which a copy is found by."""
    folder.mkdir(mode=0o700, exist_ok=True)
    number = max((int(disk.stem) for disk in folder.glob("*.qcow2")), default=-1) + 1
    files = _files(folder, number)
    made.disk.rename(files.disk)
    made.state.rename(files.state)


async def _sync(socket: Path) -> None:
    async with agent_at(socket) as agent:
        await agent.sync()


def _remove(partial: Path) -> None:
    if partial.exists():
        QemuProcess(_files(partial).lock).kill()
        shutil.rmtree(partial, ignore_errors=True)


@asynccontextmanager
async def _exclusively(folder: Path) -> AsyncIterator[None]:
    """Make a copy in one process, and one task of it, at a time."""
    folder.parent.mkdir(mode=0o700, exist_ok=True)
    claim = os.open(folder.with_suffix(".lock"), os.O_RDWR | os.O_CREAT, 0o600)
    try:
        while True:
            try:
                fcntl.flock(claim, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                await asyncio.sleep(_POLL_S)
        yield
    finally:
        os.close(claim)
