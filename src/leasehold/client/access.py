"""Which gateway is spoken to, and as whom: from arguments, the environment, or the gateway on this machine.

Bearer tokens are searched in the places of the WLCG profile (WLCG Bearer Token Discovery, 2020), so that a user
with a grid token needs nothing else. A gateway on this machine writes where `data_folder` says, and the client
reads there.
"""

import fcntl
import os
import re
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from ipaddress import ip_address
from pathlib import Path
from urllib.parse import urlsplit

from leasehold.model.errors import InputError, InvalidField

ADMIN_TOKEN = "admin.token"  # noqa: S105 - the name of a file
"""The file with the first administrator's token, readable by its owner alone."""

URL = "url"
"""The file with the address at which the gateway of this folder listens, locked by it while it lives."""


def data_folder(environment: Mapping[str, str] = os.environ) -> Path:
    """Give the folder where a gateway of this user keeps its data, whether it exists yet or not.

    ``LEASEHOLD_DATA`` names it; without that it is ``leasehold`` among this user's data, which lies where
    ``XDG_DATA_HOME`` says (an absolute path, or it does not count), or else in ``~/.local/share``.
    """
    if named := environment.get("LEASEHOLD_DATA"):
        return Path(named).expanduser()
    shared = Path(environment.get("XDG_DATA_HOME", ""))
    return (shared if shared.is_absolute() else Path.home() / ".local" / "share") / "leasehold"


def is_at_work(folder: Path) -> bool:
    """Whether the gateway of this folder is running: then no other process can listen at its recorded address."""
    try:
        with (folder / URL).open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


DEFAULT_URL = "http://127.0.0.1:8470"
HIDDEN = "[hidden]"
"""Stands in a message for what may be a token."""

_A_TOKEN = re.compile(r"[A-Za-z0-9\-._~+/]+=*")  # b64token, RFC 6750, section 2.1
_MOST_CHARACTERS = 16_384
_SHARED = Path("/tmp")  # noqa: S108 - the profile names this folder; the owner of a file in it is checked


@dataclass(frozen=True, slots=True)
class Bearer:
    """A bearer token, "" for none, and the name of the place that it is from.

    ``folder``  the data folder of the one gateway that it is for, and only while that is at work; None: it is
                for whichever gateway is named
    """

    text: str = field(repr=False)
    origin: str = ""
    folder: Path | None = None


@dataclass(frozen=True, slots=True)
class Access:
    """The address of a gateway, the token shown there, and the authorities that certify it.

    ``ca_file`` holds the certificate authorities that are trusted; None: those of this machine.
    """

    url: str
    token: Bearer
    ca_file: Path | None = None

    def __post_init__(self) -> None:
        """Raise InvalidField for an address that is none, or where the token could be read on the way."""
        parts = urlsplit(self.url)
        if parts.scheme not in {"http", "https"} or not parts.hostname:
            raise InvalidField("gateway url", self.url, f"an address such as {DEFAULT_URL}")
        if parts.path.rstrip("/").endswith("/v1"):
            expected = f"{self.url.rstrip('/').removesuffix('/v1')}: the address without /v1"
            raise InvalidField("gateway url", self.url, expected)
        if self.token.text and not self.is_encrypted and not is_loopback(parts.hostname):
            raise InvalidField("gateway url", self.url, "https: over plain http a token is sent only to this machine")

    @property
    def is_encrypted(self) -> bool:
        """Whether the connection is encrypted."""
        return urlsplit(self.url).scheme == "https"


def find_access(
    url: str | None = None, token: str | None = None, environment: Mapping[str, str] = os.environ
) -> Access:
    """Find out which gateway is meant, and as whom to speak there.

    Raises InvalidField (see `Access`) and InputError for a file that was named and cannot be read.
    """
    folder = data_folder(environment)
    local = _local_url(folder)
    found = (url or environment.get("LEASEHOLD_URL") or local).rstrip("/")
    ca_file = environment.get("LEASEHOLD_CA")
    tokens = _tokens(token, environment, folder if found == local else None)
    return Access(found, next(tokens, Bearer("")), Path(ca_file) if ca_file else None)


def is_loopback(host: str) -> bool:
    """Whether what is sent there stays on this machine."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _local_url(folder: Path) -> str:
    """Give the address of the gateway of this folder, the default if it has not recorded one."""
    return _content(folder / URL) or DEFAULT_URL


def _tokens(given: str | None, environment: Mapping[str, str], folder: Path | None) -> Iterator[Bearer]:
    """Go through all places where a token may be, the most particular first.

    That of the ``folder``'s administrator is last, and is for the gateway of that folder alone.
    """
    if given is not None:
        yield Bearer(_checked(given, "token"), "the argument")
        return
    for name in ("LEASEHOLD_TOKEN", "BEARER_TOKEN"):
        if text := environment.get(name, "").strip():
            yield Bearer(_checked(text, name), name)
    if named := environment.get("BEARER_TOKEN_FILE"):
        yield Bearer(_content_of_named(Path(named)), "BEARER_TOKEN_FILE")
    for path in _usual_files(environment):
        if _is_ours(path) and (text := _content(path)):
            yield Bearer(_checked(text, str(path)), str(path))
    if folder is not None and (text := _content(folder / ADMIN_TOKEN)):
        yield Bearer(_checked(text, str(folder / ADMIN_TOKEN)), str(folder / ADMIN_TOKEN), folder)


def _checked(text: str, place: str) -> str:
    """Give a token that a header can carry; raises InvalidField, without anything of it, for another text."""
    if text and not _A_TOKEN.fullmatch(text):
        raise InvalidField(place, HIDDEN, "a valid token: one word of letters, digits and -._~+/=")
    return text


def _usual_files(environment: Mapping[str, str]) -> list[Path]:
    name = f"bt_u{os.getuid()}"
    own = environment.get("XDG_RUNTIME_DIR")
    return [Path(own) / name, _SHARED / name] if own else [_SHARED / name]


def _is_ours(path: Path) -> bool:
    """A token must come from the user: with another's token, requests would be the other's."""
    try:
        return path.stat().st_uid == os.getuid()
    except OSError:
        return False


def _content(path: Path) -> str:
    """Read a file that need not be there."""
    try:
        return path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError):
        return ""


def _content_of_named(path: Path) -> str:
    """Read the token of a file that was named, and that no other user can read.

    Raises InputError: it cannot be read, is open to others, is empty, or does not hold a valid token.
    """
    try:
        with path.open(encoding="utf-8") as file:
            mode = os.fstat(file.fileno()).st_mode
            text = file.read(_MOST_CHARACTERS + 1).strip()
    except (OSError, UnicodeDecodeError) as error:
        problem = getattr(error, "strerror", None) or type(error).__name__
        raise InputError(path, None, f"BEARER_TOKEN_FILE names it, and it cannot be read: {problem}") from None
    if stat.S_ISREG(mode) and mode & (stat.S_IRWXG | stat.S_IRWXO):
        problem = f"holds a token and can be read by others; if no one has read it, run: chmod 600 {path}"
        raise InputError(path, None, problem)
    if not text:
        raise InputError(path, None, "is empty, and BEARER_TOKEN_FILE names it for a token")
    if not _A_TOKEN.fullmatch(text):
        raise InputError(path, None, "does not hold a valid token: one word of letters, digits and -._~+/=")
    return text
