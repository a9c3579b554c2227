"""Images that are built with fake programs: what is tested is their caller."""

import os
import stat
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from leasehold.service.drivers.qemu.images import build
from leasehold.service.drivers.qemu.images.image import Description, Image, open_image, write_description
from leasehold.service.drivers.qemu.images.repository import Repository
from leasehold.service.drivers.qemu.images.toolchain import PACKAGES

PARTS = ("vmlinuz", "initrd.gz", "root.qcow2")
IN_THE_BASE = (("python3", "3.11.2-1+b1"),)

_MMDEBSTRAP = """
import io, os, pathlib, sys, tarfile, time
here = pathlib.Path(__file__).parent
with (here / "calls").open("a") as calls:
    calls.write(sys.argv[1] + "\\n")
if (here / "waits").exists():
    (here / "pid").write_text(str(os.getpid()))
    time.sleep(600)
if (here / "says").exists():
    sys.exit((here / "says").read_text())
[tar] = (word for word in sys.argv if word.startswith("/") and word.endswith(".tar"))
[include] = (word.partition("=")[2] for word in sys.argv if word.startswith("--include="))
told = [word.partition("=") for word in include.split(",")]
status = "\\n".join(f"Package: {name}\\nStatus: install ok installed\\nVersion: {number or 1}\\n"
                    for name, _, number in told)
with tarfile.open(tar, "w") as archive:
    for name, text in {"var/lib/dpkg/status": status, "bin/busybox": "#!/bin/sh\\necho bin/ls\\n",
                       "etc/resolv.conf": "nameserver 192.0.2.1\\n"}.items():
        member = tarfile.TarInfo("./" + name)
        member.size, member.mode = len(text), 0o755
        archive.addfile(member, io.BytesIO(text.encode()))
"""
_QEMU_IMG = "import shutil, sys\nshutil.copy(sys.argv[-2], sys.argv[-1])\n"
_MKE2FS = "import pathlib, sys\npathlib.Path(sys.argv[-2]).write_text('a disk')\n"


class Toolbox:
    """A folder with programs that build nothing real, and what they are to do."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()
        for name in PACKAGES:
            self._write(name, "")
        for name, text in {"mmdebstrap": _MMDEBSTRAP, "qemu-img": _QEMU_IMG, "mke2fs": _MKE2FS}.items():
            self._write(name, text)

    def _write(self, name: str, text: str) -> None:
        path = self.folder / name
        path.write_text(f"#!{sys.executable}\n{text}", encoding="utf-8")
        path.chmod(path.stat().st_mode | stat.S_IXUSR)

    def fails(self, saying: str) -> None:
        """Let the next builds fail with these words."""
        (self.folder / "says").write_text(saying, encoding="utf-8")

    def works(self) -> None:
        """Let the next builds work again."""
        for name in ("says", "waits", "pid"):
            (self.folder / name).unlink(missing_ok=True)

    def waits(self) -> Path:
        """Let the next build go on without end; gives where it will write its number."""
        (self.folder / "waits").touch()
        return self.folder / "pid"

    @property
    def calls(self) -> list[str]:
        """Which variants mmdebstrap was asked for."""
        file = self.folder / "calls"
        return file.read_text(encoding="utf-8").splitlines() if file.exists() else []


def base_in(folder: Path, **changes: object) -> Image:
    """Something that looks like the default image."""
    folder.mkdir(parents=True)
    for part in PARTS:
        (folder / part).write_text(part, encoding="utf-8")
    about: Mapping[str, object] = {"software": IN_THE_BASE, "has_output": True, "has_network": True, **changes}
    write_description(folder, Description(*PARTS, 128, has_agent=True, contents="Debian", **about))  # type: ignore[arg-type]
    return open_image(folder)


@contextmanager
def with_tools(toolbox: Path, lists: Path) -> Iterator[None]:
    """Have these programs, and these lists of apt's."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", f"{toolbox}:{os.environ['PATH']}")
        patch.setattr(build, "find_repository", lambda: Repository(("deb http://a b c",), (lists,)))
        yield


def build_and_be_killed(_: Connection, toolbox: Path, lists: Path, base: Path, folder: Path) -> None:
    """Build an image, in a process of its own."""
    with with_tools(toolbox, lists):
        build.image_with(open_image(base), frozenset({("bc", "1.07")}), folder)
