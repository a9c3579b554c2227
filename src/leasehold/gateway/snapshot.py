"""Everything that a gateway can change, so that what is done to try something can be undone.

Objects stay the ones that they are, and get back what was in them: nothing that compares identities, shares
an object or holds a reference can tell that anything happened. No class has to know of this. Whatever can be
reached from the gateway is visited: attributes, containers, what functions close over, and generators of
random numbers. Nouns that never change (`VALUES`) and plain values are left out.

Of leases there can be a hundred thousand: those that are open are watched, and so is every `ValueDict`, so that
something is kept only of the few that change. Other containers are copied as wholes. A lease that is over does not
change, wherever it is still found.
"""

from collections import OrderedDict, deque
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import fields
from enum import Enum
from functools import partial
from itertools import repeat
from operator import attrgetter
from random import Random
from types import (
    BuiltinFunctionType,
    CellType,
    FunctionType,
    MappingProxyType,
    MethodType,
    ModuleType,
    NoneType,
    TracebackType,
)
from typing import Any, Protocol, Self

from leasehold.model.agreement import Agreement, Breach
from leasehold.model.coallocation import CoAllocationRequest, Component, Part
from leasehold.model.lease import Lease
from leasehold.model.request import Request
from leasehold.model.use import Holding, Segment
from leasehold.model.value_dict import ValueDict
from leasehold.routing.policy import Waiting
from leasehold.routing.view import SiteFacts
from leasehold.sharing.ledger import UsageGrant

VALUES: tuple[type, ...] = (
    *(Agreement, Breach, Component, UsageGrant, Holding, CoAllocationRequest),
    *(Lease, Request, Segment, SiteFacts, Waiting),
)
"""Nouns of which there can be very many, that never change once they are made; of leases see above."""

WATCHED: tuple[type, ...] = (Part,)
"""Nouns of which there can be very many, and of which nothing changes but which plain values they have."""

_PLAIN: tuple[type, ...] = (
    *(NoneType, bool, int, float, complex, str, bytes, range, Enum, type),
    *(BuiltinFunctionType, ModuleType, TracebackType),
)
_PLAIN_MODULES = frozenset({"datetime", "decimal", "fractions", "functools", "pathlib", "re", "uuid"})
_MISSING = object()


@contextmanager
def undone(root: object, leases: Iterable[Lease]) -> Iterator[None]:
    """Let everything that can be reached from ``root``, and these leases, be afterwards as it was before."""
    before = StateSnapshot(root, leases)
    try:
        yield
    finally:
        before.restore()


class Branch:
    """A state on which several things are tried, one after the other: a context manager, after which all is undone."""

    def __init__(self, root: object, leases: Collection[Lease]) -> None:
        """Begin with everything that can be reached from ``root``, and these leases."""
        self._root = root
        self._leases = leases
        self._snapshot: StateSnapshot | None = None

    def __enter__(self) -> Self:
        """Look at everything."""
        self._snapshot = StateSnapshot(self._root, self._leases)
        return self

    def __exit__(self, *_: object) -> None:
        """Undo what was done."""
        if self._snapshot is not None:
            self._snapshot.restore()

    def undo(self) -> None:
        """Undo what was done so far, and go on from there."""
        assert self._snapshot is not None, "used outside its block"
        if self._snapshot.has_copies:
            self._snapshot.restore()
            self._snapshot = None  # where looking again fails, there is nothing to undo
            self._snapshot = StateSnapshot(self._root, self._leases)
        else:
            self._snapshot.roll_back()

    def before(self, lease: Lease, name: str) -> Any:  # noqa: ANN401 - whatever the attribute is
        """Return what an attribute of a lease was when the branch began, or was last undone."""
        assert self._snapshot is not None, "used outside its block"
        return self._snapshot.before(lease, name)


class StateSnapshot:
    """How everything is that can be reached from ``root``, and the leases that are open."""

    def __init__(self, root: object, leases: Iterable[Lease]) -> None:
        """Look at everything; raises TypeError for what can neither be looked into nor be copied."""
        self._seen: set[int] = set()
        self._undo: list[Callable[[], object]] = []
        self._left: list[Any] = [root]
        self._slots: dict[type, list[str]] = {}
        self._kinds: dict[type, Callable[[Any], None] | None] = {}
        self._to_watch: list[Any] = []
        self._dicts: list[ValueDict[Any, Any]] = []
        self._watches: list[Watch] = []
        self.has_copies = False
        try:
            self._look_at_all()
            self._watches += watch(list(leases))
            self._watches += watch(self._to_watch)
            self._watches.append(DictWatch(self._dicts))
        except BaseException:
            self.restore()  # copies may have been put in the place of what cannot be looked into
            raise

    @property
    def visited(self) -> int:
        """How many objects were looked at, each by itself."""
        return len(self._seen)

    def _look_at_all(self) -> None:
        while self._left:
            found = self._left.pop()
            if id(found) not in self._seen:
                self._seen.add(id(found))
                visit = self._how(type(found))
                if visit is not None:
                    visit(found)

    def roll_back(self) -> None:
        """Let everything be as it was, to be changed again; not where something was tried on copies (`has_copies`)."""
        for watched in self._watches:
            watched.roll_back()
        for undo in self._undo:
            undo()

    def before(self, found: object, name: str) -> Any:  # noqa: ANN401 - whatever the attribute is
        """Return what an attribute of a watched object was; what it is, where it has not changed."""
        for watched in self._watches:
            value = watched.before(found, name)
            if value is not _MISSING:
                return value
        return getattr(found, name)

    def restore(self) -> None:
        """Let everything be as it was."""
        for watched in self._watches:
            watched.end()
        for undo in self._undo:
            undo()
        self._kinds.clear()  # it refers to our methods: without that circle all of this is freed at once

    # How to look at things, by their type

    def _how(self, kind: type) -> Callable[[Any], None] | None:
        """Say how objects of a type are visited; None for values."""
        if kind not in self._kinds:
            self._kinds[kind] = self._choose(kind)
        return self._kinds[kind]

    def _choose(self, kind: type) -> Callable[[Any], None] | None:
        if issubclass(kind, (*_PLAIN, *VALUES)):
            return None
        if issubclass(kind, WATCHED):
            return self._to_watch.append
        ways: list[tuple[type | tuple[type, ...], Callable[[Any], None]]] = [
            (ValueDict, self._dicts.append),
            (dict, self._dict),
            (list, self._list),
            (set, self._set),
            (deque, self._deque),
            ((tuple, frozenset), self._visit_all),
            (MappingProxyType, lambda found: self._visit_all(found.values())),
            (FunctionType, lambda found: self._visit_all(found.__closure__ or ())),
            (CellType, self._cell),
            (MethodType, lambda found: self._left.append(found.__self__)),
            (partial, lambda found: self._visit_all([found.func, *found.args, *found.keywords.values()])),
            (Random, self._random),
        ]
        for known, way in ways:
            if issubclass(kind, known):
                return way
        if kind.__module__ in _PLAIN_MODULES:
            return None
        if _attributes_of(kind) or kind.__dictoffset__ or _is_empty(kind):
            return self._attributes
        raise TypeError(f"cannot look into a {kind.__module__}.{kind.__qualname__}")

    def _visit_all(self, found: Collection[Any]) -> None:
        """Look at each of these; where there are many of a kind, at all of them at once."""
        kinds = set(map(type, found))
        to_visit = {kind for kind in kinds if self._how(kind) is not None}
        if kinds == {tuple} and len(set(map(len, found))) == 1:
            for column in zip(*found, strict=True):
                self._visit_all(column)
        elif to_visit:
            self._left.extend(one for one in found if type(one) in to_visit)

    def _dict(self, found: dict[Any, Any]) -> None:
        kept = found.copy() if type(found) in {dict, OrderedDict} else dict(found)
        self._undo.append(partial(_refill, found, kept))
        self._visit_all(kept.keys())
        try:
            self._visit_all(kept.values())
        except TypeError:
            found.update({key: self._looked_into(value) for key, value in kept.items()})
        self._attributes(found)

    def _list(self, found: list[Any]) -> None:
        kept = found.copy()
        self._undo.append(partial(found.__setitem__, slice(None), kept))
        try:
            self._visit_all(kept)
        except TypeError:
            found[:] = [self._looked_into(value) for value in kept]
        self._attributes(found)

    def _set(self, found: set[Any]) -> None:
        kept = found.copy()
        self._undo.append(partial(_refill_set, found, kept))
        self._visit_all(kept)

    def _deque(self, found: deque[Any]) -> None:
        kept = list(found)
        self._undo += (found.clear, partial(found.extend, kept))
        self._visit_all(kept)

    def _random(self, found: Random) -> None:
        self._undo.append(partial(found.setstate, found.getstate()))

    def _cell(self, found: CellType) -> None:
        self._slots_of(found, ("cell_contents",))

    def _attributes(self, found: object) -> None:
        """Keep the attributes of an object; what cannot be looked into is tried on a copy of it."""
        inside = getattr(found, "__dict__", None)
        if inside is not None:
            self._dict(inside)
        names = self._names(type(found))
        if names:
            self._slots_of(found, names)

    def _names(self, kind: type) -> list[str]:
        if kind not in self._slots:
            self._slots[kind] = _attributes_of(kind)
        return self._slots[kind]

    def _slots_of(self, found: object, names: Sequence[str]) -> None:
        """Keep the attributes of these names, as far as there are such."""
        kept = [getattr(found, name, _MISSING) for name in names]
        self._undo.append(partial(_put_all, found, names, kept))
        try:
            self._visit_all(kept)
        except TypeError:
            _put_all(found, names, list(map(self._looked_into, kept)))

    def _looked_into(self, value: object) -> object:
        """Look into a value later on; give a copy of one that cannot be looked into, to be changed."""
        try:
            if self._how(type(value)) is not None:
                self._left.append(value)
        except TypeError:
            self.has_copies = True
            return deepcopy(value)
        return value


def _refill(found: dict[Any, Any], kept: dict[Any, Any]) -> None:
    found.clear()
    found.update(kept)  # in the order that it had


def _refill_set(found: set[Any], kept: set[Any]) -> None:
    if found != kept:
        found.clear()
        found.update(kept)


def _put_all(found: object, names: Sequence[str], values: Sequence[object]) -> None:
    """Set attributes, of frozen dataclasses too; those that are missing stay as they are."""
    for name, value in zip(names, values, strict=True):
        if value is not _MISSING and getattr(found, name, _MISSING) is not value:
            object.__setattr__(found, name, value)


def _attributes_of(kind: type) -> list[str]:
    """Name what an object keeps besides its ``__dict__``: slots, and attributes of compiled classes."""
    names: dict[str, None] = {}
    for base in kind.__mro__:
        slots = base.__dict__.get("__slots__", ())
        for name in (
            *([slots] if isinstance(slots, str) else slots),
            *base.__dict__.get("__mypyc_attrs__", ()),
        ):
            is_private = name.startswith("__") and not name.endswith("__")
            names[f"_{base.__name__.lstrip('_')}{name}" if is_private else name] = None
    return [name for name in names if name not in {"__dict__", "__weakref__"}]


def _is_empty(kind: type) -> bool:
    """Whether objects of a type written in Python keep nothing at all."""
    return all("__slots__" in base.__dict__ for base in kind.__mro__[:-1])


# Watching objects of which there are too many to keep a copy of each
#
# While it is watched, an object belongs to a subclass of its class, which adds nothing but that it notes what an
# attribute was before it is set. So nothing is kept of those that do not change, which are nearly all. The class is
# made for one watch alone, and no other object, thread or watch can tell. Attributes of compiled classes (`make fast`)
# are set without asking a subclass: of such objects all values are kept, and compared.

_Before = dict[tuple[int, str], tuple[Any, Any]]
"""Of each attribute that was set, by object and name: the object, and what the attribute was."""

_set = object.__setattr__


class Watch(Protocol):
    """Objects that are watched from when it is made, to its end."""

    def roll_back(self) -> None:
        """Let each be as it was, and watch on."""

    def before(self, one: object, name: str) -> object:
        """Return the value that an attribute had; `_MISSING` for one that is not known to have changed."""

    def end(self) -> None:
        """Watch no longer, and let each be as it was."""


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

    def roll_back(self) -> None:
        for (_, name), (one, value) in self._before.items():
            _set(one, name, value)
        self._before.clear()

    def before(self, one: object, name: str) -> object:
        return self._before.get((id(one), name), (None, _MISSING))[1]

    def end(self) -> None:
        del self._noting.__setattr__
        _become(self._kind, self._found)
        self.roll_back()


def _become(kind: type, found: Sequence[Any]) -> None:
    any(map(setattr, found, repeat("__class__"), repeat(kind)))  # for a hundred thousand quicker than a loop


def _noting(kind: type, before: _Before) -> type:
    """Make a class as this one that notes what each attribute was before it is set for the first time."""
    make: Any = kind.__new__
    put: Any = kind.__setattr__

    def note(one: Any, name: str, value: object) -> None:  # noqa: ANN401 - whatever is watched
        key = (id(one), name)
        if key not in before and name != "__class__":  # restored by the other watcher
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

    def roll_back(self) -> None:
        for one, before, now in zip(self._found, self._before, self._now(), strict=True):
            if now != before:
                for name, value in zip(self._names, before, strict=True):
                    setattr(one, name, value)

    def before(self, one: object, name: str) -> object:
        for place, found in enumerate(self._found):
            if found is one:
                return self._before[place][self._names.index(name)]
        return _MISSING

    def end(self) -> None:
        self.roll_back()


# Watching dicts that have too many entries to be copied


class DictWatch:
    """Each `ValueDict` that was found, and what was put into it or removed from it."""

    def __init__(self, found: Sequence[ValueDict[Any, Any]]) -> None:
        """Watch these from now on, in the way in which objects are watched."""
        self._found = found
        self._kinds = list(map(type, found))
        self._changed: dict[int, _Entries] = {}
        noting = {kind: _noting_entries(kind, self._changed) for kind in set(self._kinds)}
        for one, kind in zip(found, self._kinds, strict=True):
            one.__class__ = noting[kind]

    def roll_back(self) -> None:
        """Let each be as it was, and watch on."""
        for entries in self._changed.values():
            entries.put_back()
        self._changed.clear()

    def before(self, one: object, name: str) -> object:  # noqa: ARG002 - of `Watch`
        """Know nothing of attributes."""
        return _MISSING

    def end(self) -> None:
        """Watch no longer, and let each be as it was."""
        for one, kind in zip(self._found, self._kinds, strict=True):
            one.__class__ = kind
        self.roll_back()


class _Entries:
    """What was in a dict before it changed.

    Of what is put in it is enough to know what was there. What is removed would come back at another place in the
    order: all entries are kept then.
    """

    def __init__(self, found: ValueDict[Any, Any]) -> None:
        self._found = found
        self._before: dict[Any, Any] = {}
        self._all: dict[Any, Any] | None = None

    def will_put(self, key: object) -> None:
        if self._all is None and key not in self._before:
            self._before[key] = self._found.get(key, _MISSING)

    def will_remove(self, key: object) -> None:
        if self._before.get(key) is _MISSING:  # it was put in just now
            del self._before[key]
        else:
            self.will_change()

    def will_change(self) -> None:
        if self._all is None:
            self._all = dict(self._found)
            _put_entries_back(self._all, self._before)
            self._before.clear()

    def put_back(self) -> None:
        if self._all is None:
            _put_entries_back(self._found, self._before)
        else:
            dict.clear(self._found)
            dict.update(self._found, self._all)


def _put_entries_back(found: dict[Any, Any], before: dict[Any, Any]) -> None:
    for key, value in before.items():
        if value is not _MISSING:
            dict.__setitem__(found, key, value)
        elif key in found:
            dict.__delitem__(found, key)


def _noting_entries(kind: type[ValueDict[Any, Any]], changed: dict[int, _Entries]) -> type[ValueDict[Any, Any]]:  # noqa: C901 - method after method
    """Make a class as this one that notes what is in a dict before that is changed."""

    def entries(found: ValueDict[Any, Any]) -> _Entries:
        if id(found) not in changed:
            changed[id(found)] = _Entries(found)
        return changed[id(found)]

    def put(found: Any, key: Any, value: Any) -> None:  # noqa: ANN401 - whatever is in it
        entries(found).will_put(key)
        kind.__setitem__(found, key, value)

    def delete(found: Any, key: Any) -> None:  # noqa: ANN401 - as above
        if key in found:
            entries(found).will_remove(key)
        kind.__delitem__(found, key)

    def pop(found: Any, key: Any, *default: Any) -> Any:  # noqa: ANN401 - as above
        if key in found:
            entries(found).will_remove(key)
        return kind.pop(found, key, *default)

    def setdefault(found: Any, key: Any, default: Any = None) -> Any:  # noqa: ANN401 - as above
        if key not in found:
            put(found, key, default)
        return found[key]

    def update(found: Any, *others: Any, **values: Any) -> None:  # noqa: ANN401 - as above
        for key, value in dict(*others, **values).items():
            put(found, key, value)

    def merge(found: Any, other: Any) -> Any:  # noqa: ANN401 - as above
        update(found, other)
        return found

    def popitem(found: Any) -> Any:  # noqa: ANN401 - as above
        entries(found).will_change()
        return kind.popitem(found)

    def clear(found: Any) -> None:  # noqa: ANN401 - as above
        entries(found).will_change()
        kind.clear(found)

    def copy(*_: object) -> Any:  # noqa: ANN401 - as above
        """Make another, as `deepcopy` does: that one is not watched."""
        return kind.__new__(kind)

    body = {
        "__slots__": (),
        "__module__": kind.__module__,
        "__new__": copy,
        "__setitem__": put,
        "__delitem__": delete,
        "__ior__": merge,
        "pop": pop,
        "setdefault": setdefault,
        "update": update,
        "popitem": popitem,
        "clear": clear,
    }
    return type(kind.__name__, (kind,), body)
