"""Images of emulated sites: what they are built from, that they stay, and that machines boot from them."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.service.drivers.sites import Clock, setup

from leasehold.configuration.tables import check_image_name
from leasehold.model.errors import InvalidField, LeaseholdError, UnknownName
from leasehold.service.drivers.emulated.driver import EmulatedBuilder, emulated_driver
from leasehold.service.drivers.emulated.images import ImageBuilding, ImageCatalogue
from leasehold.service.drivers.emulated.options import OPTIONS, read_options
from leasehold.service.drivers.facts import Buildable, BuildsImages, HasImages
from leasehold.service.drivers.protocol import Order, PlacementConstraints, Problem, Verb
from leasehold.testing.driver_rig import MEMORY_MIB

GROMACS, BLAST = ("gromacs", "2024.1"), ("blast", "2.14")
PYTHON = ("python3", "3.11")
BUILDING = ImageBuilding("debian", frozenset({PYTHON}), frozenset({GROMACS, BLAST}), build_ms=0)
WITH_GROMACS = "debian+gromacs-a59cfca42e7d"
OPTIONS_OF_IT: dict[str, Any] = {
    "nodes": [{"name": "h1", "host": True}],
    "building": {
        "image": "debian",
        "software": ["python3 3.11"],
        "packages": ["gromacs 2024.1", "blast 2.14"],
        "build_s": 0,
    },
}


def with_site(folder: Path, do: Callable[[EmulatedBuilder], Awaitable[None]]) -> None:
    """Do something with a site that builds images, and close it."""

    async def play() -> None:
        site = emulated_driver(setup(folder, Clock(), **OPTIONS_OF_IT))
        assert isinstance(site, EmulatedBuilder)
        try:
            await do(site)
        finally:
            await site.close()

    asyncio.run(play())


def boot(lease_id: int, image: str) -> Order:
    constraints = PlacementConstraints(("h1",), image=image)
    return Order(f"{lease_id}.1.start", Verb.START, lease_id, 1, 1, MEMORY_MIB, constraints=constraints)


def test_a_site_says_what_it_builds_images_from() -> None:
    options = read_options(OPTIONS_OF_IT)
    assert options.building == BUILDING
    assert options.nodes[0].is_host
    assert read_options(OPTIONS.to_dict(options)) == options
    assert read_options({"building": {}}).building == ImageBuilding()


@pytest.mark.parametrize(
    ("building", "error", "named"),
    [
        pytest.param({"image": "a b"}, InvalidField, "building.image: got 'a b'", id="image"),
        pytest.param({"package": []}, UnknownName, "package", id="key"),
        pytest.param({"packages": ["gromacs latest"]}, InvalidField, "building.packages: got 'latest'", id="version"),
        pytest.param({"build_s": -1}, InvalidField, "building.build_s: got -1", id="time"),
    ],
)
def test_bad_input_is_named(building: dict[str, object], error: type[Exception], named: str) -> None:
    with pytest.raises(error, match=named):
        read_options({"building": building})


def test_a_site_that_says_nothing_of_images_has_none(tmp_path: Path) -> None:
    site = emulated_driver(setup(tmp_path, Clock()))
    assert not isinstance(site, HasImages)
    asyncio.run(site.close())


@pytest.mark.example
def test_machines_boot_from_what_was_built_also_after_a_restart(tmp_path: Path) -> None:
    async def build(site: EmulatedBuilder) -> None:
        assert isinstance(site, BuildsImages)
        [host] = await site.nodes()
        assert host.is_host
        assert not host.runs
        assert await site.buildable() == Buildable("debian", frozenset({GROMACS, BLAST}))
        assert [image.name for image in await site.images()] == ["debian"]
        image = await site.build(frozenset({GROMACS}))
        assert (image.name, image.software) == (WITH_GROMACS, frozenset({PYTHON, GROMACS}))
        assert await site.carry_out([boot(1, image.name), boot(2, "debian")]) == {}

    async def look(site: EmulatedBuilder) -> None:
        assert [image.name for image in await site.images()] == ["debian", WITH_GROMACS]
        assert await site.carry_out([boot(3, WITH_GROMACS)]) == {}
        refused = await site.carry_out([boot(4, "debian+blast")])
        assert refused == {"4.1.start": Problem("there is no image debian+blast here", again=False)}

    with_site(tmp_path, build)
    with_site(tmp_path, look)


def test_a_package_that_there_is_not_is_named(tmp_path: Path) -> None:
    async def build(site: EmulatedBuilder) -> None:
        with pytest.raises(LeaseholdError, match=r"^there is no package gromacs 2023 to build an image with$"):
            await site.build(frozenset({("gromacs", "2023"), BLAST}))
        assert [image.name for image in await site.images()] == ["debian"]

    with_site(tmp_path, build)


def test_while_the_line_is_cut_nothing_is_said_of_images(tmp_path: Path) -> None:
    async def ask(site: EmulatedBuilder) -> None:
        site.faults = read_options({"no_answer": 1.0}).faults
        for asked in (site.images(), site.buildable(), site.build(frozenset({BLAST}))):
            with pytest.raises(ConnectionError):
                await asked

    with_site(tmp_path, ask)


def test_without_packages_nothing_can_be_built() -> None:
    assert ImageCatalogue(ImageBuilding()).buildable() is None


def test_an_image_of_many_packages_has_a_name_that_a_lease_can_name() -> None:
    packages = [(f"package with a long name {number}", "1") for number in range(100)]
    catalogue = ImageCatalogue(ImageBuilding("d" * 64, packages=frozenset(packages)))
    names = {catalogue.build(frozenset(packages[:count])).name for count in range(1, 101)}
    assert len(names) == 100
    assert all(check_image_name("image", name) == name for name in names)


PACKAGES = [("a", "1"), ("a", "2"), ("a-1", ""), ("b", ""), ("c", "1:9.4-2"), PYTHON]
WANTED = st.lists(st.frozensets(st.sampled_from(PACKAGES)), max_size=6)


@given(WANTED)
def test_each_image_is_there_once_with_what_was_wanted_whatever_the_order(
    wanted: list[frozenset[tuple[str, str]]],
) -> None:
    building = ImageBuilding("debian", frozenset({PYTHON}), frozenset(PACKAGES))
    catalogue = ImageCatalogue(building)
    for packages in wanted:
        assert catalogue.build(packages).software == packages | {PYTHON}
        assert not catalogue.lacks(packages)
    again = ImageCatalogue(building, catalogue.to_text())
    assert {image.software for image in again.images()} == {frozenset({PYTHON}), *(one | {PYTHON} for one in wanted)}
    assert again.images() == catalogue.images()
