"""The images of an emulated site that builds some: its base image, and those that were built, in a file."""

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from leasehold.configuration.declaration import Seconds, Table, Text, Whole
from leasehold.configuration.tables import check_image_name
from leasehold.model.errors import InputError, LeaseholdError
from leasehold.service.drivers.facts import Buildable, ImageFacts
from leasehold.service.drivers.images import SoftwareTexts

FILE = "images.json"
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
    """The images of a site; those that were built are there again after a restart.

    Raises InputError for a file that cannot be used.
    """

    def __init__(self, folder: Path, building: ImageBuilding) -> None:
        self._file = folder / FILE
        self._building = building
        self._images = {image.name: image for image in [self._with(frozenset()), *map(self._with, self._read())]}

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
        if made.name not in self._images:
            self._images[made.name] = made
            self._write()
        return made

    def _with(self, packages: frozenset[tuple[str, str]]) -> ImageFacts:
        building = self._building
        added = packages - building.software
        return ImageFacts(
            name="+".join([building.image, *sorted("-".join(filter(None, pair)) for pair in added)]),
            software=building.software | added,
            size_bytes=_BASE_BYTES + _BYTES_PER_PACKAGE * len(added),
            least_memory_mib=building.least_memory_mib,
        )

    def _read(self) -> list[frozenset[tuple[str, str]]]:
        try:
            built = json.loads(self._file.read_bytes())
            return [frozenset((name, version) for name, version in packages) for packages in built]
        except FileNotFoundError:
            return []
        except (ValueError, TypeError) as error:
            raise InputError(self._file, None, f"is not a list of images: {error}") from error

    def _write(self) -> None:
        """Replace the file as a whole."""
        aside = self._file.with_suffix(".new")
        built = [sorted(image.software - self._building.software) for image in self._images.values()]
        with aside.open("w", encoding="utf-8") as file:
            json.dump([packages for packages in built if packages], file)
            file.flush()
            os.fsync(file.fileno())
        aside.replace(self._file)
