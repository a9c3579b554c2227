"""The images of a site: which there are, what others could be built with, and building them."""

import asyncio
from pathlib import Path

from leasehold.model.errors import InputError
from leasehold.service.drivers.facts import Buildable, ImageFacts
from leasehold.service.drivers.qemu.images.catalogue import Catalogue, facts_of
from leasehold.service.drivers.qemu.images.image import Image
from leasehold.service.drivers.qemu.images.repository import Stamp, find_repository
from leasehold.service.drivers.qemu.images.to_order import Packages, image_with, why_not
from leasehold.service.drivers.qemu.images.tools import missing_packages
from leasehold.service.drivers.qemu.images.workbench import Workbench


class Workshop:
    """Images are asked for here while machines run; whoever stops waiting for one calls it off."""

    def __init__(self, catalogue: Catalogue) -> None:
        self._catalogue = catalogue
        self._known: tuple[Stamp, Packages] = ((), frozenset())

    async def images(self) -> list[ImageFacts]:
        """List the images that machines can boot from."""
        return await asyncio.to_thread(lambda: list(map(facts_of, self._catalogue.images())))

    async def buildable(self) -> Buildable | None:
        """Say what could be built now; None where nothing can be."""
        return await asyncio.to_thread(self._buildable)

    def _buildable(self) -> Buildable | None:
        try:
            base = self._catalogue.usual()
        except InputError:
            return None
        repository = find_repository()
        if repository is None or why_not(base, repository) or missing_packages():
            return None
        if repository.stamp != self._known[0]:
            self._known = repository.stamp, frozenset(repository.candidates().items())
        return Buildable(base.name, self._known[1])

    async def build(self, packages: Packages) -> ImageFacts:
        """Build an image with these packages, or find it; raises CannotBuild or InputError."""
        benches = _Benches()
        task = asyncio.ensure_future(asyncio.to_thread(self._build, packages, benches))
        try:
            return facts_of(await asyncio.shield(task))
        except asyncio.CancelledError:
            benches.call_off()
            await asyncio.wait([task])
            raise

    def _build(self, packages: Packages, benches: "_Benches") -> Image:
        return image_with(self._catalogue.usual(), packages, self._catalogue.folder, benches.open)


class _Benches:
    """Where an image is being built, to be called off from another thread."""

    def __init__(self) -> None:
        self._open: list[Workbench] = []
        self._is_called_off = False

    def open(self, folder: Path, log: Path) -> Workbench:
        """Give a place to work at."""
        bench = Workbench(folder, log)
        self._open.append(bench)
        if self._is_called_off:
            bench.call_off()
        return bench

    def call_off(self) -> None:
        """Let nothing go on."""
        self._is_called_off = True
        for bench in self._open:
            bench.call_off()
