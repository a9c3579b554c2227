"""How much may the process of a machine use? Bounded by control groups, where we may make any."""

import os
from collections.abc import Callable, Container, Mapping
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

import structlog

from leasehold.service.drivers.qemu.cgroups import Hierarchy, find_hierarchy
from leasehold.service.drivers.qemu.record import Hardware

OVERHEAD_MIB = 512
"""What QEMU itself may need beside the memory of the guest: translated code, buffers of disk and screen."""

_MIB = 1 << 20
_MESSAGES = 12


class Limits:
    """The bounds of one site; not ``wanted``: there are none. Where there can be none, the log says so once.

    A group is named by the site's folder, so that sites do not mix and what is left of a crash is found.
    """

    def __init__(self, folder: Path, hierarchy: Hierarchy | None = None, *, wanted: bool = True) -> None:
        self._name = f"leasehold-{sha256(os.fsencode(folder)).hexdigest()[:_MESSAGES]}"
        self._hierarchy = find_hierarchy() if hierarchy is None else hierarchy
        self.why_not = self._hierarchy.why_not if wanted else "switched off"
        if wanted and self.why_not:
            log = structlog.get_logger("leasehold.drivers.qemu")
            log.warning("memory and CPU of machines are not bounded", why=self.why_not)

    def cap(self, name: str, pid: int, hardware: Hardware) -> None:
        """Bound what a process uses; one that is bounded already stays so."""
        if self.why_not:
            return
        values = self._hierarchy.values((hardware.memory_mib + OVERHEAD_MIB) * _MIB, hardware.cpus)
        try:
            for group, bounds in zip(self._hierarchy.make(self._name), values, strict=True):
                _bound(group / name, pid, bounds)
        except OSError as error:
            log = structlog.get_logger("leasehold.drivers.qemu")
            log.warning("a machine is not bounded", machine=name, why=str(error))

    def release(self, lease: str) -> None:
        """Remove the groups of a lease (by the name of its folder), whose processes are dead."""
        self._remove(lambda name: name == lease)

    def sweep(self, known: Container[str]) -> None:
        """Remove the groups of all leases but these; one in which a process lives stays."""
        self._remove(lambda name: name not in known)

    def _remove(self, is_meant: Callable[[str], bool]) -> None:
        for ours in (parent / self._name for parent in self._hierarchy.parents):
            for group in ours.glob("*.*"):
                if group.is_dir() and is_meant(group.name.rpartition(".")[0]):
                    _remove(group)
            _remove(ours)  # the last one takes it along


def _bound(group: Path, pid: int, values: Mapping[str, str]) -> None:
    group.mkdir(exist_ok=True)
    for key, value in values.items():
        (group / key).write_text(value, encoding="ascii")
    with suppress(ProcessLookupError):
        (group / "cgroup.procs").write_text(str(pid), encoding="ascii")


def _remove(group: Path) -> None:
    with suppress(OSError):
        group.rmdir()
