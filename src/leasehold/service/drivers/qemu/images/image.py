"""An image: a kernel, what it mounts first, and a disk that every machine has a layer of its own over.

An image never changes once it is there, as the layers of machines lie over it for as long as these live.
`leasehold image build` therefore puts each into a folder of its own, and a link to the latest beside them.
"""

import json
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from leasehold.model.errors import InputError

NAME = "debian"
"""The one that `leasehold image build` builds."""

DESCRIPTION = "image.json"
_CURE = "build it: leasehold image build"


@dataclass(frozen=True, slots=True)
class Description:
    """What stands in the image's own file; the first three are names of files beside it.

    ``least_memory_mib``  what a machine needs at least to boot from it
    ``has_agent``         whether QEMU's guest agent answers on its second serial port
    ``contents``          what it was made of, for people
    ``software``          what is installed in it, names with versions; empty where nobody has looked
    ``has_output``        whether it gives what a command writes on a port of its own
    """

    kernel: str
    initrd: str
    disk: str
    least_memory_mib: int
    has_agent: bool
    contents: str
    software: tuple[tuple[str, str], ...] = ()
    has_output: bool = False


@dataclass(frozen=True, slots=True)
class Image:
    """One image in its folder, which is the real one, not a link to it."""

    folder: Path
    description: Description

    @property
    def name(self) -> str:
        """What it is called: it never changes, so that its name says what is in it."""
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
        """The disk, as qcow2; nobody writes to it."""
        return self.folder / self.description.disk

    @property
    def size_bytes(self) -> int:
        """How much has to be there, or brought there, before a machine can boot from it."""
        return sum(part.stat().st_size for part in (self.kernel, self.initrd, self.disk))


def open_image(folder: Path) -> Image:
    """Find an image; raises InputError where there is none, with how to get one."""
    file = folder / DESCRIPTION
    try:
        values = json.loads(file.read_text(encoding="utf-8"))
        software = tuple((str(name), str(version)) for name, version in values.pop("software", ()))
        image = Image(folder.resolve(), replace(Description(**values), software=software))
    except FileNotFoundError:
        raise InputError(folder, None, f"there is no image of a machine here; {_CURE}") from None
    except (OSError, TypeError, ValueError) as error:
        raise InputError(file, None, f"is no description of an image: {error}; {_CURE}") from None
    for part in (image.kernel, image.initrd, image.disk):
        if not part.is_file():
            raise InputError(part, None, f"is missing from the image; {_CURE}")
    return image


def write_description(folder: Path, description: Description) -> None:
    """Write the image's own file, so that `open_image` finds it."""
    text = json.dumps(asdict(description), indent=2) + "\n"
    (folder / DESCRIPTION).write_text(text, encoding="utf-8")


def usual_folder(work: Path) -> Path:
    """Where the image is that was built for a gateway with this work folder."""
    return work / "images" / NAME
