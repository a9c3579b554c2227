"""How is the usual image built? In a folder beside its place, which becomes the image when it is complete."""

import os
import shutil
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

from leasehold.model.errors import InputError
from leasehold.service.drivers.qemu.images.ground import GROUNDS
from leasehold.service.drivers.qemu.images.image import Description, Image, open_image, write_description
from leasehold.service.drivers.qemu.images.initramfs import make_initramfs
from leasehold.service.drivers.qemu.images.kernel import fetch_kernel
from leasehold.service.drivers.qemu.images.making import in_the_making, name_it, one_at_a_time
from leasehold.service.drivers.qemu.images.repository import SUITE, find_repository
from leasehold.service.drivers.qemu.images.root import PACKAGES, make_disk, unpack
from leasehold.service.drivers.qemu.images.tools import need_all_tools
from leasehold.service.drivers.qemu.images.workbench import Workbench

LEAST_MEMORY_MIB = 128
"""With 96 it boots, too, and then there is little left for Python."""

LOGS = "logs"
"""The folder beside the images with what was said while they were built."""

_MESSAGES = 12
Say = Callable[[str], None]


def build_image(place: Path, say: Say, *, anew: bool = False) -> Image:
    """Give the image at that place, built if it is not there yet, or if it is to be built anew.

    Whoever else builds there at the same time is waited for. Raises CannotBuild; InputError for a place where
    something else is.
    """
    with one_at_a_time(place.parent):
        if not anew and place.exists():
            return open_image(place)
        if place.exists() and not place.is_symlink():
            raise InputError(place, None, "is not a link that `leasehold image build` has made; remove it")
        need_all_tools()
        shutil.rmtree(place.with_name(GROUNDS), ignore_errors=True)
        _point(place, _built(place, say))
        return open_image(place)


def _built(place: Path, say: Say) -> Path:
    with in_the_making(place.parent) as partial:
        log = place.with_name(LOGS) / f"{place.name}.log"
        log.unlink(missing_ok=True)
        write_description(partial, _fill(Workbench(partial, log), say))
        folder = place.with_name(f"{place.name}-{_digest(partial)}")
        name_it(partial, folder)
        return folder


def _fill(bench: Workbench, say: Say) -> Description:
    say("fetches the kernel ...")
    kernel = fetch_kernel(bench)
    say(f"builds a disk of {', '.join(PACKAGES)} from Debian {SUITE} ...")
    software = make_disk(bench, unpack(bench, find_repository()))
    make_initramfs(bench)
    return Description(
        *("vmlinuz", "initrd.gz", "root.qcow2", LEAST_MEMORY_MIB),
        has_agent=True,
        contents=f"Debian {SUITE}: {', '.join(PACKAGES)}; {kernel}",
        software=software,
        has_output=True,
    )


def _digest(partial: Path) -> str:
    """Name a folder by what is in it: what machines have layers over is never replaced."""
    digest = sha256()
    for part in sorted(partial.iterdir()):
        with part.open("rb") as file:
            digest.update(hash_of(file.fileno()))
    return digest.hexdigest()[:_MESSAGES]


def hash_of(descriptor: int) -> bytes:
    """Give the SHA-256 of an open file."""
    digest = sha256()
    while block := os.read(descriptor, 1 << 20):
        digest.update(block)
    return digest.digest()


def _point(place: Path, folder: Path) -> None:
    """Let the place be a link to that folder, at no moment to nothing."""
    link = place.with_name(f".{place.name}.link")
    link.unlink(missing_ok=True)
    link.symlink_to(folder.name)
    link.replace(place)
