"""Policies by name: what each says of itself, Leasehold's own and those that installed packages offer.

The decision core neither reads the disk nor imports other people's code: `leasehold.configuration` tells
`INSTALLED` how offers of packages are found.
"""

import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from inspect import cleandoc
from typing import Any, Generic, TypeVar, cast

from leasehold.model.errors import InvalidField, UnknownName


@dataclass(frozen=True, slots=True)
class PolicyDescription:
    """A policy in words; what its docstring does not say is empty."""

    name: str
    question: str
    rule: str
    source: str


def described(name: str, docstring: str | None) -> PolicyDescription:
    """Read it off a docstring: the first line is the question; ``Rule:`` and ``Source:`` say the rest."""
    text = cleandoc(docstring or "")
    return PolicyDescription(name, text.partition("\n")[0], _part(text, "Rule"), _part(text, "Source"))


def described_fields(docstring: str | None) -> dict[str, str]:
    """Read off a docstring what it says of each field, as in ````price``  what it is``."""
    found = re.findall(rf"^``(\w+)``{_REST}", cleandoc(docstring or ""), re.MULTILINE)
    return {name: _as_line(text) for name, text in found}


_REST = r"((?:.*)(?:\n[ \t]+.*)*)"
"""The rest of a line, with its indented continuation."""


def _part(text: str, title: str) -> str:
    """Give the sentence after ``Title:`` as one line."""
    found = re.search(rf"^{title}:{_REST}", text, re.MULTILINE)
    return _as_line(found[1]) if found else ""


def _as_line(text: str) -> str:
    return " ".join(text.split())


@dataclass(frozen=True, slots=True)
class Offered:
    """What an installed package offers under a name: where it says that it is, and what gets it there."""

    value: str
    load: Callable[[], object]


class InstalledPolicies:
    """Policies that installed packages offer, by entry point group; none until a lookup function is set."""

    def __init__(self) -> None:
        self._offers_of: Callable[[str], Mapping[str, Offered]] = lambda _: {}

    def look_with(self, offers_of: Callable[[str], Mapping[str, Offered]]) -> None:
        """Say what gives the offers of a group by their names."""
        self._offers_of = offers_of

    def names(self, group: str, own: Mapping[str, object]) -> list[str]:
        """List the names of a kind of policy, Leasehold's own first; those cannot be taken by others."""
        return [*own, *sorted(self._offers_of(group).keys() - own.keys())]

    def find(self, group: str, name: str) -> Offered | None:
        """Give what is offered under a name."""
        return self._offers_of(group).get(name)


INSTALLED = InstalledPolicies()

Function = TypeVar("Function", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class PolicyFunctions(Generic[Function]):
    """All policies of a kind; Leasehold's own names cannot be taken by others.

    ``kind``   what one of them is called, as in "broker policy"
    ``group``  the entry point group under which packages offer theirs
    ``takes``  what such a function is, as in "a function of an option"
    """

    kind: str
    group: str
    own: Mapping[str, Function]
    takes: str

    def names(self) -> list[str]:
        """List the names of all policies, Leasehold's own first."""
        return INSTALLED.names(self.group, self.own)

    def find(self, name: str) -> Function:
        """Find a policy by its name.

        Raises UnknownName with the nearest name, InvalidField for an entry point that is not a function.
        """
        if name in self.own:
            return self.own[name]
        offered = INSTALLED.find(self.group, name)
        if offered is None:
            raise UnknownName(self.kind, name, self.names())
        found = offered.load()
        if callable(found) and not isinstance(found, type):
            return cast("Function", found)
        raise InvalidField(f"entry point {name}", offered.value, self.takes)

    def describe(self, name: str) -> PolicyDescription:
        """Describe a policy: its question, rule and source. Raises UnknownName or InvalidField."""
        return described(name, inspect.getdoc(self.find(name)))
