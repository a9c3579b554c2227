"""A guest that counts aloud and has QEMU's agent and a server of SSH: Debian's kernel, and some megabytes to boot."""

import fcntl
import os
import re
import shutil
import subprocess
import sys
import tempfile
from functools import partial
from hashlib import sha256
from pathlib import Path

from leasehold.testing.debian import ProgramMissing, find_or_install

_BUILD_S = 600
_KERNEL = "linux-image-cloud-amd64"
_PACKAGES = (
    "busybox-static",
    "dropbear-bin",
    "libc6",
    "libcrypt1",
    "libglib2.0-0",
    "libnuma1",
    "libpcre2-8-0",
    "libtomcrypt1",
    "libtommath1",
    "libgmp10",
    "libudev1",
    "liburing2",
    "zlib1g",
    "qemu-guest-agent",
)
_LIBRARIES = (
    "libc.so.6",
    "libcrypt.so.1",
    "libglib-2.0.so.0",
    "libgmodule-2.0.so.0",
    "libgmp.so.10",
    "libm.so.6",
    "libnuma.so.1",
    "libpcre2-8.so.0",
    "libtomcrypt.so.1",
    "libtommath.so.1",
    "libudev.so.1",
    "liburing.so.2",
    "libz.so.1",
)
_DRIVERS = (
    "virtio_ring",
    "virtio",
    "virtio_pci_legacy_dev",
    "virtio_pci_modern_dev",
    "virtio_pci",
    "virtio_console",
    "failover",
    "net_failover",
    "virtio_net",
)
# The host tells of the agent's port when it comes to it, which on a busy machine may be late.
_INIT = f"""\
#!/bin/busybox sh
/bin/busybox --install -s /bin
export PATH=/bin
mount -t devtmpfs d /dev; mkdir /dev/pts; mount -t devpts p /dev/pts
mount -t proc p /proc; mount -t sysfs s /sys; mount -t tmpfs t /run
for driver in {" ".join(_DRIVERS)}; do insmod /drivers/$driver.ko; done
if [ -e /sys/class/net/eth0 ]; then
    ip link set lo up; ip link set eth0 up
    udhcpc -q -i eth0 -s /bin/take-address > /dev/null 2>&1 && dropbear -R -s -j -k -p 22
fi &
(
    cd /sys/class/virtio-ports
    until port=$(grep -l org.qemu.guest_agent.0 */name 2> /dev/null); do sleep 0.1; done
    port=${{port%/name}}
    exec qemu-ga -m virtio-serial -p /dev/${{port##*/}} -t /run -f /run/agent
) &
count=0
while true; do count=$((count + 1)); echo "COUNT $count"; sleep 0.2; done
"""
_TAKE_ADDRESS = """\
#!/bin/busybox sh
[ "$1" != bound ] || ip addr add "$ip/$mask" dev "$interface"
"""
"""What becomes of an offer of DHCP."""
_ETC = {
    "group": "root:x:0:\n",
    "nsswitch.conf": "passwd: files\ngroup: files\n",
    "passwd": "root:x:0:0:root:/root:/bin/sh\n",
    "shells": "/bin/sh\n",
}
LEAST_MEMORY_MIB = 112
CMDLINE = "console=ttyS0 quiet no_timer_check panic=-1"
"""Without no_timer_check a guest on a busy machine may find that its timer does not work."""


class Guest:
    """What a machine is booted from."""

    def __init__(self, folder: Path) -> None:
        self.kernel = folder / "vmlinuz"
        self.initrd = folder / "initrd.gz"


def build_guest() -> Guest:
    """Build it, or find it built; ProgramMissing where what it is built with is not there."""
    for program in ("apt-get", "cpio", "dpkg-deb"):
        find_or_install(partial(_which, program), program, program)
    recipe = sha256(Path(__file__).read_bytes()).hexdigest()
    folder = Path(sys.prefix) / f"libvirt-guest-{recipe[:12]}"
    with folder.with_suffix(".lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            _build(folder)
    return Guest(folder)


def counted(console: Path) -> list[int]:
    """What a guest has counted; a line that is being written is not counted."""
    if not console.exists():
        return []
    return [int(count) for count in re.findall(r"COUNT (\d+)\r?\n", console.read_text(errors="replace"))]


def _which(program: str) -> Path | None:
    found = shutil.which(program)
    return None if found is None else Path(found)


def _build(folder: Path) -> None:
    partial = Path(tempfile.mkdtemp(dir=folder.parent))
    try:
        root, kernel = _unpacked(partial, *_PACKAGES), _unpacked(partial, _latest_kernel())
        next(kernel.glob("boot/vmlinuz-*")).rename(partial / "vmlinuz")
        _lay_out(root, kernel, partial / "guest")
        _run("sh", "-c", "find . | cpio --quiet -o -H newc | gzip -1 > ../initrd.gz", cwd=partial / "guest")
        for one in (root, kernel, partial / "guest"):
            shutil.rmtree(one)
        partial.rename(folder)
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise


def _latest_kernel() -> str:
    for _ in range(2):
        found = re.search(r"Depends: (linux-image-\S+)", _run("apt-cache", "depends", _KERNEL, check=False))
        if found:
            return found[1]
        if os.geteuid() == 0:
            _run("apt-get", "--quiet", "update")
    raise ProgramMissing(_KERNEL, _KERNEL, "and apt does not know it")


def _unpacked(folder: Path, *packages: str) -> Path:
    into = Path(tempfile.mkdtemp(dir=folder))
    _run("apt-get", "--quiet", "-o", "APT::Sandbox::User=root", "download", *packages, cwd=into)
    for package in into.glob("*.deb"):
        _run("dpkg-deb", "--extract", str(package), str(into))
        package.unlink()
    return into


def _lay_out(root: Path, kernel: Path, guest: Path) -> None:
    for place in ("bin", "dev", "drivers", "etc/dropbear", "lib", "lib64", "proc", "root", "run", "sys"):
        (guest / place).mkdir(parents=True)
    for name, text in _ETC.items():
        (guest / "etc" / name).write_text(text)
    for program in ("bin/busybox", "usr/sbin/dropbear", "usr/sbin/qemu-ga"):
        shutil.copy(root / program, guest / "bin")
    for name in _LIBRARIES:
        shutil.copy(_find(root, name), guest / "lib")
    shutil.copy(_find(root, "ld-linux-x86-64.so.2"), guest / "lib64")
    for name in _DRIVERS:
        shutil.copy(_find(kernel, f"{name}.ko"), guest / "drivers")
    for name, text in (("init", _INIT), ("bin/take-address", _TAKE_ADDRESS)):
        (guest / name).write_text(text)
        (guest / name).chmod(0o755)


def _find(folder: Path, name: str) -> Path:
    """Find a file that is one, or leads to one, by its name."""
    return next(path for path in folder.rglob(name) if path.is_file())


def _run(*command: str, cwd: Path | None = None, check: bool = True) -> str:
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False, timeout=_BUILD_S)
    assert done.returncode == 0 or not check, f"{' '.join(command)}: {done.stderr}"
    return done.stdout
