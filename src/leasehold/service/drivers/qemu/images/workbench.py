"""Where an image is built: a folder, the programs that are run there, and a log of all that they say."""

import os
import shlex
import subprocess
from collections.abc import Sequence
from pathlib import Path

from leasehold.service.drivers.qemu.images.diagnosis import diagnosis
from leasehold.service.drivers.qemu.images.tools import PACKAGES, CannotBuild, find_tool

_LONGEST_S = 900
# Whoever is killed while a program builds for it takes the program along, with all that it has begun:
# mmdebstrap alone would first finish what it is at. Each cleans up after itself.
_NOT_WITHOUT_US = ("setpriv", "--pdeathsig", "TERM")
_ALL_OR_NONE = """
exec 3<&0
trap 'trap "" TERM; kill -TERM 0; wait; exit 143' TERM
"$@" <&3 3<&- &
exec 3<&-
wait $!
"""
_PLAINLY = {"LC_ALL": "C.UTF-8", "DEBIAN_FRONTEND": "noninteractive"}


class Workbench:
    """A folder to build in; what does not work out there raises CannotBuild, with where the log is."""

    def __init__(self, folder: Path, log: Path) -> None:
        self.folder = folder
        self.log = log
        self._running: subprocess.Popen[bytes] | None = None
        self._is_called_off = False

    def run(self, name: str, *arguments: str | Path, cwd: Path | None = None, given: bytes = b"") -> str:
        """Run a program to its end, and give what it wrote."""
        path = find_tool(name)
        if path is None:
            raise CannotBuild(f"{name} is missing: run `apt-get install -y {PACKAGES.get(name, name)}` as root")
        command = [path, *map(str, arguments)]
        self.log.parent.mkdir(parents=True, exist_ok=True)
        with self.log.open("a+b") as log:
            log.write(f"$ {shlex.join(command)}\n".encode())
            log.flush()
            begins = log.tell()
            status, wrote = self._run(name, command, cwd or self.folder, given, log.fileno())
            log.seek(begins)
            said = log.read().decode(errors="replace")
        if status:
            raise CannotBuild(f"{diagnosis(name, said)}; the log: {self.log}")
        return wrote.decode(errors="replace")

    def _run(self, name: str, command: Sequence[str], cwd: Path, given: bytes, log: int) -> tuple[int, bytes]:
        if self._is_called_off:
            raise CannotBuild("it was called off")
        environment = os.environ | _PLAINLY
        with subprocess.Popen(  # noqa: S603 - our own programs with our own arguments
            [*_tied_to_us(), *command],
            cwd=cwd,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            start_new_session=True,
        ) as self._running:
            try:
                wrote, _ = self._running.communicate(given, timeout=_LONGEST_S)
            except subprocess.TimeoutExpired:
                self._running.terminate()
                raise CannotBuild(f"{name} did not come to an end within {_LONGEST_S} s") from None
            return self._running.returncode, wrote

    def call_off(self) -> None:
        """Let whatever runs end as soon as it has cleaned up, and nothing begin any more."""
        self._is_called_off = True
        if self._running is not None:
            self._running.terminate()


def _tied_to_us() -> tuple[str, ...]:
    tied = _NOT_WITHOUT_US if find_tool(_NOT_WITHOUT_US[0]) else ()
    return (*tied, "sh", "-c", _ALL_OR_NONE, "sh")
