"""The images of all sites: which are there, and which are being built.

Sites have images of their own, and the job scheduler knows one catalogue: images of the same name are the
same image. The scheduler gets it once every site that has images was heard, or does not answer.
An image is built at each site that can; the first to be done serves at once, and it has failed when all have.
Sites with managers of their own, and peers, are asked by messages (`leasehold.service.engine.remote_jobs`): what is
noted of their builds here, and what becomes of it, is the same as of others. An image of a peer is called
``peer:image``: only those that the same peer has told of can be the same image.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, replace

import structlog

from leasehold.jobs.effects import BuildImage
from leasehold.jobs.events import ImageBuilt, ImageFailed, ImagesSeen, JobEvent
from leasehold.jobs.job import behind, hops_to, provider_of
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
NO_ANSWER = "{} does not answer: {}"

MOST_ORDERED = 20
"""So many images may be waited for at once by the gateway of a site, and by each peer."""

MOST_FAILED = 100
"""So many images that could not be built are remembered; then the oldest is forgotten."""

_MIB = 1 << 20
_log = structlog.get_logger("leasehold.images")


@dataclass(frozen=True, slots=True)
class ImageSource:
    """Who tells of images: the manager of a site, or a peer, which tells of several sites.

    ``sites``  those of a peer whose images are believed, as they are called here; None: it is the manager of a site
    """

    name: str
    sites: Collection[str] | None = None

    def site(self, site: str) -> str:
        """Give the name here of a site that it calls so: "" for its only one."""
        return self.name if self.sites is None else behind(self.name, site)

    def is_believed(self, site: str) -> bool:
        """Whether it may tell of a site, by its name here."""
        return self.sites is None or site in self.sites

    def called(self, image: str) -> str:
        """Give the name here of an image that it calls so at a site."""
        return image if self.sites is None else behind(self.name, image)

    def place(self, told: str) -> tuple[str, str]:
        """Give the site, and the name, of an image that it tells of as this."""
        if self.sites is None:
            return self.name, told
        site, _, image = told.partition("/")
        return self.site(site), self.called(image) if image else ""


@dataclass(frozen=True, slots=True)
class BuildAnswer:
    """What has become of an image for which somebody waits under ``key``; with ``why`` nothing.

    ``endpoint``  who waits: the gateway of this site, or a peer
    """

    endpoint: str
    key: str
    site: str
    image: ImageFacts | None
    why: str = ""
    again: bool = False


class ImageRepository:
    """Takes in what is seen of images, and has them built by background tasks.

    ``buildable``  what can be built where
    ``answers``    what is to be said to the gateway of this site, and to peers, of images that they wait for
    ``own``        the sites here that have images
    ``changes``    counts what is noted of any image
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

        ``awaited`` have images; ``is_lost`` says of a manager, or a peer, whether it is silent.
        """
        self.rows: dict[tuple[str, str], ImageRow] = {(row.name, row.site): row for row in rows}
        self.buildable = buildable
        self.answers: list[BuildAnswer] = []
        self._unit = unit
        self._tasks = tasks
        tasks.builds += [Build(row.name, row.site, row.packages) for row in rows if row.state == BUILDING]
        self.own = frozenset(awaited)
        self.changes = 0
        self._awaited = set(self.own)
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

    def hear(self, source: ImageSource, told: ImagesTold, now_ms: int) -> list[JobEvent]:
        """Take in what is told: images that are new or changed, and the names of all.

        Left out are those of sites of a peer that it has not told with their nodes.
        """
        names: defaultdict[str, set[str]] = defaultdict(set)
        facts: defaultdict[str, list[ImageFacts]] = defaultdict(list)
        for site, name in map(source.place, told.names):
            names[site].add(name)
        for image in told.images:
            site, name = source.place(image.name)
            if name and name in names[site] and source.is_believed(site):
                facts[site].append(_facts_told(image, name))
        for site in sorted({source.name, *self._sites_of(source.name), *facts}):
            self._see(facts[site], site, names[site], now_ms)
        return self.heard(source.name)

    def _sites_of(self, provider: str) -> set[str]:
        """Name the sites that a manager, or a peer, has told images of."""
        return {site for _, site in self.rows if provider_of(site) == provider}

    def _see(self, images: Iterable[ImageFacts], site: str, names: Collection[str], now_ms: int) -> None:
        """Keep what is there; of what is being built under that name the builder has the last word."""
        for facts in images:
            before = self.rows.get((facts.name, site))
            if before is None or before.state != BUILDING:
                self._keep(_row(facts, site, before, now_ms))
        for name, where in [key for key, row in self.rows.items() if row.state == THERE]:
            if where == site and name not in names:
                self._drop(name, site)

    def hear_buildable(self, source: ImageSource, told: BuildableTold) -> list[JobEvent]:
        """Take in what is told of what can be built at a site, unless a peer has not told that with its nodes."""
        site = source.site(told.site)
        if not source.is_believed(site):
            return []
        base = source.called(told.base) if told.base else ""
        return self.heard(source.name) if self.buildable.hear(site, told, base) else []

    def forget(self, provider: str) -> list[JobEvent]:
        """Forget all that a manager, or a peer, has told: it will not come back."""
        return self._forget(self._sites_of(provider) | self.buildable.sites_of(provider), provider)

    def forget_others(self, source: ImageSource) -> list[JobEvent]:
        """Forget what a peer has told of sites that it tells of no more."""
        there = self._sites_of(source.name) | self.buildable.sites_of(source.name)
        return self._forget({site for site in there if not source.is_believed(site)}, source.name)

    def _forget(self, sites: Collection[str], provider: str) -> list[JobEvent]:
        """Forget the images of sites; what was being built there is built nowhere else."""
        if not sites:
            return []
        for site in sites:
            self.buildable.forget(site)
        rows = [row for row in self.rows.values() if row.site in sites]
        for row in rows:
            self._drop(row.name, row.site)
            self._answer(row, None, NOWHERE, again=True)
        lost = [row.name for row in rows if row.state == BUILDING and not self._is_being_built(row.name)]
        return [*(ImageFailed(key, NOWHERE, again=True) for key in lost), *self.heard(provider)]

    def forget_asker(self, endpoint: str) -> None:
        """Answer somebody no more who will not come back."""
        for row in [row for row in self.rows.values() if any(who == endpoint for who, _ in row.asked)]:
            self._keep(replace(row, asked=tuple(one for one in row.asked if one[0] != endpoint)))

    def heard(self, site: str) -> list[JobEvent]:
        """Stop waiting for the images of a site: they were reported, or will not be for some time."""
        self._awaited.discard(site)
        return [] if self._awaited else [self._catalogue()]

    def lose(self, site: str, why: str, now_ms: int) -> list[JobEvent]:
        """A site, or a peer, does not answer: what it was building has failed, unless it is heard later."""
        if site in self.own:
            return []
        keys = [key for key, row in self.rows.items() if provider_of(row.site) == site and row.state == BUILDING]
        problem = NO_ANSWER.format(site, why)
        lost = (JobImageFailed(name, where, problem, again=True) for name, where in keys)
        return [event for one in lost for event in self.failed(one, now_ms)]

    def is_at(self, image: str, site: str) -> bool:
        """Whether machines of a site can have this image."""
        row = self.rows.get((image, site))
        return row is not None and row.state == THERE

    @property
    def are_known(self) -> bool:
        """Whether there are sites here that have images, and all of them were heard."""
        return bool(self.own) and not self._awaited

    def buildable_at(self, site: str) -> tuple[bool, Buildable | None]:
        """Whether it is known what can be built at a site, and that; of one without images nothing is."""
        is_known = not self._awaited if site in self.own else self.buildable.was_told(site)
        return is_known, self.buildable.at(site)

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

    def build_to_order(self, wanted: BuildWanted, endpoint: str, now_ms: int) -> None:
        """Have an image built for the gateway of this site, or a peer, as for a job here; else answer why not.

        It is built at the site that is named, be that one's own or not; the gateway of this site names none.
        """
        packages, asker = frozenset(wanted.packages), (endpoint, wanted.key)
        site = wanted.site or min(self.own, default="")
        key = build_key(wanted.base, packages)
        row = self.rows.get((key, site))
        is_begun = row is not None and row.state == BUILDING
        if row is not None and is_begun and asker in row.asked:
            return
        waiting = sum(who == endpoint for one in self.rows.values() for who, _ in one.asked)
        if waiting >= MOST_ORDERED:
            why = f"more than {MOST_ORDERED} images are wanted at once"
        else:
            why = "" if is_begun else self._why_not_at(site, wanted.base, packages)
        if why:
            self.answers.append(BuildAnswer(endpoint, wanted.key, wanted.site, None, why, again=True))
        elif row is not None and is_begun:
            self._keep(replace(row, asked=(*row.asked, asker)))
        else:
            self._begin(Build(key, site, packages), wanted.base, now_ms, (asker,))

    def _why_not_at(self, site: str, base: str, packages: Installed) -> str:
        """Say why a site cannot build this, "" where it can; while nobody has looked, it may."""
        if self._is_silent(site):
            return f"{provider_of(site)} does not answer"
        if site in self._awaited:
            return ""
        found = self.buildable.at(site)
        return NOTHING_BUILT if found is None else why_not(found, base, packages)

    def _answer(self, row: ImageRow, image: ImageFacts | None, why: str = "", *, again: bool = False) -> None:
        """Answer all who wait for an image."""
        self.answers += [BuildAnswer(endpoint, key, row.site, image, why, again) for endpoint, key in row.asked]

    def built(self, command: JobImageBuilt, now_ms: int) -> list[JobEvent]:
        """Put an image into the catalogue."""
        before = self._over(command.key, command.site)
        row = _row(command.image, command.site, self.rows.get((command.image.name, command.site)), now_ms)
        if before is not None:
            row = replace(row, base=before.base, packages=before.packages)
            self._answer(before, command.image)
        self._keep(row)
        return [ImageBuilt(command.key, self._image(command.image.name)), *self.heard(command.site)]

    def failed(self, command: JobImageFailed, now_ms: int) -> list[JobEvent]:
        """Note that a site could not build an image; the waiting jobs fail once no site can."""
        row = self.rows.get((command.key, command.site))
        if row is not None and row.state != THERE:
            self._answer(row, None, command.why, again=command.again)
            self._keep(replace(row, state=FAILED, problem=command.why, since_ms=now_ms, asked=()))
            self._forget_the_oldest()
        return [] if self._is_being_built(command.key) else [ImageFailed(command.key, command.why, command.again)]

    def hear_built(self, source: ImageSource, told: BuildTold, now_ms: int) -> list[JobEvent]:
        """Take in what has come of a build that a manager, or a peer, was asked for.

        It has failed where the image has not what was asked for. What was not asked for says nothing, as of an image
        that the site has told meanwhile.
        """
        site = source.site(told.site)
        row = self.rows.get((told.key, site))
        if row is None or row.state == THERE:
            _log.warning("nobody has asked for the image that was built", site=site, key=told.key)
            return []
        if told.image is None:
            return self.failed(JobImageFailed(told.key, site, told.problem, told.again), now_ms)
        facts = _facts_told(told.image, source.called(told.image.name))
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
        return site not in self.own and self._is_lost(provider_of(site))

    def _is_being_built(self, key: str) -> bool:
        return any(name == key and row.state == BUILDING for (name, _), row in self.rows.items())

    def _begin(self, build: Build, base: str, now_ms: int, asked: tuple[tuple[str, str], ...] = ()) -> None:
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
            self.changes += 1
            self._unit.put(IMAGES, row)
        self.rows[key] = row

    def _drop(self, name: str, site: str) -> None:
        self.changes += 1
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
        there = _same(there)
        row = there[0]
        needs = Amounts(memory_mib=row.least_memory_mib, disk_mib=-(-row.size_bytes // _MIB))
        sites = frozenset(one.site for one in there)
        made = next((one for one in there if one.base), None)
        able = () if made is None else self.buildable.sites_for(made.base, made.packages)
        return Image(row.name, row.software, row.size_bytes, needs, sites, frozenset(able) - sites)


def _same(rows: list[ImageRow]) -> list[ImageRow]:
    """Leave out those that have the name of another by chance: one of a peer is none of one's own."""
    nearest = min(hops_to(row.site) for row in rows)
    return [row for row in rows if hops_to(row.site) == nearest]


def _facts_told(told: ImageTold, name: str) -> ImageFacts:
    """Give an image as it is told, under its name here."""
    return ImageFacts(**dict(told) | {"software": frozenset(told.software), "name": name})


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
