"""The images that the configuration of a site names, whatever the machines of the site make of an image."""

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from leasehold.configuration.declaration import Counts, TextTable
from leasehold.configuration.keys import Keys
from leasehold.configuration.tables import check_image_name
from leasehold.model.errors import InvalidField


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
