"""The computer that machines run on: what it has, what of it is free, and whether one more machine fits."""

import os
import platform
import re
import shutil
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from leasehold.service.drivers.protocol import Order, Problem
from leasehold.service.drivers.qemu.command_line import MachineFiles
from leasehold.service.drivers.qemu.consoles import console_file
from leasehold.service.drivers.qemu.ledger import FILE, Neighbour
from leasehold.service.drivers.qemu.process import Process
from leasehold.service.drivers.qemu.record import Hardware, Record

OVERHEAD_MIB = 160
"""What QEMU was seen to use beside the memory of a guest."""

_MEMORY = Path("/proc/meminfo")
_PROCESSORS = Path("/proc/cpuinfo")
_MIB = 1 << 20
_KIB_A_MIB = 1 << 10


@dataclass(frozen=True, slots=True)
class Host:
    """What there is, and what of it is free for more machines: whatever those that are there do not hold.

    Memory that a machine was promised is not free, whether or not it has touched it yet.
    """

    name: str
    cores: int
    memory_mib: int
    disk_mib: int
    free_cores: int
    free_memory_mib: int
    free_disk_mib: int
    cpu_mhz: int


def look_at_host(machines: Path) -> Host:
    """Look at this computer, on which the sites of a gateway have their files in this folder."""
    memory, disk = _memory_mib(), shutil.disk_usage(machines)
    cores, held = len(os.sched_getaffinity(0)), list(_held(machines))
    return Host(
        name=platform.node(),
        cores=cores,
        memory_mib=memory["MemTotal"],
        disk_mib=disk.total // _MIB,
        free_cores=max(0, cores - sum(one.cores for one in held)),
        free_memory_mib=max(0, memory["MemAvailable"] - sum(one.untouched_mib for one in held)),
        free_disk_mib=disk.free // _MIB,
        cpu_mhz=_cpu_mhz(),
    )


@dataclass(frozen=True, slots=True)
class _Held:
    cores: int
    untouched_mib: int
    """Promised and not used yet; below 0 for what is used, and given back at this very moment."""


def _held(machines: Path) -> Iterable[_Held]:
    for ledger in machines.glob(f"*/{FILE}"):
        for record in Neighbour(ledger.parent).records():
            if record.hardware is not None:
                yield _held_by(ledger.parent, record, record.hardware)


def _held_by(site: Path, record: Record, hardware: Hardware) -> _Held:
    used_mib = sum(_used_mib(process) for process in _processes(site, record))
    promised_mib = record.room_vms * (hardware.memory_mib + OVERHEAD_MIB)
    untouched_mib = max(0, promised_mib - used_mib) if record.room_vms else -used_mib
    return _Held(record.room_vms * hardware.cpus, untouched_mib)


def _processes(site: Path, record: Record) -> Iterable[Process]:
    folder = site / "leases" / record.folder
    for number in range(record.vms):
        console = console_file(site, record.lease_id, number, record.incarnation)
        yield Process(MachineFiles(folder, number, console).lock)


def _used_mib(process: Process) -> int:
    pid = process.pid()
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1])
    except (OSError, ValueError):
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE") // _MIB


def _memory_mib() -> dict[str, int]:
    lines = _MEMORY.read_text(encoding="ascii").splitlines()
    pairs = (line.split() for line in lines)
    return {name.rstrip(":"): int(kib) // _KIB_A_MIB for name, kib, *_ in pairs}


def _cpu_mhz() -> int:
    found = re.findall(r"^cpu MHz\s*: ([\d.]+)", _PROCESSORS.read_text(encoding="utf-8"), re.MULTILINE)
    return int(max(map(float, found), default=0))


def does_not_fit(order: Order, hardware: Hardware, host: Host) -> Problem | None:
    """Say why the machines of an order cannot be here: never, or not now; None where they can.

    Cores are counted for a job that has asked for them. Others share what there is, as the slots say.
    """
    if order.on.nodes and set(order.on.nodes) != {host.name}:
        return Problem(f"machines are built on {host.name} here, not on {', '.join(order.on.nodes)}", again=False)
    free_cores, cores = (host.free_cores, order.vms) if order.on.cores else (host.cores, 1)
    few = _too_few(host, "cores", cores * hardware.cpus, host.cores, free_cores)
    problem = few or has_no_memory(order.vms, hardware, host)
    if problem is not None and problem.full:
        return replace(problem, nodes=order.on.nodes)
    return problem


def has_no_memory(vms: int, hardware: Hardware, host: Host) -> Problem | None:
    """Say why so many machines cannot have their memory here."""
    needed_mib = vms * (hardware.memory_mib + OVERHEAD_MIB)
    return _too_few(host, "MiB of memory", needed_mib, host.memory_mib, host.free_memory_mib)


def _too_few(host: Host, what: str, needed: int, there: int, free: int) -> Problem | None:
    if needed > there:
        return Problem(f"{host.name} has {there} {what}, and {needed} are needed", again=False)
    if needed > free:
        return Problem(f"{free} of {there} {what} are free on {host.name}, and {needed} are needed", full=True)
    return None
