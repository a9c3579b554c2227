"""The images that the configuration of a site names, whatever its machines make of one, and the software in them."""

import re
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from leasehold.configuration.declaration import Counts, Key, Texts, TextTable
from leasehold.configuration.keys import NOTHING, Keys
from leasehold.configuration.tables import check_image_name
from leasehold.matching.software import installed, version
from leasehold.model.errors import InvalidField

_LONGEST_BEGINNING = 40
_DIGITS = 12


@dataclass(frozen=True)
class ImageTable(TextTable):
    """Images by their names; what each text means is for the driver to say, and to check by ``convert``."""

    accepts = "table of texts by name"

    def read(self, keys: Keys, name: str, default: object) -> object:
        """Take the table."""
        images = super().read(keys, name, default)
        assert isinstance(images, Mapping)
        for image in images:
            check_image_name(keys.where(name), image)
        return images


@dataclass(frozen=True)
class ImageNumbers(Counts):
    """Images by their names, as numbers."""

    def check(self, keys: Keys, name: str) -> None:
        """Refuse a name that no lease could use."""
        check_image_name(keys.where(name), name)


class SoftwareTexts(Texts):
    """Installed software, as names with versions behind them; of some there is none."""

    def read(self, keys: Keys, name: str, default: object) -> object:
        """Take the texts, and part them."""
        texts = keys.texts(name, default)
        if texts is default or not isinstance(texts, tuple):
            return default
        pairs: list[tuple[str, str]] = []
        for text in texts:
            called, _, number = text.strip().partition(" ")
            if number:
                with keys.at(name):
                    version(number.strip())
            pairs.append((called, number.strip()))
        return installed(pairs)

    def write(self, value: Iterable[tuple[str, str]]) -> list[str]:  # type: ignore[override]
        """Give the texts in alphabetical order."""
        return sorted(" ".join(pair).strip() for pair in value)


@dataclass(frozen=True)
class ImageSoftware(Key):
    """What is installed in images, by their names."""

    accepts = "table of lists of texts by name"

    def read(self, keys: Keys, name: str, default: object) -> object:  # noqa: ARG002 - an absent table is empty
        """Take the table."""
        table, software = keys.table(name), SoftwareTexts(self.doc)
        found = {image: software.read(table, image, NOTHING) for image in table.left()}
        for image in found:
            check_image_name(keys.where(name), image)
        return found

    def write(self, value: Mapping[str, Iterable[tuple[str, str]]]) -> dict[str, list[str]]:
        """Give the table."""
        return {image: SoftwareTexts(self.doc).write(software) for image, software in value.items()}


def built_name(beginning: str, recipe: bytes) -> str:
    """Name a built image: its beginning is for people, the digest of what it is made of tells it from all others."""
    readable = re.sub("[^A-Za-z0-9._:+-]", "-", beginning)[:_LONGEST_BEGINNING]
    return f"{readable}-{sha256(recipe).hexdigest()[:_DIGITS]}"


def absolute_folder(text: str) -> str:
    """Check the folder of an image; ``~`` may stand in it."""
    path = Path(text).expanduser()
    if not path.is_absolute():
        raise InvalidField("image", text, "an absolute path, of the folder that leasehold image build has made")
    return str(path)


def command_prefix(text: str) -> str:
    """Check the words that are put before a command."""
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise InvalidField("image", text, f"words as for a shell: {error}") from None
    if not words or not words[0]:
        raise InvalidField("image", text, "a command that runs another, such as 'apptainer exec /images/lab.sif'")
    return text
