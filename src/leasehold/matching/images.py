"""Which machine image has the software that a job needs, or could be built with it?"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

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


@dataclass(frozen=True, slots=True)
class Recipe:
    """An image that is not there yet: a base and packages with the versions that a repository has.

    ``build_ms`` is how long that is thought to take.
    """

    base: Image
    packages: Installed
    build_ms: int


class ImageCatalogue:
    """Images, and what others could be built from. Raises InvalidField for two images of one name."""

    def __init__(
        self,
        images: Iterable[Image],
        buildable: Mapping[str, str] | None = None,
        base: Image | None = None,
        build_ms: int = 300_000,
    ) -> None:
        self._images = sorted(images, key=_smaller)
        if len({image.name for image in self._images}) < len(self._images):
            raise InvalidField("images", [image.name for image in self._images], "names that differ")
        self._buildable = {name.lower(): number for name, number in (buildable or {}).items()}
        self._base = base
        self._build_ms = build_ms

    def find(self, needed: tuple[Software, ...]) -> Image | Recipe | None:
        """Which image will do?

        Rule: the smallest that has all of it, of the same size the one whose name comes first; if none has, a
        recipe for what the base lacks; none where a package is not to be had in that version.
        Source: Thamarai Selvi et al., section 4.4 (ii), which installs "required softwares" again for each
        job.
        """
        ready = next((image for image in self._images if has_software(needed, image.software) is FITS), None)
        return ready or self._recipe(needed)

    def _recipe(self, needed: tuple[Software, ...]) -> Recipe | None:
        if self._base is None:
            return None
        lacking = [one for one in needed if has_software((one,), self._base.software) is not FITS]
        packages = frozenset((one.name, self._buildable[one.name]) for one in lacking if one.name in self._buildable)
        if has_software(tuple(lacking), packages) is not FITS:
            return None
        return Recipe(self._base, packages, self._build_ms)


def _smaller(image: Image) -> tuple[int, str]:
    return image.size_bytes, image.name
