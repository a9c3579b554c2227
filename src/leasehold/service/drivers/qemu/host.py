"""The computer that machines run on: what it has, what of it is free, and what a machine on it is made of.

KVM is used where a guest was seen to boot with it, as the presence of the device says little.
"""

import json
import os
import platform
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path

from leasehold.jobs.job import Fault
from leasehold.model.errors import LeaseholdError
from leasehold.service.drivers.facts import NodeFacts, too_few
from leasehold.service.drivers.protocol import Order, Problem
from leasehold.service.drivers.qemu.images.image import Catalogue, Image
from leasehold.service.drivers.qemu.images.toolchain import find_tool
from leasehold.service.drivers.qemu.instances import FILE, OtherSite
from leasehold.service.drivers.qemu.machine import (
    KVM,
    QEMU,
    TCG,
    MachineFiles,
    VirtualMachine,
    VmHardware,
    make_layer,
)
from leasehold.service.drivers.qemu.options import AUTO, QemuOptions
from leasehold.service.drivers.qemu.process import QemuProcess
from leasehold.service.drivers.reconciler.provider import MachineFailed

OVERHEAD_MIB = 160
"""What QEMU was seen to use beside the memory of a guest."""

KVM_PROBE_S = 20.0
"""With KVM a guest is up in two seconds; a computer on which it takes longer is better off without."""

_MEMORY = Path("/proc/meminfo")
_PROCESSORS = Path("/proc/cpuinfo")
_DEVICE = Path("/dev/kvm")
_CAN_VIRTUALISE = re.compile(r"^flags\s*:.*\b(vmx|svm)\b", re.MULTILINE)
_ALIAS = re.compile(r"^pc\s.*\(alias of (?P<name>\S+)\)", re.MULTILINE)
_ASK_S = 30
_PROBED = "probed.json"
_POLL_S = 0.05
_BOOTED = b"leasehold: up"
_MIB = 1 << 20
_KIB_A_MIB = 1 << 10


def observe_host(machines: Path) -> NodeFacts:
    """Look at this computer, on which the sites of a gateway have their files in this folder.

    Memory that a machine was promised is not free, whether or not it has touched it yet.
    """
    memory, disk = _memory_mib(), shutil.disk_usage(machines)
    cores, reserved = len(os.sched_getaffinity(0)), list(_reservations(machines))
    return NodeFacts(
        name=platform.node(),
        cores=cores,
        memory_mib=memory["MemTotal"],
        disk_mib=disk.total // _MIB,
        free_cores=max(0, cores - sum(cores for cores, _ in reserved)),
        free_memory_mib=max(0, memory["MemAvailable"] - sum(untouched_mib for _, untouched_mib in reserved)),
        free_disk_mib=disk.free // _MIB,
        cpu_mhz=_cpu_mhz(),
        is_host=True,
        runs=False,
    )


def _reservations(machines: Path) -> Iterator[tuple[int, int]]:
    """Give the cores of each instance, and its memory (MiB) that is promised and not used yet.

    The latter is below 0 for memory that is used, and freed at this very moment.
    """
    for file in machines.glob(f"*/{FILE}"):
        for instance in OtherSite(file.parent).instances():
            if instance.hardware is not None:
                folder = file.parent / "leases" / instance.folder
                used_mib = sum(_used_mib(QemuProcess(folder / f"{number}.lock")) for number in range(instance.vms))
                promised_mib = instance.room_vms * (instance.hardware.memory_mib + OVERHEAD_MIB)
                untouched_mib = max(0, promised_mib - used_mib) if instance.room_vms else -used_mib
                yield instance.room_vms * instance.hardware.cpus, untouched_mib


def _used_mib(process: QemuProcess) -> int:
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


# What fits


def does_not_fit(order: Order, hardware: VmHardware, host: NodeFacts) -> Problem | None:
    """Say why the machines of an order cannot be here, never or not now; None where they can.

    Cores are counted for a job that has asked for them. Others share the rest, by slots.
    """
    if order.constraints.nodes and set(order.constraints.nodes) != {host.name}:
        return Problem(
            f"machines are built on {host.name} here, not on {', '.join(order.constraints.nodes)}", again=False
        )
    free_cores, cores = (host.free_cores, order.vms) if order.constraints.cores else (host.cores, 1)
    lacking = too_few(host, "cores", cores * hardware.cpus, host.cores, free_cores)
    problem = lacking or memory_problem(order.vms, hardware, host)
    if problem is not None and problem.full:
        return replace(problem, nodes=order.constraints.nodes)
    return problem


def memory_problem(vms: int, hardware: VmHardware, host: NodeFacts) -> Problem | None:
    """Say why so many machines cannot have their memory here."""
    needed_mib = vms * (hardware.memory_mib + OVERHEAD_MIB)
    return too_few(host, "MiB of memory", needed_mib, host.memory_mib, host.free_memory_mib)


# The site's one node


def node_facts(machines: Path, options: QemuOptions, catalogue: Catalogue, free_slots: int) -> NodeFacts:
    """Describe the computer as a node; nothing is free where no slot is."""
    host, problem = observe_host(machines), _node_problem(options, catalogue)
    if free_slots <= 0:
        host = replace(host, free_cores=0, free_memory_mib=0, free_disk_mib=0)
    return replace(host, problem=problem, fault=str(Fault.SERVICE_STOPPED) if problem else "")


def _node_problem(options: QemuOptions, catalogue: Catalogue) -> str:
    """Say why no machine can be made here now; "" where one can."""
    if find_tool("qemu-img") is None:
        return "there is no qemu-img, which makes the disks of machines: install qemu-utils"
    if options.accelerator == KVM and not could_have_kvm():
        return "machines are to use KVM, and there is none here"
    try:
        machine_type()
        catalogue.default()
    except LeaseholdError as error:
        return str(error)
    return ""


# What a new machine is made of


def hardware_for(options: QemuOptions, image: Image, order: Order, cache_folder: Path) -> VmHardware:
    """Choose the hardware of each machine of an order.

    May take `KVM_PROBE_S` the first time on a computer with KVM. Raises MachineFailed.
    """
    least_mib = max(image.description.least_memory_mib, options.least_memory_mib or 0)
    accelerator = options.accelerator
    if accelerator == AUTO:
        accelerator = KVM if kvm_works(image, cache_folder) else TCG
    return VmHardware(
        image=str(image.folder),
        memory_mib=max(order.memory_mib, least_mib),
        cpus=order.constraints.cores or options.cpus,
        accelerator=accelerator,
        machine_type=machine_type(),
        has_output=image.description.has_output,
        has_lan=order.vms > 1 and image.description.has_network,
        lets_in=bool(order.ssh_key),
    )


@cache
def machine_type() -> str:
    """Give QEMU's full name for its default machine; raises MachineFailed where there is no QEMU."""
    try:
        done = subprocess.run(  # noqa: S603 - our own command line
            [QEMU, "-machine", "help"], capture_output=True, text=True, timeout=_ASK_S, check=False
        )
    except FileNotFoundError:
        raise MachineFailed(f"there is no {QEMU}: install qemu-system-x86") from None
    except subprocess.TimeoutExpired:
        raise MachineFailed(f"{QEMU} does not say which machines it knows") from None
    found = _ALIAS.search(done.stdout)
    return found["name"] if found else "pc"


def kvm_works(image: Image, cache_folder: Path) -> bool:
    """Whether a guest boots with KVM on this computer, under this kernel; tried once for each image."""
    if not could_have_kvm():
        return False
    known = kvm_known_to_work(image, cache_folder)
    if known is None:
        known = _boots_with_kvm(image)
        file = cache_folder / _PROBED
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(_probed(file) | {_key(image): known}, indent=2) + "\n", encoding="utf-8")
    return known


def kvm_known_to_work(image: Image, cache_folder: Path) -> bool | None:
    """Whether a guest was seen to boot with KVM here; None where that was not tried yet."""
    return _probed(cache_folder / _PROBED).get(_key(image))


def _key(image: Image) -> str:
    return f"{platform.node()} {platform.release()} {platform.version()} {image.folder.name}"


def could_have_kvm(device: Path = _DEVICE, processors: Path = _PROCESSORS) -> bool:
    """Whether it is worth a try: we may open the device, and the processors virtualise."""
    try:
        with device.open("r+b"):
            return _CAN_VIRTUALISE.search(processors.read_text(encoding="utf-8")) is not None
    except OSError:
        return False


def _probed(file: Path) -> dict[str, bool]:
    try:
        return dict(json.loads(file.read_text(encoding="utf-8")))
    except (OSError, ValueError):
        return {}


def _boots_with_kvm(image: Image) -> bool:
    folder = Path(tempfile.mkdtemp(prefix="leasehold-kvm-"))
    files = MachineFiles(folder, 0, folder / "console.log")
    hardware = VmHardware(str(image.folder), image.description.least_memory_mib, 1, KVM, machine_type())
    machine = VirtualMachine("probe", files, hardware, image, lambda _: None)
    try:
        make_layer(image.disk, files.disk)
        machine.start()
        give_up_s = time.monotonic() + KVM_PROBE_S
        while time.monotonic() < give_up_s and machine.is_alive():
            if files.console.exists() and _BOOTED in files.console.read_bytes():
                return True
            time.sleep(_POLL_S)
    except MachineFailed:
        return False
    finally:
        machine.process.kill()
        shutil.rmtree(folder, ignore_errors=True)
    return False
