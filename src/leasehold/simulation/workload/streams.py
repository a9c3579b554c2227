"""Named random streams, and the one check that every parameter of a workload passes."""

import hashlib
import math
import random

from leasehold.model.errors import InvalidField


def check_number(field: str, value: object, least: float, most: float = math.inf) -> float:
    """Return the value if it is a finite number from ``least`` to ``most``.

    Raises InvalidField naming the field.
    """
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not number or not isinstance(value, int | float) or not math.isfinite(value):
        raise InvalidField(field, value, "a finite number")
    if not least <= value <= most:
        bounds = f"at least {least:g}" if most == math.inf else f"from {least:g} to {most:g}"
        raise InvalidField(field, value, f"a number {bounds}")
    return value


def check_positive(field: str, value: object) -> float:
    """Return the value if it is a finite number above zero.

    Raises InvalidField naming the field.
    """
    number = check_number(field, value, 0.0)
    if number == 0.0:
        raise InvalidField(field, value, "a number above 0")
    return number


def random_stream(seed: int, *purpose: str) -> random.Random:
    """Return the generator of one purpose, such as ``random_stream(7, "C64", "sizes")``.

    The same on every machine and in every run (SHA-256, not ``hash``), and independent of all other purposes:
    to change what one draws, or how often, never shifts the others.
    """
    name = "\0".join((str(seed), *purpose))
    return random.Random(int.from_bytes(hashlib.sha256(name.encode()).digest()))
