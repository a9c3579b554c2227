"""The names that users give to a backfiller's reservation depth."""

from leasehold.model.errors import InvalidField, UnknownName

DISCIPLINES: dict[str, int | None] = {"fcfs": 0, "easy": 1, "hybrid": 8, "conservative": None}


def reservation_depth(name: str) -> int | None:
    """The depth behind ``fcfs``, ``easy``, ``hybrid``, ``hybrid:N`` or ``conservative`` (None: all).

    Raises UnknownName or InvalidField.
    """
    discipline, _, depth = name.partition(":")
    if discipline not in DISCIPLINES:
        raise UnknownName("policy", name, DISCIPLINES)
    if not depth and ":" not in name:
        return DISCIPLINES[discipline]
    if discipline != "hybrid" or not depth.isdecimal() or int(depth) < 1:
        raise InvalidField("policy", name, "hybrid:N with a whole number N of at least 1")
    return int(depth)
