"""Objects of a JSON document that is larger than memory: those of one list at its top, one after the other."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from leasehold.model.errors import InputError
from leasehold.simulation.workload.log_record import text_lines

_BLANK = " \t\r\n"
_DECODER = json.JSONDecoder()


def objects_in(path: Path, key: str) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the objects of the list under ``key``, each with the line on which it begins.

    Memory grows with the largest object, not with the file. Raises InputError, with file and line, for text that is not
    JSON, for a document without this list, and for an entry of it that is not an object.
    """
    text = _Text(path)
    text.expect("{", f"a JSON object with a list {key!r}")
    if text.peek() != "}":
        while True:
            line = text.line
            name = text.value()
            if not isinstance(name, str):
                raise InputError(path, line, f"is not valid JSON: found {name!r}, expected the name of a value")
            text.expect(":", "a value")
            if name == key:
                yield from _entries(text, key)
                return
            text.value()
            if text.peek() == "}":
                break
            text.expect(",", "a comma or the end of the object")
    raise InputError(path, None, f"has no list {key!r}")


def _entries(text: "_Text", key: str) -> Iterator[tuple[int, dict[str, Any]]]:
    text.expect("[", f"the list {key!r}")
    if text.peek() == "]":
        return
    while True:
        text.peek()
        line = text.line
        value = text.value()
        if not isinstance(value, dict):
            raise InputError(text.path, line, f"an entry of {key!r} is not an object")
        yield line, value
        if text.peek() == "]":
            return
        text.expect(",", f"a comma or the end of the list {key!r}")


class _Text:
    """The text of a file, as much of it as has not been understood yet; ``line`` is where that begins."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.line = 1
        self._lines = text_lines(path)
        self._rest = ""

    def peek(self) -> str:
        """Give the next character that is not blank; raises InputError at the end of the file."""
        while True:
            kept = self._rest.lstrip(_BLANK)
            self.line += self._rest.count("\n") - kept.count("\n")
            self._rest = kept
            if kept:
                return kept[0]
            if not self._read_on():
                raise InputError(self.path, self.line, "is cut off: the JSON document does not end")

    def expect(self, character: str, what: str) -> None:
        """Take one character."""
        if self.peek() != character:
            raise InputError(self.path, self.line, f"is not valid JSON: found {self._rest[0]!r}, expected {what}")
        self._rest = self._rest[1:]

    def value(self) -> object:
        """Take a whole value, reading on until it is whole."""
        self.peek()
        while True:
            try:
                value, end = _DECODER.raw_decode(self._rest)
            except json.JSONDecodeError as error:
                if self._read_on():
                    continue
                line = self.line + self._rest.count("\n", 0, error.pos)
                raise InputError(self.path, line, f"is not valid JSON: {error.msg}") from None
            except RecursionError:
                raise InputError(self.path, self.line, "is nested too deeply") from None
            if end == len(self._rest) and self._read_on():  # a number may go on
                continue
            self.line += self._rest.count("\n", 0, end)
            self._rest = self._rest[end:]
            return value

    def _read_on(self) -> bool:
        """Read as much again as there is, a piece at least: an object is then tried a few times, not once a line."""
        wanted = max(len(self._rest), 1 << 16)
        pieces = [self._rest]
        for line in self._lines:
            pieces.append(line)
            wanted -= len(line)
            if wanted <= 0:
                break
        self._rest = "".join(pieces)
        return len(pieces) > 1
