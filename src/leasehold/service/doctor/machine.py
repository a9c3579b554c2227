"""What can this machine do? Real machines under QEMU or Slurm need more of it than emulated ones.

Needs nothing but Python, as `installed`.
"""

import os
import platform
import shutil
from collections.abc import Iterable
from pathlib import Path

from leasehold.service.doctor.finding import Finding, note, ok
from leasehold.service.drivers.qemu.limits import CgroupHierarchy, find_hierarchy

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
        cure = "on bare metal switch virtualisation on in the firmware; in a virtual machine let its host nest"
        return [note(f"no {device}: machines under QEMU would be interpreted, about ten times slower", cure)]
    if not os.access(device, os.R_OK | os.W_OK):
        return [note(f"{device} is there, and not for this user", "add the user to the group kvm, log in anew")]
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
