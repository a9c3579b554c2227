"""The images of all sites: which are there, and which are being built.

Sites have images of their own, and the job scheduler knows one catalogue: images of the same name are the
same image. The scheduler gets it once every site that has images was heard, or does not answer.
An image is built at each site that has the base for it; the first to be done serves at once, and it has
failed when all have.
"""

from collections.abc import Collection, Iterable
from dataclasses import replace

from leasehold.jobs.effects import BuildImage
from leasehold.jobs.events import ImageBuilt, ImageFailed, ImagesSeen, JobEvent
from leasehold.matching.images import Image
from leasehold.matching.needs import Amounts
from leasehold.matching.software import Installed
from leasehold.service.commands import JobImageBuilt, JobImageFailed, JobImagesSeen
from leasehold.service.drivers.facts import Buildable, ImageFacts
from leasehold.service.engine.tasks import BackgroundTasks, Build
from leasehold.service.engine.unit_of_work import UnitOfWork
from leasehold.service.messages.about_jobs import ImagesTold
from leasehold.service.store.rows import IMAGES, ImageRow

Packages = tuple[tuple[str, str], ...]

THERE, BUILDING, FAILED = "there", "building", "failed"
NOWHERE = "no site can build it now"
_MIB = 1 << 20


class ImageRepository:
    """Takes in what is seen of images, and has them built by background tasks."""

    def __init__(
        self, rows: Collection[ImageRow], unit: UnitOfWork, tasks: BackgroundTasks, awaited: Iterable[str]
    ) -> None:
        """Begin with those in the store; what was being built is built again. ``awaited`` have images."""
        self.rows: dict[tuple[str, str], ImageRow] = {(row.name, row.site): row for row in rows}
        self._unit = unit
        self._tasks = tasks
        tasks.builds += [Build(row.name, row.site, row.packages) for row in rows if row.state == BUILDING]
        self._awaited = set(awaited)
        self._buildable: dict[str, Buildable] = {}
        self._packages: dict[str, Packages] = {}

    # What is seen

    def see(self, command: JobImagesSeen, now_ms: int) -> list[JobEvent]:
        """Take in all images of a site."""
        there = {facts.name for facts in command.images}
        for facts in command.images:
            self._keep(_row(facts, command.site, self.rows.get((facts.name, command.site)), now_ms))
        for name, site in [key for key, row in self.rows.items() if row.state == THERE]:
            if site == command.site and name not in there:
                self._drop(name, site)
        self._see_buildable(command.site, command.buildable)
        return self.heard(command.site)

    def hear(self, site: str, told: ImagesTold, now_ms: int) -> list[JobEvent]:
        """Take in what the manager of a site tells: images that are new or changed, and the names of all."""
        for image in told.images:
            facts = ImageFacts(**dict(image) | {"software": frozenset(image.software)})
            self._keep(_row(facts, site, self.rows.get((facts.name, site)), now_ms))
        for name, where in list(self.rows):
            if where == site and name not in told.names:
                self._drop(name, site)
        return self.heard(site)

    def forget(self, site: str) -> list[JobEvent]:
        """Forget the images of a site that will not come back."""
        names = [name for name, where in self.rows if where == site]
        for name in names:
            self._drop(name, site)
        return self.heard(site) if names else []

    def _see_buildable(self, site: str, found: Buildable | None) -> None:
        """Note what a site could build: tens of thousands of packages, mostly the same as a moment ago."""
        if found is None:
            self._buildable.pop(site, None)
        elif found != self._buildable.get(site):
            self._buildable[site] = found
            self._packages[site] = tuple(sorted(found.packages))

    def heard(self, site: str) -> list[JobEvent]:
        """Stop waiting for the images of a site: they were reported, or will not be for some time."""
        self._awaited.discard(site)
        return [] if self._awaited else [self._catalogue()]

    def is_at(self, image: str, site: str) -> bool:
        """Whether machines of a site can have this image."""
        row = self.rows.get((image, site))
        return row is not None and row.state == THERE

    # What is built

    def build(self, effect: BuildImage, now_ms: int) -> list[JobEvent]:
        """Have an image built wherever its base is; where that is nowhere, it has failed."""
        base, packages = effect.recipe.base.name, effect.recipe.packages
        sites = sorted(site for site, from_ in self._buildable.items() if from_.base == base)
        for site in sites:
            self._begin(Build(effect.key, site, packages), now_ms)
        return [] if sites else [ImageFailed(effect.key, NOWHERE, again=True)]

    def build_at(self, image: str, site: str, now_ms: int) -> None:
        """Have an image that another site has built at this one too, where that can be."""
        kept = (row.packages for (name, _), row in self.rows.items() if name == image)
        packages = next((packages for packages in kept if packages), frozenset())
        if packages and site in self._buildable and (image, site) not in self.rows:
            self._begin(Build(image, site, packages), now_ms)

    def built(self, command: JobImageBuilt, now_ms: int) -> list[JobEvent]:
        """Put an image into the catalogue."""
        packages = self._over(command.key, command.site)
        row = _row(command.image, command.site, None, now_ms)
        self._keep(replace(row, packages=packages or row.packages))
        return [ImageBuilt(command.key, self._image(command.image.name)), *self.heard(command.site)]

    def failed(self, command: JobImageFailed, now_ms: int) -> list[JobEvent]:
        """Note that a site could not build an image; the waiting jobs fail once no site can."""
        row = self.rows.get((command.key, command.site))
        if row is not None:
            self._keep(replace(row, state=FAILED, problem=command.why, since_ms=now_ms))
        if any(name == command.key and row.state == BUILDING for (name, _), row in self.rows.items()):
            return []
        return [ImageFailed(command.key, command.why, command.again)]

    def _begin(self, build: Build, now_ms: int) -> None:
        self._tasks.builds.append(build)
        self._keep(
            ImageRow(
                name=build.key,
                site=build.site,
                software=frozenset(),
                packages=build.packages,
                size_bytes=0,
                least_memory_mib=0,
                state=BUILDING,
                problem="",
                since_ms=now_ms,
                seen_ms=now_ms,
            )
        )

    def _over(self, key: str, site: str) -> Installed:
        """End a build; what was built."""
        row = self.rows.get((key, site))
        if row is None or row.state == THERE:
            return frozenset()
        self._drop(key, site)
        return row.packages

    # How

    def _keep(self, row: ImageRow) -> None:
        key = (row.name, row.site)
        before = self.rows.get(key)
        if before is None or before != replace(row, seen_ms=before.seen_ms):
            self._unit.put(IMAGES, row)
        self.rows[key] = row

    def _drop(self, name: str, site: str) -> None:
        del self.rows[name, site]
        self._unit.remove(IMAGES, name=name, site=site)

    def _catalogue(self) -> ImagesSeen:
        names = sorted({name for (name, _), row in self.rows.items() if row.state == THERE})
        images = tuple(self._image(name) for name in names)
        site = min(self._buildable, default=None)
        if site is None:
            return ImagesSeen(images)
        from_ = self._buildable[site]
        base = next((image for image in images if image.name == from_.base), None)
        return ImagesSeen(images, base, self._packages[site])

    def _image(self, name: str) -> Image:
        there = [row for (called, _), row in self.rows.items() if called == name and row.state == THERE]
        row = there[0]
        needs = Amounts(memory_mib=row.least_memory_mib, disk_mib=-(-row.size_bytes // _MIB))
        sites = frozenset(one.site for one in there)
        return Image(name, row.software, row.size_bytes, needs, sites)


def _row(facts: ImageFacts, site: str, before: ImageRow | None, now_ms: int) -> ImageRow:
    is_known = before is not None and before.state == THERE
    return ImageRow(
        name=facts.name,
        site=site,
        software=facts.software,
        packages=before.packages if before is not None else frozenset(),
        size_bytes=facts.size_bytes,
        least_memory_mib=facts.least_memory_mib,
        state=THERE,
        problem="",
        since_ms=before.since_ms if before is not None and is_known else now_ms,
        seen_ms=now_ms,
    )
