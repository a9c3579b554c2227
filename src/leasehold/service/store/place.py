"""Where a store is: a SQLite file, or a database of a PostgreSQL server."""

from pathlib import Path

from sqlalchemy import URL, make_url
from sqlalchemy.exc import ArgumentError

from leasehold.model.errors import InputError, InvalidField

_EXPECTED = "sqlite:///PATH or postgresql+psycopg://USER@HOST/DATABASE"
_POSTGRESQL = ("postgresql", "postgresql+psycopg")


def read_url(text: str) -> URL:
    """Read the URL of a store; InvalidField where it names none. Its str() hides the password."""
    try:
        url = make_url(text)
    except (ArgumentError, ValueError):
        raise InvalidField("store", _without_credentials(text), _EXPECTED) from None
    if url.drivername in _POSTGRESQL and url.database:
        return _with_password_in_its_place(url).set(drivername="postgresql+psycopg")
    if url.drivername == "sqlite" and url.database not in {None, "", ":memory:"} and not url.query:
        return url
    raise InvalidField("store", str(url), _EXPECTED)


def sqlite_path(url: URL) -> Path | None:
    """The file of a SQLite store; None for PostgreSQL."""
    return Path(url.database or "") if url.drivername == "sqlite" else None


def make_private_file(path: Path) -> None:
    """Make an empty file that only its owner may read, where there is none; SQLite's own follow it."""
    try:
        path.touch(mode=0o600)
    except OSError as error:
        raise InputError(path, None, f"cannot be a store: {error.strerror}") from error


def _with_password_in_its_place(url: URL) -> URL:
    """Move a password that is given as a parameter, ``?password=...``, to where messages hide it."""
    password = url.query.get("password")
    if password is None:
        return url
    last = password if isinstance(password, str) else password[-1]
    return url.difference_update_query(["password"]).set(password=last)


def _without_credentials(text: str) -> str:
    """What of an unreadable URL may be shown."""
    return text.rpartition("@")[2]
