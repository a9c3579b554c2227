"""What is a new machine made of? The image, what QEMU has, and KVM where a guest was seen to boot with it."""

import json
import platform
import re
import shutil
import subprocess
import tempfile
import time
from functools import cache
from pathlib import Path

from leasehold.service.drivers.qemu.command_line import KVM, QEMU, TCG, MachineFiles
from leasehold.service.drivers.qemu.disks import make_layer
from leasehold.service.drivers.qemu.images.image import Image
from leasehold.service.drivers.qemu.machine import Machine
from leasehold.service.drivers.qemu.options import AUTO, QemuOptions
from leasehold.service.drivers.qemu.process import MachineFailed
from leasehold.service.drivers.qemu.record import Hardware

PROBE_S = 20.0
"""With KVM a guest is up in two seconds; one that takes longer is better off without."""

_DEVICE = Path("/dev/kvm")
_PROCESSORS = Path("/proc/cpuinfo")
_CAN_VIRTUALISE = re.compile(r"^flags\s*:.*\b(vmx|svm)\b", re.MULTILINE)
_ALIAS = re.compile(r"^pc\s.*\(alias of (?P<name>\S+)\)", re.MULTILINE)
_ASK_S = 30
_PROBED = "probed.json"
_POLL_S = 0.05
_MARK = b"leasehold: up"


def hardware_for(options: QemuOptions, image: Image, memory_mib: int, cache_folder: Path, cores: int = 0) -> Hardware:
    """Say what a machine of a lease that asks for so much memory is made of; raises MachineFailed.

    It has as many ``cores`` as are asked for, 0 for the usual number.

    May take `PROBE_S` the first time on a computer with KVM.
    """
    least_mib = max(image.description.least_memory_mib, options.least_memory_mib or 0)
    accelerator = options.accelerator
    if accelerator == AUTO:
        accelerator = KVM if kvm_works(image, cache_folder) else TCG
    return Hardware(
        image=str(image.folder),
        memory_mib=max(memory_mib, least_mib),
        cpus=cores or options.cpus,
        accelerator=accelerator,
        machine_type=machine_type(),
        has_output=image.description.has_output,
    )


@cache
def machine_type() -> str:
    """Give QEMU's full name for the usual machine; raises MachineFailed where there is no QEMU."""
    try:
        done = subprocess.run(  # noqa: S603 - our own words
            [QEMU, "-machine", "help"], capture_output=True, text=True, timeout=_ASK_S, check=False
        )
    except FileNotFoundError:
        raise MachineFailed(f"there is no {QEMU}: install qemu-system-x86") from None
    except subprocess.TimeoutExpired:
        raise MachineFailed(f"{QEMU} does not say which machines it knows") from None
    found = _ALIAS.search(done.stdout)
    return found["name"] if found else "pc"


def kvm_works(image: Image, cache_folder: Path) -> bool:
    """Whether a guest boots with KVM on this computer, under this kernel; looked at once for each image.

    That the device is there says little: it may run only guests that were made for it.
    """
    if not could_have_kvm():
        return False
    known = known_to_work(image, cache_folder)
    if known is None:
        known = _boots_with_kvm(image)
        file = cache_folder / _PROBED
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(_read(file) | {_key(image): known}, indent=2) + "\n", encoding="utf-8")
    return known


def known_to_work(image: Image, cache_folder: Path) -> bool | None:
    """Whether a guest was seen to boot with KVM here; None: nobody has looked yet."""
    return _read(cache_folder / _PROBED).get(_key(image))


def _key(image: Image) -> str:
    return f"{platform.node()} {platform.release()} {platform.version()} {image.folder.name}"


def could_have_kvm(device: Path = _DEVICE, processors: Path = _PROCESSORS) -> bool:
    """Whether it is worth a try: the device is there for us, and the processors virtualise."""
    try:
        with device.open("r+b"):
            return _CAN_VIRTUALISE.search(processors.read_text(encoding="utf-8")) is not None
    except OSError:
        return False


def _read(file: Path) -> dict[str, bool]:
    try:
        return dict(json.loads(file.read_text(encoding="utf-8")))
    except (OSError, ValueError):
        return {}


def _boots_with_kvm(image: Image) -> bool:
    folder = Path(tempfile.mkdtemp(prefix="leasehold-kvm-"))
    files = MachineFiles(folder, 0, folder / "console.log")
    hardware = Hardware(str(image.folder), image.description.least_memory_mib, 1, KVM, machine_type())
    machine = Machine("probe", files, hardware, image, lambda _: None)
    try:
        make_layer(image.disk, files.disk)
        machine.begin_now()
        return _comes_up(machine)
    except MachineFailed:
        return False
    finally:
        machine.process.kill()
        shutil.rmtree(folder, ignore_errors=True)


def _comes_up(machine: Machine) -> bool:
    give_up_s = time.monotonic() + PROBE_S
    while time.monotonic() < give_up_s and machine.is_alive():
        if machine.files.console.exists() and _MARK in machine.files.console.read_bytes():
            return True
        time.sleep(_POLL_S)
    return False
