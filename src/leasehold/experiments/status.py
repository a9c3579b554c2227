"""How a printed number, or a claim, came out: one word for each."""

from collections import Counter
from collections.abc import Iterable
from enum import StrEnum


class Status(StrEnum):
    """How a printed number, or a claim, came out; each evaluation says what that takes."""

    REPRODUCED = "reproduced"
    IN_DIRECTION = "in direction"
    NOT_REPRODUCED = "not reproduced"
    NOT_COMPARABLE = "not comparable"


def counted(statuses: Iterable[Status]) -> dict[Status, int]:
    """Count how many came out how; every status is there."""
    found = Counter(statuses)
    return {status: found[status] for status in Status}


def in_words(counts: dict[Status, int]) -> str:
    """Write the counts, but for those that are zero: ``3 reproduced, 1 in direction``."""
    return ", ".join(f"{count} {status}" for status, count in counts.items() if count)
