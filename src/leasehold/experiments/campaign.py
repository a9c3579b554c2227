"""Campaigns: many configurations, each with many seeds, on several processors or machines, and never twice.

What a run measures depends on its configuration and its seed alone, so that results depend neither on the
number of workers nor on the order in which they finish. Every result is kept at once: an interrupted campaign
continues where it was.

Most changes of the code change no result, but the code does not show which. Results of earlier code can be
taken over: some runs of every configuration are made again, and where each comes out the same to the last
bit, the others are taken to do so as well, which is no proof; where one does not, none is taken over.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from time import monotonic

from leasehold.experiments.kept import Kept, Runs
from leasehold.experiments.workers import Workers, each, how_many

SEEDS_PER_TASK = 5
TRIED = 3

Measured = Mapping[str, float]
Measure = Callable[[str, int], Measured]
"""Configuration and seed to what was measured; a function of a module, so that workers find it."""


@dataclass(frozen=True, slots=True)
class Task:
    """Some seeds of one configuration."""

    name: str
    seeds: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Progress:
    """How many of the runs are done, and an estimate for the others."""

    done: int
    total: int
    left_s: float


Reporter = Callable[[Progress], None]


def tasks(runs: Runs, kept: Kept) -> list[Task]:
    """List what is still to be done of these runs."""
    found = []
    for name, seeds in runs.items():
        missing = [seed for seed in seeds if seed not in kept.of(name)]
        starts = range(0, len(missing), SEEDS_PER_TASK)
        found += [Task(name, tuple(missing[start : start + SEEDS_PER_TASK])) for start in starts]
    return found


def estimate_s(todo: Sequence[Task], measure: Measure, workers: Workers) -> float:
    """Estimate how long this takes, by a few runs spread over the tasks."""
    if not todo:
        return 0.0
    tried = [todo[len(todo) * place // (TRIED + 1)] for place in range(1, TRIED + 1)]
    began_s = monotonic()
    for task in tried:
        measure(task.name, task.seeds[0])
    return (monotonic() - began_s) / TRIED * sum(len(task.seeds) for task in todo) / how_many(workers)


def carry_out(todo: Sequence[Task], measure: Measure, kept: Kept, workers: Workers, report: Reporter) -> None:
    """Do these tasks, and keep the results of each as it ends; KeyboardInterrupt is passed on."""
    total, done, began_s = sum(len(task.seeds) for task in todo), 0, monotonic()
    for task, measured in each(partial(_do, measure=measure), todo, workers):
        kept.add(task.name, measured)
        done += len(task.seeds)
        report(Progress(done, total, (monotonic() - began_s) / done * (total - done)))


def _do(task: Task, measure: Measure) -> dict[int, Measured]:
    return {seed: measure(task.name, seed) for seed in task.seeds}


# Results of earlier code


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
    """Choose a number of runs of each configuration that has earlier results, evenly among them."""
    earlier = ((name, sorted(kept.earlier(name))) for name in names)
    return [Task(name, _evenly(seeds, count)) for name, seeds in earlier if seeds]


def _evenly(seeds: Sequence[int], count: int) -> tuple[int, ...]:
    count = min(count, len(seeds))
    return tuple(seeds[(2 * place + 1) * len(seeds) // (2 * count)] for place in range(count))


def first_difference(kept: Kept, again: Kept, todo: Sequence[Task]) -> Difference | None:
    """Compare repeated runs with the earlier ones; None where all are the same."""
    for task in todo:
        for seed in task.seeds:
            was, is_now = kept.earlier(task.name)[seed], again.of(task.name)[seed]
            for metric in sorted(was.keys() | is_now.keys()):
                if not _is_same(was, is_now, metric):
                    return Difference(task.name, seed, metric, was.get(metric), is_now.get(metric))
    return None


def _is_same(one: Mapping[str, float], other: Mapping[str, float], metric: str) -> bool:
    """Compare to the last bit; NaN is the same as NaN."""
    return metric in one and metric in other and repr(float(one[metric])) == repr(float(other[metric]))


def take_over(kept: Kept, todo: Sequence[Task]) -> int:
    """Take over all earlier runs of the configurations of these tasks; returns how many."""
    return sum(kept.take_over(task.name) for task in todo)
