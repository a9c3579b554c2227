"""Policies that are functions: Leasehold's own by their names, other people's by entry point."""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.metadata import entry_points
from typing import Any, Generic, TypeVar, cast

from leasehold.model.description import PolicyDescription, described
from leasehold.model.errors import InvalidField, UnknownName

Function = TypeVar("Function", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Functions(Generic[Function]):
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
        others = sorted(entry_points(group=self.group).names - self.own.keys())
        return [*self.own, *others]

    def find(self, name: str) -> Function:
        """Find a policy by its name.

        Raises UnknownName with the nearest name, InvalidField for an entry point that is no function.
        """
        if name in self.own:
            return self.own[name]
        for entry_point in entry_points(group=self.group, name=name):
            found = entry_point.load()
            if callable(found) and not isinstance(found, type):
                return cast("Function", found)
            raise InvalidField(f"entry point {name}", entry_point.value, self.takes)
        raise UnknownName(self.kind, name, self.names())

    def describe(self, name: str) -> PolicyDescription:
        """Describe a policy: its question, rule and source. Raises UnknownName or InvalidField."""
        return described(name, inspect.getdoc(self.find(name)))
