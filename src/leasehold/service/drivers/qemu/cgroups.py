"""Where can control groups be made here, and what is written into them? Both versions, in this one place.

Version 1 has a tree for each controller, version 2 one for all. In version 2 a group has either processes or
groups that share out its controllers: whoever was given a group by systemd (``Delegate=yes``) and lives in it
has to move into a part of it first. Needs nothing but Python.
"""

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

ROOT = Path("/sys/fs/cgroup")
NEEDED = ("cpu", "memory")
_OWN = Path("/proc/self/cgroup")
_PERIOD_US = 100_000
_SUPERVISOR = "supervisor"
_ENABLED = "cgroup.subtree_control"
_PROCESSES = "cgroup.procs"


@dataclass(frozen=True, slots=True)
class Hierarchy:
    """The groups of this machine as far as we may make any.

    ``version``  1 or 2; 0: there are none
    ``parents``  in which groups are made: one for each controller in version 1, a single one in version 2
    ``why_not``  why none can be made, empty where they can
    """

    version: int
    parents: tuple[Path, ...] = ()
    why_not: str = ""

    def values(self, memory_bytes: int, cpus: int) -> Sequence[Mapping[str, str]]:
        """What bounds a process, for a group in each of ``parents``."""
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


def find_hierarchy(root: Path = ROOT, own: Path = _OWN) -> Hierarchy:
    """Find where groups can be made; nothing is changed."""
    if (root / "memory").is_dir():
        parents = tuple(root / controller for controller in ("memory", "cpu"))
        return Hierarchy(1, parents, next(filter(None, map(_why_not_1, parents)), ""))
    if (root / "cgroup.controllers").is_file():
        base = root / _own_group(own)
        return Hierarchy(2, (base,), _why_not_2(base))
    return Hierarchy(0, (), f"there are no control groups at {root}")


def _why_not_1(controller: Path) -> str:
    """One that is missing has no list of processes."""
    can = (controller / _PROCESSES).is_file() and os.access(controller, os.W_OK)
    return "" if can else f"{controller} cannot be written to"


def _why_not_2(base: Path) -> str:
    if not (base / _PROCESSES).is_file() or not os.access(base, os.W_OK):
        return f"{base} cannot be written to: Delegate=yes in the unit of the service gives it to us"
    there = (base / "cgroup.controllers").read_text(encoding="ascii").split()
    missing = [name for name in NEEDED if name not in there]
    return f"{base} lacks {', '.join(missing)}" if missing else ""


def _own_group(own: Path) -> str:
    """Find in which group of version 2 we are; ``0::/system.slice/leasehold.service``."""
    with suppress(OSError):
        for line in own.read_text(encoding="utf-8").splitlines():
            of_version_2, _, path = line.partition("::")
            if of_version_2 == "0":
                return path.removesuffix(f"/{_SUPERVISOR}").strip("/")
    return ""


def _enable(group: Path) -> None:
    """Let the groups within a group have bounds of their own; raises OSError."""
    enabled = group / _ENABLED
    have = enabled.read_text(encoding="ascii").split() if enabled.exists() else []
    if set(NEEDED) <= set(have):
        return
    wanted = " ".join(f"+{name}" for name in NEEDED)
    try:
        enabled.write_text(wanted, encoding="ascii")
    except OSError:
        _move_into_a_part(group)
        enabled.write_text(wanted, encoding="ascii")


def _move_into_a_part(group: Path) -> None:
    """Move every process of a group into a part of it: only then may it share its controllers out."""
    part = group / _SUPERVISOR
    part.mkdir(exist_ok=True)
    for pid in (group / _PROCESSES).read_text(encoding="ascii").split():
        with suppress(ProcessLookupError):
            (part / _PROCESSES).write_text(pid, encoding="ascii")
