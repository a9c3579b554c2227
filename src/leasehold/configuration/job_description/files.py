"""A description from a file, with the line of whatever is wrong in it."""

from pathlib import Path

from leasehold.configuration.job_description.description import JobDescription
from leasehold.configuration.job_description.document import (
    MOST_BYTES,
    Document,
    at_its_line,
    read_json,
)
from leasehold.configuration.job_description.fields import Looking, read_fields
from leasehold.configuration.job_description.xml_form import read_xml
from leasehold.model.errors import InputError, InvalidField

SUFFIXES = (".json", ".xml")


def load_description(path: Path, looking: Looking) -> JobDescription:
    """Read a file; raises InputError with its line."""
    return read_description(_text_of(path), str(path), looking)


def read_description(text: str, name: str, looking: Looking) -> JobDescription:
    """Read JSON, or what begins as XML does; ``name`` is what the text is called in an error (InputError)."""
    document = read_document(text, name)
    try:
        return read_fields(document.values, looking)
    except InvalidField as error:
        raise at_its_line(document, name, error) from None


def read_document(text: str, name: str) -> Document:
    """Read the fields without checking them; raises InputError."""
    if len(text) > MOST_BYTES:
        raise InputError(name, None, f"is larger than {MOST_BYTES} bytes, and no description of a job is")
    return read_xml(text, name) if text.lstrip("\ufeff \t\r\n").startswith("<") else read_json(text, name)


def size_of(field: str, path: str, folder: Path | None = None) -> int:
    """Look how large a file is; raises InvalidField where there is none. Paths begin at ``folder``."""
    place = (folder or Path()) / path
    try:
        size_bytes = place.stat().st_size
    except (OSError, ValueError) as error:
        why = (error.strerror if isinstance(error, OSError) else None) or "no path"
        raise InvalidField(field, path, f"a file that is there ({place}: {why})") from None
    if not place.is_file():
        raise InvalidField(field, path, f"a file ({place} is none)")
    return size_bytes


def _text_of(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return file.read(MOST_BYTES + 1).decode("utf-8-sig")
    except OSError as error:
        raise InputError(path, None, f"cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise InputError(path, None, f"is no text in UTF-8 (at byte {error.start})") from None
