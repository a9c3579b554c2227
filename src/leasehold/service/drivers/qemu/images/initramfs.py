"""What the kernel mounts first: busybox and the drivers of the disk, one megabyte in all."""

import gzip
import shutil

from leasehold.service.drivers.qemu.images.kernel import DRIVERS
from leasehold.service.drivers.qemu.images.root import put_guest_file
from leasehold.service.drivers.qemu.images.workbench import Workbench


def make_initramfs(bench: Workbench) -> None:
    """Put ``initrd.gz`` into the folder, of the drivers and the busybox that are there; these go."""
    folder = bench.folder
    tree = folder / "initramfs"
    for inside in ("bin", "dev", "lib", "proc", "root"):
        (tree / inside).mkdir(parents=True)
    put_guest_file("initramfs-init", tree / "init")
    shutil.move(folder / "busybox", tree / "bin/busybox")
    for driver in DRIVERS:
        shutil.move(folder / f"{driver}.ko", tree / "lib" / f"{driver}.ko")
    (tree / "lib/modules.list").write_text("".join(f"{driver}\n" for driver in DRIVERS), encoding="ascii")
    names = sorted(str(path.relative_to(tree)) for path in tree.rglob("*"))
    archive = folder / "initrd"
    listed = "\n".join([".", *names]).encode()
    bench.run("cpio", "--quiet", "-o", "-H", "newc", "-R", "0:0", "-O", archive, cwd=tree, given=listed)
    (folder / "initrd.gz").write_bytes(gzip.compress(archive.read_bytes(), mtime=0))
    archive.unlink()
    shutil.rmtree(tree)
