"""Why has a program failed that builds an image? In one line, for whoever has asked for the image."""

import re
from collections.abc import Sequence

_LAST_LINES = 3

_UPDATE = "run `apt-get update` as root"
_KNOWN: Sequence[tuple[str, str]] = (
    (r"No space left on device|don't have enough free space",
     "the disk is full, that of the images or of temporary files"),
    (r"Unable to locate package (\S+)|Package '?([^'\s]+)'? has no installation candidate",
     "there is no package {}"),
    (r"Version '([^']*)' for '([^']*)' was not found",
     "version {} of {} is not to be had any more; " + _UPDATE),
    (r"(?:^|\s)404  Not Found", "the repository has changed since apt's lists were made; " + _UPDATE),
    (r"(?:Temporary failure resolving|Could not (?:resolve|connect to)|Unable to connect to) '?([^'\s]+)",
     "the repository {} cannot be reached"),
    (r"Network is unreachable|Connection (?:timed out|refused|failed)", "the repository cannot be reached"),
    (r"(\S+) : (?:Depends|Conflicts|Breaks): ([^\n]+)", "{} cannot be installed beside the others: {}"),
    (r"unable to pick chroot mode|newuidmap|unprivileged user namespaces",
     "only root can build an image here, or a user with /etc/subuid and the package uidmap"),
)  # fmt: skip
"""What programs say, and what that means; whatever stands in parentheses is put where the braces are."""


def diagnosis(program: str, said: str) -> str:
    """Say why it has failed; where nobody knows, in its own last words."""
    for pattern, meaning in _KNOWN:
        found = re.search(pattern, said, re.MULTILINE)
        if found is not None:
            return meaning.format(*(group.strip() for group in found.groups() if group))
    return f"{program} failed: {_last_words(said)}"


def _last_words(said: str) -> str:
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    return " / ".join(lines[-_LAST_LINES:]) or "it did not say why"
