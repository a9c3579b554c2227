"""Which machine image has the software that a job needs, or could be built with it?"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from leasehold.matching.needs import NOTHING, Amounts
from leasehold.matching.software import Installed, Software, has_software
from leasehold.matching.verdict import FITS
from leasehold.model.errors import InvalidField


@dataclass(frozen=True, slots=True)
class Image:
    """An image in the catalogue: what is in it, how large it is, and where copies of it lie.

    ``needs`` is what the machine needs beside the job: memory of its system, and disk of the image.
    """

    name: str
    software: Installed
    size_bytes: int
    needs: Amounts = NOTHING
    at: frozenset[str] = frozenset()
    """The places that have it already."""
    built_at: frozenset[str] = frozenset()
    """The places that have not, and could build it."""

    @property
    def places(self) -> frozenset[str]:
        """The places whose machines can have it."""
        return self.at | self.built_at


@dataclass(frozen=True, slots=True)
class BuildSource:
    """What images can be built from: a base, and packages by name, each with the version that would be installed.

    ``at``  the places that can build them
    """

    base: Image
    packages: tuple[tuple[str, str], ...]
    at: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Recipe:
    """An image that is not there yet: a base and packages with the versions that a repository has.

    ``build_ms`` is how long that is thought to take, ``places`` are those that can build it.
    """

    base: Image
    packages: Installed
    build_ms: int
    places: frozenset[str] = frozenset()


class ImageCatalogue:
    """Images, and what others could be built from. Raises InvalidField for two images of one name."""

    def __init__(self, images: Iterable[Image], sources: Iterable[BuildSource] = (), build_ms: int = 300_000) -> None:
        self._images = sorted(images, key=_smaller)
        if len({image.name for image in self._images}) < len(self._images):
            raise InvalidField("images", [image.name for image in self._images], "names that differ")
        self._sources = [(one, {name.lower(): number for name, number in one.packages}) for one in sources]
        self._build_ms = build_ms

    def find(self, needed: tuple[Software, ...]) -> list[Image | Recipe]:
        """Which images will do? The best first; none where a package is not to be had in that version.

        Rule: the smallest that has all of it, of the same size the one whose name comes first; then recipes for what
        a base lacks, in the order of the sources. A larger image serves only where no smaller one can be.
        Source: Thamarai Selvi et al., section 4.4 (ii), which installs "required softwares" again for each
        job. That there are several, as not every place can have each, is Leasehold's.
        """
        found: list[Image | Recipe] = []
        places: frozenset[str] = frozenset()
        for image in self._images:
            if has_software(needed, image.software) is FITS and (not found or not image.places <= places):
                found.append(image)
                places |= image.places
        return [*found, *self._recipes(needed)]

    def _recipes(self, needed: tuple[Software, ...]) -> Iterator[Recipe]:
        recipes: dict[tuple[str, Installed], Recipe] = {}
        for source, versions in self._sources:
            lacking = tuple(one for one in needed if has_software((one,), source.base.software) is not FITS)
            packages = frozenset((one.name, versions[one.name]) for one in lacking if one.name in versions)
            if packages and has_software(lacking, packages) is FITS:
                key = source.base.name, packages
                same = recipes.get(key, Recipe(source.base, packages, self._build_ms))
                recipes[key] = replace(same, places=same.places | source.at)
        yield from recipes.values()


def _smaller(image: Image) -> tuple[int, str]:
    return image.size_bytes, image.name
