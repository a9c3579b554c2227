"""``leasehold reproduce``: published evaluations, run again, with the published numbers beside ours."""

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from leasehold.cli.options import Json, Out, Quiet, switch

if TYPE_CHECKING:
    from typer._click.core import Command, Context

    from leasehold.experiments.campaign import Measure, Progress, Report
    from leasehold.experiments.intergrid.outcome import Outcome as IntergridOutcome
    from leasehold.experiments.kept import Kept
    from leasehold.experiments.usla.outcome import Outcome


class Evaluations(TyperGroup):
    """Finds an evaluation also by the name of one of its figures: ``003-fig5a`` is one of ``003``."""

    def resolve_command(
        self, ctx: "Context", args: list[str]
    ) -> "tuple[str | None, Command | None, list[str]]":
        """Hand the name of a figure on as the argument that it is."""
        evaluation, dash, _ = args[0].partition("-")
        if dash and evaluation in self.commands:
            return evaluation, self.commands[evaluation], args
        return super().resolve_command(ctx, args)


app = typer.Typer(cls=Evaluations, help="Run a published evaluation again.", no_args_is_help=True)

SECONDS_BETWEEN_LINES = 10.0
WHERE = Path("runs")
FOLDER = "configurations"

Seeds = Annotated[
    int | None,
    typer.Option(metavar="N", min=2, help="How many seeds; else 100.", show_default=False),
]
Jobs = Annotated[
    int | None,
    typer.Option(
        "--jobs", "-j", metavar="N", min=1, help="How many processes; else all CPUs.", show_default=False
    ),
]


@app.command()
def usla(
    quick: Annotated[bool, switch("--quick", does="10 seeds: its shape, in about a minute.")] = False,
    seeds: Seeds = None,
    jobs: Jobs = None,
    out: Out = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Run the evaluation of usage agreements again (Dumitrescu et al. 2007, Tables 1 to 7)."""
    _need_scipy()
    from leasehold.experiments.usla import evaluation, files
    from leasehold.experiments.usla.outcome import outcome_of
    from leasehold.experiments.usla.settings import plan

    count = seeds or (evaluation.QUICK_SEEDS if quick else evaluation.SEEDS)
    numbers = range(1, count + 1)
    folder = _folder(out or WHERE / "usla")
    kept = evaluation.kept_in(folder, plan())
    names = list(plan().configurations)
    _measure(evaluation.measure, names, kept, numbers, jobs, quiet=quiet or json)
    outcome = outcome_of(plan(), evaluation.results(kept, plan(), numbers), count)
    written = files.write(outcome, kept, numbers, folder)
    if json:
        _answer_json(outcome, written)
    elif quiet:
        _answer_where(written)
    else:
        _show(outcome)
        _answer_where(written)


def complete_figure(incomplete: str) -> list[str]:
    """Complete the name of a figure."""
    from leasehold.experiments.intergrid.studies import STUDIES

    return [name for study in STUDIES.values() for name in study.names if name.startswith(incomplete)]


Figures = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[FIGURE]...",
        help="Some of its figures, as in 003-fig5a; else all.",
        autocompletion=complete_figure,
        show_default=False,
    ),
]
Quick = Annotated[bool, switch("--quick", does="Few seeds, short runs: its shape, in about two minutes.")]


STUDIED = {
    "000": "Run the comparison of victim policies again (Salehi and Buyya 2011, Figures 2 and 3).",
    "001": "Run the first evaluation of preemption-aware routing again (ICA3PP 2011).",
    "003": "Run the evaluation of preemption-aware routing again (JPDC 2012, Figures 5 to 8).",
}


def _add(number: str, does: str) -> None:
    """Add the command of a study: all of them have the same options."""

    def command(  # noqa: PLR0917 - one argument for each option
        figures: Figures = None,
        quick: Quick = False,
        seeds: Seeds = None,
        jobs: Jobs = None,
        out: Out = None,
        json: Json = False,
        quiet: Quiet = False,
    ) -> None:
        how = Manner(quick=quick, seeds=seeds, jobs=jobs, out=out, json=json, quiet=quiet)
        _reproduce(number, figures or [], how)

    app.command(number, help=does)(command)


for _number, _does in STUDIED.items():
    _add(_number, _does)


@dataclass(frozen=True, slots=True)
class Manner:
    """The options that all evaluations of routing and victims have."""

    quick: bool
    seeds: int | None
    jobs: int | None
    out: Path | None
    json: bool
    quiet: bool


def _reproduce(number: str, names: list[str], how: Manner) -> None:
    """Run a study, or figures of it, and show what came of it."""
    _need_scipy()
    from leasehold.experiments.intergrid import evaluation, files
    from leasehold.experiments.intergrid.data import as_data
    from leasehold.experiments.intergrid.outcome import outcome_of
    from leasehold.experiments.intergrid.settings import plan
    from leasehold.experiments.intergrid.studies import STUDIES

    study = STUDIES[number]
    wanted = study.figures_named(names)
    read = plan(number, study.quick_hours if how.quick else None)
    usual = study.quick_seeds if how.quick else evaluation.REPLICATIONS
    numbers = range(1, 1 + (how.seeds or usual))
    folder = _folder(how.out or WHERE / number)
    needed = evaluation.names_for(read, wanted)
    kept = evaluation.kept_in(folder, read)
    _measure(evaluation.measure, needed, kept, numbers, how.jobs, quiet=how.quiet or how.json)
    outcome = outcome_of(read, evaluation.results(kept, needed, numbers), wanted, len(numbers))
    written = files.write(outcome, kept, needed, numbers, folder)
    if how.json:
        _answer_data(as_data(outcome), written)
    else:
        if not how.quiet:
            _show_intergrid(outcome)
        _answer_where(written)


def _need_scipy() -> None:
    """Say what to install where the extra is missing; raises NotInstalled."""
    from leasehold.client.errors import NotInstalled

    if find_spec("scipy") is None:
        raise NotInstalled("An interval of a mean", "experiments")


def _folder(wanted: Path) -> Path:
    """Give the folder: a new one, or that of an earlier evaluation, whose results are not measured again."""
    from leasehold.model.errors import InvalidField

    if wanted.exists() and not wanted.is_dir():
        raise InvalidField("--out", str(wanted), "a folder, not a file")
    if wanted.is_dir() and any(wanted.iterdir()) and not (wanted / FOLDER).is_dir():
        raise InvalidField("--out", str(wanted), "a new or empty folder, or that of an earlier evaluation")
    return wanted


def _measure(
    measure: "Measure", names: Sequence[str], kept: "Kept", seeds: range, jobs: int | None, *, quiet: bool
) -> None:
    """Do what is not done yet; what it will take is said before."""
    from leasehold.analysis.wording import count, duration
    from leasehold.cli.screen import talk
    from leasehold.experiments.campaign import carry_out, estimate_s, tasks

    todo = tasks(names, seeds, kept)
    if not todo:
        return
    runs, workers = sum(len(task.seeds) for task in todo), jobs or os.cpu_count() or 1
    if not quiet:
        about_s = estimate_s(todo, measure, workers)
        talk(f"{count(runs, 'run')} on {count(workers, 'process', 'processes')}: about {duration(about_s)}.")
    try:
        with _telling(quiet=quiet) as report:
            carry_out(todo, measure, kept, workers, report)
    except KeyboardInterrupt:
        left = sum(len(task.seeds) for task in tasks(names, seeds, kept))
        talk(f"leasehold: interrupted; {runs - left:,} of {runs:,} runs are done, and kept")
        raise


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


def _show(outcome: "Outcome") -> None:
    """Print every table, the claims and the controls."""
    from leasehold.cli.screen import answer, answer_table, wrapped
    from leasehold.experiments.usla import report

    for table in outcome.plan.tables:
        answer(f"\nTable {table.number}: {table.title}\n")
        lines = report.cell_lines(outcome.of_table(table.number))
        answer_table(report.CELL_COLUMNS, lines, figures={2, 3, 4})
    answer("\nClaims\n")
    answer_table(report.CLAIM_COLUMNS, report.claim_lines(outcome.verdicts), figures={1})
    answer("\nReadings that were not taken\n")
    for control in outcome.controls:
        answer(
            wrapped(f"{control.control.name}: {control.control.question} {report.control_verdict(control)}")
        )
    answer(f"\n{report.summary(outcome)}\n")
    answer_table(report.METRIC_COLUMNS, report.metric_lines(outcome), figures={1, 2, 3, 4})
    answer("\nWhy they differ\n")
    for about, text in report.reasons(outcome.plan):
        answer(wrapped(f"{about} {text}"))
    answer(f"\n{outcome.seeds} seeds; calibrated, not published: {report.calibrated(outcome.plan)}.\n")


def _show_intergrid(outcome: "IntergridOutcome") -> None:
    """Print figures, claims, analyses of variance, and how the policies stand to the reference."""
    from leasehold.cli.screen import answer, answer_table, wrapped
    from leasehold.experiments.intergrid import report

    for name in outcome.wanted:
        figure = outcome.plan.study.figures[name]
        answer(f"\nFigure {name}: {figure.title}, by {outcome.plan.sweeps[figure.letter].axis}\n")
        columns = report.figure_columns(outcome, figure)
        lines = report.figure_lines(outcome, figure, figure.metric)
        answer_table(columns, lines, figures=range(2, len(columns)))
    answer("\nClaims\n")
    answer_table(report.CLAIM_COLUMNS, report.claim_lines(outcome))
    answer("\nTwo-way analysis of variance: p\n")
    answer_table(report.ANOVA_COLUMNS, report.anova_lines(outcome.panels), figures=range(2, 8))
    if outcome.standings:
        answer("\nWhere the sweeps meet, as ratio to the reference\n")
        shown = report.FEW_METRICS
        answer_table(report.ratio_columns(shown), report.ratio_lines(outcome, shown), figures=range(2, 6))
    answer("\nWhy they differ\n")
    for about, text in report.reasons(outcome):
        answer(wrapped(f"{about} {text}"))
    answer(f"\n{report.size(outcome)}\n{report.summary(outcome)}\n")


def _answer_json(outcome: "Outcome", written: list[Path]) -> None:
    from leasehold.experiments.usla.outcome import as_data

    _answer_data(as_data(outcome), written)


def _answer_data(data: dict[str, Any], written: list[Path]) -> None:
    from leasehold.cli.screen import answer_json

    answer_json({**data, "files": [str(path) for path in written]})


def _answer_where(written: list[Path]) -> None:
    from leasehold.cli.screen import answer

    answer("\n".join(map(str, written)))
