"""Builds images at one site, one at a time: each takes a processor and a network for minutes."""

import asyncio

from leasehold.model.errors import LeaseholdError
from leasehold.service.commands import Command, JobImageBuilt, JobImageFailed
from leasehold.service.drivers.facts import BuildsImages
from leasehold.service.drivers.protocol import Driver
from leasehold.service.engine.imagebook import Build
from leasehold.service.finding.asking import Asking, Do

NOT_KEPT = "it is built, and what there is to know of it cannot be kept"


class Building:
    """Builds at one site."""

    def __init__(self, site: str, driver: Driver, do: Do) -> None:
        self._site = site
        self._driver = driver
        self._asking = Asking(site, do)
        self._turn = asyncio.Lock()

    async def build(self, build: Build) -> None:
        """Build an image, and tell the engine what came of it."""
        async with self._turn:
            command = await self._build(build)
        await self._asking.tell_until_heard(command, JobImageFailed(build.key, self._site, NOT_KEPT))

    async def _build(self, build: Build) -> Command:
        if not isinstance(self._driver, BuildsImages):
            return JobImageFailed(build.key, self._site, f"{self._site} builds no images any more")
        try:
            image = await self._driver.build(build.packages)
        except LeaseholdError as error:
            return JobImageFailed(build.key, self._site, str(error))
        except Exception as error:  # noqa: BLE001 - a driver may fail in any way, and the others go on
            return JobImageFailed(build.key, self._site, f"{type(error).__name__}: {error}", again=True)
        return JobImageBuilt(build.key, self._site, image)
