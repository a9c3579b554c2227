"""On which line of a TOML file does a key stand?

The TOML reader of Python keeps no lines, so this looks at the text: table headers and the keys at the start
of lines. That finds every key that a person would write; one inside an inline table has the line on which
its table begins.
"""

import re
from collections import Counter

_HEADER = re.compile(r"^\s*(?P<open>\[\[?)\s*(?P<name>[^\]#]+?)\s*\]")
_KEY = re.compile(r"^\s*(?P<name>[A-Za-z0-9_\-.\"' ]+?)\s*=")
_STEP = re.compile(r"\[\d+\]|[^.\[\]]+")


def line_of(place: str, text: str) -> int | None:
    """Find the line (from 1) of a place such as ``cluster[0].overhead.network_mbps``.

    A key that is not there has the line of the nearest table around it; None if not even that is there.
    """
    lines = _lines(text)
    steps = _STEP.findall(place)
    while steps:
        if tuple(steps) in lines:
            return lines[tuple(steps)]
        steps.pop()
    return None


def _lines(text: str) -> dict[tuple[str, ...], int]:
    """Give the first line of each table and key."""
    found: dict[tuple[str, ...], int] = {}
    many: Counter[tuple[str, ...]] = Counter()
    table: tuple[str, ...] = ()
    for number, line in enumerate(text.splitlines(), start=1):
        if header := _HEADER.match(line):
            names = _names(header["name"])
            if header["open"] == "[[":
                many[names] += 1
            table = _numbered(names, many)
            found.setdefault(table, number)
            found.setdefault(names, number)
        elif key := _KEY.match(line):
            steps = (*table, *_names(key["name"]))
            for end in range(len(table) + 1, len(steps) + 1):
                found.setdefault(steps[:end], number)
    return found


def _numbered(names: tuple[str, ...], many: Counter[tuple[str, ...]]) -> tuple[str, ...]:
    """Put its number after each name that stands for a list of tables: the last one begun."""
    steps: tuple[str, ...] = ()
    for end, name in enumerate(names, start=1):
        steps += (name,)
        if many[names[:end]]:
            steps += (f"[{many[names[:end]] - 1}]",)
    return steps


def _names(dotted: str) -> tuple[str, ...]:
    return tuple(name.strip().strip("\"'") for name in dotted.split("."))
