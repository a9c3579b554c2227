"""Consumers are paths: a VO, groups within it, a user (``atlas/production/simulation-team``).

What is beneath a path is used on its account, too; that is what makes rights pass down and use add up.
"""

from functools import lru_cache

from leasehold.model.agreement import EVERYBODY

ALL_AND_OWNERS = ""
"""The account of all use at a provider, that of the owners' own users included."""


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
