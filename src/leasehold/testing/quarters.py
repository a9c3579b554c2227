"""Quarters for daemons of other people: what is started in them ends with whoever made them.

They are namespaces of processes, mounts and host name: with the first process in them, the kernel ends all
others, also those that have become daemons of their own. The first ends with the thread that made it, so that
nothing is left of a maker that was killed with kill -9. Inside, the host is called `HOST`, and its name
resolves at once; the network is that of the machine.
"""

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from leasehold.model.errors import LeaseholdError

HOST = "leasehold"

_FIRST = (
    'echo "$1" > /proc/sys/kernel/hostname && mount --bind "$2" /etc/hosts && echo ready'
    " && trap '' CHLD && exec cat"  # an ignored SIGCHLD: the kernel buries orphans
)
_GRACE_S = 20


class NoQuarters(LeaseholdError):
    """The kernel gives us no namespaces of our own; says what it said."""


@dataclass(frozen=True, slots=True)
class Resident:
    """One program that runs in quarters."""

    process: subprocess.Popen[bytes]
    pid: int

    def stop(self) -> None:
        """Ask it to end, and wait until it has; kill it where it does not."""
        self._send(signal.SIGTERM)
        try:
            self.process.wait(_GRACE_S)
        except subprocess.TimeoutExpired:
            self.kill()

    def reload(self) -> None:
        """Ask it to read its configuration again."""
        self._send(signal.SIGHUP)

    def kill(self) -> None:
        """Kill it, and wait until it is gone."""
        self._send(signal.SIGKILL)
        self.process.wait()

    def _send(self, number: signal.Signals) -> None:
        with suppress(ProcessLookupError):  # it has ended by itself
            os.kill(self.pid, number)


class Quarters:
    """Quarters for the length of a ``with`` block; ``home`` is a folder for what they need themselves.

    Raises NoQuarters where they cannot be had: only root can make them.
    """

    def __init__(self, home: Path) -> None:
        hosts = home / "hosts"
        hosts.write_text(f"127.0.0.1 localhost {HOST}\n", encoding="utf-8")
        namespaces = ("--pid", "--mount", "--uts", "--fork", "--kill-child", "--mount-proc")
        self._maker = subprocess.Popen(  # noqa: S603 - our own
            ["setpriv", "--pdeathsig", "KILL", "unshare", *namespaces, "sh", "-c", _FIRST, "sh", HOST, hosts],  # noqa: S607
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        assert self._maker.stdout is not None
        if self._maker.stdout.readline() != b"ready\n":
            raise NoQuarters(f"no namespaces: {self._maker.communicate()[1].decode().strip()}")
        (self._first,) = _children(self._maker.pid)
        self._residents: list[Resident] = []

    def start(self, command: Sequence[str], log: Path, environment: Mapping[str, str]) -> Resident:
        """Start a program that stays in the foreground."""
        enter = ["nsenter", "--target", str(self._first), "--pid", "--mount", "--uts"]
        with log.open("ab") as output:
            process = subprocess.Popen(  # noqa: S603 - our own
                [*enter, *command],
                env=dict(environment),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        resident = Resident(process, _only_child(process))
        self._residents.append(resident)
        return resident

    def kill_with_makers(self, environment: str) -> None:
        """Kill all that has this in its environment (``NAME=value``), those that started it first."""
        wanted = environment.encode()
        inside = self._inside()
        for pid in inside:
            if wanted in _read(pid, "environ").split(b"\0"):
                for maker in _line_of(pid, inside):
                    with suppress(ProcessLookupError):
                        os.kill(maker, signal.SIGKILL)

    def close(self) -> None:
        """End everything inside, and wait until it is gone."""
        self._maker.communicate()
        for one in self._residents:
            one.process.wait()

    def _inside(self) -> set[int]:
        """Find everybody who lives here, but for the first, with whom all would end."""
        namespace = _namespace(self._first)
        everybody = (int(folder.name) for folder in Path("/proc").glob("[0-9]*"))
        return {pid for pid in everybody if _namespace(pid) == namespace} - {self._first}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _line_of(pid: int, inside: set[int]) -> list[int]:
    """Give a process and those it descends from, the oldest first, none of whom lives outside."""
    line: list[int] = []
    while pid in inside:
        line.insert(0, pid)
        pid = _parent(pid)
    return line


def _namespace(pid: int) -> str:
    try:
        return str(Path(f"/proc/{pid}/ns/pid").readlink())
    except OSError:
        return ""


def _read(pid: int, name: str) -> bytes:
    try:
        return Path(f"/proc/{pid}/{name}").read_bytes()
    except OSError:
        return b""


def _parent(pid: int) -> int:
    fields = _read(pid, "stat").rpartition(b")")[2].split()
    return int(fields[1]) if fields else 0


def _children(pid: int) -> list[int]:
    return [int(child) for child in _read(pid, f"task/{pid}/children").split()]


def _only_child(process: "subprocess.Popen[bytes]") -> int:
    """Wait for the child that nsenter makes in the namespace."""
    while process.poll() is None:
        for child in _children(process.pid):
            return child
    raise NoQuarters(f"nsenter ended with status {process.returncode}")
