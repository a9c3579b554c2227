"""The programs that build an image: are they there, and what did they say when they failed?"""

import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

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
_LAST_LINES = 3
_LONGEST_S = 900


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


def run_tool(name: str, *arguments: str | Path, cwd: Path, given: bytes = b"") -> str:
    """Run a program and give what it wrote; raises CannotBuild with its last words."""
    path = find_tool(name)
    if path is None:
        raise CannotBuild(f"{name} is missing: run `apt-get install -y {PACKAGES.get(name, name)}` as root")
    command: Sequence[str] = [path, *map(str, arguments)]
    try:
        done = subprocess.run(  # noqa: S603 - our own programs with our own arguments
            command, cwd=cwd, input=given, capture_output=True, timeout=_LONGEST_S, check=False
        )
    except subprocess.TimeoutExpired:
        raise CannotBuild(f"{name} did not come to an end within {_LONGEST_S} s") from None
    if done.returncode:
        raise CannotBuild(f"{name} failed: {_last_words(done.stderr)}")
    return done.stdout.decode(errors="replace")


def _last_words(text: bytes) -> str:
    lines = [line.strip() for line in text.decode(errors="replace").splitlines() if line.strip()]
    return " / ".join(lines[-_LAST_LINES:]) or "it did not say why"
