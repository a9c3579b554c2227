"""What every image is made like: in a folder beside its place, one at a time, named by what is in it."""

import fcntl
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from leasehold.service.drivers.qemu.images.diagnosis import diagnosis
from leasehold.service.drivers.qemu.images.tools import CannotBuild

_PARTIAL = ".making-"


@contextmanager
def one_at_a_time(folder: Path) -> Iterator[None]:
    """Let nobody else make images in this folder; what somebody has left who was killed is removed."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".making.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for left in folder.glob(f"{_PARTIAL}*"):
            shutil.rmtree(left, ignore_errors=True)
        yield


@contextmanager
def in_the_making(folder: Path) -> Iterator[Path]:
    """Have a folder of which nothing is left afterwards, unless it was given a name.

    Raises CannotBuild where files cannot be written.
    """
    partial = Path(tempfile.mkdtemp(prefix=_PARTIAL, dir=folder))
    try:
        yield partial
    except OSError as error:
        raise CannotBuild(diagnosis("the file system", str(error))) from error
    finally:
        if partial.exists():
            shutil.rmtree(partial, ignore_errors=True)


def name_it(partial: Path, folder: Path) -> None:
    """Let what is complete be there under its name; what is there under it stays, as it is the same."""
    if folder.exists():
        shutil.rmtree(partial)
    else:
        partial.chmod(0o755)
        partial.rename(folder)
