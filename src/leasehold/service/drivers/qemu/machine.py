"""One virtual machine: its hardware, its files, how QEMU is called for it, and what can be done to it.

Each operation may be repeated after it was interrupted.
"""

import asyncio
import os
import socket
import struct
import subprocess
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NoReturn

import structlog

from leasehold.service.drivers.login import LOCAL, closed_network
from leasehold.service.drivers.qemu.images.image import Image
from leasehold.service.drivers.qemu.process import MachineDied, QemuProcess, uninterrupted
from leasehold.service.drivers.qemu.qmp import NoAnswer, QmpConnection, connected, qmp_connection
from leasehold.service.drivers.reconciler.provider import MachineFailed

QEMU = "qemu-system-x86_64"
LAN_MAC, ACCESS_MAC = "52:54:00:4c:48:00", "52:54:00:4c:48:ff"
"""By these the guest's own program knows its network cards; it gives itself another in the network of the lease."""
_GUEST_ADDRESS = "10.0.2.15"
KVM, TCG = "kvm", "tcg"

RUNNING = "running"
MOVED = "postmigrate"
WAITING = "inmigrate"
OVER = {"shutdown": "the guest has shut down", "guest-panicked": "the guest's kernel has panicked"}

_ACCELERATORS = {
    KVM: ("-accel", "kvm", "-cpu", "host"),
    # 64 MiB of translated code are enough; QEMU itself would take a gibibyte
    TCG: ("-accel", "tcg,tb-size=64"),
}
# Without no_timer_check a guest on a busy computer panics now and then: "IO-APIC + timer doesn't work!"
_KERNEL_ARGUMENTS = "console=ttyS0 quiet panic=-1 no_timer_check"

_UNLIMITED_BANDWIDTH = 10**10
_POLL_S = 0.01
_LISTENS_S = 10.0
_MIGRATING = frozenset({"setup", "active", "device", "pre-switchover", "postcopy-active", "cancelling"})

_MOST_SILENCES = 4
"""Each as long as `qmp.QMP_TIMEOUT_S`: then QEMU hangs, and its machine is lost."""

_RECONNECT_S = 0.05
_CONTINUE_EVERY_S = 1.0

_MAKE_DISK_S = 60
_QCOW2_HEADER = struct.Struct(">4sIQI")
"""Its magic, its version, and where the name of its base is, with its length."""

_QCOW2_MAGIC = b"QFI\xfb"

Limit = Callable[[int], None]
"""Limits what a process may use, by its number."""


@dataclass(frozen=True, slots=True)
class VmHardware:
    """What a machine is made of; saved memory can only be restored into exactly the same.

    ``image``         the folder of its image
    ``accelerator``   ``kvm`` or ``tcg``
    ``machine_type``  QEMU's name, with its version, so that memory outlives an upgrade of QEMU
    ``has_output``    whether there is a port for the output of commands
    ``has_lan``       whether it is in a network with the other machines of its lease
    ``lets_in``       whether a port of this computer leads to its server of SSH
    """

    image: str
    memory_mib: int
    cpus: int
    accelerator: str
    machine_type: str
    has_output: bool = False
    has_lan: bool = False
    lets_in: bool = False


@dataclass(frozen=True, slots=True)
class Place:
    """Where a machine is in the network of its lease: its number among so many machines.

    ``listen``  the address of this computer at which ``port`` leads to its server of SSH
    """

    number: int = 0
    machines: int = 1
    listen: str = LOCAL
    port: int = 0


ALONE = Place()


class MachineFiles:
    """Where the files of one machine are: in the folder of its lease, by its number.

    ``state``     its memory, complete; ``partial`` while it is being written
    ``incoming``  the socket at which memory arrives from another site
    ``port``      the number of the port that leads to its server of SSH
    ``console``   what it writes, which outlives its lease; so does
    ``output``    what its command writes, and in ``error`` to its standard error
    """

    def __init__(self, folder: Path, number: int, console: Path) -> None:
        self.folder = folder
        self.disk = folder / f"{number}.qcow2"
        self.state = folder / f"{number}.state"
        self.partial = folder / f"{number}.partial"
        self.lock = folder / f"{number}.lock"
        self.pid = folder / f"{number}.pid"
        self.qmp = folder / f"{number}.qmp"
        self.agent = folder / f"{number}.agent"
        self.incoming = folder / f"{number}.incoming"
        self.port = folder / f"{number}.port"
        self.console = console
        self.output = console.with_suffix(".out")
        self.error = console.with_suffix(".err")


def boot_command(
    name: str,
    hardware: VmHardware,
    image: Image,
    files: MachineFiles,
    more: Sequence[str] = (),
    place: Place = ALONE,
) -> list[str]:
    """Give the command line of a machine that boots, or with ``more`` of one that waits for its memory."""
    return [
        QEMU,
        *("-name", f"guest={_escaped(name)}"),
        *("-machine", hardware.machine_type),
        *_ACCELERATORS[hardware.accelerator],
        *("-m", str(hardware.memory_mib), "-smp", str(hardware.cpus)),
        *("-display", "none", "-nodefaults", "-no-user-config"),
        # A guest that is over stays until it has been observed how that came about.
        *("-action", "reboot=shutdown,shutdown=pause,panic=pause"),
        # An intruder who escapes from a guest finds neither programs to run nor rights to gain.
        *("-sandbox", "on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny"),
        *("-chardev", f"file,id=console,path={_escaped(files.console)},append=on", "-serial", "chardev:console"),
        *("-chardev", f"socket,id=agent,path={files.agent.name},server=on,wait=off", "-serial", "chardev:agent"),
        *("-qmp", f"unix:{files.qmp.name},server=on,wait=off"),
        *("-drive", f"file={_escaped(files.disk)},if=virtio,format=qcow2,discard=unmap"),
        *("-device", "pvpanic-pci"),
        *(_output_ports(files) if hardware.has_output else ()),
        *(_lan(place) if hardware.has_lan else ()),
        *(_way_in(place) if hardware.lets_in else ()),
        *("-kernel", str(image.kernel), "-initrd", str(image.initrd)),
        *("-append", _KERNEL_ARGUMENTS),
        *("-pidfile", str(files.pid)),
        *more,
    ]


def _output_ports(files: MachineFiles) -> tuple[str, ...]:
    """Give the flags of the ports to which a guest copies the output of its command, and its standard error.

    They are plain serial ports like the console, each with an interrupt of its own. Through a virtio port a guest that
    was moved while it wrote hung now and then: it waits for a buffer to return with nothing else going on.
    """
    return (
        *("-chardev", f"file,id=output,path={_escaped(files.output)},append=on"),
        *("-device", "isa-serial,chardev=output,index=2,iobase=0x3e8,irq=5"),
        *("-chardev", f"file,id=error,path={_escaped(files.error)},append=on"),
        *("-device", "isa-serial,chardev=error,index=3,iobase=0x2e8,irq=7"),
    )


def _lan(place: Place) -> Iterator[str]:
    """Give the flags of a network card in the network of a lease's machines.

    Frames go through datagram sockets in the folder of the lease, which is closed to other users: nobody else, and no
    other lease, is in that network. The first machine is the hub. Nothing is kept open between two of them, so that
    one that was suspended, or was moved, is there again as soon as it runs.
    """
    hub = not place.number
    others = range(1, place.machines) if hub else (0,)
    for other in others:
        here, there = f"lan.{place.number}.{other}", f"lan.{other}.{place.number}"
        name = f"to{other}" if hub else "lan"
        unix = f"local.type=unix,local.path={here},remote.type=unix,remote.path={there}"
        yield from ("-netdev", f"dgram,id={name},{unix}")
        if hub:
            yield from ("-netdev", f"hubport,id=port{other},hubid=0,netdev={name}")
    if hub:
        yield from ("-netdev", "hubport,id=lan,hubid=0")
    yield from ("-device", f"virtio-net-pci,netdev=lan,mac={LAN_MAC},romfile=")


def _way_in(place: Place) -> tuple[str, ...]:
    """Give the flags of a network card with one use: a port of this computer leads to the guest.

    The guest reaches nothing through it.
    """
    network, forward = closed_network("access"), f"hostfwd=tcp:{place.listen}:{place.port}-{_GUEST_ADDRESS}:22"
    return (
        *("-netdev", f"{network},{forward}"),
        *("-device", f"virtio-net-pci,netdev=access,mac={ACCESS_MAC},romfile="),
    )


def _waiting_for(address: str) -> tuple[str, ...]:
    """Give the flags of a machine that takes its memory from there, and then waits to be continued."""
    return ("-S", "-incoming", address)


def _escaped(value: object) -> str:
    """Write a value into one of QEMU's lists, in which commas separate the items."""
    return str(value).replace(",", ",,")


# What is done with machines


class GuestOver(MachineFailed):
    """The guest has ended by itself, while its machine is still there; it ``has_panicked`` or has shut down."""

    def __init__(self, status: str) -> None:
        self.has_panicked = status == "guest-panicked"
        super().__init__(OVER[status])


class VirtualMachine:
    """One machine of a lease, whether it is there or not. All of its failures raise MachineFailed."""

    def __init__(
        self,
        name: str,
        files: MachineFiles,
        hardware: VmHardware,
        image: Image,
        limit: Limit,
        place: Place = ALONE,
    ) -> None:
        self.files = files
        self._place = place
        self.process = QemuProcess(files.lock)
        self._name = name
        self._hardware = hardware
        self._image = image
        self._limit = limit

    @property
    def has_agent(self) -> bool:
        """Whether there is a guest agent in it."""
        return self._image.description.has_agent

    # starting and killing

    async def boot(self) -> None:
        """Boot it, with an empty layer over the image's disk."""
        await uninterrupted(self._boot)

    def _boot(self) -> None:
        self.process.kill()
        make_layer(self._image.disk, self.files.disk)
        self.start()

    def start(self, more: tuple[str, ...] = (), *descriptors: int) -> None:
        """Start its process with the disk that is there; blocks until the process is there."""
        for path in (self.files.qmp, self.files.agent, self.files.incoming):
            path.unlink(missing_ok=True)
        place = self._place
        if self._hardware.lets_in:  # another port each time: whatever had the last one may have it still
            place = replace(place, port=_free_port(place.listen))
            self.files.port.write_text(str(place.port), encoding="ascii")
        command = boot_command(self._name, self._hardware, self._image, self.files, more, place)
        self.process.start(command, descriptors)
        pid = self.process.pid()
        if pid is not None:
            self._limit(pid)

    async def listen(self) -> None:
        """Start it with the disk that is there, to take memory from another site."""
        await uninterrupted(self.start, _waiting_for(f"unix:{self.files.incoming.name}"))
        async with self.qmp() as qmp:
            # Else it would take the disk from the other site, which may still have to continue with it.
            late = {"capability": "late-block-activate", "state": True}
            await qmp.execute("migrate-set-capabilities", capabilities=[late])

    async def start_as_copy(self, other: MachineFiles) -> None:
        """Start it as a copy of a machine that was saved, with a layer of its own over that one's disk."""
        await uninterrupted(self.process.kill)
        await uninterrupted(make_layer, other.disk, self.files.disk)
        await self._restore(other.state)
        await self.resume()

    async def restore(self) -> None:
        """Start it with the disk that is there and the memory that was saved, not yet running."""
        await self._restore(self.files.state)

    async def _restore(self, state: Path) -> None:
        await uninterrupted(self._start_restoring, state)
        while await self.status() == WAITING:  # noqa: ASYNC110 - of another process
            await asyncio.sleep(_POLL_S)

    def _start_restoring(self, state: Path) -> None:
        self.process.kill()
        descriptor = os.open(state, os.O_RDONLY)
        try:
            self.start(_waiting_for(f"fd:{descriptor}"), descriptor)
        finally:
            os.close(descriptor)

    async def kill(self) -> None:
        """Kill it."""
        await uninterrupted(self.process.kill)

    def is_alive(self) -> bool:
        """Whether its process is there."""
        return self.process.is_alive()

    # observing

    @asynccontextmanager
    async def qmp(self) -> AsyncIterator[QmpConnection]:
        """Talk to QEMU for as long as the block runs."""
        if not self.is_alive():
            raise self._died()
        try:
            async with qmp_connection(self.files.qmp, self.is_alive) as qmp:
                yield qmp
        except NoAnswer as error:
            if self.is_alive():
                raise NoAnswer(f"QEMU hangs: {error}") from error
            raise self._died() from error

    def _died(self) -> MachineDied:
        return MachineDied(f"QEMU is dead: {self.process.last_log_lines()}")

    async def status(self) -> str:
        """Give QEMU's name for its state."""
        async with self.qmp() as qmp:
            return await _status(qmp)

    def port(self) -> int | None:
        """Give the port of this computer that leads to its server of SSH; None where there is none now."""
        if not self.is_alive():
            return None
        try:
            return int(self.files.port.read_text(encoding="ascii"))
        except (OSError, ValueError):
            return None

    async def wait_until_over(self) -> NoReturn:
        """Wait until it is over, and raise why: GuestOver by itself, MachineFailed where it is lost."""
        silences = 0
        while True:
            try:
                async with self.qmp() as qmp:
                    silences = 0
                    while True:
                        await _keep_running(qmp)
                        await qmp.next_event()
            except NoAnswer as error:
                silences += 1
                if silences == _MOST_SILENCES:
                    raise MachineFailed(str(error)) from error
            await asyncio.sleep(_RECONNECT_S)

    async def resume(self) -> None:
        """Let it run, wherever it stands."""
        async with self.qmp() as qmp:
            await _continue(qmp, await _status(qmp))
        self.files.partial.unlink(missing_ok=True)

    # memory

    async def save(self) -> None:
        """Pause it, and save its memory, which is complete and on the disk when this returns."""
        if self.files.state.exists():
            return
        async with self.qmp() as qmp:
            if not await self._is_written(qmp):
                await self._write_memory(qmp)
        await uninterrupted(self._publish_memory)

    async def _is_written(self, qmp: QmpConnection) -> bool:
        """Whether a save that was interrupted has written all of it; waits for what is still being written."""
        await _migrated(qmp)
        return await _status(qmp) == MOVED and self.files.partial.exists()

    async def _write_memory(self, qmp: QmpConnection) -> None:
        await _continue(qmp, await _status(qmp))
        await qmp.execute("stop")
        descriptor = os.open(self.files.partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        problem = await _migrate(qmp, descriptor)
        if problem:
            self.files.partial.unlink(missing_ok=True)
            raise MachineFailed(f"memory was not saved: {problem}")

    def _publish_memory(self) -> None:
        _fsync(self.files.partial)
        _fsync(self.files.disk)
        self.files.partial.replace(self.files.state)
        _fsync(self.files.folder)

    async def move(self, incoming: Path, within_s: float) -> None:
        """Move its memory into the machine that listens there; it is paused here when this returns.

        An interpreted one is paused from the beginning. While memory is copied QEMU loses now and then what
        such a machine writes, which kills it where it arrives. Seen with 7.2, mostly on busy computers.
        """
        async with self.qmp() as qmp:
            await _migrated(qmp)  # one that was begun before a crash
            if await _status(qmp) == MOVED:
                return
            self.files.partial.unlink(missing_ok=True)  # else it would be taken for the memory that was moved
            await _continue(qmp, await _status(qmp))
            there = await connected(incoming, _LISTENS_S)
            if self._hardware.accelerator == TCG:
                await qmp.execute("stop")
            try:
                async with asyncio.timeout(within_s):
                    problem = await _migrate(qmp, there.detach())
            except TimeoutError:
                await qmp.execute("migrate_cancel")
                problem = await _migrated(qmp) or f"not done within {within_s:g} s"
            if problem:
                raise MachineFailed(f"memory was not moved: {problem}")


def _free_port(address: str) -> int:
    """Find a port that nobody uses. Where another program is quicker, QEMU does not start, and is started again."""
    with socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET) as tried:
        try:
            tried.bind((address, 0))
        except OSError as error:
            raise MachineFailed(f"nothing can listen at login_address {address}: {error.strerror}") from None
        return int(tried.getsockname()[1])


async def _status(qmp: QmpConnection) -> str:
    return str((await qmp.execute("query-status"))["status"])


async def _continue(qmp: QmpConnection, status: str) -> None:
    """Let a machine run that has this status; raises GuestOver where it cannot any more.

    One that has arrived, and has never run since, has no disk yet: QEMU 7.2 dies when it is to be saved.
    """
    if status in OVER:
        raise GuestOver(status)
    if status != RUNNING:
        await qmp.execute("cont")


async def _keep_running(qmp: QmpConnection) -> None:
    """Continue a machine that is paused because its disk is full, or because a crash left it paused."""
    while (status := await _status(qmp)) != RUNNING:
        await _continue(qmp, status)
        if await _status(qmp) != RUNNING:
            structlog.get_logger("leasehold.drivers.qemu").warning("a machine is paused", status=status)
            await asyncio.sleep(_CONTINUE_EVERY_S)


async def _migrate(qmp: QmpConnection, descriptor: int) -> str:
    """Write memory to a descriptor, which is closed here; gives the error, "" for none."""
    try:
        await qmp.pass_descriptor(descriptor, "memory")
    finally:
        os.close(descriptor)
    await qmp.execute("migrate-set-parameters", max_bandwidth=_UNLIMITED_BANDWIDTH)
    await qmp.execute("migrate", uri="fd:memory")
    return await _migrated(qmp)


async def _migrated(qmp: QmpConnection) -> str:
    """Wait until no memory is being written; gives the error of the last time, "" for none."""
    state = await qmp.execute("query-migrate")
    while state.get("status") in _MIGRATING:
        await asyncio.sleep(_POLL_S)
        state = await qmp.execute("query-migrate")
    status = state.get("status", "completed")
    return "" if status == "completed" else str(state.get("error-desc", status))


# Disks: each machine has a layer of its own over the disk of its image, or of a machine that it is a copy of


def make_layer(base: Path, disk: Path) -> None:
    """Make an empty layer over another disk, in place of any that is there; raises MachineFailed."""
    disk.unlink(missing_ok=True)
    command = ["qemu-img", "create", "-q", "-f", "qcow2", "-F", "qcow2", "-b", str(base), str(disk)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_MAKE_DISK_S, check=False)  # noqa: S603 - our own command line
    except FileNotFoundError:
        raise MachineFailed("there is no qemu-img: install qemu-utils") from None
    except subprocess.TimeoutExpired:
        raise MachineFailed(f"qemu-img did not end within {_MAKE_DISK_S} s") from None
    if done.returncode:
        raise MachineFailed(f"the disk was not made: {done.stderr.strip()}")


def base_of(layer: Path) -> Path | None:
    """Read the name of the disk that a layer lies over from its header; None where there is none."""
    try:
        with layer.open("rb") as file:
            magic, _, offset, length = _QCOW2_HEADER.unpack(file.read(_QCOW2_HEADER.size))
            file.seek(offset)
            name = file.read(length)
    except (OSError, struct.error):  # it is just being made, or removed
        return None
    return Path(os.fsdecode(name)) if magic == _QCOW2_MAGIC and offset else None


def _fsync(path: Path) -> None:
    """Make the content of a file, or the names in a folder, durable."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
