"""Claims of publications, tested on our results by paired differences, and their status words."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Generic, TypeVar

import numpy as np

from leasehold.experiments.statistics import Interval, Paired, Values, holm, paired

ALPHA = 0.05


class Status(StrEnum):
    """How a printed number, or a claim, came out; each evaluation states the conditions."""

    REPRODUCED = "reproduced"
    IN_DIRECTION = "in direction"
    NOT_REPRODUCED = "not reproduced"
    NOT_COMPARABLE = "not comparable"


def counted(statuses: Iterable[Status]) -> dict[Status, int]:
    """Count each status, those that do not occur included."""
    found = Counter(statuses)
    return {status: found[status] for status in Status}


def in_words(statuses: Iterable[Status]) -> str:
    """Count the statuses that occur: ``3 reproduced, 1 in direction``."""
    return ", ".join(f"{count} {status}" for status, count in counted(statuses).items() if count)


@dataclass(frozen=True, slots=True)
class Tested:
    """A difference that is claimed to be above zero; ``p`` is adjusted by Holm's method."""

    found: Paired
    p: float
    values: Values = field(repr=False, compare=False)

    @property
    def difference(self) -> Interval:
        """The difference."""
        return self.found.difference

    @property
    def mean(self) -> float:
        """Its mean."""
        return self.difference.mean

    @property
    def is_zero(self) -> bool:
        """Whether it is zero in every replication: both sides are one and the same."""
        return self.difference.low == self.difference.high == 0.0

    @property
    def holds(self) -> bool:
        """Whether it holds in the mean."""
        return self.mean > 0

    @property
    def is_significant(self) -> bool:
        """Whether it differs significantly from zero, on either side."""
        return self.p < ALPHA

    @property
    def is_sure(self) -> bool:
        """Whether it holds significantly."""
        return self.holds and self.is_significant


def tested(groups: Sequence[Sequence[Values]]) -> list[tuple[Tested, ...]]:
    """Test groups of differences, one value for each replication; all are one family of hypotheses."""
    found = [[paired(values, np.zeros(len(values))) for values in group] for group in groups]
    adjusted = iter(holm([one.p for group in found for one in group]))
    return [
        tuple(Tested(one, next(adjusted), values) for one, values in zip(group, of_group, strict=True))
        for group, of_group in zip(found, groups, strict=True)
    ]


def status_of(differences: Sequence[Tested]) -> Status:
    """Judge differences all of which are claimed: *in direction* where each holds, not each surely."""
    if all(one.is_sure for one in differences):
        return Status.REPRODUCED
    return Status.IN_DIRECTION if all(one.holds for one in differences) else Status.NOT_REPRODUCED


def tally(differences: Sequence[Tested]) -> str:
    """Say in a sentence how many hold."""
    holding, sure = sum(one.holds for one in differences), sum(one.is_sure for one in differences)
    against = sum(one.mean < 0 and one.is_significant for one in differences)
    return f"{holding} of {len(differences)} hold, {sure} surely; {against} surely the other way"


C = TypeVar("C")


@dataclass(frozen=True, slots=True)
class Verdict(Generic[C]):
    """A claim and how it came out; ``why`` says what decided."""

    claim: C
    status: Status
    why: str = ""
    tested: tuple[Tested, ...] = ()
