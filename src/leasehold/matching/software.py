"""Which software does a job need, and has a node it? Names without case, versions by constraints.

A need is written ``gcc >= 12, < 14``: a name, then constraints that all have to hold. What is installed
is a set of names with versions; a node with environment modules has several versions of a name, and any
of them may serve.

There is one order of versions for Debian packages, environment modules and Python packages. Rule: a version
is ``[epoch:]release[-build]`` (or ``+build``). Runs of digits are numbers, and missing ones are zero: 1.0 is
1.0.0, and 1.9 comes before 1.10. ``~``, dev, alpha, beta, rc, and a single a, b or c before a number come
before the release itself, any other letters after it: 1.0a1 < 1.0rc1 < 1.0 < 1.0.1, and 2023 < 2023a < 2023b.
A version that is asked for without an epoch or a build takes any: 1:9.4-2 is a 9.4.

A library for PEP 440 refuses most of what nodes report (``1:9.4+dfsg-2``), and Debian's own order knows no
``rc``; what is needed is small, so it is here.

Source: Debian Policy 5.6.12 (epoch, tilde, revision) and PEP 440 (pre-releases, ``~=``), where they agree.
"""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import takewhile
from operator import eq, ge, gt, le, lt, ne

from leasehold.matching.verdict import FITS, Verdict, Why, never
from leasehold.model.errors import InvalidField, UnknownName

Key = tuple[tuple[int, int, str], ...]
"""What a release is ordered by: one entry for each run of digits or letters, and one for the end."""

_ALLOWED = re.compile(r"(?=.*\d)[0-9a-z.+~:_-]+")
_HYPHEN_OF_A_PRE_RELEASE = re.compile(r"-(?=(?:dev|alpha|beta|rc|pre)(?![a-z]))")
_FORM = re.compile(r"(?:(?P<epoch>\d+):)?v?(?P<release>[^-+]*)(?:[-+](?P<build>.*))?")
_PART = re.compile(r"\d+|[a-z]+|~")
_EARLY = {"~": 0, "dev": 1, "alpha": 2, "beta": 3, "rc": 4, "pre": 4}
_EARLY_BEFORE_A_NUMBER = {"a": 2, "b": 3, "c": 4}
_END, _ZERO = (2, 0, ""), (4, 0, "")


@dataclass(frozen=True, slots=True, order=True)
class Version:
    """A version in the order of versions; epoch and build are -1 and empty where none is written."""

    epoch: int
    release: Key
    build: Key

    def seen_by(self, asked: "Version") -> "Version":
        """Leave out what the version that is asked for does not speak of."""
        epoch = self.epoch if asked.epoch >= 0 else -1
        return replace(self, epoch=epoch, build=self.build if asked.build else ())


@lru_cache(maxsize=65_536)
def version(text: str) -> Version:
    """Take a version apart. Raises InvalidField for what is none."""
    lowered = text.strip().lower()
    found = _FORM.fullmatch(_HYPHEN_OF_A_PRE_RELEASE.sub("", lowered))
    if not _ALLOWED.fullmatch(lowered) or found is None:
        raise InvalidField("version", text, "a version such as 1.2.3, 2023a or 1:9.4-2")
    epoch, build = found["epoch"], found["build"]
    return Version(-1 if epoch is None else int(epoch), _key(found["release"]), () if build is None else _key(build))


def _key(text: str) -> Key:
    """Order the parts of a release; zeros that end a run of numbers say nothing."""
    key: list[tuple[int, int, str]] = []
    for found in _PART.finditer(text):
        part = found[0]
        if not part.isdecimal():
            _drop_zeros(key)
        key.append(_entry(part, before_a_number=text[found.end() : found.end() + 1].isdecimal()))
    _drop_zeros(key)
    return (*key, _END)


def _entry(part: str, *, before_a_number: bool) -> tuple[int, int, str]:
    if part.isdecimal():
        return (4, int(part), "")
    early = _EARLY | _EARLY_BEFORE_A_NUMBER if before_a_number else _EARLY
    return (1, early[part], "") if part in early else (3, 0, part)


def _drop_zeros(key: list[tuple[int, int, str]]) -> None:
    while key and key[-1] == _ZERO:
        key.pop()


def _numbers(text: str) -> list[int]:
    """Give the numbers that a version begins with, as they are written: of 3.10rc1 these are 3 and 10."""
    parts = takewhile(str.isdecimal, re.findall(r"\d+|[^\d.]", text.lower().rpartition(":")[2].lstrip("v")))
    return [int(part) for part in parts]


_COMPARISONS: dict[str, Callable[[Version, Version], bool]] = {
    "==": eq, "!=": ne, ">=": ge, "<=": le, ">": gt, "<": lt
}  # fmt: skip
OPERATORS = (*_COMPARISONS, "~=")


@dataclass(frozen=True, slots=True)
class Constraint:
    """What a version has to be, as ``>= 3.11``; ``~= 3.11`` is at least 3.11 and still a 3.

    Raises UnknownName for an operator that is none, InvalidField for a version that is none, and for ``~=``
    with one number only, which would allow everything later.
    """

    operator: str
    asked: str

    def __post_init__(self) -> None:
        """Refuse what means nothing."""
        if self.operator not in OPERATORS:
            raise UnknownName("operator", self.operator, OPERATORS)
        version(self.asked)
        if self.operator == "~=" and len(_numbers(self.asked)) <= 1:
            raise InvalidField("version", self.asked, "at least two numbers after ~=, such as ~= 3.11")

    def allows(self, installed: str) -> bool:
        """Whether an installed version will do; one that cannot be read as a version will not."""
        try:
            found = version(installed)
        except InvalidField:
            return False
        asked = version(self.asked)
        if self.operator == "~=":
            return found.seen_by(asked) >= asked and self._is_same_line(installed)
        return _COMPARISONS[self.operator](found.seen_by(asked), asked)

    def _is_same_line(self, installed: str) -> bool:
        """Whether all numbers that were asked for but the last are the same (PEP 440, compatible release)."""
        line = _numbers(self.asked)[:-1]
        found = _numbers(installed)
        return (found + [0] * len(line))[: len(line)] == line

    def __str__(self) -> str:
        return f"{self.operator} {self.asked}"


Installed = frozenset[tuple[str, str]]
"""Names in small letters, each with a version; an empty version is unknown."""

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
