"""What is installed, in versions that work together, and what this machine can do for QEMU and Slurm.

Needs nothing but Python, so that it can say that the rest is missing.
"""

import os
import platform
import re
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path

from leasehold import __version__
from leasehold.service.doctor import Check, Finding, note, ok, problem
from leasehold.service.drivers.qemu.limits import CgroupHierarchy, find_hierarchy

PACKAGE = "leasehold"
_REQUIREMENT = re.compile(r"(?P<name>[\w.-]+)(?:\[[\w,]+\])?(?:>=(?P<least>[\d.]+))?")
_EXTRA = re.compile(r"extra == ['\"](?P<extra>\w+)['\"]")


@dataclass(frozen=True, slots=True)
class Requirement:
    """A package that a part needs, in a version of at least ``least``; "" is the core."""

    part: str
    name: str
    least: str = ""

    @property
    def has(self) -> str | None:
        """The version that is installed, None where it is not."""
        try:
            return version(self.name)
        except PackageNotFoundError:
            return None

    @property
    def is_met(self) -> bool:
        """Whether it is there, and not too old."""
        return self.has is not None and _numbers(self.has) >= _numbers(self.least)


def requirements() -> list[Requirement]:
    """List what every part needs, by what Leasehold itself was installed with."""
    return [_requirement(text) for text in requires(PACKAGE) or () if not text.startswith(f"{PACKAGE}[")]


def _requirement(text: str) -> Requirement:
    found, extra = _REQUIREMENT.match(text), _EXTRA.search(text)
    assert found is not None
    return Requirement(extra["extra"] if extra else "", found["name"], found["least"] or "")


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", text))


def check_core() -> list[Finding]:
    """Is the core complete?"""
    return [_part("", requirements(), f"Leasehold {__version__}", f"pip install --upgrade {PACKAGE}")]


def check_extras() -> list[Finding]:
    """Which of the other parts are there, and complete?"""
    needed = requirements()
    parts = sorted({one.part for one in needed} - {""})
    return [_part(part, needed, part, f"pip install '{PACKAGE}[{part}]'") for part in parts]


def _part(part: str, needed: list[Requirement], name: str, cure: str) -> Finding:
    mine = [one for one in needed if one.part == part]
    missing = [one.name for one in mine if one.has is None]
    old = [f"{one.name} {one.has} (needs {one.least})" for one in mine if one.has and not one.is_met]
    if old:
        return problem(f"{name} has packages that are too old: {', '.join(old)}", cure)
    if missing:
        return note(f"{name} is not installed: no {', '.join(missing)}", cure)
    return ok(f"{name}: {', '.join(f'{one.name} {one.has}' for one in mine)}")


def service_is_installed() -> bool:
    """Whether everything is there that a gateway needs."""
    return all(one.is_met for one in requirements() if one.part in {"client", "service"})


_KVM = Path("/dev/kvm")
_NAMESPACES = Path("/proc/sys/user/max_net_namespaces")
_USER_NAMESPACES = Path("/proc/sys/user/max_user_namespaces")


def check_python() -> list[Finding]:
    """Which Python, on what?"""
    system = f"{platform.system()} {platform.release()}, {platform.machine()}"
    return [ok(f"Python {platform.python_version()} on {system}, {os.cpu_count()} CPUs")]


def check_kvm(device: Path = _KVM) -> list[Finding]:
    """Do virtual machines run at full speed?"""
    if not device.exists():
        cure = "on bare metal switch virtualisation on in the firmware; in a virtual machine enable nesting on its host"
        return [note(f"no {device}: machines under QEMU would be interpreted, about ten times slower", cure)]
    if not os.access(device, os.R_OK | os.W_OK):
        return [note(f"{device} exists, but this user may not use it", "add the user to the group kvm, log in again")]
    return [ok(f"{device} can be used")]


def check_qemu() -> list[Finding]:
    """Is there QEMU for this machine, and its tool for images?"""
    programs = (f"qemu-system-{platform.machine()}", "qemu-img")
    return [_programs("QEMU", programs, "apt-get install qemu-system qemu-utils")]


def check_slurm() -> list[Finding]:
    """Can leases be asked of Slurm from here?"""
    return [_programs("Slurm", ("sbatch", "squeue", "scancel"), "apt-get install slurm-client")]


def check_postgresql_client() -> list[Finding]:
    """Can a store in PostgreSQL be backed up from here?"""
    cure = "apt-get install postgresql-client"
    return [_programs("PostgreSQL's client", ("pg_dump", "pg_restore"), cure)]


def check_cgroups(hierarchy: CgroupHierarchy | None = None) -> list[Finding]:
    """Can what a machine uses be bounded?"""
    found = find_hierarchy() if hierarchy is None else hierarchy
    if found.why_not:
        cure = "Delegate=yes in the unit of the service, or run it as root"
        return [note(f"use of CPU and memory is not bounded: {found.why_not}", cure)]
    where = ", ".join(map(str, found.parents))
    return [ok(f"control groups of version {found.version} bound CPU and memory: {where}")]


def check_namespaces() -> list[Finding]:
    """Can each lease have a network of its own?"""
    cure = "raise user.max_net_namespaces and user.max_user_namespaces with sysctl"
    if not _number(_NAMESPACES) or (os.geteuid() != 0 and not _number(_USER_NAMESPACES)):
        return [note("no network namespaces for this user: leases share the machine's network", cure)]
    return [ok("network namespaces can be made")]


def _number(path: Path) -> int:
    try:
        return int(path.read_text(encoding="ascii"))
    except (OSError, ValueError):
        return 0


def _programs(what: str, names: Iterable[str], cure: str) -> Finding:
    found = {name: shutil.which(name) for name in names}
    missing = [name for name, path in found.items() if path is None]
    if missing:
        return note(f"{what}: no {', '.join(missing)} in the search path", cure)
    return ok(f"{what}: {', '.join(str(path) for path in found.values())}")


INSTALLED: Mapping[str, Check] = {
    "core": check_core,
    "extras": check_extras,
}
MACHINE: Mapping[str, Check] = {
    "python": check_python,
    "kvm": check_kvm,
    "qemu": check_qemu,
    "slurm": check_slurm,
    "postgresql-client": check_postgresql_client,
    "cgroups": check_cgroups,
    "namespaces": check_namespaces,
}
