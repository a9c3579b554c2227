"""Runs from the command line: their folder, their progress, Ctrl-C, their products, and what is printed about them."""

import ctypes
import gc
import shlex
import shutil
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from threading import current_thread, main_thread
from time import monotonic
from types import FrameType
from typing import Any

import typer

from leasehold.analysis.export import write_batsim_jobs, write_swf
from leasehold.analysis.measures import coallocation_totals, gpu_totals
from leasehold.analysis.metrics import CATALOGUE, by_origin, compare, totals
from leasehold.analysis.report import can_draw, write_report
from leasehold.analysis.report.contents import headline, what_happened
from leasehold.analysis.run import Run, load
from leasehold.analysis.wording import NOTHING, count, value
from leasehold.cli.exit_codes import INTERRUPTED
from leasehold.cli.screen import answer, answer_table, talk, wrapped
from leasehold.model.errors import InvalidField, InvariantBroken, UnknownName
from leasehold.model.tables import MANIFEST
from leasehold.simulation.run import RunProgress, run_scenario
from leasehold.simulation.scenario.spec import Scenario
from leasehold.study import REPORT, new_folder


@dataclass(frozen=True, slots=True)
class Manner:
    """How to run: ``check`` every invariant after every instant, ``baseline`` also without guests."""

    check: bool = False
    baseline: bool = True
    quiet: bool = False
    report: bool = True
    export: bool = True


def simulate(scenario: Scenario, out: Path, manner: Manner, command: str) -> Run:
    """Run a scenario into a folder.

    Raises typer.Exit when interrupted, after the folder is readable; InvariantBroken with notes on how to
    see it again.
    """
    if not gc.get_freeze_count():
        gc.freeze()  # what was imported is here to stay: looking through all of it takes longer than what a run leaves
    try:
        with (
            made_room(out),
            minding_ctrl_c() as interruption,
            showing_progress(scenario.name, quiet=manner.quiet) as show,
        ):

            def report(progress: RunProgress) -> None:
                show(progress)
                interruption.check()

            result = run_scenario(
                scenario,
                out,
                check=manner.check,
                baseline=manner.baseline,
                progress=report,
                command=command,
            )
    except InvariantBroken as error:
        error.add_note(f"This is a defect of Leasehold. Seed {scenario.seed}; to see it again: {command}")
        raise
    except KeyboardInterrupt:
        if (out / MANIFEST).is_file():
            talk(f"leasehold: interrupted; results so far are in {out}")
        raise typer.Exit(INTERRUPTED) from None
    give_memory_back()
    return load(result.path)


def give_memory_back() -> None:
    """Let what comes next not be made beside what is left of what came before.

    What was simulated is a web of references, and the C library keeps what was freed in between, if it is not asked.
    """
    gc.collect()
    with suppress(AttributeError, OSError, TypeError):  # other C libraries have no such function
        ctypes.CDLL(None).malloc_trim(0)


def make_products(run: Run, manner: Manner) -> Path | None:
    """Write the files for other tools and the report; gives the report, None where there is none."""
    if manner.export:
        write_formats(run, run.path)
        give_memory_back()
    if not manner.report:
        return None
    if not can_draw():
        talk("No report was written: what draws it is missing (pip install 'leasehold[report]')")
        return None
    return write_report(run, run.path / REPORT)


def show_run(run: Run, report: Path | None) -> None:
    """Say in a few lines what happened, and where the rest is."""
    numbers, manifest = totals(run), run.manifest
    jobs = manifest.get("jobs", {})
    who = f"{count(jobs.get('local', 0), 'local job')}, {count(jobs.get('external', 0), 'guest')}."
    lines = [f"{headline(run, numbers)} {who}"]
    for paragraph in what_happened(run, numbers):
        lines += ["", paragraph.question, wrapped(paragraph.answer)]
    notes = manifest.get("notes", [])
    lines += ["", "Assumptions about the logs:", *map(wrapped, notes)] if notes else []
    lines += ["", f"Run folder: {run.path}"]
    lines += [f"Report:     {report}"] if report is not None else []
    lines += [f"Again:      {manifest.get('command', '')}"]
    answer("\n".join(lines))


def as_json(run: Run, report: Path | None) -> dict[str, Any]:
    """Give the same for a program."""
    manifest = run.manifest
    return {
        "run": str(run.path),
        "status": manifest.get("status"),
        "seed": manifest.get("seed"),
        "jobs": manifest.get("jobs"),
        "metrics": totals(run),
        **({"coallocations": coallocations} if (coallocations := coallocation_totals(run)) else {}),
        **({"gpus": gpus} if (gpus := gpu_totals(run)) else {}),
        "notes": manifest.get("notes"),
        "report": None if report is None else str(report),
        "replay": manifest.get("command"),
    }


def replay_command(command: Sequence[str], options: list[tuple[str, object]]) -> str:
    """Write the command that does the same again; options that are None, False or empty are left out."""
    words = ["leasehold", "sim", *command]
    for name, given in options:
        for one in given if isinstance(given, list) else [given]:
            if one is True:
                words.append(name)
            elif one is not None and one is not False and one != "":
                words += [name, str(one).removesuffix(".0")]
    return shlex.join(words)


# Folders: results go to a folder of their own, and never over anything else


def choose_folder(name: str, wanted: Path | None, *, force: bool = False) -> Path:
    """Give the folder for a run's results, which does not exist yet or is empty.

    Without a wish it is ``runs/NAME-TIME``. Raises InvalidField for a folder that holds something, unless
    ``force`` is given and it is an earlier run: that one is to be removed (see `made_room`).
    """
    if wanted is None:
        return new_folder(name)
    if wanted.exists() and not wanted.is_dir():
        raise InvalidField("--out", str(wanted), "a folder, not a file")
    if wanted.is_dir() and any(wanted.iterdir()):
        if not force:
            raise InvalidField("--out", str(wanted), "a new or empty folder, or --force to replace a run")
        if not _is_run(wanted):
            raise InvalidField("--out", str(wanted), "the folder of an earlier run, as --force replaces only those")
    return wanted


@contextmanager
def made_room(folder: Path) -> Iterator[None]:
    """Put an earlier run aside while a new one is made: it is back if that fails, gone if it does not.

    Folders above that were made for nothing are taken away again.
    """
    missing = [parent for parent in folder.parents if not parent.exists()]
    aside = folder.with_name(f"{folder.name}.replaced")
    replaces = folder.is_dir() and _is_run(folder)
    if replaces:
        folder.rename(aside)
    try:
        yield
    finally:
        if folder.exists():
            shutil.rmtree(aside, ignore_errors=True)
        elif replaces:
            aside.rename(folder)
        for parent in missing:
            if parent.is_dir() and not any(parent.iterdir()):
                parent.rmdir()


def _is_run(folder: Path) -> bool:
    """A run folder has a manifest; the folder of a demonstration has run folders and at most a report."""
    if (folder / MANIFEST).is_file():
        return True
    inside = [path for path in folder.iterdir() if path.name != REPORT]
    return bool(inside) and all((path / MANIFEST).is_file() for path in inside)


# Progress: a bar in a terminal, a line now and then elsewhere


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


# Ctrl-C: takes effect between two instants, so that what is written of an interrupted run is consistent;
# the second one takes effect at once


class Interruption:
    """Whether the user has asked to stop; `check` is called where stopping is safe."""

    def __init__(self) -> None:
        self.is_wished = False
        self._can_wait = False

    def check(self) -> None:
        """Stop here if that is wished; from the first call on, a wish can wait for the next one."""
        self._can_wait = True
        if self.is_wished:
            raise KeyboardInterrupt

    def wish(self, _signal: int, _frame: FrameType | None) -> None:
        """Handle the signal."""
        if self.is_wished or not self._can_wait:
            raise KeyboardInterrupt
        self.is_wished = True


@contextmanager
def minding_ctrl_c() -> Iterator[Interruption]:
    """Let Ctrl-C inside wait until a `check`; raises KeyboardInterrupt at the end if none came."""
    interruption = Interruption()
    if current_thread() is not main_thread():  # signals are handled elsewhere then
        yield interruption
        return
    before = signal.signal(signal.SIGINT, interruption.wish)
    try:
        yield interruption
    finally:
        signal.signal(signal.SIGINT, before)
    if interruption.is_wished:
        raise KeyboardInterrupt


# Files for other tools


FORMATS = ("swf", "batsim")
_FILES = {"swf": "run.swf", "batsim": "jobs.csv"}
_WRITERS = {"swf": write_swf, "batsim": write_batsim_jobs}


def write_formats(run: Run, folder: Path, formats: Sequence[str] = FORMATS) -> list[Path]:
    """Write a run in the formats of other tools; returns the files. Raises UnknownName for another format."""
    for name in formats:
        if name not in _WRITERS:
            raise UnknownName("--format", name, _WRITERS)
    folder.mkdir(parents=True, exist_ok=True)
    return [_WRITERS[name](run, folder / _FILES[name]) for name in formats]


# Two runs side by side


Row = dict[str, Any]

_ROLE_PREFIXES = ("local", "guest", "idle_lent")
_MARKS = {"better": "better", "worse": "worse"}


def comparison(first: Path, second: Path, metrics: list[str]) -> list[Row]:
    """Compare two run folders by these metrics, or by all; raises UnknownName for another metric."""
    for key in metrics:
        if key not in CATALOGUE:
            raise UnknownName("--metric", key, CATALOGUE)
    rows = {row["metric"]: row for row in compare(load(first), load(second)).to_dicts()}
    return [rows[key] for key in metrics or rows]


def different_requests(first: Path, second: Path, rows: list[Row]) -> str:
    """Warn, in one sentence, where the two runs were not given as many local jobs and as many guests.

    Metrics of local jobs alone, or of what was lent, are meant to be compared so.
    """
    if all(row["metric"].startswith(_ROLE_PREFIXES) for row in rows):
        return ""
    ours, theirs = (_requests(load(path)) for path in (first, second))
    if ours == theirs:
        return ""
    return (
        f"warning: the runs hold different requests ({first.name}: {ours}; {second.name}: {theirs}); "
        "metrics over all leases compare different populations"
    )


def _requests(run: Run) -> str:
    """Say how many requests of each kind a run was given."""
    came = {row["origin"]: row["leases"] for row in by_origin(run).to_dicts()}
    return f"{count(came.get('local', 0), 'local job')} and {count(came.get('external', 0), 'guest')}"


def worsened(rows: list[Row], percent: float) -> list[str]:
    """Give the metrics that are worse by more than so many percent of the first run's value."""
    worse = [row for row in rows if row["verdict"] == "worse"]
    return [row["metric"] for row in worse if abs(row["difference"]) > abs(row["first"]) * percent / 100]


def show_comparison(rows: list[Row], first: str, second: str) -> None:
    """Print what could be measured in at least one of the runs."""
    measured = [row for row in rows if row["first"] is not None or row["second"] is not None]
    answer_table(
        ["", first, second, "change", ""],
        [
            [
                row["title"],
                value(row["first"], row["unit"]),
                value(row["second"], row["unit"]),
                _change(row),
                _MARKS.get(row["verdict"], ""),
            ]
            for row in measured
        ],
        figures=(1, 2, 3),
    )


def _change(row: Row) -> str:
    """Say the ratio as a percentage; points where the values are percentages themselves."""
    if row["difference"] is None:
        return NOTHING
    if row["difference"] == 0:
        return "same"
    if row["unit"] == "%":
        return f"{row['difference']:+.1f} points"
    if row["ratio"] is None:
        return NOTHING
    return f"{100 * (row['ratio'] - 1):+.1f} %"
