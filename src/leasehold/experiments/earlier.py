"""Results that earlier code has made, taken over where the code as it is now makes the same ones.

Most edits of code change no decision, and still nobody can tell that from the code. So some runs of every
configuration are made again. Where each of them comes out the same to the last bit, the others are taken to
do so as well, which is no proof; where one does not, none is taken over.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from leasehold.experiments.campaign import Task
from leasehold.experiments.kept import Kept


@dataclass(frozen=True, slots=True)
class Difference:
    """A metric of a run that is not what it was."""

    name: str
    seed: int
    metric: str
    was: float | None
    is_now: float | None

    def __str__(self) -> str:
        return f"{self.name}, seed {self.seed}: {self.metric} was {self.was}, and is {self.is_now} now"


def sample(kept: Kept, names: Sequence[str], count: int) -> list[Task]:
    """Choose so many runs of each configuration that has some of earlier code, evenly among them."""
    earlier = ((name, sorted(kept.earlier(name))) for name in names)
    return [Task(name, _evenly(seeds, count)) for name, seeds in earlier if seeds]


def _evenly(seeds: Sequence[int], count: int) -> tuple[int, ...]:
    count = min(count, len(seeds))
    return tuple(seeds[(2 * place + 1) * len(seeds) // (2 * count)] for place in range(count))


def first_difference(kept: Kept, again: Kept, todo: Sequence[Task]) -> Difference | None:
    """Compare the runs that were made again with what they were; None: all are the same."""
    for task in todo:
        for seed in task.seeds:
            was, is_now = kept.earlier(task.name)[seed], again.of(task.name)[seed]
            for metric in sorted(was.keys() | is_now.keys()):
                if not _is_same(was, is_now, metric):
                    return Difference(task.name, seed, metric, was.get(metric), is_now.get(metric))
    return None


def _is_same(one: Mapping[str, float], other: Mapping[str, float], metric: str) -> bool:
    """Compare to the last bit; what is no number is the same as what is none."""
    return metric in one and metric in other and repr(float(one[metric])) == repr(float(other[metric]))


def take_over(kept: Kept, todo: Sequence[Task]) -> int:
    """Take over all runs of the configurations of these tasks; returns how many they are."""
    return sum(kept.take_over(task.name) for task in todo)
