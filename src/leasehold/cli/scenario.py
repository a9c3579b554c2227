"""``leasehold scenario``: inspect scenarios, and find the one that a name or file means."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from leasehold.cli.options import Json, complete_scenario
from leasehold.cli.screen import answer, answer_json, answer_table
from leasehold.model.errors import InputError, InvalidField
from leasehold.model.tables import MANIFEST

if TYPE_CHECKING:
    from leasehold.simulation.scenario.from_log import LogOptions
    from leasehold.simulation.scenario.spec import Scenario

app = typer.Typer(help="Inspect scenarios.", no_args_is_help=True)

Source = Annotated[
    str,
    typer.Argument(
        metavar="NAME_OR_FILE",
        help="A scenario file, the name of one that comes with Leasehold, a log or a run folder.",
        autocompletion=complete_scenario,
        show_default=False,
    ),
]


@app.command("list")
def list_scenarios(json: Json = False) -> None:
    """List the scenarios that come with Leasehold."""
    from leasehold.simulation.scenario.parse import load_scenario, packaged_names, packaged_path

    titles = {name: load_scenario(packaged_path(name)).title for name in packaged_names()}
    if json:
        answer_json({"scenarios": [{"name": name, "title": title} for name, title in titles.items()]})
    else:
        answer_table(["name", "what it is"], list(titles.items()))


@app.command()
def show(source: Source, json: Json = False) -> None:
    """Print a scenario in full, with all defaults."""
    from leasehold.simulation.scenario.parse import to_toml

    scenario = scenario_of(source)
    if json:
        answer_json({"scenario": scenario.to_dict()})
    else:
        answer(to_toml(scenario).rstrip())


@app.command()
def check(source: Source, json: Json = False) -> None:
    """Check a scenario and read all its logs, without running anything."""
    findings = _examine(source)
    if json:
        answer_json(findings)
    else:
        answer(_summary(findings))
        for note in findings["notes"]:
            answer(f"Note: {note}")


def scenario_of(
    source: str, log_options: "LogOptions | None" = None, overrides: Mapping[str, Any] | None = None
) -> "Scenario":
    """Read the scenario that a name, a scenario file, a log or a run folder means.

    Raises InputError, InvalidField or UnknownName.
    """
    from leasehold.simulation.scenario.from_log import LogOptions, scenario_for_log
    from leasehold.simulation.scenario.parse import format_of, load_scenario, packaged_names, packaged_path

    log_options, overrides = log_options or LogOptions(), overrides or {}
    path = Path(source)
    if path.is_file() and format_of(path) is not None:
        return scenario_for_log(path, log_options, overrides)
    if log_options != LogOptions():
        expected = "a workload log: --procs, --site, --cluster-by and --guests are about logs"
        raise InvalidField("SOURCE", source, expected)
    if source in packaged_names() and not path.is_file() and not (path / MANIFEST).is_file():
        return load_scenario(packaged_path(source), overrides)
    if path.is_dir():
        return _scenario_of_run(path, overrides)
    if path.exists() and path.suffix != ".toml":
        raise InputError(path, None, "is neither a scenario (.toml) nor a log (.swf or .gwf, perhaps .gz)")
    if not path.exists():
        known = ", ".join(packaged_names())
        raise InvalidField("SOURCE", source, f"a scenario file, a workload log, a run folder, or one of {known}")
    return load_scenario(path, overrides)


def _scenario_of_run(folder: Path, overrides: Mapping[str, Any]) -> "Scenario":
    from leasehold.analysis.run import load
    from leasehold.simulation.scenario.parse import overridden, scenario_from_dict

    values = load(folder).manifest.get("scenario")
    if not isinstance(values, dict):
        raise InputError(folder, None, "its manifest holds no scenario")
    return scenario_from_dict(overridden(values, overrides))


def _examine(source: str) -> dict[str, Any]:
    """Read a scenario and all its streams; raises whatever a run would raise on bad input."""
    from leasehold.simulation.scenario.sites import routing, site_settings
    from leasehold.simulation.scenario.sources import open_blocks, with_sizes
    from leasehold.simulation.workload.job_block import NO_SITE
    from leasehold.simulation.workload.log_record import ReadingNotes

    scenario = with_sizes(scenario_of(source))
    settings, notes = site_settings(scenario), list[ReadingNotes]()
    routing(scenario)
    jobs = {"local": 0, "external": 0, "coallocation": 0}
    for block in open_blocks(scenario, notes):
        external = int((block.site == NO_SITE).sum())
        jobs["external"] += external
        jobs["local"] += len(block) - external
        jobs["coallocation"] += int(block.is_coallocation.sum())
    return {
        "name": scenario.name,
        "clusters": len(settings),
        "slots": sum(site.slots for site in settings),
        "streams": len(scenario.streams),
        "jobs": jobs,
        "notes": [sentence for note in notes for sentence in note.sentences()],
    }


def _summary(findings: dict[str, Any]) -> str:
    """Summarise the findings in one line."""
    from leasehold.analysis.wording import count

    clusters = count(findings["clusters"], "cluster")
    jobs = findings["jobs"]
    coallocation = f", {jobs['coallocation']:,} of them co-allocations" if jobs["coallocation"] else ""
    return (
        f"{findings['name']} is fine: {clusters} with {count(findings['slots'], 'slot')}, "
        f"{count(findings['streams'], 'stream')} with {count(jobs['local'], 'local job')} and "
        f"{count(jobs['external'], 'guest')}{coallocation}"
    )
