"""One table of a TOML file, read key by key: every value is checked, and no key goes unread.

What is wrong is raised as InvalidField or UnknownName with the key's whole place as field, such as
``cluster[0].overhead.network_mbps``; `leasehold.configuration.toml.line_of` finds its line.

Every value is bounded, also where its reader says no bound: who writes a file, or sends one, cannot make its
reader work or remember without end.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from difflib import get_close_matches
from pathlib import Path
from typing import Any, TypeVar

from leasehold.model.errors import InvalidField, UnknownName
from leasehold.model.numbers import MOST_NUMBER

MOST = 2**31
"""The largest whole number, unless the reader of a key says otherwise: as many units, MiB, points."""

MOST_SEED = 2**53
"""The largest seed of random numbers."""

MOST_SLOTS = 1_000_000
"""The most VMs that one cluster has at a time, and nodes and the like."""

MOST_MS = 100 * 365 * 86_400_000
"""The longest time: a hundred years."""

MOST_CHARACTERS = 4_096
"""The longest text."""

MOST_ENTRIES = 10_000
"""The longest list, of texts or of tables."""

Default = TypeVar("Default")
_A_TYPO = 0.8


NOTHING: Any = object()
"""The default of a key that must be there."""


class Keys:
    """The keys of one table: ``place`` is where it stands ("" for the whole file).

    Relative paths in it count from ``folder``.

    Each method takes one key out, checks its value and returns it, or ``default`` where the key is absent;
    without a default the key must be there. `done` refuses the keys that were not read.
    """

    def __init__(self, values: object, place: str = "", folder: Path = Path()) -> None:
        if not isinstance(values, Mapping):
            raise InvalidField(place or "the whole file", values, "a table")
        self._values = dict(values)
        self._known: list[str] = []
        self._expected: set[str] = set()
        self.place = place
        self.folder = folder

    def __contains__(self, key: str) -> bool:
        """Whether the key is there and was not taken yet."""
        return key in self._values

    def expect(self, names: Iterable[str]) -> None:
        """Note keys that will be taken, so that none of them passes for another one with a typo."""
        self._expected |= set(names)

    def peek(self, key: str) -> object:
        """Give the value of a key that is still to be taken, unchecked; None where it is absent."""
        return self._values.get(key)

    def left(self) -> list[str]:
        """List the keys that were not taken yet, in the order of the file."""
        return list(self._values)

    def where(self, key: str) -> str:
        """Give the whole place of a key, on one line whatever the key is."""
        shown = key if key.isprintable() else repr(key)
        return f"{self.place}.{shown}" if self.place else shown

    def take(self, key: str, default: Default = NOTHING, expected: str = "a value") -> Any | Default:  # noqa: ANN401
        """Take any value, unchecked."""
        self._known.append(key)
        value = self._values.pop(key, default)
        if value is NOTHING:
            for typo in get_close_matches(key, self._values.keys() - self._expected, n=1, cutoff=_A_TYPO):
                raise UnknownName(self.where(typo), typo, [key])
            raise InvalidField(self.where(key), None, expected)
        return value

    def text(self, key: str, default: Default = NOTHING) -> str | Default:
        """Take a text on one line that is not empty."""
        expected = f"a text in quotes, on one line, of 1 to {MOST_CHARACTERS} characters"
        value = self.take(key, default, expected)
        if value is default:
            return default
        if not _is_text(value):
            raise InvalidField(self.where(key), value, expected)
        return str(value)

    def texts(self, key: str, default: Default = NOTHING) -> tuple[str, ...] | Default:
        """Take a list of texts, none of them empty; a single text is a list of one."""
        expected = f"a text in quotes, or a list of at most {MOST_ENTRIES} such texts"
        value = self.take(key, default, expected)
        if value is default:
            return default
        texts = [value] if isinstance(value, str) else value
        if not isinstance(texts, list) or len(texts) > MOST_ENTRIES or not all(map(_is_text, texts)):
            raise InvalidField(self.where(key), value, expected)
        return tuple(texts)

    def flag(self, key: str, *, default: object = NOTHING) -> bool:
        """Take true or false."""
        value = self.take(key, default, "true or false")
        if not isinstance(value, bool):
            raise InvalidField(self.where(key), value, "true or false")
        return value

    def name_of(self, key: str, known: Iterable[str], default: Default = NOTHING) -> str | Default:
        """Take one of the known names; a typo raises UnknownName with the nearest."""
        names = [str(name) for name in known]
        expected = f"one of {', '.join(names)}"
        is_absent = key not in self
        value = self.take(key, default, expected)
        if is_absent:
            return default
        if not isinstance(value, str):
            raise InvalidField(self.where(key), value, expected)
        if value not in names:
            raise UnknownName(self.where(key), value, names)
        return value

    def whole(self, key: str, default: Default = NOTHING, least: int = 1, most: int = MOST) -> int | Default:
        """Take a whole number from ``least`` to ``most``."""
        expected = f"a whole number from {least} to {most}"
        is_absent = key not in self  # a default may be out of range; the same value, stated, is refused
        value = self.take(key, default, expected)
        if is_absent:
            return default
        if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
            raise InvalidField(self.where(key), value, expected)
        return value

    def whole_or_name(
        self, key: str, known: Iterable[str], default: Default = NOTHING, most: int = MOST
    ) -> int | str | Default:
        """Take a whole number from 1 to ``most``, or one of the known names."""
        names = [str(name) for name in known]
        expected = f"a whole number from 1 to {most}, or one of {', '.join(names)}"
        value = self.take(key, default, expected)
        if value is default:
            return default
        if isinstance(value, str):
            if value not in names:
                raise UnknownName(self.where(key), value, names)
            return value
        if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= most:
            raise InvalidField(self.where(key), value, expected)
        return value

    def number(
        self,
        key: str,
        default: Default = NOTHING,
        least: float = -MOST_NUMBER,
        most: float = MOST_NUMBER,
    ) -> float | Default:
        """Take a number from ``least`` to ``most``."""
        expected = f"a number from {least:g} to {most:g}"
        value = self.take(key, default, expected)
        if value is default:
            return default
        if not isinstance(value, int | float) or isinstance(value, bool):
            raise InvalidField(self.where(key), value, expected)
        if not least <= value <= most:  # as NaN never is
            raise InvalidField(self.where(key), value, expected)
        return value

    def milliseconds(
        self, key: str, default: Default = NOTHING, least_ms: int = 0, most_ms: int = MOST_MS
    ) -> int | Default:
        """Take a number of seconds and give whole milliseconds; the default is in milliseconds too."""
        if key not in self and default is not NOTHING:
            return self.take(key, default)
        return round(self.number(key, NOTHING, least_ms / 1000, most_ms / 1000) * 1000)

    def table(self, key: str) -> "Keys":
        """Take a table; an absent one is empty."""
        return Keys(self.take(key, {}), self.where(key), self.folder)

    def tables(self, key: str) -> "list[Keys]":
        """Take a list of tables; an absent one is empty."""
        values: object = self.take(key, [])
        if not isinstance(values, list) or len(values) > MOST_ENTRIES:
            expected = f"at most {MOST_ENTRIES} tables, each under its own [[{key}]]"
            raise InvalidField(self.where(key), values, expected)
        return [Keys(value, f"{self.where(key)}[{index}]", self.folder) for index, value in enumerate(values)]

    @contextmanager
    def at(self, key: str) -> Iterator[None]:
        """Say the place of this key in whatever InvalidField is raised inside."""
        try:
            yield
        except InvalidField as error:
            raise InvalidField(self.where(key), error.value, error.expected) from None

    @contextmanager
    def inside(self) -> Iterator[None]:
        """Say the place of this table before the field of whatever InvalidField is raised inside."""
        try:
            yield
        except InvalidField as error:
            raise InvalidField(self.where(error.field), error.value, error.expected) from None

    def done(self) -> None:
        """Refuse the first key that was not read, and offer the nearest that exists."""
        for key in self._values:
            raise UnknownName(self.where(key), key, self._known)


def _is_text(value: object) -> bool:
    is_short = isinstance(value, str) and len(value) <= MOST_CHARACTERS
    return is_short and bool(str(value).strip()) and str(value).isprintable()
