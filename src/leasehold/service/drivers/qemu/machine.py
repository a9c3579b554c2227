"""One virtual machine: what can be done to it. Each thing may be done again after it was cut short."""

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TypeVar

from leasehold.service.drivers.qemu.command_line import TCG, MachineFiles, boot_command, waiting_for
from leasehold.service.drivers.qemu.disks import make_layer, to_disk
from leasehold.service.drivers.qemu.images.image import Image
from leasehold.service.drivers.qemu.process import MachineDied, MachineFailed, Process
from leasehold.service.drivers.qemu.qmp import Qmp, passing, talking_to
from leasehold.service.drivers.qemu.record import Hardware
from leasehold.service.drivers.qemu.wire import Silent, connected

RUNNING = "running"
MOVED = "postmigrate"
WAITING = "inmigrate"
OVER = {"shutdown": "the guest has shut down", "guest-panicked": "the guest's kernel has panicked"}

_AS_FAST_AS_POSSIBLE = 10**10
_LOOK_EVERY_S = 0.01
_LISTENS_S = 10.0
_UNDER_WAY = frozenset({"setup", "active", "device", "pre-switchover", "postcopy-active", "cancelling"})

Result = TypeVar("Result")
Cap = Callable[[int], None]
"""Bounds what a process may use, by its number."""


async def to_its_end(work: Callable[..., Result], *details: object) -> Result:
    """Do something in a thread, and wait for it even when cancelled: it never goes on behind our back."""
    task = asyncio.ensure_future(asyncio.to_thread(work, *details))
    return await unbroken(task)


async def unbroken(task: "asyncio.Future[Result]") -> Result:
    """Wait for something to its end; whoever cancels has to wait as well."""
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        while not task.done():
            try:
                await asyncio.wait([task])
            except asyncio.CancelledError:
                continue
        raise


class GuestOver(MachineFailed):
    """The guest is over by itself, while its machine is still there; ``has_panicked`` or has shut down."""

    def __init__(self, status: str) -> None:
        self.has_panicked = status == "guest-panicked"
        super().__init__(OVER[status])


class Machine:
    """One machine of a lease. Whatever goes wrong with it raises MachineFailed."""

    def __init__(self, name: str, files: MachineFiles, hardware: Hardware, image: Image, cap: Cap) -> None:
        self.files = files
        self.process = Process(files.lock)
        self._name = name
        self._hardware = hardware
        self._image = image
        self._cap = cap

    @property
    def has_agent(self) -> bool:
        """Whether its guest can be asked."""
        return self._image.description.has_agent

    # beginning and ending

    async def boot(self) -> None:
        """Begin anew, with an empty layer over the image's disk."""
        await to_its_end(self._begin_anew)

    def _begin_anew(self) -> None:
        self.process.kill()
        make_layer(self._image.disk, self.files.disk)
        self.begin_now()

    def begin_now(self) -> None:
        """Boot from the disk that there is; blocks while the process begins."""
        self._begin(())

    async def await_memory(self) -> None:
        """Begin with the disk that there is, and listen for memory from another site."""
        await to_its_end(self._begin, waiting_for(f"unix:{self.files.incoming.name}"))
        async with self.talking() as qmp:
            # Else it would take the disk from the other site, which may still have to go on with it.
            late = {"capability": "late-block-activate", "state": True}
            await qmp.ask("migrate-set-capabilities", capabilities=[late])

    async def begin_as(self, other: MachineFiles) -> None:
        """Begin as a copy of a machine that was saved, with a layer of its own over its disk."""
        await to_its_end(self.process.kill)
        await to_its_end(make_layer, other.disk, self.files.disk)
        await self._load(other.state)
        await self.go_on()

    async def load(self) -> None:
        """Begin with the disk that there is and the memory that was saved, and wait to be let go on."""
        await self._load(self.files.state)

    async def _load(self, state: Path) -> None:
        await to_its_end(self._begin_loading, state)
        while await self.status() == WAITING:  # noqa: ASYNC110 - of another process
            await asyncio.sleep(_LOOK_EVERY_S)

    def _begin_loading(self, state: Path) -> None:
        self.process.kill()
        descriptor = os.open(state, os.O_RDONLY)
        try:
            self._begin(waiting_for(f"fd:{descriptor}"), descriptor)
        finally:
            os.close(descriptor)

    def _begin(self, more: tuple[str, ...], *descriptors: int) -> None:
        for socket in (self.files.qmp, self.files.agent, self.files.incoming):
            socket.unlink(missing_ok=True)
        command = boot_command(self._name, self._hardware, self._image, self.files, more)
        self.process.begin(command, descriptors)
        pid = self.process.pid()
        if pid is not None:
            self._cap(pid)

    async def kill(self) -> None:
        """End it at once."""
        await to_its_end(self.process.kill)

    def is_alive(self) -> bool:
        """Whether its process is there."""
        return self.process.is_alive()

    # looking

    @asynccontextmanager
    async def talking(self) -> AsyncIterator[Qmp]:
        """Talk to it for as long as the block runs."""
        if not self.is_alive():
            raise self._is_dead()
        try:
            async with talking_to(self.files.qmp, self.is_alive) as qmp:
                yield qmp
        except Silent as error:
            if self.is_alive():
                raise Silent(f"QEMU hangs: {error}") from error
            raise self._is_dead() from error

    def _is_dead(self) -> MachineDied:
        return MachineDied(f"QEMU is dead: {self.process.last_words()}")

    async def status(self) -> str:
        """Give what QEMU says that it is doing."""
        async with self.talking() as qmp:
            return await status_of(qmp)

    async def go_on(self) -> None:
        """Let it run, from wherever it stands."""
        async with self.talking() as qmp:
            await wake(qmp, await status_of(qmp))
        self.files.partial.unlink(missing_ok=True)

    # memory

    async def save(self) -> None:
        """Let it stand still, and save its memory; it is complete and on the disk when this returns."""
        if self.files.state.exists():
            return
        async with self.talking() as qmp:
            if not await self._is_written(qmp):
                await self._write_memory(qmp)
        await to_its_end(self._keep_memory)

    async def _is_written(self, qmp: Qmp) -> bool:
        """Whether somebody who was killed then had all of it written; waits for whatever was begun."""
        await transferred(qmp)
        return await status_of(qmp) == MOVED and self.files.partial.exists()

    async def _write_memory(self, qmp: Qmp) -> None:
        await wake(qmp, await status_of(qmp))
        await qmp.ask("stop")
        descriptor = os.open(self.files.partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        problem = await _transfer(qmp, descriptor)
        if problem:
            self.files.partial.unlink(missing_ok=True)
            raise MachineFailed(f"memory was not saved: {problem}")

    def _keep_memory(self) -> None:
        to_disk(self.files.partial)
        to_disk(self.files.disk)
        self.files.partial.replace(self.files.state)
        to_disk(self.files.folder)

    async def move(self, incoming: Path, within_s: float) -> None:
        """Move it into the machine that listens there; it stands still here when this returns.

        An interpreted one stands still from the beginning. While memory is copied QEMU loses now and then
        what such a machine writes, and it would die of that where it arrives. Seen of 7.2, most on busy
        computers.
        """
        async with self.talking() as qmp:
            await transferred(qmp)  # whoever began it may have been killed
            if await status_of(qmp) == MOVED:
                return
            self.files.partial.unlink(missing_ok=True)  # else it would be taken for the memory that was moved
            await wake(qmp, await status_of(qmp))
            there = await connected(incoming, _LISTENS_S)
            if self._hardware.accelerator == TCG:
                await qmp.ask("stop")
            try:
                async with asyncio.timeout(within_s):
                    problem = await _transfer(qmp, there.detach())
            except TimeoutError:
                await qmp.ask("migrate_cancel")
                problem = await transferred(qmp) or f"not done within {within_s:g} s"
            if problem:
                raise MachineFailed(f"memory was not moved: {problem}")


async def status_of(qmp: Qmp) -> str:
    """Give what QEMU says that it is doing."""
    return str((await qmp.ask("query-status"))["status"])


async def wake(qmp: Qmp, status: str) -> None:
    """Let a machine run that has this status; raises GuestOver where it cannot any more.

    One that has arrived, and has never run since, has no disk yet: QEMU 7.2 dies when it is to be saved.
    """
    if status in OVER:
        raise GuestOver(status)
    if status != RUNNING:
        await qmp.ask("cont")


async def _transfer(qmp: Qmp, descriptor: int) -> str:
    """Write memory to a descriptor, which is closed here; gives what went wrong, "" if nothing did."""
    async with passing(qmp, descriptor, "memory") as address:
        await qmp.ask("migrate-set-parameters", max_bandwidth=_AS_FAST_AS_POSSIBLE)
        await qmp.ask("migrate", uri=address)
    return await transferred(qmp)


async def transferred(qmp: Qmp) -> str:
    """Wait until no memory is being written; gives what went wrong the last time, "" if nothing did."""
    state = await qmp.ask("query-migrate")
    while state.get("status") in _UNDER_WAY:
        await asyncio.sleep(_LOOK_EVERY_S)
        state = await qmp.ask("query-migrate")
    status = state.get("status", "completed")
    return "" if status == "completed" else str(state.get("error-desc", status))
