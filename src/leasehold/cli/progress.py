"""How far a run is: a bar in a terminal, a line now and then where there is none."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic

from leasehold.analysis.wording import count
from leasehold.cli.screen import talk
from leasehold.simulation.run import RunProgress

SECONDS_BETWEEN_LINES = 5.0
_MS_PER_DAY = 86_400_000

Report = Callable[[RunProgress], None]


@contextmanager
def showing_progress(what: str, *, quiet: bool) -> Iterator[Report]:
    """Show the progress of what is done inside; gives the function to report to."""
    if quiet:
        yield _silence
    elif sys.stderr.isatty():
        with _bar(what) as report:
            yield report
    else:
        yield _Lines(what)


@contextmanager
def _bar(what: str) -> Iterator[Report]:
    from rich.console import Console
    from rich.progress import BarColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.fields[done]}"),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    with Bar(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=None, done="")

        def report(progress: RunProgress) -> None:
            if progress.fraction is not None:
                bar.update(task, total=1.0, completed=progress.fraction)
            bar.update(task, done=_done(progress))

        yield report


def _silence(_: RunProgress) -> None:
    """Show nothing."""


class _Lines:
    """Says at once that a run has begun, and then every few seconds how far it is."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._next_s = 0.0

    def __call__(self, progress: RunProgress) -> None:
        now_s = monotonic()
        if now_s >= self._next_s:
            self._next_s = now_s + SECONDS_BETWEEN_LINES
            percent = "" if progress.fraction is None else f"{progress.fraction:.0%}, "
            talk(f"{self._what}: {percent}{_done(progress)}")


def _done(progress: RunProgress) -> str:
    return f"{count(progress.jobs, 'job')}, day {progress.now_ms / _MS_PER_DAY:.1f}"
