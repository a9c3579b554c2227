"""How much may the process of a machine use? Bounded by control groups (version 1), where we may make any."""

import os
from collections.abc import Callable, Container
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

import structlog

from leasehold.service.enactors.qemu.record import Hardware

ROOT = Path("/sys/fs/cgroup")
OVERHEAD_MIB = 512
"""What QEMU itself may need beside the memory of the guest: translated code, buffers of disk and screen."""

_PERIOD_US = 100_000
_MIB = 1 << 20
_LETTERS = 12


class Limits:
    """The bounds of one site; not ``wanted``: there are none. Where there can be none, the log says so once.

    A group is named by the site's folder, so that sites do not mix and what is left of a crash is found.
    """

    def __init__(self, folder: Path, root: Path = ROOT, *, wanted: bool = True) -> None:
        name = f"leasehold-{sha256(os.fsencode(folder)).hexdigest()[:_LETTERS]}"
        self._memory = root / "memory" / name
        self._cpu = root / "cpu" / name
        self.why_not = "" if wanted else "switched off"
        if wanted:
            self._try()

    def _try(self) -> None:
        missing = [one.parent for one in (self._memory, self._cpu) if not _is_writable(one.parent)]
        if missing:
            self.why_not = f"{missing[0]} cannot be written to"
            log = structlog.get_logger("leasehold.enactors.qemu")
            log.warning("memory and CPU of machines are not bounded", why=self.why_not)

    def cap(self, name: str, pid: int, hardware: Hardware) -> None:
        """Bound what a process uses; one that is bounded already stays so."""
        if self.why_not:
            return
        most = (hardware.memory_mib + OVERHEAD_MIB) * _MIB
        try:
            _bound(self._memory / name, pid, {"memory.limit_in_bytes": most})
            quota = {"cpu.cfs_period_us": _PERIOD_US, "cpu.cfs_quota_us": _PERIOD_US * hardware.cpus}
            _bound(self._cpu / name, pid, quota)
        except OSError as error:
            log = structlog.get_logger("leasehold.enactors.qemu")
            log.warning("a machine is not bounded", machine=name, why=str(error))

    def release(self, lease: str) -> None:
        """Remove the groups of a lease (by the name of its folder), whose processes are dead."""
        self._remove(lambda name: name == lease)

    def sweep(self, known: Container[str]) -> None:
        """Remove the groups of all leases but these; one in which a process lives stays."""
        self._remove(lambda name: name not in known)

    def _remove(self, is_meant: Callable[[str], bool]) -> None:
        for controller in (self._memory, self._cpu):
            for group in controller.glob("*.*"):
                if group.is_dir() and is_meant(group.name.rpartition(".")[0]):
                    _remove(group)
            _remove(controller)  # the last one takes it along


def _bound(group: Path, pid: int, values: dict[str, int]) -> None:
    group.mkdir(parents=True, exist_ok=True)
    for key, value in values.items():
        (group / key).write_text(str(value), encoding="ascii")
    with suppress(ProcessLookupError):
        (group / "cgroup.procs").write_text(str(pid), encoding="ascii")


def _remove(group: Path) -> None:
    with suppress(OSError):
        group.rmdir()


def _is_writable(controller: Path) -> bool:
    """Whether groups of this controller can be made here; one that is missing has no list of processes."""
    return (controller / "cgroup.procs").is_file() and os.access(controller, os.W_OK)
