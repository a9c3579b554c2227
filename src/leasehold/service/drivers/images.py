"""The images that the configuration of a site names, whatever the machines of the site make of an image."""

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from leasehold.configuration.declaration import Counts, Texts, TextTable
from leasehold.configuration.keys import Keys
from leasehold.model.errors import InvalidField
from leasehold.model.request import IMAGE_NAME


def _check(keys: Keys, name: str, image: str) -> None:
    if not re.fullmatch(IMAGE_NAME, image):
        expected = "a name of letters, digits and ._:+-, at most 64, beginning with a letter or digit"
        raise InvalidField(keys.where(name), image, expected)


@dataclass(frozen=True)
class ImageNames(Texts):
    """The names of images, where a name is all that there is of one."""

    accepts = "list of names"

    def read(self, keys: Keys, name: str, default: object) -> object:
        """Take the names, each once."""
        texts = super().read(keys, name, default)
        for image in texts if isinstance(texts, tuple) else ():
            _check(keys, name, image)
        return tuple(sorted(set(texts))) if isinstance(texts, tuple) else texts


@dataclass(frozen=True)
class ImageTable(TextTable):
    """Images by their names; what each text means is for the driver to say, and to check by ``convert``."""

    accepts = "table of texts by name"

    def read(self, keys: Keys, name: str, default: object) -> object:
        """Take the table."""
        images = super().read(keys, name, default)
        assert isinstance(images, Mapping)
        for image in images:
            _check(keys, name, image)
        return images


@dataclass(frozen=True)
class ImageNumbers(Counts):
    """Images by their names, as numbers."""

    def check(self, keys: Keys, name: str) -> None:
        """Refuse a name that no lease could use."""
        _check(keys, name, name)


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
