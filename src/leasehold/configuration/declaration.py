"""Keys of configuration files, each declared once: at the field of the dataclass that holds its value.

::

    @dataclass(frozen=True, slots=True)
    class LogSpec:
        level: Annotated[str, Choice("the least severe message that is logged", of=LEVELS)] = "info"

    LOG = Table(LogSpec, "What is logged.")

A declaration says what the key means, which values it takes and in which unit; type and default are those of
the field. From that, `Table` reads, checks, writes and explains the table. A field without a declaration is
not a key: the code that makes the dataclass fills it in.

Each kind of key is a class with three short members: `read` checks a value
of a file, `write` gives a value back as a file has it, `accepts` tells people which values there are.
"""

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import KW_ONLY, MISSING, Field, dataclass, field, fields
from enum import StrEnum
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from leasehold.configuration.keys import MOST, MOST_MS, NOTHING, Keys
from leasehold.configuration.toml import value_text
from leasehold.model.errors import InvalidField, UnknownName
from leasehold.model.numbers import MOST_NUMBER

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
    ``unset``     what the reference says in place of a default that is not a number
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


@dataclass(frozen=True)
class Text(Key):
    """A text on one line; ``convert`` checks or changes it, and raises InvalidField with whatever field."""

    _: KW_ONLY
    convert: Callable[[str], str] | None = None
    accepts = "text"

    def read(self, keys: Keys, name: str, default: object) -> object:
        """Take a text, and convert it."""
        text = keys.text(name, default)
        if text is default or self.convert is None:
            return text
        with keys.at(name):
            return self.convert(str(text))


@dataclass(frozen=True)
class FilePath(Key):
    """A path, in which ``~`` and variables of the environment such as ``$HOME`` may stand."""

    accepts = "path"

    def read(self, keys: Keys, name: str, default: object) -> object:
        """Take a path; a relative one counts from the folder of the file."""
        text = keys.text(name, default)
        if text is default:
            return default
        found = os.path.expandvars(str(text))
        if "$" in found:
            raise InvalidField(keys.where(name), text, "a path in which every $VARIABLE is set")
        return (keys.folder / Path(found).expanduser()).absolute()

    def write(self, value: Path) -> str:
        """Give the path."""
        return str(value)


@dataclass(frozen=True)
class Flag(Key):
    """True or false."""

    accepts = "`true` or `false`"

    def read(self, keys: Keys, name: str, default: object) -> object:
        """Take true or false."""
        return keys.flag(name, default=default)


@dataclass(frozen=True)
class Whole(Key):
    """A whole number from ``least`` to ``most``."""

    _: KW_ONLY
    least: int = 1
    most: int = MOST

    @property
    def accepts(self) -> str:
        """Say the range."""
        return f"whole number {_range(self.least, None if self.most == MOST else self.most)}"

    def read(self, keys: Keys, name: str, default: object) -> object:
        """Take a whole number in the range."""
        return keys.whole(name, default, self.least, self.most)


@dataclass(frozen=True)
class Number(Key):
    """A number from ``least`` to ``most``."""

    _: KW_ONLY
    least: float = -MOST_NUMBER
    most: float = MOST_NUMBER

    @property
    def accepts(self) -> str:
        """Say the range."""
        return f"number {_range(self.least, None if self.most == MOST_NUMBER else self.most)}"

    def read(self, keys: Keys, name: str, default: object) -> object:
        """Take a number in the range, as a float."""
        number = keys.number(name, default, self.least, self.most)
        return float(number) if isinstance(number, int | float) else number


@dataclass(frozen=True)
class Seconds(Key):
    """A time: in whole milliseconds at a field ``..._ms``, in seconds in a file under ``..._s``."""

    _: KW_ONLY
    least_ms: int = 0
    most_ms: int = MOST_MS

    @property
    def accepts(self) -> str:
        """Say the range."""
        most_s = None if self.most_ms == MOST_MS else self.most_ms / 1000
        return f"seconds {_range(self.least_ms / 1000, most_s)}"

    def name_of(self, field_name: str) -> str:
        """Give the name of the field with its other unit."""
        return self.name or f"{field_name.removesuffix('_ms')}_s"

    def read(self, keys: Keys, name: str, default: object) -> object:
        """Take a time in the range, and give milliseconds."""
        return keys.milliseconds(name, default, self.least_ms, self.most_ms)

    def write(self, value: int) -> float:
        """Give seconds."""
        return in_seconds(value)


@dataclass(frozen=True)
class Choice(Key):
    """One name of several; ``of`` lists them, or is an enumeration, of which the value is then a member."""

    _: KW_ONLY
    of: Iterable[str] | type[StrEnum] | Callable[[], Iterable[str]]

    @property
    def names(self) -> list[str]:
        """List the names."""
        known = self.of if isinstance(self.of, Iterable) else self.of()
        return [str(name) for name in known]

    @property
    def accepts(self) -> str:
        """List the names."""
        return ", ".join(f'`"{name}"`' for name in self.names)

    def read(self, keys: Keys, name: str, default: object) -> object:
        """Take one of the names."""
        chosen = keys.name_of(name, self.names, default)
        if chosen is not default and isinstance(self.of, type) and issubclass(self.of, StrEnum):
            return self.of(str(chosen))
        return chosen

    def write(self, value: str) -> str:
        """Give the name."""
        return str(value)


@dataclass(frozen=True)
class Texts(Key):
    """A list of texts, held as a tuple; in a file, one text is a list of one."""

    accepts = "list of texts"

    def read(self, keys: Keys, name: str, default: object) -> object:
        """Take the texts."""
        return keys.texts(name, default)

    def write(self, value: Iterable[str]) -> list[str]:
        """Give the texts in their order."""
        return list(value)


@dataclass(frozen=True)
class TextSet(Texts):
    """A set of texts, written in alphabetical order; where ``of`` is an enumeration, its names."""

    _: KW_ONLY
    of: type[StrEnum] | None = None

    def read(self, keys: Keys, name: str, default: object) -> object:
        """Take the texts, all of them known ones."""
        texts = super().read(keys, name, default)
        if texts is default or not isinstance(texts, tuple):
            return default
        known = texts if self.of is None else [str(one) for one in self.of]
        for text in texts:
            if text not in known:
                raise UnknownName(keys.where(name), text, known)
        return frozenset(text if self.of is None else self.of(text) for text in texts)

    def write(self, value: Iterable[str]) -> list[str]:
        """Give the texts in alphabetical order."""
        return sorted(str(one) for one in value)


@dataclass(frozen=True)
class Counts(Key):
    """A table of whole numbers, each at least ``least``, under names that the user chooses."""

    _: KW_ONLY
    least: int = 1
    accepts = "table of whole numbers"

    def check(self, keys: Keys, name: str) -> None:
        """Refuse a name that is not one; raises InvalidField."""

    def read(self, keys: Keys, name: str, default: object) -> object:  # noqa: ARG002 - an absent table is empty
        """Take the table."""
        table = keys.table(name)
        for one in table.left():
            self.check(table, one)
        return {one: table.whole(one, least=self.least) for one in table.left()}

    def write(self, value: Mapping[str, int]) -> dict[str, int]:
        """Give the table."""
        return dict(value)


@dataclass(frozen=True)
class TextTable(Key):
    """A table of texts under names that the user chooses; ``convert`` is as for `Text`, of each of them."""

    _: KW_ONLY
    convert: Callable[[str], str] | None = None
    accepts = "table of texts"

    def read(self, keys: Keys, name: str, default: object) -> object:  # noqa: ARG002 - an absent table is empty
        """Take the table."""
        table, text = keys.table(name), Text(self.doc, convert=self.convert)
        return {one: text.read(table, one, NOTHING) for one in table.left()}

    def write(self, value: Mapping[str, str]) -> dict[str, str]:
        """Give the table."""
        return dict(value)


def _range(least: float, most: float | None) -> str:
    return f"from {least:,.10g}" if most is None else f"from {least:,.10g} to {most:,.10g}"
