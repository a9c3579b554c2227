"""Hosts with a libvirt of their own, on this machine: each has its files, its name, and its processes.

A host is a first process in new namespaces of mounts, names and processes. Where it dies, and it dies with
whoever made it, even by kill -9, the kernel ends everything in it: libvirt, and all of its machines.
"""

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from uuid import uuid4

from leasehold.testing.debian import ProgramMissing, find_or_install

_WITHIN_S = 120.0
_POLL_S = 0.02
_LIBVIRTD = Path("/usr/sbin/libvirtd")
_PACKAGES = {
    "libvirt-daemon-system": _LIBVIRTD,
    "libvirt-daemon-driver-qemu": Path("/usr/lib/x86_64-linux-gnu/libvirt/connection-driver/libvirt_driver_qemu.so"),
    "qemu-system-x86": Path("/usr/bin/qemu-system-x86_64"),
    "qemu-utils": Path("/usr/bin/qemu-img"),
}

# As root, and confined by our namespaces alone. Were QEMU another user than libvirt, libvirt would find that
# /dev/kvm cannot be used by it, and ask QEMU anew what it can do before every machine.
_QEMU_CONF = """\
user = "root"
group = "root"
dynamic_ownership = 0
remember_owner = 0
security_driver = "none"
stdio_handler = "file"
cgroup_controllers = []
namespaces = []
"""
_START = """\
set -e
hostname {name}
for place in /var/lib/libvirt /run/libvirt /var/log/libvirt /var/cache/libvirt /etc/libvirt; do
    mkdir -p $place && mount --bind {folder}$place $place
done
mount --bind {folder}/hosts /etc/hosts
{libvirtd} --pid-file /run/libvirtd-{name}.pid &
wait
"""


@dataclass(frozen=True, slots=True)
class LibvirtHost:
    """A running host; its folder has its files, below the paths that they have on it."""

    name: str
    folder: Path

    @property
    def socket(self) -> Path:
        """Where its libvirt listens."""
        return self.folder / "run/libvirt/libvirt-sock"

    @property
    def uri(self) -> str:
        """Where its libvirt is reached, from here and from other hosts."""
        return f"qemu+unix:///system?socket={self.socket}"

    @property
    def consoles(self) -> Path:
        """A folder that is the same on all hosts."""
        return self.folder / "consoles"


def install_packages() -> None:
    """Install what hosts need; ProgramMissing where that cannot be done."""
    if os.geteuid() != 0:
        raise ProgramMissing("libvirt", "libvirt-daemon-system", "and only root can run it for tests")
    for package, file in _PACKAGES.items():
        find_or_install(partial(_there, file), file.name, package)


def _there(file: Path) -> Path | None:
    return file if file.exists() else None


@contextmanager
def libvirt_host(folder: Path) -> Iterator[LibvirtHost]:
    """Run a host for the length of the block; the path of the folder must be short enough for a socket."""
    host = LibvirtHost(f"lh-{uuid4().hex[:8]}", folder)
    _furnish(host)
    script = _START.format(name=host.name, folder=folder, libvirtd=_LIBVIRTD)
    apart = ["unshare", "--mount", "--uts", "--pid", "--fork", "--kill-child", "--mount-proc"]
    log = folder / "libvirtd.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            ["setpriv", "--pdeathsig", "KILL", *apart, "bash", "-c", script],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    try:
        _wait_for(host, process, log)
        yield host
    finally:
        process.send_signal(signal.SIGKILL)  # its child goes with it, and everything below
        process.wait()


def _furnish(host: LibvirtHost) -> None:
    for place in ("var/lib/libvirt", "run/libvirt", "var/log/libvirt/qemu", "var/cache/libvirt", "consoles"):
        (host.folder / place).mkdir(parents=True)
    own = host.folder / "etc/libvirt"
    shutil.copytree("/etc/libvirt", own, symlinks=True)
    shutil.rmtree(own / "qemu/networks/autostart", ignore_errors=True)
    (own / "libvirtd.conf").write_text(f'auth_unix_rw = "none"\nhost_uuid = "{uuid4()}"\n')
    (own / "qemu.conf").write_text(_QEMU_CONF)
    (host.folder / "hosts").write_text(f"127.0.0.1 localhost {host.name}\n")


def _wait_for(host: LibvirtHost, process: "subprocess.Popen[bytes]", log: Path) -> None:
    give_up_s = time.monotonic() + _WITHIN_S
    while not host.socket.exists():
        is_hopeless = process.poll() is not None or time.monotonic() > give_up_s
        assert not is_hopeless, f"no libvirt came: {log.read_text()}"
        time.sleep(_POLL_S)
