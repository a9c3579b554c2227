"""Which images are there, and which are in the making, for whom? One build serves all that need the same."""

from dataclasses import dataclass, field, replace

from leasehold.jobs.book import Book
from leasehold.jobs.effects import BuildImage
from leasehold.jobs.events import ImagesSeen
from leasehold.jobs.job import JobRecord, Place
from leasehold.jobs.settings import JobSettings
from leasehold.matching.choice import Physical
from leasehold.matching.images import Image, ImageCatalogue, Recipe
from leasehold.matching.needs import NOTHING, Amounts


def key_of(recipe: Recipe) -> str:
    """Name what is built: the same base and packages have the same key, whoever asks, before and after."""
    packages = sorted(f"{name}={version}" for name, version in recipe.packages)
    return "+".join([recipe.base.name, *packages])


@dataclass(slots=True)
class Build:
    """An image in the making, and the jobs that wait for it."""

    recipe: Recipe
    waiting: dict[int, JobRecord] = field(default_factory=dict)


class Images:
    """The catalogue as it was seen, and what is built to be put into it."""

    def __init__(self, settings: JobSettings, book: Book) -> None:
        self._settings = settings
        self._book = book
        self._there: dict[str, Image] = {}
        self._seen = ImagesSeen(())
        self._builds: dict[str, Build] = {}
        self._resumed: dict[int, JobRecord] = {}
        """Jobs that waited for an image before a restart: it is asked for again once images are seen."""
        self.were_seen = False
        self.catalogue = self._catalogue()

    @property
    def waiting(self) -> set[int]:
        """The jobs that wait for an image."""
        return {job_id for build in self._builds.values() for job_id in build.waiting} | set(self._resumed)

    def resume(self, record: JobRecord) -> None:
        """Go on with a job that waited for an image."""
        self._resumed[record.id] = record

    def see(self, seen: ImagesSeen) -> None:
        """Take in all images that there are."""
        there = {image.name: image for image in seen.images}
        is_news = (there, seen) != (self._there, self._seen)
        self._there, self._seen, self.were_seen = there, seen, True
        if is_news:
            self.catalogue = self._catalogue()

    def forget(self, name: str) -> None:
        """Believe that an image has not what it should have, until all are seen again."""
        self._there.pop(name, None)
        self.catalogue = self._catalogue()

    def want(self, record: JobRecord, recipe: Recipe) -> str:
        """Have an image built for a job, once for all that want the same; its key."""
        key = key_of(recipe)
        self.leave(record.id)
        if key not in self._builds:
            self._builds[key] = Build(recipe)
            self._book.effects.append(BuildImage(key, recipe))
        self._builds[key].waiting[record.id] = record
        return key

    def leave(self, job_id: int) -> None:
        """Let a job wait no more; what is built for it is built to the end, and may serve others."""
        self._resumed.pop(job_id, None)
        for build in self._builds.values():
            build.waiting.pop(job_id, None)

    def built(self, key: str, image: Image) -> list[JobRecord]:
        """Put an image into the catalogue; the jobs that waited for it, by number."""
        self._there[image.name] = image
        self.catalogue = self._catalogue()
        return self.over(key)

    def over(self, key: str) -> list[JobRecord]:
        """End a build; the jobs that waited for it."""
        build = self._builds.pop(key, None)
        waiting = {} if build is None else build.waiting
        waiting |= {record.id: record for record in self._resumed.values() if record.what == key}
        return [waiting[job_id] for job_id in sorted(waiting)]

    def amounts(self, record: JobRecord, place: Place) -> Amounts:
        """Give what one node or host has to hold: the job's needs, and in a machine those of its system."""
        return record.request.job.needs.amounts + self._beside(place)

    def _beside(self, place: Place) -> Amounts:
        if isinstance(place, Physical):
            return NOTHING
        image = place.image.base if isinstance(place.image, Recipe) else place.image
        return self._there.get(image.name, image).needs

    def _catalogue(self) -> ImageCatalogue:
        buildable = dict(self._seen.buildable)
        return ImageCatalogue(self._there.values(), buildable, self._seen.base, self._settings.build_ms)


def with_image(place: Place, image: Image) -> Place:
    """Put an image that is there in the place of one that was to be built."""
    return place if isinstance(place, Physical) else replace(place, image=image)
