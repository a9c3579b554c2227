"""The disk of the guests: Debian packages without what only people read, Python and QEMU's guest agent."""

import os
import shutil
from importlib.resources import files
from pathlib import Path

from leasehold.service.drivers.qemu.images.debian import bootstrap
from leasehold.service.drivers.qemu.images.repository import Repository, versions
from leasehold.service.drivers.qemu.images.workbench import Workbench

PACKAGES = ("python3", "qemu-guest-agent", "busybox-static")
ROOM_MIB = 4096
"""For what commands write; it takes none until they do."""

_GUEST_FILES = {"root-init": "sbin/leasehold-init", "run-once": "sbin/leasehold-run-once"}
_EXECUTABLE = 0o755
_LINKS_IN = Path("usr/bin")
_MIB = 1 << 20
_AS_IF_INSTALLED = """
for deb in "$1"/var/cache/apt/archives/*.deb; do
    dpkg-deb --field "$deb"; printf 'Status: install ok installed\\n\\n'
done > "$1"/var/lib/dpkg/status
"""
"""Nothing but unpacking is enough for these; they are to be known all the same."""


def unpack(bench: Workbench, repository: Repository | None) -> Path:
    """Put a tar of our packages into the folder, which are only unpacked: that is quick."""
    tar = bench.folder / "root.tar"
    hooks = ("--dpkgopt=path-exclude=/usr/share/*", "--extract-hook", _AS_IF_INSTALLED)
    bootstrap(bench, repository, "extract", PACKAGES, tar, *hooks)
    return tar


def make_disk(bench: Workbench, tar: Path) -> tuple[tuple[str, str], ...]:
    """Put ``root.qcow2`` into the folder, and ``busybox`` for whoever comes before the disk; the tar goes.

    Gives the software that is installed there, as its own dpkg has it.
    """
    folder = bench.folder
    root, raw = folder / "root", folder / "root.raw"
    root.mkdir()
    bench.run("tar", "--extract", f"--file={tar}", "--exclude=./dev/*", f"--directory={root}")
    size = f"{tar.stat().st_size * 5 // 4 // _MIB + ROOM_MIB}M"
    tar.unlink()
    software = _installed(root)
    _furnish(bench, root)
    shutil.copy2(root / "bin/busybox", folder / "busybox")
    bench.run("mke2fs", "-q", "-t", "ext4", "-E", "root_owner=0:0", "-d", root, raw, size)
    shutil.rmtree(root)
    bench.run("qemu-img", "convert", "-O", "qcow2", raw, folder / "root.qcow2")
    raw.unlink()
    return software


def _installed(root: Path) -> tuple[tuple[str, str], ...]:
    status = (root / "var/lib/dpkg/status").read_text(encoding="utf-8", errors="replace")
    return tuple(sorted(versions(status)))


def put_guest_file(name: str, target: Path) -> None:
    """Put one of our own programs for the guest where it belongs there."""
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(files(__package__).joinpath("guest", name).read_bytes())
    target.chmod(_EXECUTABLE)


def guest_files() -> bytes:
    """Give all of our programs for the guest, which belong to what an image is made of."""
    return b"".join(files(__package__).joinpath("guest", name).read_bytes() for name in _GUEST_FILES)


def _furnish(bench: Workbench, root: Path) -> None:
    for name, target in _GUEST_FILES.items():
        put_guest_file(name, root / target)
    for empty in ("dev", "proc", "sys", "run", "tmp", "root"):
        (root / empty).mkdir(exist_ok=True)
    _link_applets(bench, root)
    (root / "etc/resolv.conf").unlink(missing_ok=True)  # that of the computer that it was built on
    (root / "etc/hostname").write_text("leasehold\n", encoding="ascii")
    (root / "etc/hosts").write_text("127.0.0.1 localhost leasehold\n", encoding="ascii")


def _link_applets(bench: Workbench, root: Path) -> None:
    """Let busybox stand in for every usual program that is not there; its full list is its own."""
    busybox = root / "bin/busybox"
    for applet in bench.run(str(busybox), "--list-full", cwd=root).split():
        places = {root / applet, root / _LINKS_IN / Path(applet).name}
        if not any(os.path.lexists(place) for place in places):
            link = root / applet
            link.parent.mkdir(parents=True, exist_ok=True)
            link.symlink_to("/bin/busybox")
