"""Which gateway is spoken to, and as whom: from arguments, the environment, or the gateway on this machine.

Bearer tokens are looked for where the WLCG profile says that they lie (WLCG Bearer Token Discovery, 2020),
so that whoever has a grid token needs nothing else.
"""

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from ipaddress import ip_address
from pathlib import Path
from urllib.parse import urlsplit

from leasehold.client.place import ADMIN_TOKEN, URL, data_folder
from leasehold.model.errors import InputError, InvalidField

DEFAULT_URL = "http://127.0.0.1:8470"
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
    """Where a gateway is, who asks there, and whose word counts for it.

    ``ca_file`` holds the authorities that may vouch for a gateway; None: those of this machine.
    """

    url: str
    token: Bearer
    ca_file: Path | None = None

    def __post_init__(self) -> None:
        """Raise InvalidField for an address that is none, or where the token could be read on the way."""
        parts = urlsplit(self.url)
        if parts.scheme not in {"http", "https"} or not parts.hostname:
            raise InvalidField("gateway url", self.url, f"an address such as {DEFAULT_URL}")
        if self.token.text and not self.is_encrypted and not is_loopback(parts.hostname):
            raise InvalidField("gateway url", self.url, "https: a token goes over plain http to nobody else")

    @property
    def is_encrypted(self) -> bool:
        """Whether nobody on the way can read along."""
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
    """Give the address of the gateway of this folder, the usual one where it has not said any."""
    return _content(folder / URL) or DEFAULT_URL


def _tokens(given: str | None, environment: Mapping[str, str], folder: Path | None) -> Iterator[Bearer]:
    """Go through all places where a token may be, the most particular first.

    That of the ``folder``'s administrator is last, and is for the gateway of that folder alone.
    """
    if given is not None:
        yield Bearer(given, "the argument")
        return
    for name in ("LEASEHOLD_TOKEN", "BEARER_TOKEN"):
        if text := environment.get(name, "").strip():
            yield Bearer(text, name)
    if named := environment.get("BEARER_TOKEN_FILE"):
        yield Bearer(_content_of_named(Path(named)), "BEARER_TOKEN_FILE")
    for path in _usual_files(environment):
        if _is_ours(path) and (text := _content(path)):
            yield Bearer(text, str(path))
    if folder is not None and (text := _content(folder / ADMIN_TOKEN)):
        yield Bearer(text, str(folder / ADMIN_TOKEN), folder)


def _usual_files(environment: Mapping[str, str]) -> list[Path]:
    name = f"bt_u{os.getuid()}"
    own = environment.get("XDG_RUNTIME_DIR")
    return [Path(own) / name, _SHARED / name] if own else [_SHARED / name]


def _is_ours(path: Path) -> bool:
    """Nobody else may slip us a token, with which our requests would be theirs."""
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
    try:
        return path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(path, None, f"BEARER_TOKEN_FILE names it, and it cannot be read: {error}") from error
