"""The programs that build an image: whether they are installed, how they are run, and why one has failed."""

import os
import re
import shlex
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

_SBIN = "/usr/local/sbin:/usr/sbin:/sbin"
_TIMEOUT_S = 900
_LAST_LINES = 3
# A program ends with the process that it builds for, and so does everything that it has started: mmdebstrap
# alone would first finish its present task. Each cleans up after itself.
_TIED = ("setpriv", "--pdeathsig", "TERM")
_ALL_OR_NONE = """
exec 3<&0
trap 'trap "" TERM; kill -TERM 0; wait; exit 143' TERM
"$@" <&3 3<&- &
exec 3<&-
wait $!
"""
_ENVIRONMENT = {"LC_ALL": "C.UTF-8", "DEBIAN_FRONTEND": "noninteractive"}

_UPDATE = "run `apt-get update` as root"
_KNOWN: Sequence[tuple[str, str]] = (
    (r"No space left on device|don't have enough free space",
     "the disk is full, that of the images or of temporary files"),
    (r"Unable to locate package (\S+)|Package '?([^'\s]+)'? has no installation candidate",
     "there is no package {}"),
    (r"Version '([^']*)' for '([^']*)' was not found",
     "version {} of {} is no longer available; " + _UPDATE),
    (r"(?:^|\s)404  Not Found", "the repository has changed since apt's lists were made; " + _UPDATE),
    (r"(?:Temporary failure resolving|Could not (?:resolve|connect to)|Unable to connect to) '?([^'\s]+)",
     "the repository {} cannot be reached"),
    (r"Network is unreachable|Connection (?:timed out|refused|failed)", "the repository cannot be reached"),
    (r"(\S+) : (?:Depends|Conflicts|Breaks): ([^\n]+)", "{} cannot be installed beside the others: {}"),
    (r"unable to pick chroot mode|newuidmap|unprivileged user namespaces",
     "only root can build an image here, or a user with /etc/subuid and the package uidmap"),
)  # fmt: skip
"""What programs print when they fail, and what it means; groups are put where the braces are."""


class CannotBuild(LeaseholdError):
    """An image could not be built; says why, and what to do where that is known."""


def find_tool(name: str) -> str | None:
    """Find a program, also in folders that are only on root's path."""
    return shutil.which(name) or shutil.which(name, path=_SBIN)


def missing_packages() -> list[str]:
    """List the packages that have to be installed before an image can be built."""
    return sorted({package for tool, package in PACKAGES.items() if find_tool(tool) is None})


def require_all_tools() -> None:
    """Raise CannotBuild with the one command that installs whatever is missing."""
    missing = missing_packages()
    if missing:
        command = f"run `apt-get install -y --no-install-recommends {' '.join(missing)}` as root"
        raise CannotBuild(f"programs that build an image are missing: {command}")


def diagnosis(program: str, output: str) -> str:
    """Explain in one line why a program has failed; with its own last lines where the cause is not known."""
    for pattern, meaning in _KNOWN:
        found = re.search(pattern, output, re.MULTILINE)
        if found is not None:
            return meaning.format(*(group.strip() for group in found.groups() if group))
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    return f"{program} failed: {' / '.join(lines[-_LAST_LINES:]) or 'it did not say why'}"


class Toolchain:
    """Runs programs in a folder, and logs all that they print; a failure raises CannotBuild, naming the log."""

    def __init__(self, folder: Path, log: Path) -> None:
        self.folder = folder
        self.log = log
        self._running: subprocess.Popen[bytes] | None = None
        self._is_cancelled = False

    def run(self, name: str, *arguments: str | Path, cwd: Path | None = None, stdin: bytes = b"") -> str:
        """Run a program to its end, and give its output."""
        path = find_tool(name)
        if path is None:
            raise CannotBuild(f"{name} is missing: run `apt-get install -y {PACKAGES.get(name, name)}` as root")
        command = [path, *map(str, arguments)]
        self.log.parent.mkdir(parents=True, exist_ok=True)
        with self.log.open("a+b") as log:
            log.write(f"$ {shlex.join(command)}\n".encode())
            log.flush()
            begins = log.tell()
            status, output = self._run(name, command, cwd or self.folder, stdin, log.fileno())
            log.seek(begins)
            errors = log.read().decode(errors="replace")
        if status:
            raise CannotBuild(f"{diagnosis(name, errors)}; the log: {self.log}")
        return output.decode(errors="replace")

    def _run(self, name: str, command: Sequence[str], cwd: Path, stdin: bytes, log: int) -> tuple[int, bytes]:
        if self._is_cancelled:
            raise CannotBuild("it was cancelled")
        tied = _TIED if find_tool(_TIED[0]) else ()
        with subprocess.Popen(  # noqa: S603 - fixed programs with our own arguments
            [*tied, "sh", "-c", _ALL_OR_NONE, "sh", *command],
            cwd=cwd,
            env=os.environ | _ENVIRONMENT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            start_new_session=True,
        ) as self._running:
            try:
                output, _ = self._running.communicate(stdin, timeout=_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                self._running.terminate()
                raise CannotBuild(f"{name} did not end within {_TIMEOUT_S} s") from None
            return self._running.returncode, output

    def cancel(self) -> None:
        """End the running program as soon as it has cleaned up, and let none start any more."""
        self._is_cancelled = True
        if self._running is not None:
            self._running.terminate()
