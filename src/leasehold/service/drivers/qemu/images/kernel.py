"""The kernel of the guests: Debian's own for virtual machines, and the drivers that find its disk."""

import re
import shutil
from pathlib import Path

from leasehold.service.drivers.qemu.images.tools import CannotBuild
from leasehold.service.drivers.qemu.images.workbench import Workbench

PACKAGE = "linux-image-cloud-amd64"
"""Depends on the latest; that one's name has the version in it."""

DRIVERS = (
    "virtio_ring",
    "virtio",
    "virtio_pci_legacy_dev",
    "virtio_pci_modern_dev",
    "virtio_pci",
    "virtio_blk",
    "pvpanic",
    "pvpanic-pci",
)
"""In the sequence in which they must be loaded, each after those that it uses."""

_LATEST = re.compile(r"Depends: (linux-image-\S+-cloud-amd64)\b")


def fetch_kernel(bench: Workbench) -> str:
    """Put ``vmlinuz`` and the drivers into the folder; gives the name of the package that they are from."""
    folder = bench.folder
    told = bench.run("apt-cache", "depends", PACKAGE) if shutil.which("apt-cache") else ""
    found = _LATEST.search(told)
    if found is None:
        raise CannotBuild(f"apt knows no {PACKAGE}: run `apt-get update` as root, on Debian 12 or later")
    name = found[1]
    bench.run("apt-get", "--quiet", "download", name)
    [package] = folder.glob("linux-image-*.deb")
    unpacked = folder / "kernel"
    bench.run("dpkg-deb", "--extract", package, unpacked)
    _take_out(unpacked, folder)
    package.unlink()
    shutil.rmtree(unpacked)
    return name


def _take_out(unpacked: Path, folder: Path) -> None:
    [kernel] = (unpacked / "boot").glob("vmlinuz-*")
    kernel.rename(folder / "vmlinuz")
    for driver in DRIVERS:
        found = next(unpacked.rglob(f"{driver}.ko"), None)
        if found is None:
            raise CannotBuild(f"{kernel.name} has no driver {driver}, or packs it in a way that is not known")
        found.rename(folder / f"{driver}.ko")
