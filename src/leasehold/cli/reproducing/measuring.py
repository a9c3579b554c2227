"""Making the runs of an evaluation: what it will take is said before, and how far it is while it lasts."""

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from time import monotonic
from typing import TYPE_CHECKING

from leasehold.cli.reproducing.options import Manner

if TYPE_CHECKING:
    from leasehold.experiments.campaign import Measure, Progress, Report, Task
    from leasehold.experiments.kept import Kept, Runs

SECONDS_BETWEEN_LINES = 10.0


def measure(how: "Measure", runs: "Runs", kept: "Kept", manner: Manner) -> None:
    """Do what is not done yet."""
    from leasehold.experiments.campaign import tasks

    _take_over(how, list(runs), kept, manner)
    _carry_out(how, tasks(runs, kept), kept, manner)


def _take_over(how: "Measure", names: Sequence[str], kept: "Kept", manner: Manner) -> None:
    """Take over what earlier code has measured, where that was asked for and a sample comes out the same."""
    from leasehold.analysis.wording import count
    from leasehold.cli.screen import talk
    from leasehold.experiments import earlier

    todo = [] if manner.recheck is None else earlier.sample(kept, names, manner.recheck)
    if not todo:
        return
    again = kept.aside()
    _carry_out(how, todo, again, manner)
    found = earlier.first_difference(kept, again, todo)
    if found is not None:
        talk(f"leasehold: {found}; nothing is taken over")
        return
    made, taken = sum(len(task.seeds) for task in todo), earlier.take_over(kept, todo)
    talk(f"leasehold: {count(made, 'run')} made again, all the same; {taken:,} of earlier code taken over")


def _carry_out(how: "Measure", todo: "Sequence[Task]", kept: "Kept", manner: Manner) -> None:
    """Do these tasks; interrupted, it says how many are done, and KeyboardInterrupt goes on."""
    from leasehold.cli.screen import talk
    from leasehold.experiments import campaign

    if not todo:
        return
    runs, done = sum(len(task.seeds) for task in todo), 0
    if not manner.silent:
        talk(_what_it_takes(how, todo, runs, manner))

    try:
        with _telling(quiet=manner.silent) as report:

            def note(progress: "Progress") -> None:
                nonlocal done
                done = progress.done
                report(progress)

            campaign.carry_out(todo, how, kept, manner.workers, note)
    except KeyboardInterrupt:
        talk(f"leasehold: interrupted; {done:,} of {runs:,} runs are done, and kept")
        raise


def _what_it_takes(how: "Measure", todo: "Sequence[Task]", runs: int, manner: Manner) -> str:
    from leasehold.analysis.wording import count, duration
    from leasehold.experiments import campaign

    about = duration(campaign.estimate_s(todo, how, manner.workers))
    workers = manner.workers
    where = workers if isinstance(workers, str) else count(workers, "process", "processes")
    return f"{count(runs, 'run')} on {where}: about {about}."


@contextmanager
def _telling(*, quiet: bool) -> Iterator["Report"]:
    """Give the function that tells how far it is: by a bar in a terminal, else by a line now and then."""
    if quiet:
        yield _silence
    elif sys.stderr.isatty():
        with _bar() as report:
            yield report
    else:
        yield _Lines()


def _silence(_: "Progress") -> None:
    """Show nothing."""


@contextmanager
def _bar() -> Iterator["Report"]:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TimeElapsedColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    columns = (BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    with Bar(*columns, console=Console(stderr=True), transient=True) as bar:
        shown = bar.add_task("", total=None)

        def report(progress: "Progress") -> None:
            bar.update(shown, total=progress.total, completed=progress.done)

        yield report


class _Lines:
    """Says every few seconds how far it is."""

    def __init__(self) -> None:
        self._next_s = 0.0

    def __call__(self, progress: "Progress") -> None:
        from leasehold.analysis.wording import duration
        from leasehold.cli.screen import talk

        now_s = monotonic()
        if now_s >= self._next_s:
            self._next_s = now_s + SECONDS_BETWEEN_LINES
            talk(f"{progress.done:,} of {progress.total:,} runs, about {duration(progress.left_s)} left")
