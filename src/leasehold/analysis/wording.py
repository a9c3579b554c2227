"""Numbers as people read them: ``1,234``, ``12.3 %``, ``2 h 05 min``, ``1 lease``, ``3 leases``."""

_MINUTE_S = 60
_HOUR_S = 3_600
_DAY_S = 86_400
NOTHING = "-"
"""The placeholder where nothing could be measured."""

_COUNTED = frozenset({"leases", "VMs"})
"""Units that the name of a measure says already."""


def number(value: float | None, digits: int = 0) -> str:
    """Write a number with thousands separated; ``digits`` after the point."""
    return NOTHING if value is None else f"{value:,.{digits}f}"


def percent(value: float | None) -> str:
    """Write a percentage: one digit after the point, two where the first would be zero."""
    if value is None:
        return NOTHING
    digits = 2 if 0 < abs(value) < 0.1 else 1  # noqa: PLR2004 - below it, one digit shows nothing
    return f"{value:,.{digits}f} %"


def share(part: float, whole: float) -> str:
    """Write what part of a whole something is, in percent."""
    return percent(100 * part / whole if whole else None)


def duration(seconds: float | None) -> str:
    """Write a duration in the two units that matter: ``45 s``, ``12 min``, ``2 h 05 min``, ``3 d 4 h``."""
    if seconds is None:
        return NOTHING
    if seconds < 0:
        return "-" + duration(-seconds)
    if seconds < 10 and seconds != int(seconds):  # noqa: PLR2004 - short ones deserve a fraction
        return f"{seconds:.1f} s"
    return _whole_duration(round(seconds))


def _whole_duration(seconds: int) -> str:
    if seconds < 2 * _MINUTE_S:
        return f"{seconds} s"
    if seconds < 2 * _HOUR_S:
        return f"{round(seconds / _MINUTE_S)} min"
    if seconds < 2 * _DAY_S:
        hours, minutes = divmod(round(seconds / _MINUTE_S), 60)
        return f"{hours} h {minutes:02} min"
    days, hours = divmod(round(seconds / _HOUR_S), 24)
    return f"{days} d {hours} h"


def count(how_many: int, one: str, several: str = "") -> str:
    """Write a count with its noun: ``1 lease``, ``3 leases``."""
    return f"{how_many:,} {one if how_many == 1 else several or one + 's'}"


def listed(parts: list[str]) -> str:
    """Join words as a sentence does: ``a, b and c``."""
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}" if parts else ""


def value(amount: float | None, unit: str) -> str:
    """Write a measured value with its unit; durations in seconds become readable ones."""
    if unit == "s":
        return duration(amount)
    if unit == "%":
        return percent(amount)
    if unit == "":
        return NOTHING if amount is None else f"{amount:,.2f}".removesuffix(".00")
    if amount is None or unit in _COUNTED:
        return number(amount)
    return f"{number(amount)} {unit}"
