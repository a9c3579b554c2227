"""An image: a kernel, its initramfs, and a disk over which every machine has a layer of its own.

An image never changes once it exists, as the layers of machines lie over it for as long as they live.
`leasehold image build` therefore puts each into a folder of its own, beside a link to the latest.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from leasehold.model.errors import InputError, UnknownName
from leasehold.service.drivers.facts import ImageFacts

NAME = "debian"
"""The one that `leasehold image build` builds."""

DESCRIPTION = "image.json"
_CURE = "build it: leasehold image build"


@dataclass(frozen=True, slots=True)
class Description:
    """The content of the image's own file; the first three are names of files beside it.

    ``least_memory_mib``  what a machine needs at least to boot from it
    ``has_agent``         whether QEMU's guest agent answers on its second serial port
    ``contents``          what it was made of, for people
    ``software``          what is installed in it, names with versions; empty where that was not recorded
    ``has_output``        whether it writes the output of a command to a port of its own
    ``has_network``       whether it can set its network up, and has a server of SSH
    """

    kernel: str
    initrd: str
    disk: str
    least_memory_mib: int
    has_agent: bool
    contents: str
    software: tuple[tuple[str, str], ...] = ()
    has_output: bool = False
    has_network: bool = False


@dataclass(frozen=True, slots=True)
class Image:
    """One image in its folder, which is the real one, not a link to it."""

    folder: Path
    description: Description

    @property
    def name(self) -> str:
        """Its name, which never changes and identifies what is in it."""
        return self.folder.name

    @property
    def kernel(self) -> Path:
        """The kernel, as QEMU loads it."""
        return self.folder / self.description.kernel

    @property
    def initrd(self) -> Path:
        """The file system that the kernel mounts first."""
        return self.folder / self.description.initrd

    @property
    def disk(self) -> Path:
        """The disk, as qcow2; it is only read."""
        return self.folder / self.description.disk

    @property
    def size_bytes(self) -> int:
        """How much a machine needs of it before it can boot."""
        return sum(part.stat().st_size for part in (self.kernel, self.initrd, self.disk))

    @property
    def facts(self) -> ImageFacts:
        """What a job's requirements are matched with."""
        about = self.description
        return ImageFacts(
            name=self.name,
            software=frozenset(about.software),
            size_bytes=self.size_bytes,
            least_memory_mib=about.least_memory_mib,
        )


def open_image(folder: Path) -> Image:
    """Open an image; raises InputError where there is none, with how to get one."""
    file = folder / DESCRIPTION
    try:
        values = json.loads(file.read_text(encoding="utf-8"))
        software = tuple((str(name), str(version)) for name, version in values.pop("software", ()))
        image = Image(folder.resolve(), replace(Description(**values), software=software))
    except FileNotFoundError:
        raise InputError(folder, None, f"there is no image of a machine here; {_CURE}") from None
    except (OSError, TypeError, ValueError) as error:
        raise InputError(file, None, f"is not a valid description of an image: {error}; {_CURE}") from None
    for part in (image.kernel, image.initrd, image.disk):
        if not part.is_file():
            raise InputError(part, None, f"is missing from the image; {_CURE}")
    return image


def write_description(folder: Path, description: Description) -> None:
    """Write the image's own file, so that `open_image` finds it."""
    text = json.dumps(asdict(description), indent=2) + "\n"
    (folder / DESCRIPTION).write_text(text, encoding="utf-8")


def default_folder(work: Path) -> Path:
    """Where the image is that was built for a gateway with this work folder."""
    return work / "images" / NAME


class Catalogue:
    """The images of one site; ``folder`` is where they are built, the same for all sites of a gateway.

    ``named`` are folders of the images that its configuration names, for leases, by these names.

    An image that is not complete yet has a name that begins with a dot, and is not listed.
    """

    def __init__(self, folder: Path, default: Path, named: Mapping[str, str] | None = None) -> None:
        self.folder = folder
        self._named = named or {}
        self._default = default

    def default(self) -> Image:
        """Open the image that machines boot from unless their job names another; raises InputError."""
        return open_image(self._default)

    def images(self) -> list[Image]:
        """List all images that can be used, by name."""
        found = {image.name: image for image in self._valid()}
        return [found[name] for name in sorted(found)]

    def _valid(self) -> Iterator[Image]:
        built = (file.parent for file in self.folder.glob(f"[!.]*/{DESCRIPTION}"))
        for folder in (*built, self._default):
            try:
                yield open_image(folder)
            except InputError:  # the error is reported when a machine is to boot from it
                continue

    def find(self, name: str) -> Image:
        """Find an image by its name, "" for the default; raises UnknownName or InputError."""
        if not name:
            return self.default()
        if name in self._named:
            return open_image(Path(self._named[name]))
        images = {image.name: image for image in self.images()}
        if name not in images:
            raise UnknownName("image", name, images)
        return images[name]
