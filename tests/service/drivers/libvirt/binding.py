"""libvirt-python, for the tests alone: built once against this machine's own library, beside our packages.

It comes as source, and needs libvirt's headers and a compiler; so it is in no lock, and `make test` builds it
here, in some ten seconds the first time. Where it cannot be built, nobody but root could have helped.
"""

import fcntl
import shutil
import subprocess
import sys
from functools import partial
from pathlib import Path

from leasehold.testing.debian import find_or_install

_HEADERS = Path("/usr/include/libvirt/libvirt.h")
_BUILD_S = 600


def libvirt_python() -> Path:
    """The folder to put on the path; ProgramMissing where what it is built from is not there."""
    find_or_install(lambda: _HEADERS if _HEADERS.exists() else None, "libvirt's headers", "libvirt-dev")
    for program in ("gcc", "pkg-config"):
        find_or_install(partial(_which, program), program, program)
    folder = Path(sys.prefix) / f"libvirt-python-{_version()}-{sys.implementation.cache_tag}"
    with folder.with_suffix(".lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "libvirt.py").exists():
            _build(folder)
    return folder


def _which(program: str) -> Path | None:
    found = shutil.which(program)
    return None if found is None else Path(found)


def _version() -> str:
    return _run("pkg-config", "--modversion", "libvirt").strip()


def _build(folder: Path) -> None:
    partial = folder.with_suffix(".partial")
    shutil.rmtree(partial, ignore_errors=True)
    wanted = f"libvirt-python=={_version()}"
    _run(sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(partial), wanted)
    partial.rename(folder)


def _run(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_BUILD_S)
    assert done.returncode == 0, f"{' '.join(command)}: {done.stderr}"
    return done.stdout
