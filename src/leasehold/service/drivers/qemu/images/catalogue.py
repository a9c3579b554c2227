"""Which images are there? The usual one of a site, and whatever was built in the folder of images."""

from collections.abc import Iterator
from pathlib import Path

from leasehold.model.errors import InputError, UnknownName
from leasehold.service.drivers.facts import ImageFacts
from leasehold.service.drivers.qemu.images.image import DESCRIPTION, Image, open_image


class Catalogue:
    """The images of one site; ``folder`` is where they are built, and all sites of a gateway have the same.

    What is not complete yet has a name that begins with a dot, and is no image.
    """

    def __init__(self, folder: Path, usual: Path) -> None:
        self.folder = folder
        self._usual = usual

    def usual(self) -> Image:
        """Give the image that machines boot from where nobody wants another; raises InputError."""
        return open_image(self._usual)

    def images(self) -> list[Image]:
        """List all images that can be used, by name."""
        found = {image.name: image for image in self._openable()}
        return [found[name] for name in sorted(found)]

    def _openable(self) -> Iterator[Image]:
        built = (file.parent for file in self.folder.glob(f"[!.]*/{DESCRIPTION}"))
        for folder in (*built, self._usual):
            try:
                yield open_image(folder)
            except InputError:  # it says so itself where somebody wants to boot from it
                continue

    def find(self, name: str) -> Image:
        """Find an image by its name, "" for the usual one; raises UnknownName or InputError."""
        if not name:
            return self.usual()
        images = {image.name: image for image in self.images()}
        if name not in images:
            raise UnknownName("image", name, images)
        return images[name]


def facts_of(image: Image) -> ImageFacts:
    """Say of an image what whoever chooses one has to know."""
    about = image.description
    return ImageFacts(
        name=image.name,
        software=frozenset(about.software),
        size_bytes=image.size_bytes,
        least_memory_mib=about.least_memory_mib,
    )
