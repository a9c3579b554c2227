"""Machines that are built to order, of real packages: what a job needs is in them, what it says is kept.

The first of these builds the base root, which takes half a minute and is kept with the image.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.service.drivers.qemu.killed import KillableSite
from tests.service.drivers.qemu.machines import setup

from leasehold.model.errors import LeaseholdError
from leasehold.service.drivers.facts import BuildsImages, HasNodes, HasOutput, ImageFacts, Output
from leasehold.service.drivers.output import output_of
from leasehold.service.drivers.protocol import Observation, Order, Phase, PlacementConstraints, Problem, Verb
from leasehold.service.drivers.qemu.driver import QemuDriver
from leasehold.service.drivers.qemu.images.build import image_with, read_packages
from leasehold.service.drivers.qemu.images.image import Image, open_image
from leasehold.service.drivers.qemu.images.repository import find_repository
from leasehold.testing.driver_rig import order

pytestmark = pytest.mark.machines

MOST = 1 << 20
COUNT = "n=0; while [ $n -lt 40 ]; do n=$((n + 1)); echo $n; sleep 0.05; done"


@pytest.fixture(scope="module")
def with_bc(image: Path) -> Image:
    """An image with a calculator, built once, beside the default one."""
    if find_repository() is None:
        pytest.skip("apt has no lists of packages here: run `apt-get update` as root")
    try:
        return image_with(open_image(image), read_packages(["bc"]), image.parent)
    except LeaseholdError as error:
        if "cannot be reached" in str(error):
            pytest.skip(str(error))
        raise


@asynccontextmanager
async def opened(place: Path, image: Path, **options: Any) -> AsyncIterator[QemuDriver]:
    """A site whose images are where this one is."""
    driver = QemuDriver(setup(_with_images(place, image), "a", image, **options))
    try:
        async with asyncio.timeout(400):
            yield driver
    finally:
        await driver.close()


def _with_images(place: Path, image: Path) -> Path:
    place.mkdir(exist_ok=True)
    (place / "images").symlink_to(image.parent)
    return place


async def give(site: QemuDriver, *orders: Order) -> None:
    """Give orders until they are taken on, as the service would."""
    while problems := await site.carry_out(orders):
        assert all(problem.again for problem in problems.values()), problems
        await asyncio.sleep(0.05)


def start(image: str, script: str, vms: int = 1, incarnation: int = 1, cores: int = 0) -> Order:
    told = order(Verb.START, 1, incarnation, vms=vms, command=("sh", "-c", script))
    return replace(told, constraints=PlacementConstraints(image=image, cores=cores))


async def until(driver: QemuDriver, phase: Phase, incarnation: int = 1) -> Observation:
    while True:
        for seen in await driver.changes():
            if (seen.phase, seen.incarnation) == (phase, incarnation):
                return seen


def test_a_job_runs_with_the_packages_that_it_needs(place: Path, image: Path, with_bc: Image) -> None:
    """In a machine with as many cores as it has asked for; the next machine is warm."""

    async def play() -> None:
        async with opened(place, image) as site:
            assert isinstance(site, BuildsImages)
            facts = await site.build(read_packages(["bc"]))
            assert (facts.name, "bc" in dict(facts.software)) == (with_bc.name, True)
            warm_before = set(image.parent.glob("warm/*/*.state"))
            script = "echo '6 * 7' | bc; nproc; readlink /proc/$$/exe; echo oops >&2; exit 3"
            assert await site.carry_out([start(facts.name, script, cores=2)]) == {}
            assert (await until(site, Phase.ENDED)).exit_status == 3
            assert await site.output(1) == Output("42\n2\n/usr/bin/dash\n", error="oops\n")
            assert "oops" in await site.console(1)
            warm = set(image.parent.glob("warm/*/*.state"))
            again = start(facts.name, "echo 2 | bc", incarnation=2, cores=2)
            await give(site, order(Verb.STOP), again)
            assert (await until(site, Phase.ENDED, 2)).exit_status == 0
            assert await site.output(1) == Output("2\n"), "it has started from the beginning"
            assert set(image.parent.glob("warm/*/*.state")) == warm
            assert warm >= warm_before

    asyncio.run(play())


def test_what_a_command_writes_survives_being_suspended_and_the_death_of_its_driver(place: Path, image: Path) -> None:
    """Each word of it is there once."""
    place.mkdir()
    site = KillableSite(place, "a", image)
    try:
        site.tell(order(Verb.START, 1, command=("sh", "-c", COUNT)))
        site.until_is(Phase.RUNNING, 1)
        site.tell(order(Verb.SUSPEND, 1))
        site.until_is(Phase.SAVED, 1)
        site.kill()
        site.begin()
        site.tell(order(Verb.RESUME, 1, 2))
        site.until_is(Phase.RUNNING, 2)
        site.kill()
        site.begin()
        site.until_is(Phase.ENDED, 2)
        seen = site.seen()
        assert seen is not None
        assert seen.exit_status == 0
        site.tell(order(Verb.STOP, 1, 2))
        site.until(lambda seen: seen is None)
        assert output_of(site.folder, 1, MOST) == Output("".join(f"{number}\n" for number in range(1, 41)))
    finally:
        site.kill()


def test_what_a_job_has_left_running_keeps_it_from_no_end(place: Path, image: Path) -> None:
    async def play() -> None:
        async with opened(place, image) as site:
            await site.carry_out([start("", "sleep 600 & echo done; missing", vms=2)])
            ended = await until(site, Phase.ENDED)
            assert (ended.exit_status, ended.fault) == (127, "software-gone")
            text = (await site.output(1)).text
            assert (text.count("done\n"), text.count("--- machine")) == (2, 2)

    asyncio.run(play())


def test_an_image_that_is_not_there_is_a_problem_at_once(place: Path, image: Path) -> None:
    async def play() -> None:
        async with opened(place, image) as site:
            told = start("numpy-0", "true")
            problem = (await site.carry_out([told]))[told.id]
            assert isinstance(problem, Problem)
            assert ("'numpy-0'" in problem.text, problem.again) == (True, False)
            names = [one.name for one in await site.images()]
            assert image.name in names

    asyncio.run(play())


def test_what_a_machine_holds_its_host_has_not(place: Path, image: Path) -> None:
    async def play() -> None:
        async with opened(place, image, slots=1) as site:
            assert isinstance(site, HasNodes)
            assert isinstance(site, HasOutput)
            [before] = await site.nodes()
            assert (before.is_host, before.runs, before.problem) == (True, False, "")
            await site.carry_out([order(Verb.START)])
            [during] = await site.nodes()
            assert (during.free_cores, during.free_memory_mib) == (0, 0), "there is no slot left"
            assert during.name == before.name

    asyncio.run(play())


def test_a_package_that_nobody_has_heard_of(place: Path, image: Path, with_bc: Image) -> None:
    async def play() -> ImageFacts:
        async with opened(place, image) as site:
            buildable = await site.buildable()
            assert buildable is not None
            assert dict(buildable.packages)["bc"] == dict(with_bc.description.software)["bc"]
            return await site.build(frozenset({("no-such-package-at-all", "")}))

    with pytest.raises(LeaseholdError, match=r"there is no package no-such-package-at-all in Debian"):
        asyncio.run(play())
