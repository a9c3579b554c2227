"""Marks: what made a result, so that those of other code or of another configuration are not taken for it."""

import json
from collections.abc import Mapping, Sequence
from functools import cache
from hashlib import sha256
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Any

DECIDES = (
    "configuration",
    "model",
    "leasing",
    "routing",
    "gateway",
    "simulation/kernel.py",
    "simulation/scenario",
    "simulation/workload",
)
"""The parts of Leasehold that decide what a simulated federation does."""


def mark(parts: Sequence[str], configuration: Mapping[str, Any]) -> str:
    """Mark the results of a configuration, and of the code in these parts of Leasehold."""
    return sha256(f"{code_mark(tuple(parts))}{json.dumps(configuration)}".encode()).hexdigest()[:16]


@cache
def code_mark(parts: tuple[str, ...]) -> str:
    """Name code by what is in its files; a part is a package or a file below ``leasehold``."""
    package, digest = files("leasehold"), sha256()
    for part in parts:
        for text in _sources(package / part):
            digest.update(text)
    return digest.hexdigest()


def _sources(part: Traversable) -> list[bytes]:
    """Give the Python files of a package, or one file, in order of their names."""
    if part.is_file():
        return [part.read_bytes()] if part.name.endswith(".py") else []
    inside = sorted(part.iterdir(), key=lambda each: each.name)
    return [text for each in inside if each.name != "__pycache__" for text in _sources(each)]
