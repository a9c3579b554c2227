"""What can this machine do? Real machines under QEMU or Slurm need more of it than emulated ones.

Needs nothing but Python, as `installed`.
"""

import os
import platform
import shutil
from collections.abc import Iterable
from pathlib import Path

from leasehold.service.doctor.finding import Finding, note, ok

_KVM = Path("/dev/kvm")
_CONTROLLERS = Path("/sys/fs/cgroup/cgroup.controllers")
_NAMESPACES = Path("/proc/sys/user/max_net_namespaces")
_USER_NAMESPACES = Path("/proc/sys/user/max_user_namespaces")
_NEEDED_CONTROLLERS = ("cpu", "memory", "pids")


def check_python() -> list[Finding]:
    """Which Python, on what?"""
    system = f"{platform.system()} {platform.release()}, {platform.machine()}"
    return [ok(f"Python {platform.python_version()} on {system}, {os.cpu_count()} CPUs")]


def check_kvm(device: Path = _KVM) -> list[Finding]:
    """Do virtual machines run at full speed?"""
    if not device.exists():
        cure = (
            "on bare metal switch virtualisation on in the firmware; in a virtual machine let its host nest"
        )
        return [note(f"no {device}: machines under QEMU would be interpreted, about ten times slower", cure)]
    if not os.access(device, os.R_OK | os.W_OK):
        return [
            note(f"{device} is there, and not for this user", "add the user to the group kvm, log in anew")
        ]
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


def check_cgroups(controllers: Path = _CONTROLLERS) -> list[Finding]:
    """Can what a lease uses be bounded and measured?"""
    if not controllers.is_file():
        cure = "boot with systemd.unified_cgroup_hierarchy=1"
        return [note("no control groups of version 2: use of CPU and memory is not bounded", cure)]
    there = controllers.read_text(encoding="ascii").split()
    missing = [name for name in _NEEDED_CONTROLLERS if name not in there]
    if missing:
        return [note(f"control groups lack {', '.join(missing)}", "have systemd delegate them: Delegate=yes")]
    return [ok(f"control groups: {', '.join(there)}")]


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
