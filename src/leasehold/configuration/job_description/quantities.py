"""Amounts as people write them: ``2GiB``, ``2.4GHz``, and numbers that came as text, as all do in XML."""

import math
import re
from collections.abc import Mapping
from decimal import Decimal
from types import MappingProxyType

from leasehold.model.errors import InvalidField

_MOST_BITS = 128
_AMOUNT = re.compile(r"(?P<number>\d{1,20}(?:\.\d{1,9})?)\s*(?P<unit>[A-Za-z]*)", re.ASCII)
_WHOLE = re.compile(r"\d{1,19}(\.0+)?", re.ASCII)
_NUMBER = re.compile(r"\d*\.?\d+(e-?\d+)?", re.ASCII)

BYTES: Mapping[str, int] = MappingProxyType(
    {"B": 1}
    | {letter: 1024**power for power, letter in enumerate("KMGT", 1)}
    | {f"{letter}iB": 1024**power for power, letter in enumerate("KMGT", 1)}
    | {f"{letter}B": 1000**power for power, letter in enumerate("kMGT", 1)}
)
"""Units of memory and disk; a letter alone is binary, as with Slurm."""

HERTZ: Mapping[str, int] = MappingProxyType({"Hz": 1, "kHz": 1000, "MHz": 1000**2, "GHz": 1000**3})

MIB = BYTES["MiB"]
MHZ = HERTZ["MHz"]


def read_bytes(field: str, value: object, plain: str = "B") -> int:
    """Read an amount of memory or disk, in bytes; a number without a unit has the unit ``plain``."""
    return _amount(field, value, BYTES, plain, "2GiB")


def read_mib(field: str, value: object, plain: str = "B", least: int = 0) -> int:
    """Read an amount of memory or disk in MiB, rounded up; less than one is a unit that was forgotten."""
    count = read_bytes(field, value, plain)
    if count < least * MIB or 0 < count < MIB:
        raise InvalidField(field, value, f"at least 1 MiB: {_forms(BYTES, plain, '2GiB')}")
    return -(-count // MIB)


def read_mhz(field: str, value: object, plain: str = "Hz") -> int:
    """Read the speed of a core in MHz, rounded up; what is less than one is a unit that was forgotten."""
    hertz = _amount(field, value, HERTZ, plain, "2.4GHz")
    if 0 < hertz < MHZ:
        raise InvalidField(field, value, f"at least 1 MHz: {_forms(HERTZ, plain, '2.4GHz')}")
    return -(-hertz // MHZ)


def _amount(field: str, value: object, units: Mapping[str, int], plain: str, example: str) -> int:
    found = _AMOUNT.fullmatch(_text(value))
    unit = units.get(found["unit"] or plain) if found else None
    if found is None or unit is None:
        raise InvalidField(field, value, _forms(units, plain, example))
    return math.ceil(Decimal(found["number"]) * unit)


def _forms(units: Mapping[str, int], plain: str, example: str) -> str:
    return f"a number of {plain}, or one with its unit, such as {example} (units: {', '.join(units)})"


def read_whole(field: str, value: object, least: int, most: int) -> int:
    """Read a whole number from ``least`` to ``most``; 2.0 is one, too, as in a range of JSDL."""
    text = _text(value)
    if not _WHOLE.fullmatch(text) or not least <= int(Decimal(text)) <= most:
        raise InvalidField(field, value, f"a whole number from {least} to {most}")
    return int(Decimal(text))


def read_between(field: str, value: object, least: float, most: float) -> float:
    """Read a number above ``least`` and below ``most``."""
    text = _text(value)
    if not _NUMBER.fullmatch(text) or not least < float(text) < most:
        raise InvalidField(field, value, f"a number above {least:g} and below {most:g}")
    return float(text)


def _text(value: object) -> str:
    """Give a number or a text as text; of anything else nothing that could be an amount."""
    if isinstance(value, int) and value.bit_length() > _MOST_BITS:
        return ""  # Python refuses to write very long ones
    is_said = isinstance(value, int | float | str) and not isinstance(value, bool)
    return f"{value}".strip() if is_said else ""
