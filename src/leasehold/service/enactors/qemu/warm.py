"""Machines that need not boot: a guest that has booted once was saved then, and others begin as copies of it.

That takes half a second where booting takes several, and tens without KVM on a busy computer. The copy for
machines of the same hardware is made by the first that needs it, beside the image, and whoever comes
meanwhile waits for it. Copies are alike until each is given the time, and random bytes of its own (`job`).
"""

import asyncio
import fcntl
import json
import os
import platform
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import asdict
from hashlib import sha256
from pathlib import Path

from leasehold.service.enactors.qemu.agent import agent_at
from leasehold.service.enactors.qemu.alarm import until_over
from leasehold.service.enactors.qemu.command_line import KVM, MachineFiles
from leasehold.service.enactors.qemu.images.image import Image
from leasehold.service.enactors.qemu.machine import Machine, to_its_end
from leasehold.service.enactors.qemu.process import Process
from leasehold.service.enactors.qemu.record import Hardware
from leasehold.service.enactors.qemu.together import until

FOLDER = "warm"
"""Beside the image."""

_LETTERS = 16
_LOOK_EVERY_S = 0.05


async def warm_copy(image: Image, hardware: Hardware, boot_s: float) -> MachineFiles:
    """Give the files of a guest that has booted and was saved; made where there is none yet.

    Raises MachineFailed or OSError where that does not work.
    """
    folder = image.folder.parent / FOLDER / _name(image, hardware)
    async with _alone(folder):
        if not folder.exists():
            await _make(folder, image, hardware, boot_s)
    return _files(folder)


def sweep_warm(image_folder: Path) -> None:
    """End the machines of whoever was killed while it made a copy."""
    for lock in (image_folder.parent / FOLDER).glob("*.lock"):
        with lock.open("a") as claim:
            try:
                fcntl.flock(claim, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                continue
            _remove(lock.with_suffix(".partial"))


def _name(image: Image, hardware: Hardware) -> str:
    """Name a copy by everything that has to be the same, or it could not go on."""
    processor = platform.node() if hardware.accelerator == KVM else ""
    told = json.dumps([asdict(hardware), image.folder.name, processor], sort_keys=True)
    return sha256(told.encode()).hexdigest()[:_LETTERS]


def _files(folder: Path) -> MachineFiles:
    return MachineFiles(folder, 0, folder / "console.log")


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
        for path in (files.lock, files.pid, files.qmp, files.agent):
            path.unlink(missing_ok=True)
        partial.rename(folder)
    finally:
        await to_its_end(_remove, partial)


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
