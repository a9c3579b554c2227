"""Campaigns: many configurations, each with many seeds, on several processors or machines, and never twice.

What a run measures depends on its configuration and its seed alone, so that results are the same however
many workers there are and in whatever order they finish. Whatever is done is kept at once: a campaign that
is stopped goes on where it was.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from time import monotonic

from leasehold.experiments.kept import Kept, Runs
from leasehold.experiments.workers import Workers, each, how_many

SEEDS_PER_TASK = 5
TRIED = 3

Values = Mapping[str, float]
Measure = Callable[[str, int], Values]
"""Configuration and seed to what was measured; a function of a module, so that workers find it."""


@dataclass(frozen=True, slots=True)
class Task:
    """Some seeds of one configuration."""

    name: str
    seeds: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Progress:
    """How many of the runs are done, and about how long the others take."""

    done: int
    total: int
    left_s: float


Report = Callable[[Progress], None]


def tasks(runs: Runs, kept: Kept) -> list[Task]:
    """List what is still to be done of these runs."""
    found = []
    for name, seeds in runs.items():
        missing = [seed for seed in seeds if seed not in kept.of(name)]
        starts = range(0, len(missing), SEEDS_PER_TASK)
        found += [Task(name, tuple(missing[start : start + SEEDS_PER_TASK])) for start in starts]
    return found


def estimate_s(todo: Sequence[Task], measure: Measure, workers: Workers) -> float:
    """Say about how long this takes, by a few runs spread over the tasks."""
    if not todo:
        return 0.0
    tried = [todo[len(todo) * place // (TRIED + 1)] for place in range(1, TRIED + 1)]
    began_s = monotonic()
    for task in tried:
        measure(task.name, task.seeds[0])
    return (monotonic() - began_s) / TRIED * sum(len(task.seeds) for task in todo) / how_many(workers)


def carry_out(todo: Sequence[Task], measure: Measure, kept: Kept, workers: Workers, report: Report) -> None:
    """Do these tasks, and keep what they measure as they end.

    KeyboardInterrupt leaves what is done until then, and goes on.
    """
    total, done, began_s = sum(len(task.seeds) for task in todo), 0, monotonic()
    for task, measured in each(partial(_do, measure=measure), todo, workers):
        kept.add(task.name, measured)
        done += len(task.seeds)
        report(Progress(done, total, (monotonic() - began_s) / done * (total - done)))


def _do(task: Task, measure: Measure) -> dict[int, Values]:
    return {seed: measure(task.name, seed) for seed in task.seeds}
