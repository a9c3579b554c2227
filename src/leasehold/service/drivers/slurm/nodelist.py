"""Slurm's short way to write many names and many numbers: ``node[1-3,07],gpu1`` and ``1-5,9%2``."""

import re
from collections.abc import Iterator
from itertools import islice

_PART = re.compile(r"[^,\[]+|\[[^\]]*\]")


def node_names(text: str) -> list[str]:
    """Write out a list of node names; ``(null)`` and nothing are empty."""
    if text in {"", "(null)", "None"}:
        return []
    return [name for group in _groups(text) for name in _expanded(_PART.findall(group))]


def _groups(text: str) -> Iterator[str]:
    """Part a list at its commas, but for those within brackets."""
    yield from re.findall(r"(?:[^,\[]|\[[^\]]*\])+", text)


def _expanded(parts: list[str]) -> list[str]:
    names = [""]
    for part in parts:
        endings = _numbers(part[1:-1]) if part.startswith("[") else [part]
        names = [name + ending for name in names for ending in endings]
    return names


def _numbers(ranges: str) -> list[str]:
    """Write out ``1-3,07``, each number as wide as the first of its range."""
    numbers: list[str] = []
    for part in ranges.split(","):
        first, _, last = part.partition("-")
        width = len(first)
        numbers += [f"{number:0{width}}" for number in range(int(first), int(last or first) + 1)]
    return numbers


def task_numbers(text: str, most: int) -> list[int]:
    """Write out the first ``most`` numbers of an array's tasks, as ``1-5,9`` or ``0-10:2%4``."""
    return list(islice(_tasks(text.partition("%")[0]), most))


def _tasks(text: str) -> Iterator[int]:
    for part in text.split(","):
        numbers, _, step = part.partition(":")
        first, _, last = numbers.partition("-")
        if first.isdigit():
            yield from range(int(first), int(last or first) + 1, int(step or 1))
