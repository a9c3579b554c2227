"""The disk of the guests: Debian packages without what only people read, Python and QEMU's guest agent."""

import os
import shutil
from importlib.resources import files
from pathlib import Path

from leasehold.service.enactors.qemu.images.tools import run_tool

PACKAGES = ("python3", "qemu-guest-agent", "busybox-static")
SUITE = "bookworm"
DISK_MIB = 300
_EXECUTABLE = 0o755
_LINKS_IN = Path("usr/bin")


def make_disk(folder: Path) -> None:
    """Put ``root.qcow2`` into the folder, and ``busybox`` for whoever comes before the disk."""
    tar, root, raw = folder / "root.tar", folder / "root", folder / "root.raw"
    run_tool(
        "mmdebstrap",
        "--variant=extract",
        f"--include={','.join(PACKAGES)}",
        "--dpkgopt=path-exclude=/usr/share/*",
        "--format=tar",
        SUITE,
        tar,
        cwd=folder,
    )
    root.mkdir()
    run_tool("tar", "--extract", f"--file={tar}", "--exclude=./dev/*", f"--directory={root}", cwd=folder)
    tar.unlink()
    _furnish(root)
    shutil.copy2(root / "bin/busybox", folder / "busybox")
    run_tool(
        "mke2fs", "-q", "-t", "ext4", "-E", "root_owner=0:0", "-d", root, raw, f"{DISK_MIB}M", cwd=folder
    )
    shutil.rmtree(root)
    run_tool("qemu-img", "convert", "-O", "qcow2", raw, folder / "root.qcow2", cwd=folder)
    raw.unlink()


def put_guest_file(name: str, target: Path) -> None:
    """Put one of our own programs for the guest where it belongs there."""
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(files(__package__).joinpath("guest", name).read_bytes())
    target.chmod(_EXECUTABLE)


def _furnish(root: Path) -> None:
    put_guest_file("root-init", root / "sbin/leasehold-init")
    put_guest_file("run-once", root / "sbin/leasehold-run-once")
    for empty in ("dev", "proc", "sys", "run", "tmp", "root"):
        (root / empty).mkdir(exist_ok=True)
    _link_applets(root)
    (root / "etc/hosts").write_text("127.0.0.1 localhost leasehold\n", encoding="ascii")


def _link_applets(root: Path) -> None:
    """Let busybox stand in for every usual program that is not there; its full list is its own."""
    busybox = root / "bin/busybox"
    for applet in run_tool(str(busybox), "--list-full", cwd=root).split():
        places = {root / applet, root / _LINKS_IN / Path(applet).name}
        if not any(os.path.lexists(place) for place in places):
            link = root / applet
            link.parent.mkdir(parents=True, exist_ok=True)
            link.symlink_to("/bin/busybox")
