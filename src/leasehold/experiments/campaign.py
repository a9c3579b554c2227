"""Campaigns: many configurations, each with many seeds, on several processors, and never twice.

What a run measures depends on its configuration and its seed alone, so that results are the same however
many workers there are and in whatever order they finish. Whatever is done is kept at once: a campaign that
is stopped goes on where it was.
"""

import gc
import os
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from multiprocessing import get_context, parent_process
from threading import Thread
from time import monotonic

from leasehold.experiments.kept import Kept

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


def tasks(names: Sequence[str], seeds: Sequence[int], kept: Kept) -> list[Task]:
    """List what is still to be done."""
    found = []
    for name in names:
        missing = [seed for seed in seeds if seed not in kept.of(name)]
        starts = range(0, len(missing), SEEDS_PER_TASK)
        found += [Task(name, tuple(missing[start : start + SEEDS_PER_TASK])) for start in starts]
    return found


def estimate_s(todo: Sequence[Task], measure: Measure, workers: int) -> float:
    """Say about how long this takes, by a few runs spread over the tasks."""
    if not todo:
        return 0.0
    tried = [todo[len(todo) * place // (TRIED + 1)] for place in range(1, TRIED + 1)]
    began_s = monotonic()
    for task in tried:
        measure(task.name, task.seeds[0])
    return (monotonic() - began_s) / TRIED * sum(len(task.seeds) for task in todo) / workers


def carry_out(todo: Sequence[Task], measure: Measure, kept: Kept, workers: int, report: Report) -> None:
    """Do these tasks, and keep what they measure as they end.

    KeyboardInterrupt leaves what is done until then, and goes on.
    """
    total, done, began_s = sum(len(task.seeds) for task in todo), 0, monotonic()
    for task, measured in _measured(todo, measure, workers):
        kept.add(task.name, measured)
        done += len(task.seeds)
        report(Progress(done, total, (monotonic() - began_s) / done * (total - done)))


def _measured(
    todo: Sequence[Task], measure: Measure, workers: int
) -> Iterator[tuple[Task, dict[int, Values]]]:
    """Give each task with what it measured, as they end."""
    if workers == 1:
        for task in todo:
            yield task, _do(task, measure)
        return
    # Started anew rather than forked: Polars has threads, of which a fork would inherit the locks alone.
    pool = ProcessPoolExecutor(workers, get_context("spawn"), _settle_in)
    try:
        waiting = {pool.submit(_do, task, measure): task for task in todo}
        for future in as_completed(waiting):
            yield waiting[future], future.result()
    finally:
        pool.shutdown(cancel_futures=True)


def _do(task: Task, measure: Measure) -> dict[int, Values]:
    return {seed: measure(task.name, seed) for seed in task.seeds}


def _settle_in() -> None:
    """Leave Ctrl-C to whoever started the workers; look for reference cycles rarely, the core makes none."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    Thread(target=_end_with_the_parent, daemon=True).start()
    gc.set_threshold(100_000, *gc.get_threshold()[1:])


def _end_with_the_parent() -> None:
    """Wait for the end of whoever started this worker: who was killed could not end it."""
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
