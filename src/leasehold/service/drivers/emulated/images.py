"""The images of an emulated site that builds some: its base image, and those that were built."""

import json
from dataclasses import dataclass
from typing import Annotated

from leasehold.configuration.declaration import Seconds, Table, Text, Whole
from leasehold.configuration.tables import check_image_name
from leasehold.model.errors import LeaseholdError
from leasehold.service.drivers.facts import Buildable, ImageFacts
from leasehold.service.drivers.images import SoftwareTexts, built_name

_BASE_BYTES = 1 << 30
_BYTES_PER_PACKAGE = 100 << 20


@dataclass(frozen=True, slots=True)
class ImageBuilding:
    """What images of a site can be built from, as the configuration says."""

    image: Annotated[
        str, Text("base image, from which machines boot as well", convert=lambda text: check_image_name("image", text))
    ] = "base"
    software: Annotated[
        frozenset[tuple[str, str]], SoftwareTexts("software in it", more=', such as `["python3 3.11"]`')
    ] = frozenset()
    packages: Annotated[
        frozenset[tuple[str, str]], SoftwareTexts("packages that can be put into an image, with their versions")
    ] = frozenset()
    least_memory_mib: Annotated[int, Whole("memory that the system of an image needs besides the job")] = 128
    build_ms: Annotated[int, Seconds("time to build an image")] = 5_000


BUILDING = Table(ImageBuilding, "Images that an emulated site builds.")


class ImageCatalogue:
    """The images of a site; ``built`` are those of before, as `to_text` wrote them."""

    def __init__(self, building: ImageBuilding, built: str = "") -> None:
        self._building = building
        before = [frozenset(map(tuple, packages)) for packages in json.loads(built or "[]")]
        self._images = {image.name: image for image in map(self._with, [frozenset(), *before])}

    @property
    def build_ms(self) -> int:
        """How long it takes to build one."""
        return self._building.build_ms

    def __contains__(self, name: object) -> bool:
        """Whether there is an image of this name."""
        return name in self._images

    def images(self) -> list[ImageFacts]:
        """List the images that are there."""
        return list(self._images.values())

    def buildable(self) -> Buildable | None:
        """Say what could be built; None where there is no package."""
        building = self._building
        return Buildable(building.image, building.packages) if building.packages else None

    def lacks(self, packages: frozenset[tuple[str, str]]) -> bool:
        """Whether an image with these packages is still to be built."""
        return self._with(packages).name not in self._images

    def build(self, packages: frozenset[tuple[str, str]]) -> ImageFacts:
        """Build an image with these packages, or find it; raises LeaseholdError for a package that there is not."""
        unknown = sorted(" ".join(pair).strip() for pair in packages - self._building.packages)
        if unknown:
            raise LeaseholdError(f"there is no package {unknown[0]} to build an image with")
        made = self._with(packages)
        return self._images.setdefault(made.name, made)

    def to_text(self) -> str:
        """Write down which images were built."""
        built = (image.software - self._building.software for image in self._images.values())
        return json.dumps([sorted(packages) for packages in built if packages])

    def _with(self, packages: frozenset[tuple[str, str]]) -> ImageFacts:
        building = self._building
        added = packages - building.software
        return ImageFacts(
            name=_name(building.image, added) if added else building.image,
            software=building.software | added,
            size_bytes=_BASE_BYTES + _BYTES_PER_PACKAGE * len(added),
            least_memory_mib=building.least_memory_mib,
        )


def _name(base: str, added: frozenset[tuple[str, str]]) -> str:
    names = sorted(name for name, _ in added)
    return built_name("+".join([base, *names]), json.dumps([base, sorted(added)]).encode())
