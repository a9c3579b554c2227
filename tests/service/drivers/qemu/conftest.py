"""The image from which the machines of these tests boot: built once, and kept in pytest's cache."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from tests import needing
from tests.service.drivers.qemu.machines import cleared

from leasehold.service.drivers.qemu.images.build import build_image
from leasehold.service.drivers.qemu.images.toolchain import PACKAGES, find_tool
from leasehold.testing.debian import find_or_install


@pytest.fixture(scope="session")
def image(request: pytest.FixtureRequest) -> Path:
    """The folder of the image, after installing what is missing, if we may."""
    cache = request.config.cache
    assert cache is not None, "without pytest's cache the image would be rebuilt each time"
    need_programs()
    place = cache.mkdir("qemu-image") / "debian"
    built = build_image(place, print)
    if not built.description.has_network:  # an earlier Leasehold has built it
        built = build_image(place, print, rebuild=True)
    return built.folder


def need_programs() -> None:
    """Find what builds and runs machines."""
    with needing.programs():
        for program, package in PACKAGES.items():
            find_or_install(partial(_found, program), program, package)


def _found(program: str) -> Path | None:
    found = find_tool(program)
    return None if found is None else Path(found)


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Path]:
    """A folder for sites, of which no machine is left afterwards."""
    with cleared(tmp_path / "site") as folder:
        yield folder
