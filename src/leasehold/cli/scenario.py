"""``leasehold scenario``: what scenario files say."""

from typing import Annotated

import typer

from leasehold.cli.options import Json, complete_scenario

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
    from leasehold.cli.screen import answer_json, answer_table
    from leasehold.simulation.scenario.parse import load_scenario, packaged_names, packaged_path

    titles = {name: load_scenario(packaged_path(name)).title for name in packaged_names()}
    if json:
        answer_json({"scenarios": [{"name": name, "title": title} for name, title in titles.items()]})
    else:
        answer_table(["name", "what it is"], list(titles.items()))


@app.command()
def show(source: Source, json: Json = False) -> None:
    """Print a scenario in full, with all defaults."""
    from leasehold.cli.screen import answer, answer_json
    from leasehold.cli.source import scenario_of
    from leasehold.simulation.scenario.from_log import LogOptions
    from leasehold.simulation.scenario.parse import to_toml

    scenario = scenario_of(source, LogOptions(), {})
    if json:
        answer_json({"scenario": scenario.to_dict()})
    else:
        answer(to_toml(scenario).rstrip())


@app.command()
def check(source: Source, json: Json = False) -> None:
    """Check a scenario and read all its logs, without running anything."""
    from leasehold.cli.checking import counted, examine
    from leasehold.cli.screen import answer, answer_json

    findings = examine(source)
    if json:
        answer_json(findings)
    else:
        answer(counted(findings))
        for note in findings["notes"]:
            answer(f"Note: {note}")
