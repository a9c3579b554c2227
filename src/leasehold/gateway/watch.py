"""What is set of objects meanwhile, where there are too many of them to keep a copy of each.

While it is watched, an object belongs to a subclass of its class, which adds nothing but that it notes what
an attribute was before it is set. So nothing is kept of those that nobody changes, which are nearly all. The
class is made for one watch alone, and no other object, thread or watch can tell.

Attributes of compiled classes (`make fast`) are set without asking a subclass. Of such objects all values
are kept, and compared.
"""

from collections.abc import Sequence
from dataclasses import fields
from itertools import repeat
from operator import attrgetter
from typing import Any, Protocol

_Before = dict[tuple[int, str], tuple[Any, Any]]
"""Of each attribute that was set, by object and name: the object, and what the attribute was."""

_set = object.__setattr__


class Watch(Protocol):
    """Objects that are watched from when it is made, to its end."""

    def end(self) -> None:
        """Watch no longer, and let each have the values that it had."""


def watch(found: Sequence[Any]) -> list[Watch]:
    """Watch objects of dataclasses, each of which has a value for each field of its class."""
    kinds = set(map(type, found))
    return [
        (_Kept if is_compiled(kind) else _Noted)(
            kind, found if len(kinds) == 1 else [one for one in found if type(one) is kind]
        )
        for kind in kinds
    ]


def is_compiled(kind: type) -> bool:
    """Whether a class was compiled by mypyc."""
    return hasattr(kind, "__mypyc_attrs__")


class _Noted:
    """Objects of one class, and what was set of them."""

    def __init__(self, kind: type, found: Sequence[Any]) -> None:
        self._kind = kind
        self._found = found
        self._before: _Before = {}
        self._noting = _noting(kind, self._before)
        _become(self._noting, found)

    def end(self) -> None:
        del self._noting.__setattr__
        _become(self._kind, self._found)
        for (_, name), (one, value) in self._before.items():
            _set(one, name, value)


def _become(kind: type, found: Sequence[Any]) -> None:
    any(map(setattr, found, repeat("__class__"), repeat(kind)))  # for a hundred thousand quicker than a loop


def _noting(kind: type, before: _Before) -> type:
    """Make a class as this one that notes what each attribute was before it is set for the first time."""
    make: Any = kind.__new__
    put: Any = kind.__setattr__

    def note(one: Any, name: str, value: object) -> None:  # noqa: ANN401 - whatever is watched
        key = (id(one), name)
        if key not in before and name != "__class__":  # who else watches puts that back
            before[key] = (one, getattr(one, name))
        put(one, name, value)

    def copy(_: type, *args: Any, **values: Any) -> Any:  # noqa: ANN401 - as above
        """Make another, as `replace` and `deepcopy` do: that one is not watched."""
        return kind(*args, **values) if args or values else make(kind)

    body = {"__slots__": (), "__module__": kind.__module__, "__setattr__": note, "__new__": copy}
    return type(kind.__name__, (kind,), body)


class _Kept:
    """Objects of one class, and what they were."""

    def __init__(self, kind: type, found: Sequence[Any]) -> None:
        self._found = found
        self._names = tuple(field.name for field in fields(kind))
        self._before = self._now()

    def _now(self) -> list[tuple[Any, ...]]:
        return list(map(attrgetter(*self._names), self._found))

    def end(self) -> None:
        for one, before, now in zip(self._found, self._before, self._now(), strict=True):
            if now != before:
                for name, value in zip(self._names, before, strict=True):
                    setattr(one, name, value)
