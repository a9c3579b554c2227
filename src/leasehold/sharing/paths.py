"""Consumers are paths: a VO, groups within it, a user (``atlas/production/simulation-team``).

What is beneath a path is used on its account, too; that is what makes rights pass down and use add up.
"""

from functools import lru_cache

from leasehold.model.agreement import EVERYBODY

MOST_NAME = 255
"""The longest name of a consumer or group, in characters: what the WLCG profile grants to a subject."""

MOST_DEPTH = 16
"""The most parts of a path."""

A_NAME = f"a name of 1 to {MOST_NAME} visible characters, without blanks or '/', not beginning with '@' or '*'"
A_PATH = f"1 to {MOST_DEPTH} names joined by '/', each {A_NAME.removeprefix('a name ')}"

ALL_AND_OWNERS = ""
"""The account of all use at a provider, that of the owners' own users included."""


def is_name(text: str) -> bool:
    """Whether a text is one part of a path: it cannot be taken for a path, for everybody or for a domain."""
    if not 1 <= len(text) <= MOST_NAME or text[0] in "@*":
        return False
    return text.isprintable() and "/" not in text and not any(map(str.isspace, text))


def is_path(text: str) -> bool:
    """Whether a text is a path of at most `MOST_DEPTH` names."""
    parts = text[: MOST_DEPTH * (MOST_NAME + 1)].split("/")
    return len(text) <= MOST_DEPTH * (MOST_NAME + 1) and len(parts) <= MOST_DEPTH and all(map(is_name, parts))


@lru_cache(maxsize=65_536)
def accounts_of_guest(path: str, domain: str) -> tuple[str, ...]:
    """Name the accounts on which a guest of this path is at a site of this domain, widest first."""
    via = (f"@{domain}",) if domain else ()
    return (ALL_AND_OWNERS, EVERYBODY, *via, *prefixes(path))


def prefixes(path: str) -> tuple[str, ...]:
    """Give a path and all that it is beneath, the VO first."""
    parts = path.split("/") if path else []
    return tuple("/".join(parts[: depth + 1]) for depth in range(len(parts)))


def is_beneath(path: str, above: str) -> bool:
    """Whether a path is this one or beneath it."""
    return above in {EVERYBODY, path} or path.startswith(f"{above}/")
