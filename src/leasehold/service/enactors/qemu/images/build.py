"""How is the image built? In a folder beside its place, which becomes the image only when it is complete."""

import fcntl
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path

from leasehold.model.errors import InputError
from leasehold.service.enactors.qemu.images.image import Description, Image, open_image, write_description
from leasehold.service.enactors.qemu.images.initramfs import make_initramfs
from leasehold.service.enactors.qemu.images.kernel import fetch_kernel
from leasehold.service.enactors.qemu.images.root import PACKAGES, SUITE, make_disk
from leasehold.service.enactors.qemu.images.tools import need_all_tools

LEAST_MEMORY_MIB = 128
"""With 96 it boots, too, and then there is little left for Python."""

_LETTERS = 12
Say = Callable[[str], None]


def build_image(place: Path, say: Say, *, anew: bool = False) -> Image:
    """Give the image at that place, built if it is not there yet, or if it is to be built anew.

    Whoever else builds it at the same time is waited for. Raises CannotBuild; InputError for a place where
    something else is.
    """
    with _one_at_a_time(place):
        if not anew and place.exists():
            return open_image(place)
        if place.exists() and not place.is_symlink():
            raise InputError(place, None, "is not a link that `leasehold image build` has made; remove it")
        need_all_tools()
        folder = _built(place, say)
        _point(place, folder)
        return open_image(place)


def _built(place: Path, say: Say) -> Path:
    partial = Path(tempfile.mkdtemp(prefix=f".{place.name}-", dir=place.parent))
    try:
        say("fetches the kernel ...")
        kernel = fetch_kernel(partial)
        say(f"builds a disk of {', '.join(PACKAGES)} from Debian {SUITE} ...")
        make_disk(partial)
        make_initramfs(partial)
        contents = f"Debian {SUITE}: {', '.join(PACKAGES)}; {kernel}"
        parts = ("vmlinuz", "initrd.gz", "root.qcow2")
        write_description(partial, Description(*parts, LEAST_MEMORY_MIB, has_agent=True, contents=contents))
        return _under_its_own_name(partial, place)
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise


def _under_its_own_name(partial: Path, place: Path) -> Path:
    """Name the folder by what is in it: what machines have layers over is never replaced."""
    digest = sha256()
    for part in sorted(partial.iterdir()):
        with part.open("rb") as file:
            digest.update(hash_of(file.fileno()))
    folder = place.with_name(f"{place.name}-{digest.hexdigest()[:_LETTERS]}")
    if folder.exists():
        shutil.rmtree(partial)
    else:
        partial.chmod(0o755)
        partial.rename(folder)
    return folder


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


@contextmanager
def _one_at_a_time(place: Path) -> Iterator[None]:
    place.parent.mkdir(parents=True, exist_ok=True)
    with place.with_name(f".{place.name}.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
