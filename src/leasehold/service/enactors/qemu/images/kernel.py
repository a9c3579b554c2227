"""The kernel of the guests: Debian's own for virtual machines, and the drivers that find its disk."""

import re
import shutil
from pathlib import Path

from leasehold.service.enactors.qemu.images.tools import CannotBuild, run_tool

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


def fetch_kernel(folder: Path) -> str:
    """Put ``vmlinuz`` and the drivers into the folder; gives the name of the package that they are from."""
    told = run_tool("apt-cache", "depends", PACKAGE, cwd=folder) if shutil.which("apt-cache") else ""
    found = _LATEST.search(told)
    if found is None:
        raise CannotBuild(f"apt knows no {PACKAGE}: run `apt-get update` as root, on Debian 12 or later")
    name = found[1]
    run_tool("apt-get", "--quiet", "download", name, cwd=folder)
    [package] = folder.glob("linux-image-*.deb")
    unpacked = folder / "kernel"
    run_tool("dpkg-deb", "--extract", package, unpacked, cwd=folder)
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
