"""Which software does a job need, and has a node it? Names without case, versions by constraints.

A need is written ``gcc >= 12, < 14``: a name, then constraints that all have to hold. What is installed
is a set of names with versions; a node with environment modules has several versions of a name, and any
of them may serve.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from leasehold.matching.verdict import FITS, Verdict, Why, never
from leasehold.matching.versions import Constraint
from leasehold.model.errors import InvalidField

Installed = frozenset[tuple[str, str]]
"""Names in small letters, each with a version; an empty version is one that nobody knows."""

_NEED = re.compile(r"\s*(?P<name>[A-Za-z0-9][\w.+-]*)\s*(?P<constraints>.*?)\s*", re.DOTALL)
_CONSTRAINT = re.compile(r"\s*(?P<operator>[=!<>~]+)\s*(?P<version>\S+)\s*")


@dataclass(frozen=True, slots=True)
class Software:
    """A piece of software that a job needs, with what its version has to be."""

    name: str
    constraints: tuple[Constraint, ...] = ()

    def __str__(self) -> str:
        return f"{self.name} {', '.join(map(str, self.constraints))}".rstrip()


def software(text: str) -> Software:
    """Read a need such as ``gcc >= 12, < 14``. Raises InvalidField, or UnknownName for an operator."""
    found = _NEED.fullmatch(text)
    if found is None:
        raise InvalidField("software", text, "a name, and constraints as in 'gcc >= 12, < 14'")
    written = found["constraints"]
    return Software(found["name"].lower(), tuple(map(_constraint, written.split(",") if written else ())))


def _constraint(text: str) -> Constraint:
    found = _CONSTRAINT.fullmatch(text)
    if found is None:
        raise InvalidField("software", text.strip(), "an operator and a version, such as >= 12")
    return Constraint(found["operator"], found["version"])


def installed(pairs: Iterable[tuple[str, str]]) -> Installed:
    """Make a set of what is installed, with names in small letters."""
    return frozenset((name.lower(), number) for name, number in pairs)


@lru_cache(maxsize=65_536)
def has_software(needed: tuple[Software, ...], there: Installed) -> Verdict:
    """Say whether all of it is there, or which piece is not, or only in another version: a *never here*."""
    lacking = (_lacks(one, there) for one in needed)
    return next((never(why, str(one)) for one, why in zip(needed, lacking, strict=True) if why), FITS)


def _lacks(needed: Software, there: Installed) -> Why | None:
    versions = [number for name, number in there if name == needed.name]
    if not versions:
        return Why.SOFTWARE_NOT_THERE
    will_do = any(all(c.allows(number) for c in needed.constraints) for number in versions)
    return None if will_do else Why.SOFTWARE_OTHER_VERSION
