"""The programs that build an image: are they there?"""

import shutil
from collections.abc import Mapping

from leasehold.model.errors import LeaseholdError

PACKAGES: Mapping[str, str] = {
    "apt-get": "apt",
    "cpio": "cpio",
    "dpkg-deb": "dpkg",
    "mke2fs": "e2fsprogs",
    "mmdebstrap": "mmdebstrap",
    "qemu-img": "qemu-utils",
    "qemu-system-x86_64": "qemu-system-x86",
}
"""Each program that is needed, and the Debian package that it is in."""

_SEARCHED_TOO = "/usr/local/sbin:/usr/sbin:/sbin"


class CannotBuild(LeaseholdError):
    """An image could not be built; says why, and what to do where that is known."""


def find_tool(name: str) -> str | None:
    """Find a program, also where only root looks."""
    return shutil.which(name) or shutil.which(name, path=_SEARCHED_TOO)


def missing_packages() -> list[str]:
    """List the packages that have to be installed before an image can be built."""
    return sorted({package for tool, package in PACKAGES.items() if find_tool(tool) is None})


def need_all_tools() -> None:
    """Raise CannotBuild with the one command that installs whatever is missing."""
    missing = missing_packages()
    if missing:
        told = f"run `apt-get install -y --no-install-recommends {' '.join(missing)}` as root"
        raise CannotBuild(f"programs that build an image are missing: {told}")
