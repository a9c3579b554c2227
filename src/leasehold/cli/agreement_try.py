"""``leasehold agreement try``: what an agreement would do to everybody, before anybody signs it."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from leasehold.cli import options
from leasehold.cli.options import Json

app = typer.Typer(help="Manage agreements between providers and consumers.", no_args_is_help=True)

LIVE = "live"


@app.command("try")
def try_agreement(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="TOML file of agreements.", show_default=False)],
    on: Annotated[
        str,
        typer.Option(
            metavar="RUN|live",
            help="A run folder, a scenario, or live: the gateway's recent requests.",
            autocompletion=options.complete_scenario,
            show_default=False,
        ),
    ],
    days: Annotated[float, typer.Option(metavar="N", help="With live: days to look back.", min=0.01)] = 7.0,
    json: Json = False,
) -> None:
    """Replay requests without and with these agreements, and show the difference for every consumer."""
    from leasehold.cli.interrupt import minding_ctrl_c
    from leasehold.cli.progress import showing_progress
    from leasehold.cli.screen import answer_json
    from leasehold.cli.trying import as_json, checked_document, past_of_run, show
    from leasehold.simulation.run import RunProgress
    from leasehold.simulation.what_if import try_out

    if on == LIVE:
        from leasehold.cli.past import past_of_gateway

        past = past_of_gateway(days)
    else:
        past = past_of_run(on)
    document = checked_document(file, past)
    quiet = not sys.stderr.isatty()
    with (
        minding_ctrl_c() as interruption,
        showing_progress("playing what was asked, twice", quiet=quiet) as report,
    ):

        def passing(progress: RunProgress) -> None:
            interruption.check()
            report(progress)

        trial = try_out(past, document, passing)
    if json:
        answer_json({"file": str(file), "on": on, **as_json(trial)})
    else:
        show(trial)
