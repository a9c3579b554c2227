"""Which software does a node have, by the features that its operator gave it?

``gcc-12.2``, ``gcc=12.2`` and ``gcc/12.2`` are gcc in version 12.2; a feature of another form is a name of
which no version is known, as ``avx2``.
"""

import re
from collections.abc import Iterable

_SAID = re.compile(r"(?P<name>[A-Za-z0-9][\w.+-]*)[=/]v?(?P<version>\d[\w.+~:-]*)")
_HYPHENED = re.compile(r"(?P<name>[A-Za-z0-9][\w.+-]*)-(?P<version>\d[\w.]*)")


def software_of(features: Iterable[str]) -> frozenset[tuple[str, str]]:
    """Read the features of a node as software; names in small letters."""
    return frozenset(_software(feature) for feature in features)


def _software(feature: str) -> tuple[str, str]:
    found = _SAID.fullmatch(feature) or _HYPHENED.fullmatch(feature)
    return (found["name"].lower(), found["version"]) if found else (feature.lower(), "")
