"""How a command ended, and what it said where."""

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Said:
    """The exit code of a command, and all of its two outputs."""

    code: int
    out: str
    err: str


Cli = Callable[..., Said]
"""Runs ``leasehold`` with these arguments."""
