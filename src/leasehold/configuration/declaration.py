"""Keys of configuration files, each declared once: at the field of the dataclass that holds its value.

::

    @dataclass(frozen=True, slots=True)
    class LogSpec:
        level: Annotated[str, Choice("the least severe message that is logged", of=LEVELS)] = "info"

    LOG = Table(LogSpec, "What is logged.")

A declaration says what the key means, which values it takes and in which unit; type and default are those of
the field. From that, `Table` reads, checks, writes and explains the table. A field without a declaration is
no key: whoever makes the dataclass fills it in.

Each kind of key is a class (`leasehold.configuration.kinds`) with three short members: `read` checks a value
of a file, `write` gives a value back as a file has it, `accepts` tells people which values there are.
"""

from collections.abc import Mapping
from dataclasses import KW_ONLY, MISSING, Field, dataclass, field, fields
from functools import cached_property
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from leasehold.configuration.keys import NOTHING, Keys
from leasehold.configuration.toml import value_text

Plain = dict[str, Any]
"""Keys with their values, as a file has them."""


class _Dataclass(Protocol):
    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]


Made = TypeVar("Made", bound=_Dataclass)


def seconds(key: str, value_ms: int | None) -> Plain:
    """Give the key of a time in seconds, a whole number where it is one; nothing for no time."""
    return {} if value_ms is None else {key: in_seconds(value_ms)}


def in_seconds(value_ms: int) -> float:
    """Give a time in seconds, a whole number where it is one."""
    return value_ms // 1000 if value_ms % 1000 == 0 else value_ms / 1000


def differing(values: Plain, defaults: Plain) -> Plain:
    """Keep the values that are not the defaults."""
    return {key: value for key, value in values.items() if defaults.get(key) != value}


@dataclass(frozen=True)
class Key:
    """One key of a table.

    ``doc``       what it means, in one line of Markdown: the comment in a file, and in the reference
    ``more``      what only the reference adds
    ``unset``     what the reference says in place of a default that is no number
    ``name``      its name in the file, where the field has another one
    ``optional``  written only where it has a value: not for an empty text, list or table
    """

    doc: str
    _: KW_ONLY
    more: str = ""
    unset: str = ""
    name: str = ""
    optional: bool = False

    @property
    def accepts(self) -> str:
        """Say in Markdown which values are accepted."""
        raise NotImplementedError

    def name_of(self, field_name: str) -> str:
        """Give the name in the file of the key at this field."""
        return self.name or field_name

    def read(self, keys: Keys, name: str, default: object) -> object:
        """Take the value out of a table, checked; ``default`` is `NOTHING` where the key is required.

        Raises InvalidField or UnknownName with the place of the key as field.
        """
        raise NotImplementedError

    def write(self, value: Any) -> object:  # noqa: ANN401 - each kind of key has its own kind of values
        """Give a value as a file has it."""
        return value

    def to_dict(self, field_name: str, value: object) -> Plain:
        """Give the key with its value as a file has it; nothing for None, which no file can say."""
        if value is None or (self.optional and not value):
            return {}
        return {self.name_of(field_name): self.write(value)}


@dataclass(frozen=True)
class Within(Key):
    """Keys of this same table, whose values are held together in a dataclass of their own."""

    table: "Table[Any]"

    def read(self, keys: Keys, name: str, default: object) -> object:  # noqa: ARG002 - it has no name
        """Take these keys; others are left."""
        return self.table.take(keys, None if default is NOTHING else default)

    def to_dict(self, field_name: str, value: object) -> Plain:  # noqa: ARG002 - as above
        """Give these keys."""
        return self.table.to_dict(value)


@dataclass(frozen=True)
class Below(Key):
    """A table below this one."""

    table: "Table[Any]"
    accepts = "table"

    def read(self, keys: Keys, name: str, default: object) -> object:
        """Take the whole table."""
        return self.table.read(keys.table(name), None if default is NOTHING else default)

    def write(self, value: object) -> Plain:
        """Give its keys."""
        return self.table.to_dict(value)


@dataclass(frozen=True)
class Table(Generic[Made]):
    """One table of a file, and the dataclass that holds its values.

    ``made``   the dataclass, which may raise nothing that its declarations let pass
    ``about``  what the table is for, in one line
    ``keys``   the declaration of each field, for a dataclass that belongs to a layer without files
    """

    made: type[Made]
    about: str = ""
    keys: Mapping[str, Key] = field(default_factory=dict)

    @cached_property
    def declared(self) -> Mapping[str, Key]:
        """The declaration of each field that is a key, in order."""
        at_fields = {
            one.name: key
            for one in fields(self.made)
            for key in getattr(one.type, "__metadata__", ())
            if isinstance(key, Key)
        }
        return self.keys or at_fields

    def read(self, keys: Keys, default: Made | None = None) -> Made:
        """Take all keys of a table, as `take` does, and refuse others."""
        made = self.take(keys, default)
        keys.done()
        return made

    def take(self, keys: Keys, default: Made | None = None) -> Made:
        """Take the keys out of a table and check each.

        A key that is absent has its value in ``default``, or else the default of its field; where there is
        neither it is required. Raises InvalidField or UnknownName with the place of the key as field.
        """
        return self.made(**self.values(keys, default))

    def values(self, keys: Keys, default: Made | None = None) -> dict[str, Any]:
        """Take the keys as `take` does, and give the value of each field that is a key."""
        keys.expect(key.name_of(name) for name, key in self.declared.items())
        return {
            name: key.read(keys, key.name_of(name), self._default(name, default)) for name, key in self.declared.items()
        }

    def _default(self, name: str, default: Made | None) -> object:
        if default is not None:
            return getattr(default, name)
        one = self.made.__dataclass_fields__[name]
        if one.default_factory is not MISSING:
            return one.default_factory()
        return NOTHING if one.default is MISSING else one.default

    def to_dict(self, value: Made) -> Plain:
        """Give the keys with their values as a file has them: `read` gives an equal value from them."""
        plain: Plain = {}
        for name, key in self.declared.items():
            plain |= key.to_dict(name, getattr(value, name))
        return plain

    def defaults(self) -> Plain:
        """Give the keys that have a default, with its value as a file has it."""
        plain: Plain = {}
        for name, key in self.declared.items():
            default = self._default(name, None)
            plain |= {} if default is NOTHING else key.to_dict(name, default)
        return plain

    def by_name(self) -> dict[str, Key]:
        """Give each key by its name in the file, those of `Within` among them."""
        found: dict[str, Key] = {}
        for name, key in self.declared.items():
            found |= key.table.by_name() if isinstance(key, Within) else {key.name_of(name): key}
        return found

    def reference(self, default: Made | None = None) -> list[str]:
        """Give the rows of the reference for this table, in Markdown; ``default`` is as for `take`.

        A row has the key, what it means, which values it takes, and its default.
        """
        rows: list[str] = []
        for name, key in self.declared.items():
            value = self._default(name, default)
            if isinstance(key, Within):
                rows += key.table.reference(None if value is NOTHING else value)
            else:
                cells = (f"`{key.name_of(name)}`", key.doc + key.more, key.accepts, _shown(key, value))
                rows.append(f"| {' | '.join(cells)} |")
        return rows


def _shown(key: Key, default: object) -> str:
    if key.unset and not isinstance(default, int | float):
        return key.unset
    if default is None:
        return "none"
    return "required" if default is NOTHING else f"`{value_text(key.write(default))}`"
