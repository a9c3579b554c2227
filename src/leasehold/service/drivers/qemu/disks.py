"""The disk of a machine: a layer of its own over one that many have in common."""

import os
import struct
import subprocess
from pathlib import Path

from leasehold.service.drivers.qemu.process import MachineFailed

_MAKE_S = 60
_HEADER = struct.Struct(">4sIQI")
"""How a qcow2 begins: its magic, its version, and where the name of its base stands, with its length."""

_MAGIC = b"QFI\xfb"


def make_layer(base: Path, disk: Path) -> None:
    """Begin with an empty layer over another disk, whatever was there; raises MachineFailed."""
    disk.unlink(missing_ok=True)
    command = ["qemu-img", "create", "-q", "-f", "qcow2", "-F", "qcow2", "-b", str(base), str(disk)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_MAKE_S, check=False)  # noqa: S603 - our own words
    except FileNotFoundError:
        raise MachineFailed("there is no qemu-img: install qemu-utils") from None
    except subprocess.TimeoutExpired:
        raise MachineFailed(f"qemu-img did not come to an end within {_MAKE_S} s") from None
    if done.returncode:
        raise MachineFailed(f"the disk was not made: {done.stderr.strip()}")


def base_of(layer: Path) -> Path | None:
    """Give the disk that a layer lies over, as it is written in its header; None where there is none."""
    try:
        with layer.open("rb") as file:
            magic, _, offset, length = _HEADER.unpack(file.read(_HEADER.size))
            file.seek(offset)
            name = file.read(length)
    except (OSError, struct.error):  # it is just being made, or removed
        return None
    return Path(os.fsdecode(name)) if magic == _MAGIC and offset else None


def share(theirs: Path, ours: Path) -> None:
    """Have a file of another site under a name of our own, whether or not that was done before.

    It is the same file, and stays for as long as one of us has it. Raises MachineFailed.
    """
    try:
        os.link(theirs, ours)
    except FileExistsError:
        if not theirs.samefile(ours):
            ours.unlink()
            share(theirs, ours)
    except FileNotFoundError:
        if not ours.exists():
            raise MachineFailed(f"{theirs} is not there any more") from None
    except OSError as error:
        raise MachineFailed(f"{theirs} cannot be shared: {error.strerror}") from None


def to_disk(path: Path) -> None:
    """See to it that whatever is written in a file, or which names are in a folder, has reached the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
