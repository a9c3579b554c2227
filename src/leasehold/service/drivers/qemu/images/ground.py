"""What images are built on: a small but whole Debian, in which packages are installed as they should be.

Their own scripts are run then, as many packages are of no use without (numpy finds no libblas). The ground is
made by the first that needs it, and kept as a tar until the usual image is built anew.
"""

import shlex
from collections.abc import Iterable
from hashlib import sha256
from pathlib import Path

from leasehold.service.drivers.qemu.images.debian import bootstrap
from leasehold.service.drivers.qemu.images.repository import Repository
from leasehold.service.drivers.qemu.images.root import PACKAGES
from leasehold.service.drivers.qemu.images.workbench import Workbench

GROUNDS = "grounds"
"""The folder beside the images where they are."""

_MESSAGES = 12
_FOR_READERS = ("doc", "doc-base", "groff", "info", "lintian", "linda", "locale", "man", "bug")
_NOT_FOR_READERS = tuple(f"--dpkgopt=path-exclude=/usr/share/{folder}/*" for folder in _FOR_READERS)
_NO_SOURCES = 'rm -rf "$1"/etc/apt/sources.list "$1"/etc/apt/sources.list.d/*'


def add_packages(bench: Workbench, repository: Repository, packages: Iterable[str], images: Path) -> Path:
    """Put a tar of the ground with more packages into the folder, each given as ``name=version``."""
    tar = bench.folder / "root.tar"
    lay_ground = f"tar-in {shlex.quote(str(_ground(bench, repository, images)))} /"
    more = (*_NOT_FOR_READERS, "--setup-hook", lay_ground)
    bootstrap(bench, repository, "custom", packages, tar, *more)
    return tar


def _ground(bench: Workbench, repository: Repository, images: Path) -> Path:
    """Find the ground, or make it; whoever builds here does so alone."""
    told = "\n".join((*repository.sources, *PACKAGES))
    ground = images / GROUNDS / f"{sha256(told.encode()).hexdigest()[:_MESSAGES]}.tar"
    if not ground.exists():
        partial = bench.folder / "ground.tar"
        more = (*_NOT_FOR_READERS, "--customize-hook", _NO_SOURCES)
        bootstrap(bench, repository, "essential", PACKAGES, partial, *more)
        ground.parent.mkdir(exist_ok=True)
        partial.rename(ground)
    return ground
