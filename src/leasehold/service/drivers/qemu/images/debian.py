"""How packages of Debian come into a root: mmdebstrap puts them there, and needs no more than apt does."""

import shlex
from collections.abc import Iterable, Sequence
from pathlib import Path

from leasehold.service.drivers.qemu.images.repository import SUITE, Repository
from leasehold.service.drivers.qemu.images.workbench import Workbench


def bootstrap(
    bench: Workbench,
    repository: Repository | None,
    variant: str,
    packages: Iterable[str],
    tar: Path,
    *more: str,
) -> None:
    """Make a tar of a root with these packages, as one of the variants that mmdebstrap knows."""
    bench.run(
        "mmdebstrap",
        f"--variant={variant}",
        f"--include={','.join(packages)}",
        "--dpkgopt=force-unsafe-io",  # what a crash leaves is thrown away
        *more,
        *_lists_of(repository),
        "--format=tar",
        SUITE,
        tar,
        *(repository.sources if repository else ()),
    )


def _lists_of(repository: Repository | None) -> Sequence[str]:
    """Let what apt knows here be what is known there; nothing has to be fetched but packages."""
    if repository is None:
        return ()
    lists = shlex.join(str(path) for path in repository.files())
    place = 'mkdir -p "$1"/var/lib/apt/lists'
    return ("--skip=update", "--setup-hook", place, "--setup-hook", f"copy-in {lists} /var/lib/apt/lists")
