"""The kinds of keys that a table may have: how a value is checked, written, and described to people."""

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import KW_ONLY, dataclass
from enum import StrEnum
from pathlib import Path

from leasehold.configuration.declaration import Key, in_seconds
from leasehold.configuration.keys import MOST, MOST_MS, NOTHING, Keys
from leasehold.model.errors import InvalidField, UnknownName
from leasehold.model.numbers import MOST_NUMBER


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
