"""An image with the packages that somebody needs: the same ones at the same versions are the same image."""

import json
import os
import re
import shutil
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

from leasehold.service.drivers.qemu.images.build import LOGS
from leasehold.service.drivers.qemu.images.ground import add_packages
from leasehold.service.drivers.qemu.images.image import DESCRIPTION, Image, open_image, write_description
from leasehold.service.drivers.qemu.images.making import in_the_making, name_it, one_at_a_time
from leasehold.service.drivers.qemu.images.repository import SUITE, Repository, find_repository
from leasehold.service.drivers.qemu.images.root import guest_files, make_disk
from leasehold.service.drivers.qemu.images.tools import CannotBuild, need_all_tools
from leasehold.service.drivers.qemu.images.workbench import Workbench

Packages = frozenset[tuple[str, str]]
"""Names with versions; an empty version is whichever would be installed now."""

OpenBench = Callable[[Path, Path], Workbench]
"""Makes a place to work at, of its folder and its log."""

_RECIPE = 1
"""Counted up whenever images of the same packages become different ones."""

_NO_LISTS = f"apt has no lists of the packages of Debian {SUITE} here: run `apt-get update` as root"
_NAME = re.compile(r"[a-z0-9][a-z0-9.+-]+")
_VERSION = re.compile(r"[A-Za-z0-9][A-Za-z0-9.+:~-]*")
_MESSAGES = 12
_LONGEST_NAME = 40
_OF_THE_BASE = ("kernel", "initrd")


def image_with(base: Image, packages: Packages, folder: Path, open_bench: OpenBench = Workbench) -> Image:
    """Give an image that has these packages besides what its base has; built in that folder, if need be.

    Whoever else builds there at the same time is waited for. Raises CannotBuild.
    """
    if packages <= set(base.description.software):
        return base
    wanted = exactly(packages)
    image = folder / name_of(base, wanted)
    if not (image / DESCRIPTION).exists():
        with one_at_a_time(folder):
            if not (image / DESCRIPTION).exists():
                _build(base, wanted, image, open_bench)
    return open_image(image)


def read_packages(texts: Iterable[str]) -> Packages:
    """Read packages as somebody writes them, ``NAME`` or ``NAME=VERSION``."""
    return frozenset((name.lower(), version) for name, _, version in (text.partition("=") for text in texts))


def exactly(packages: Packages) -> dict[str, str]:
    """Say which version each package is to have; raises CannotBuild for one that is not to be had."""
    told = dict(sorted(packages))
    for name, version in told.items():
        if not _NAME.fullmatch(name) or (version and not _VERSION.fullmatch(version)):
            raise CannotBuild(f"{name!r} {version!r} is no name of a package with its version")
    if all(told.values()):
        return told
    repository = find_repository()
    if repository is None:
        raise CannotBuild(_NO_LISTS)
    known = repository.candidates()
    missing = [name for name, version in told.items() if not version and name not in known]
    if missing:
        raise CannotBuild(f"there is no package {missing[0]} in Debian {SUITE}, as apt knows it here")
    return {name: version or known[name] for name, version in told.items()}


def name_of(base: Image, packages: Mapping[str, str]) -> str:
    """Name an image by what it is made of; its beginning is for people."""
    told = json.dumps([_RECIPE, base.name, packages], sort_keys=True).encode()
    digest = sha256(told + guest_files()).hexdigest()[:_MESSAGES]
    return f"{'-'.join(sorted(packages))[:_LONGEST_NAME]}-{digest}"


def why_not(base: Image, repository: Repository | None) -> str:
    """Say why nothing can be built on an image from there; "" where it can."""
    if not base.description.has_output:
        return f"nothing can be built on the image {base.name}: leasehold image build --anew"
    return "" if repository else _NO_LISTS


def _build(base: Image, packages: Mapping[str, str], image: Path, open_bench: OpenBench) -> None:
    need_all_tools()
    repository = find_repository()
    problem = why_not(base, repository)
    if repository is None or problem:
        raise CannotBuild(problem)
    log = image.with_name(LOGS) / f"{image.name}.log"
    log.unlink(missing_ok=True)
    with in_the_making(image.parent) as partial:
        bench = open_bench(partial, log)
        told = [f"{name}={version}" for name, version in packages.items()]
        software = make_disk(bench, add_packages(bench, repository, told, image.parent))
        (partial / "busybox").unlink()
        for part in _OF_THE_BASE:
            _have_too(base.folder / getattr(base.description, part), partial)
        contents = f"{base.description.contents}; {', '.join(packages)}"
        write_description(partial, replace(base.description, software=software, contents=contents))
        name_it(partial, image)


def _have_too(part: Path, folder: Path) -> None:
    """Let a file of another image be in this one as well."""
    try:
        os.link(part, folder / part.name)
    except OSError:  # on another disk
        shutil.copy2(part, folder / part.name)
