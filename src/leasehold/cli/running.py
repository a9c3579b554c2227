"""One run from the command line: simulate, make the products, say what happened."""

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import typer

from leasehold.analysis.measures import coallocation_totals
from leasehold.analysis.metrics import totals
from leasehold.analysis.report import can_draw, write_report
from leasehold.analysis.report.contents import headline, what_happened
from leasehold.analysis.run import Run, load
from leasehold.analysis.wording import count
from leasehold.cli.exit_codes import INTERRUPTED
from leasehold.cli.folders import REPORT, made_room
from leasehold.cli.interrupt import minding_ctrl_c
from leasehold.cli.products import export
from leasehold.cli.progress import showing_progress
from leasehold.cli.screen import answer, talk, wrapped
from leasehold.model.errors import InvariantBroken
from leasehold.model.tables import MANIFEST
from leasehold.simulation.run import RunProgress, run_scenario
from leasehold.simulation.scenario.spec import Scenario


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
            talk(f"leasehold: interrupted; what was done until then is in {out}")
        raise typer.Exit(INTERRUPTED) from None
    return load(result.path)


def make_products(run: Run, manner: Manner) -> Path | None:
    """Write the files for other tools and the report; gives the report, None where there is none."""
    if manner.export:
        export(run, run.path)
    if not manner.report:
        return None
    if not can_draw():
        talk("No report was written: what draws it is missing (pip install 'leasehold[report]')")
        return None
    return write_report(run, run.path / REPORT)


def tell(run: Run, report: Path | None) -> None:
    """Say in a few lines what happened, and where the rest is."""
    numbers, manifest = totals(run), run.manifest
    jobs = manifest.get("jobs", {})
    who = f"{count(jobs.get('local', 0), 'local job')}, {count(jobs.get('external', 0), 'guest')}."
    lines = [f"{headline(run, numbers)} {who}"]
    for paragraph in what_happened(run, numbers):
        lines += ["", paragraph.question, wrapped(paragraph.answer)]
    notes = manifest.get("notes", [])
    lines += ["", "What the logs left open:", *map(wrapped, notes)] if notes else []
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
        "notes": manifest.get("notes"),
        "report": None if report is None else str(report),
        "replay": manifest.get("command"),
    }


def replay_command(source: str, options: list[tuple[str, object]]) -> str:
    """Write the command that does the same again; options that are None, False or empty are left out."""
    words = ["leasehold", "sim", "run", source]
    for name, value in options:
        values = value if isinstance(value, list) else [value]
        for one in values:
            if one is True:
                words.append(name)
            elif one is not None and one is not False and one != "":
                words += [name, str(one).removesuffix(".0")]
    return shlex.join(words)
