"""Programs that tests need and that come as Debian packages."""

import fcntl
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from leasehold.model.errors import LeaseholdError

_INSTALL_S = 600
_QUIETLY = {"DEBIAN_FRONTEND": "noninteractive", "UCF_FORCE_CONFFOLD": "1"}


class ProgramMissing(LeaseholdError):
    """A program is not installed, and was not by us; names the command that installs it."""

    def __init__(self, program: str, package: str, why: str) -> None:
        super().__init__(f"{program} is not installed ({why}): run `apt-get install -y {package}` as root")


def may_install() -> bool:
    """Whether the user has allowed the tests to install Debian packages on this machine."""
    return os.environ.get("LEASEHOLD_INSTALL") == "1"


def find_or_install(find: Callable[[], Path | None], program: str, package: str) -> Path:
    """Find a program; with ``LEASEHOLD_INSTALL=1``, install its package where it is missing.

    ``find`` looks for it. May be called from many processes at once: one installs, the others wait for it.
    Raises ProgramMissing where it is missing and may not or cannot be installed.
    """
    found = find()
    if found is not None:
        return found
    with _one_at_a_time():
        found = find()
        if found is None:
            _install(program, package)
            found = find()
    if found is None:
        raise ProgramMissing(program, package, "or not where it is looked for")
    return found


def _install(program: str, package: str) -> None:
    if not may_install():
        raise ProgramMissing(program, package, "and LEASEHOLD_INSTALL=1 is not set")
    if os.geteuid() != 0:
        raise ProgramMissing(program, package, "and only root can install it")
    if shutil.which("apt-get") is None:
        raise ProgramMissing(program, package, "and there is no apt-get")
    if not (_apt_get("install", "--yes", package) or _updated_and_installed(package)):
        raise ProgramMissing(program, package, "and apt-get failed")


def _updated_and_installed(package: str) -> bool:
    """A fresh machine has no lists of packages yet."""
    return _apt_get("update") and _apt_get("install", "--yes", package)


def _apt_get(*arguments: str) -> bool:
    # force-confold, as UCF_FORCE_CONFFOLD: a configuration file that is there already stays as it is, unasked
    options = ("-o", "Dpkg::Options::=--force-confold")
    done = subprocess.run(  # noqa: S603 - packages are named by our own code
        ["apt-get", "--quiet", *options, *arguments],  # noqa: S607 - looked for before
        env=os.environ | _QUIETLY,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        timeout=_INSTALL_S,
        check=False,
    )
    return done.returncode == 0


@contextmanager
def _one_at_a_time() -> Iterator[None]:
    lock = Path(tempfile.gettempdir()) / f"leasehold-apt-{os.geteuid()}.lock"
    with lock.open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
