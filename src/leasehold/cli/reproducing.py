"""Running an evaluation: its folder, its runs with an estimate and their progress, and its report.

Heavy: imported once the extra is known to be installed.
"""

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.progress import Progress as Bar

from leasehold.analysis.wording import count, duration
from leasehold.cli.screen import answer, answer_table, talk, wrapped
from leasehold.experiments import campaign
from leasehold.experiments.campaign import CampaignProgress, Measure, Reporter, Task, Workers
from leasehold.experiments.evaluation import Campaign, Evaluation, Size
from leasehold.experiments.kept import FOLDER, Kept, Runs
from leasehold.experiments.other_python import OtherPython
from leasehold.experiments.report import Block, MarkdownTable, Title
from leasehold.model.errors import InvalidField

WHERE = Path("runs")
SECONDS_BETWEEN_LINES = 10.0


@dataclass(frozen=True, slots=True)
class Manner:
    """How evaluations are run: what the options say."""

    quick: bool = False
    seeds: int | None = None
    jobs: int | None = None
    dask: str | None = None
    python: str | None = None
    out: Path | None = None
    logs: Path | None = None
    recheck: int | None = None
    silent: bool = False

    def __post_init__(self) -> None:
        """Refuse another interpreter on other machines; raises InvalidField."""
        if self.python is not None and self.dask is not None:
            raise InvalidField("--python", self.python, "no --dask: its workers run in their own interpreter")

    @property
    def workers(self) -> Workers:
        """Where the runs are made."""
        processes = self.jobs or os.cpu_count() or 1
        if self.python is None:
            return self.dask or processes
        return OtherPython(self.python, processes)


@dataclass(frozen=True, slots=True)
class Answer:
    """What came of an evaluation: ``show`` prints it for people, ``data`` is the same for programs."""

    data: Mapping[str, Any]
    show: Callable[[], None]
    written: Sequence[Path]


def run(name: str, evaluation: Evaluation, parts: Sequence[str], manner: Manner) -> Answer:
    """Make the runs that these parts need, except for those that are kept, and write the report."""
    planned = evaluation.campaign(parts, Size(manner.quick, manner.seeds, manner.logs))
    if manner.python is not None and manner.logs is not None and planned.hand_over is None:
        raise InvalidField("--python", manner.python, f"no --logs: {name} can hand none over to another interpreter")
    folder = _folder_for(name, manner.out)
    kept = Kept(folder / FOLDER, planned.marks)
    with _measure_of(planned, manner) as how:
        measure(how, planned.runs, kept, manner)
    report = planned.report(kept.results(planned.runs))
    written = report.write(folder, kept, planned.runs)
    return Answer(report.data, lambda: _show(report.screen()), written)


@contextmanager
def _measure_of(planned: Campaign, manner: Manner) -> Iterator[Measure]:
    """Give what makes a run where runs are made: another interpreter reads no logs, and is given what is in them."""
    if manner.python is None or planned.hand_over is None:
        yield planned.measure
        return
    with TemporaryDirectory(prefix="leasehold-logs-") as folder:
        yield planned.hand_over(Path(folder))


def _folder_for(name: str, wanted: Path | None) -> Path:
    """Give the folder: a new one, or that of an earlier evaluation, whose results are not measured again."""
    found = wanted or WHERE / name
    if found.exists() and not found.is_dir():
        raise InvalidField("--out", str(found), "a folder, not a file")
    if found.is_dir() and any(found.iterdir()) and not (found / FOLDER).is_dir():
        raise InvalidField("--out", str(found), "a new or empty folder, or that of an earlier evaluation")
    return found


def _show(blocks: Iterable[Block]) -> None:
    """Print a report."""
    for block in blocks:
        match block:
            case MarkdownTable():
                answer_table(block.columns, block.lines, figures=block.figures)
            case Title():
                answer(f"\n{block.text}\n")
            case str():
                answer(wrapped(block))


def measure(how: Measure, runs: Runs, kept: Kept, manner: Manner) -> None:
    """Make the runs that are not done yet."""
    _take_over(how, list(runs), kept, manner)
    _carry_out(how, campaign.tasks(runs, kept), kept, manner)


def _take_over(how: Measure, names: Sequence[str], kept: Kept, manner: Manner) -> None:
    """Take over what earlier code has measured, where that is asked for and a sample comes out the same."""
    todo = [] if manner.recheck is None else campaign.sample(kept, names, manner.recheck)
    if not todo:
        return
    again = kept.aside()
    _carry_out(how, todo, again, manner)
    found = campaign.first_difference(kept, again, todo)
    if found is not None:
        talk(f"leasehold: {found}; no results are reused")
        return
    made, taken = sum(len(task.seeds) for task in todo), campaign.take_over(kept, todo)
    talk(f"leasehold: {count(made, 'run')} made again, all the same; {taken:,} of earlier code taken over")


def _carry_out(how: Measure, todo: Sequence[Task], kept: Kept, manner: Manner) -> None:
    """Do these tasks; KeyboardInterrupt is passed on, after a line with the number of runs done."""
    if not todo:
        return
    runs, done = sum(len(task.seeds) for task in todo), 0
    if not manner.silent:
        talk(_estimate(how, todo, runs, manner))

    try:
        with _reporting(quiet=manner.silent) as report:

            def note(progress: CampaignProgress) -> None:
                nonlocal done
                done = progress.done
                report(progress)

            campaign.carry_out(todo, how, kept, manner.workers, note)
    except KeyboardInterrupt:
        talk(f"leasehold: interrupted; {done:,} of {runs:,} runs are done, and kept")
        raise


def _estimate(how: Measure, todo: Sequence[Task], runs: int, manner: Manner) -> str:
    workers, takes_s = manner.workers, campaign.estimate_s(todo, how, manner.workers)
    match workers:
        case OtherPython(executable, processes):
            where = f"{count(processes, 'process', 'processes')} of {executable}"
        case int():
            where = count(workers, "process", "processes")
        case str():
            where = workers
    about = "" if takes_s is None else f": about {duration(takes_s)}"
    return f"{count(runs, 'run')} on {where}{about}."


@contextmanager
def _reporting(*, quiet: bool) -> Iterator[Reporter]:
    """Give the function that reports progress: by a bar in a terminal, else by lines."""
    if quiet:
        yield _silence
    elif sys.stderr.isatty():
        with _bar() as report:
            yield report
    else:
        yield _Lines()


def _silence(_: CampaignProgress) -> None:
    """Show nothing."""


@contextmanager
def _bar() -> Iterator[Reporter]:
    columns = (BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    with Bar(*columns, console=Console(stderr=True), transient=True) as bar:
        shown = bar.add_task("", total=None)

        def report(progress: CampaignProgress) -> None:
            bar.update(shown, total=progress.total, completed=progress.done)

        yield report


class _Lines:
    """Reports progress every few seconds."""

    def __init__(self) -> None:
        self._next_s = 0.0

    def __call__(self, progress: CampaignProgress) -> None:
        now_s = monotonic()
        if now_s >= self._next_s:
            self._next_s = now_s + SECONDS_BETWEEN_LINES
            talk(f"{progress.done:,} of {progress.total:,} runs, about {duration(progress.left_s)} left")
