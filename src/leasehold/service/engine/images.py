"""The images of all sites: which are there, and which are being built.

Sites have images of their own, and the job scheduler knows one catalogue: images of the same name are the
same image. The scheduler gets it once every site that has images was heard, or does not answer.
An image is built at each site that can; the first to be done serves at once, and it has failed when all have.
Sites with managers of their own are asked by messages (`leasehold.service.engine.remote_jobs`): what is noted of
their builds here, and what becomes of it, is the same as of others.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, replace

import structlog

from leasehold.jobs.effects import BuildImage
from leasehold.jobs.events import ImageBuilt, ImageFailed, ImagesSeen, JobEvent
from leasehold.jobs.state import build_key
from leasehold.matching.images import Image
from leasehold.matching.needs import Amounts
from leasehold.matching.software import Installed
from leasehold.service.commands import JobImageBuilt, JobImageFailed, JobImagesSeen
from leasehold.service.drivers.bounds import one_line
from leasehold.service.drivers.facts import Buildable, ImageFacts
from leasehold.service.engine.buildable import BuildableRepository, why_not
from leasehold.service.engine.tasks import BackgroundTasks, Build
from leasehold.service.engine.unit_of_work import UnitOfWork
from leasehold.service.messages.about_jobs import BuildableTold, BuildTold, BuildWanted, ImagesTold, ImageTold
from leasehold.service.store.rows import IMAGES, ImageRow

THERE, BUILDING, FAILED = "there", "building", "failed"
NOWHERE = "no site can build it now"
NOTHING_BUILT = "no images can be built here now"

MOST_ORDERED = 20
"""So many images may be waited for by the gateway of a site at once."""

MOST_FAILED = 100
"""So many images that could not be built are remembered; then the oldest is forgotten."""

_MIB = 1 << 20
_log = structlog.get_logger("leasehold.images")


@dataclass(frozen=True, slots=True)
class BuildAnswer:
    """What has become of an image for which the gateway of this site waits under ``key``; with ``why`` nothing."""

    key: str
    image: ImageFacts | None
    why: str = ""
    again: bool = False


class ImageRepository:
    """Takes in what is seen of images, and has them built by background tasks.

    ``buildable``  what can be built where
    ``answers``    what is to be said to the gateway of this site, where it has one, of images that it waits for
    """

    def __init__(
        self,
        rows: Collection[ImageRow],
        unit: UnitOfWork,
        tasks: BackgroundTasks,
        awaited: Iterable[str],
        buildable: BuildableRepository,
        is_lost: Callable[[str], bool],
    ) -> None:
        """Begin with those in the store; what was being built is built again.

        ``awaited`` have images; ``is_lost`` says of a site with a manager of its own whether that is silent.
        """
        self.rows: dict[tuple[str, str], ImageRow] = {(row.name, row.site): row for row in rows}
        self.buildable = buildable
        self.answers: list[BuildAnswer] = []
        self._unit = unit
        self._tasks = tasks
        tasks.builds += [Build(row.name, row.site, row.packages) for row in rows if row.state == BUILDING]
        self._own = frozenset(awaited)
        self._awaited = set(self._own)
        self._is_lost = is_lost

    # What is seen

    def recall(self) -> list[JobEvent]:
        """Tell again after a restart what is known, where no site is asked for it."""
        return [] if self._awaited or not self.rows else [self._catalogue()]

    def see(self, command: JobImagesSeen, now_ms: int) -> list[JobEvent]:
        """Take in all images of a site."""
        self._see(command.images, command.site, {facts.name for facts in command.images}, now_ms)
        self.buildable.see(command.site, command.buildable)
        return self.heard(command.site)

    def hear(self, site: str, told: ImagesTold, now_ms: int) -> list[JobEvent]:
        """Take in what the manager of a site tells: images that are new or changed, and the names of all."""
        self._see(map(_facts_told, told.images), site, set(told.names), now_ms)
        return self.heard(site)

    def _see(self, images: Iterable[ImageFacts], site: str, names: Collection[str], now_ms: int) -> None:
        """Keep what is there; of what is being built under that name the builder has the last word."""
        for facts in images:
            before = self.rows.get((facts.name, site))
            if before is None or before.state != BUILDING:
                self._keep(_row(facts, site, before, now_ms))
        for name, where in [key for key, row in self.rows.items() if row.state == THERE]:
            if where == site and name not in names:
                self._drop(name, site)

    def hear_buildable(self, site: str, told: BuildableTold) -> list[JobEvent]:
        """Take in what the manager of a site tells of what can be built there."""
        return self.heard(site) if self.buildable.hear(site, told) else []

    def forget(self, site: str) -> list[JobEvent]:
        """Forget the images of a site that will not come back; what was being built there is built nowhere else."""
        self.buildable.forget(site)
        rows = [row for (_, where), row in self.rows.items() if where == site]
        for row in rows:
            self._drop(row.name, site)
        lost = [row.name for row in rows if row.state == BUILDING and not self._is_being_built(row.name)]
        return [*(ImageFailed(key, NOWHERE, again=True) for key in lost), *(self.heard(site) if rows else [])]

    def heard(self, site: str) -> list[JobEvent]:
        """Stop waiting for the images of a site: they were reported, or will not be for some time."""
        self._awaited.discard(site)
        return [] if self._awaited else [self._catalogue()]

    def lose(self, site: str, why: str, now_ms: int) -> list[JobEvent]:
        """A site does not answer: what a manager was building there has failed, unless it is heard later."""
        if site in self._own:
            return []
        keys = [name for (name, where), row in self.rows.items() if where == site and row.state == BUILDING]
        problem = f"{site} does not answer: {why}"
        return [event for key in keys for event in self.failed(JobImageFailed(key, site, problem, again=True), now_ms)]

    def is_at(self, image: str, site: str) -> bool:
        """Whether machines of a site can have this image."""
        row = self.rows.get((image, site))
        return row is not None and row.state == THERE

    def buildable_here(self) -> tuple[bool, Buildable | None]:
        """Whether it is known what can be built at the site here, and that; of one without images nothing is."""
        found = (self.buildable.at(site) for site in sorted(self._own))
        return bool(self._own) and not self._awaited, next((one for one in found if one is not None), None)

    # What is built

    def build(self, effect: BuildImage, now_ms: int) -> list[JobEvent]:
        """Have an image built wherever that can be; where that is nowhere, it has failed."""
        base, packages = effect.recipe.base.name, effect.recipe.packages
        sites = [site for site in self.buildable.sites_for(base, packages) if not self._is_silent(site)]
        for site in sites:
            self._begin(Build(effect.key, site, packages), base, now_ms)
        return [] if sites else [ImageFailed(effect.key, NOWHERE, again=True)]

    def build_at(self, image: str, site: str, now_ms: int) -> None:
        """Have an image that another site has built at this one too, where that can be."""
        made = next((row for (name, _), row in self.rows.items() if name == image and row.base), None)
        if made is None or (image, site) in self.rows or self._is_silent(site):
            return
        if site in self.buildable.sites_for(made.base, made.packages):
            self._begin(Build(image, site, made.packages), made.base, now_ms)

    def build_to_order(self, wanted: BuildWanted, now_ms: int) -> None:
        """Have an image built here for the gateway of this site, as for a job of its own; else answer why not."""
        packages = frozenset(wanted.packages)
        site, why = self._site_for(wanted.base, packages)
        key = build_key(wanted.base, packages)
        row = self.rows.get((key, site))
        if row is not None and row.state == BUILDING:
            asked = (*(one for one in row.asked if one != wanted.key), wanted.key)
            self._keep(replace(row, asked=asked))
        elif why:
            self.answers.append(BuildAnswer(wanted.key, None, why, again=True))
        else:
            self._begin(Build(key, site, packages), wanted.base, now_ms, (wanted.key,))

    def _site_for(self, base: str, packages: Installed) -> tuple[str, str]:
        """Give the site here that can build this, or one and why it cannot; while nobody has looked, it may."""
        site = min(self._own, default="")
        waiting = sum(len(row.asked) for row in self.rows.values())
        if waiting >= MOST_ORDERED:
            return site, f"more than {MOST_ORDERED} images are wanted at once"
        able = [one for one in self.buildable.sites_for(base, packages) if one in self._own]
        if able or site in self._awaited:
            return able[0] if able else site, ""
        found = self.buildable.at(site)
        return site, NOTHING_BUILT if found is None else why_not(found, base, packages)

    def built(self, command: JobImageBuilt, now_ms: int) -> list[JobEvent]:
        """Put an image into the catalogue."""
        before = self._over(command.key, command.site)
        row = _row(command.image, command.site, self.rows.get((command.image.name, command.site)), now_ms)
        if before is not None:
            row = replace(row, base=before.base, packages=before.packages)
            self.answers += [BuildAnswer(key, command.image) for key in before.asked]
        self._keep(row)
        return [ImageBuilt(command.key, self._image(command.image.name)), *self.heard(command.site)]

    def failed(self, command: JobImageFailed, now_ms: int) -> list[JobEvent]:
        """Note that a site could not build an image; the waiting jobs fail once no site can."""
        row = self.rows.get((command.key, command.site))
        if row is not None and row.state != THERE:
            self.answers += [BuildAnswer(key, None, command.why, command.again) for key in row.asked]
            self._keep(replace(row, state=FAILED, problem=command.why, since_ms=now_ms, asked=()))
            self._forget_the_oldest()
        return [] if self._is_being_built(command.key) else [ImageFailed(command.key, command.why, command.again)]

    def hear_built(self, site: str, told: BuildTold, now_ms: int) -> list[JobEvent]:
        """Take in what has come of a build that the manager of a site was asked for.

        It has failed where the image has not what was asked for. What was not asked for says nothing, as of an image
        that the site has told meanwhile.
        """
        row = self.rows.get((told.key, site))
        if row is None or row.state == THERE:
            _log.warning("nobody has asked for the image that was built", site=site, key=told.key)
            return []
        if told.image is None:
            return self.failed(JobImageFailed(told.key, site, told.problem, told.again), now_ms)
        facts = _facts_told(told.image)
        why = self._is_wrong(row, facts)
        if why:
            problem = one_line(f"{site} says that it has built {facts.name}, and {why}")
            return self.failed(JobImageFailed(told.key, site, problem), now_ms)
        return self.built(JobImageBuilt(told.key, site, facts), now_ms)

    def _is_wrong(self, row: ImageRow, facts: ImageFacts) -> str:
        """Say why an image cannot be the one that was asked for; "" where it may be."""
        lacking = min(row.packages - facts.software, default=None)
        if lacking is not None:
            return f"{' '.join(lacking)} is not in it"
        other = self.rows.get((facts.name, row.site))
        is_other = other is not None and other.state == BUILDING and other.name != row.name
        return "that is what another one is called that it is building" if is_other else ""

    def _is_silent(self, site: str) -> bool:
        return site not in self._own and self._is_lost(site)

    def _is_being_built(self, key: str) -> bool:
        return any(name == key and row.state == BUILDING for (name, _), row in self.rows.items())

    def _begin(self, build: Build, base: str, now_ms: int, asked: tuple[str, ...] = ()) -> None:
        before = self.rows.get((build.key, build.site))
        if before is not None and before.state == BUILDING:
            return
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
                base=base,
                asked=asked,
            )
        )

    def _over(self, key: str, site: str) -> ImageRow | None:
        """End a build; what was built."""
        row = self.rows.get((key, site))
        if row is None or row.state == THERE:
            return None
        self._drop(key, site)
        return row

    def _forget_the_oldest(self) -> None:
        failed = [row for row in self.rows.values() if row.state == FAILED]
        if len(failed) > MOST_FAILED:
            oldest = min(failed, key=lambda row: (row.since_ms, row.name, row.site))
            self._drop(oldest.name, oldest.site)

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
        there: defaultdict[str, list[ImageRow]] = defaultdict(list)
        for row in self.rows.values():
            if row.state == THERE:
                there[row.name].append(row)
        images = {name: self._as_one(there[name]) for name in sorted(there)}
        return ImagesSeen(tuple(images.values()), self.buildable.sources(images))

    def _image(self, name: str) -> Image:
        return self._as_one([row for (called, _), row in self.rows.items() if called == name and row.state == THERE])

    def _as_one(self, there: list[ImageRow]) -> Image:
        row = there[0]
        needs = Amounts(memory_mib=row.least_memory_mib, disk_mib=-(-row.size_bytes // _MIB))
        sites = frozenset(one.site for one in there)
        made = next((one for one in there if one.base), None)
        able = () if made is None else self.buildable.sites_for(made.base, made.packages)
        return Image(row.name, row.software, row.size_bytes, needs, sites, frozenset(able) - sites)


def _facts_told(told: ImageTold) -> ImageFacts:
    """Give an image as the manager of its site tells it."""
    return ImageFacts(**dict(told) | {"software": frozenset(told.software)})


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
        base=before.base if before is not None else "",
        asked=(),
    )
