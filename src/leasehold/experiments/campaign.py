"""Campaigns: many configurations, each with many seeds, on several processors or machines, and never twice.

What a run measures depends on its configuration and its seed alone, so that results depend neither on the
number of workers nor on the order in which they finish. One machine is joblib's business, many are Dask's (both:
extra ``experiments``), and another interpreter is that of `OtherPython`. Every result is kept at once: an
interrupted campaign continues where it was.

Most changes of the code change no result, but the code does not show which. Results of earlier code can be
taken over: some runs of every configuration are made again, and where each comes out the same to the last
bit, the others are taken to do so as well, which is no proof; where one does not, none is taken over.
"""

import gc
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from leasehold.experiments.kept import Kept, Runs, code_mark
from leasehold.experiments.other_python import OtherPython, follow
from leasehold.model.errors import InvalidField, LeaseholdError

if TYPE_CHECKING:
    from distributed import Client

Workers: TypeAlias = int | str | OtherPython
"""How many processes of this machine, the address of a Dask scheduler (``tcp://host:8786``), or another interpreter."""

T = TypeVar("T")
R = TypeVar("R")

PATIENCE_S = 10
PACKAGE = ("",)
"""All of Leasehold, for `code_mark`."""


class OtherCode(LeaseholdError):
    """A worker has another Leasehold than the one that wants its results."""


def each(do: Callable[[T], R], todo: Sequence[T], workers: Workers) -> Iterator[tuple[T, R]]:
    """Do all of it, and give what came of each as it ends, in whatever order that is.

    KeyboardInterrupt, or whatever else the caller stops with, leaves nothing running. Raises InvalidField
    where no scheduler answers at the address, OtherCode, and as `OtherPython.each`.
    """
    if isinstance(workers, OtherPython):
        yield from workers.each(do, todo)
    elif isinstance(workers, str):
        yield from _on_many_machines(do, todo, workers)
    elif workers == 1 or len(todo) == 1:
        yield from ((item, do(item)) for item in todo)
    else:
        yield from _on_this_machine(do, todo, min(workers, len(todo)))


def how_many(workers: Workers) -> int:
    """Say how many runs are made at a time. Raises as `each`."""
    if isinstance(workers, int):
        return workers
    if isinstance(workers, OtherPython):
        return workers.processes
    with _scheduler(workers) as client:
        return _threads(client)


def _on_this_machine(do: Callable[[T], R], todo: Sequence[T], count: int) -> Iterator[tuple[T, R]]:
    from joblib import Parallel, delayed  # noqa: PLC0415 - an extra, and one process does without

    pool = Parallel(
        count,
        backend="loky",
        return_as="generator_unordered",
        batch_size=1,
        initializer=_settle_in,
        initargs=(os.getpid(),),
    )
    yield from pool(delayed(_with_what)(do, item) for item in todo)


def _with_what(do: Callable[[T], R], item: T) -> tuple[T, R]:
    return item, do(item)


def _settle_in(parent: int) -> None:
    """Leave Ctrl-C to the parent; look for reference cycles rarely, the core makes none."""
    follow(parent)
    gc.set_threshold(100_000, *gc.get_threshold()[1:])


def _on_many_machines(do: Callable[[T], R], todo: Sequence[T], address: str) -> Iterator[tuple[T, R]]:
    from distributed import as_completed  # noqa: PLC0415 - as above

    with _scheduler(address) as client:
        waiting = {client.submit(do, item, pure=False): item for item in todo}
        for future in as_completed(list(waiting), loop=client.loop):
            yield waiting.pop(future), future.result()


@contextmanager
def _scheduler(address: str) -> "Iterator[Client]":
    """Speak to a scheduler whose workers have the code that is here; whatever still waits is dropped."""
    from distributed import Client  # noqa: PLC0415 - as above

    try:
        client: Any = Client(address, timeout=PATIENCE_S, set_as_default=False)
    except (OSError, ValueError) as problem:
        raise InvalidField("--dask", address, "the address of a Dask scheduler that answers") from problem
    with client:
        _check_code(client)
        yield client


def _check_code(client: "Client") -> None:
    """Refuse workers with other code: results of two kinds would be mixed under one mark."""
    ours = code_mark(PACKAGE)
    for worker, theirs in client.run(code_mark, PACKAGE).items():
        if theirs != ours:
            raise OtherCode(f"the Dask worker {worker} has another Leasehold than is here: install the same")


def _threads(client: "Client") -> int:
    threads: dict[str, int] = client.nthreads()
    return max(1, sum(threads.values()))


SEEDS_PER_TASK = 5

TRIED = 3
"""So many runs are made to estimate how long all take; what they measure is not kept."""

WORTH_TRYING = 30
"""Of fewer runs than that none is tried: each may take an hour."""

Measured = Mapping[str, float]
Measure = Callable[[str, int], Measured]
"""Configuration and seed to what was measured; a function of a module, so that workers find it."""


@dataclass(frozen=True, slots=True)
class Task:
    """Some seeds of one configuration."""

    name: str
    seeds: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class CampaignProgress:
    """How many of the runs are done, and an estimate for the others."""

    done: int
    total: int
    left_s: float


Reporter = Callable[[CampaignProgress], None]


def tasks(runs: Runs, kept: Kept) -> list[Task]:
    """List what is still to be done of these runs."""
    found = []
    for name, seeds in runs.items():
        missing = [seed for seed in seeds if seed not in kept.of(name)]
        starts = range(0, len(missing), SEEDS_PER_TASK)
        found += [Task(name, tuple(missing[start : start + SEEDS_PER_TASK])) for start in starts]
    return found


def estimate_s(todo: Sequence[Task], measure: Measure, workers: Workers) -> float | None:
    """Estimate how long this takes, by a few runs spread over the tasks.

    None where those would be much of the work, or would be made here and tell nothing of another interpreter.
    """
    runs = sum(len(task.seeds) for task in todo)
    if runs < WORTH_TRYING or isinstance(workers, OtherPython):
        return None
    tried = [todo[len(todo) * place // (TRIED + 1)] for place in range(1, TRIED + 1)]
    began_s = monotonic()
    for task in tried:
        measure(task.name, task.seeds[0])
    return (monotonic() - began_s) / TRIED * runs / how_many(workers)


def carry_out(todo: Sequence[Task], measure: Measure, kept: Kept, workers: Workers, report: Reporter) -> None:
    """Do these tasks, and keep the results of each as it ends; KeyboardInterrupt is passed on."""
    total, done, began_s = sum(len(task.seeds) for task in todo), 0, monotonic()
    for task, measured in each(partial(_do, measure=measure), todo, workers):
        kept.add(task.name, measured)
        done += len(task.seeds)
        report(CampaignProgress(done, total, (monotonic() - began_s) / done * (total - done)))


def _do(task: Task, measure: Measure) -> dict[int, Measured]:
    return {seed: measure(task.name, seed) for seed in task.seeds}


# Results of earlier code


@dataclass(frozen=True, slots=True)
class RunDifference:
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


def first_difference(kept: Kept, again: Kept, todo: Sequence[Task]) -> RunDifference | None:
    """Compare repeated runs with the earlier ones; None where all are the same."""
    for task in todo:
        for seed in task.seeds:
            was, is_now = kept.earlier(task.name)[seed], again.of(task.name)[seed]
            for metric in sorted(was.keys() | is_now.keys()):
                if not _is_same(was, is_now, metric):
                    return RunDifference(task.name, seed, metric, was.get(metric), is_now.get(metric))
    return None


def _is_same(one: Mapping[str, float], other: Mapping[str, float], metric: str) -> bool:
    """Compare to the last bit; NaN is the same as NaN."""
    return metric in one and metric in other and repr(float(one[metric])) == repr(float(other[metric]))


def take_over(kept: Kept, todo: Sequence[Task]) -> int:
    """Take over all earlier runs of the configurations of these tasks; returns how many."""
    return sum(kept.take_over(task.name) for task in todo)
