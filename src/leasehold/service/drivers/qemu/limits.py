"""Control groups, of version 1 or 2, that limit the memory and CPU of each machine's process.

Version 1 has a tree for each controller, version 2 one for all. In version 2 a group has either processes or
subgroups that share its controllers: a service that was given a group by systemd (``Delegate=yes``) and runs
in it has to move into a subgroup first.
"""

import os
import time
from collections.abc import Callable, Container, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

import structlog

from leasehold.service.drivers.qemu.machine import VmHardware

OVERHEAD_MIB = 512
"""What QEMU itself may need beside the memory of the guest: translated code, buffers of disk and screen."""

CGROUP_ROOT = Path("/sys/fs/cgroup")
CONTROLLERS = ("cpu", "memory")
_OWN = Path("/proc/self/cgroup")
_PERIOD_US = 100_000
_SUPERVISOR = "supervisor"
_ENABLED = "cgroup.subtree_control"
_PROCESSES = "cgroup.procs"
_MIB = 1 << 20
_DIGITS = 12
_RELEASE_S = 1.0
_POLL_S = 0.01


@dataclass(frozen=True, slots=True)
class CgroupHierarchy:
    """Where this process may make control groups.

    ``version``  1 or 2; 0: there are none
    ``parents``  in which groups are made: one for each controller in version 1, a single one in version 2
    ``why_not``  why none can be made, empty where they can
    """

    version: int
    parents: tuple[Path, ...] = ()
    why_not: str = ""

    def values(self, memory_bytes: int, cpus: int) -> Sequence[Mapping[str, str]]:
        """Give the files that limit a process, for a group in each of ``parents``."""
        quota = str(_PERIOD_US * cpus)
        if self.version == 1:
            memory = {"memory.limit_in_bytes": str(memory_bytes)}
            return memory, {"cpu.cfs_period_us": str(_PERIOD_US), "cpu.cfs_quota_us": quota}
        return ({"memory.max": str(memory_bytes), "cpu.max": f"{quota} {_PERIOD_US}"},)

    def make(self, name: str) -> list[Path]:
        """Make the group ``name`` in each parent, to hold others in turn; raises OSError."""
        groups = [parent / name for parent in self.parents]
        for group in groups:
            group.mkdir(exist_ok=True)
            if self.version != 1:
                _enable(group.parent)
                _enable(group)
        return groups


def find_hierarchy(root: Path = CGROUP_ROOT, own: Path = _OWN) -> CgroupHierarchy:
    """Find where groups can be made; nothing is changed."""
    if (root / "memory").is_dir():
        parents = tuple(root / controller for controller in ("memory", "cpu"))
        return CgroupHierarchy(1, parents, next(filter(None, map(_why_not_1, parents)), ""))
    if (root / "cgroup.controllers").is_file():
        base = root / _own_group(own)
        return CgroupHierarchy(2, (base,), _why_not_2(base))
    return CgroupHierarchy(0, (), f"there are no control groups at {root}")


def _why_not_1(controller: Path) -> str:
    """A controller that is missing has no list of processes."""
    can = (controller / _PROCESSES).is_file() and os.access(controller, os.W_OK)
    return "" if can else f"{controller} cannot be written to"


def _why_not_2(base: Path) -> str:
    if not (base / _PROCESSES).is_file() or not os.access(base, os.W_OK):
        return f"{base} cannot be written to: Delegate=yes in the unit of the service allows it"
    there = (base / "cgroup.controllers").read_text(encoding="ascii").split()
    missing = [name for name in CONTROLLERS if name not in there]
    return f"{base} lacks {', '.join(missing)}" if missing else ""


def _own_group(own: Path) -> str:
    """Find our own group of version 2; ``0::/system.slice/leasehold.service``."""
    with suppress(OSError):
        for line in own.read_text(encoding="utf-8").splitlines():
            of_version_2, _, path = line.partition("::")
            if of_version_2 == "0":
                return path.removesuffix(f"/{_SUPERVISOR}").strip("/")
    return ""


def _enable(group: Path) -> None:
    """Let the groups within a group have limits of their own; raises OSError."""
    enabled = group / _ENABLED
    have = enabled.read_text(encoding="ascii").split() if enabled.exists() else []
    if set(CONTROLLERS) <= set(have):
        return
    wanted = " ".join(f"+{name}" for name in CONTROLLERS)
    try:
        enabled.write_text(wanted, encoding="ascii")
    except OSError:
        _move_into_subgroup(group)
        enabled.write_text(wanted, encoding="ascii")


def _move_into_subgroup(group: Path) -> None:
    """Move every process of a group into a subgroup: only then may it share its controllers."""
    subgroup = group / _SUPERVISOR
    subgroup.mkdir(exist_ok=True)
    for pid in (group / _PROCESSES).read_text(encoding="ascii").split():
        with suppress(ProcessLookupError):
            (subgroup / _PROCESSES).write_text(pid, encoding="ascii")


class CgroupLimits:
    """The limits of one site; none where not ``wanted``. Where there can be none, the log says so once.

    A group is named by the site's folder, so that sites do not mix and what a crash has left is found.
    """

    def __init__(self, folder: Path, hierarchy: CgroupHierarchy | None = None, *, wanted: bool = True) -> None:
        self._name = f"leasehold-{sha256(os.fsencode(folder)).hexdigest()[:_DIGITS]}"
        self._hierarchy = find_hierarchy() if hierarchy is None else hierarchy
        self.why_not = self._hierarchy.why_not if wanted else "switched off"
        if wanted and self.why_not:
            log = structlog.get_logger("leasehold.drivers.qemu")
            log.warning("memory and CPU of machines are not limited", why=self.why_not)

    def apply(self, name: str, pid: int, hardware: VmHardware) -> None:
        """Limit what a process uses; a limit that is there already stays."""
        if self.why_not:
            return
        values = self._hierarchy.values((hardware.memory_mib + OVERHEAD_MIB) * _MIB, hardware.cpus)
        try:
            for group, limits in zip(self._hierarchy.make(self._name), values, strict=True):
                _limit(group / name, pid, limits)
        except OSError as error:
            log = structlog.get_logger("leasehold.drivers.qemu")
            log.warning("a machine is not limited", machine=name, why=str(error))

    def release(self, lease: str) -> None:
        """Remove the groups of a lease (by the name of its folder), whose processes are dead; may take a moment."""
        self._remove(lambda name: name == lease, _RELEASE_S)

    def sweep(self, known: Container[str]) -> None:
        """Remove the groups of all leases but these; one with a live process stays."""
        self._remove(lambda name: name not in known)

    def _remove(self, is_meant: Callable[[str], bool], within_s: float = 0) -> None:
        for ours in (parent / self._name for parent in self._hierarchy.parents):
            for group in ours.glob("*.*"):
                if group.is_dir() and is_meant(group.name.rpartition(".")[0]):
                    _remove(group, within_s)
            _remove(ours)  # fails while there is another


def _limit(group: Path, pid: int, values: Mapping[str, str]) -> None:
    group.mkdir(exist_ok=True)
    for key, value in values.items():
        (group / key).write_text(value, encoding="ascii")
    with suppress(ProcessLookupError):
        (group / _PROCESSES).write_text(str(pid), encoding="ascii")


def _remove(group: Path, within_s: float = 0) -> None:
    """Remove a group; the kernel takes a dead process out of it only after its locks are released."""
    give_up_s = time.monotonic() + within_s
    while group.exists():
        try:
            group.rmdir()
        except OSError:
            if time.monotonic() >= give_up_s:
                return
            time.sleep(_POLL_S)
