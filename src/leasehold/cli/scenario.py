"""``leasehold scenario``: inspect scenarios, and find the one that a name or file means."""

from typing import Annotated, Any

import typer

from leasehold.cli.options import Json, complete_scenario
from leasehold.cli.screen import answer, answer_json, answer_table

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
    from leasehold.study import scenario_of

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


def _examine(source: str) -> dict[str, Any]:
    """Read a scenario and all its streams; raises whatever a run would raise on bad input."""
    from leasehold.simulation.scenario.sites import routing, site_settings
    from leasehold.simulation.scenario.sources import open_blocks, with_sizes
    from leasehold.simulation.workload.job_block import NO_SITE
    from leasehold.simulation.workload.log_record import ReadingNotes
    from leasehold.study import scenario_of

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
