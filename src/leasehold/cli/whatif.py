"""``leasehold whatif``: the future as things stand and after a change, side by side."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from leasehold.cli.live import times
from leasehold.cli.live.names import complete_site
from leasehold.cli.options import Json, complete_discipline, complete_routing, complete_victims
from leasehold.cli.screen import answer, answer_json, answer_table

if TYPE_CHECKING:
    from leasehold.protocol.forecasts import WhatIf, WhatIfFigure, WhatIfSpec

app = typer.Typer(help="Simulate what a change would do, from how things stand.", no_args_is_help=True)

On = Annotated[
    Path | None,
    typer.Option(
        "--on",
        metavar="SNAPSHOT",
        help="A snapshot file (leasehold snapshot take) instead of the gateway.",
        show_default=False,
    ),
]
Horizon = Annotated[str, typer.Option("--horizon", metavar="DURATION", help="How far to look, such as 2h.")]
Replications = Annotated[
    int, typer.Option("--replications", metavar="N", min=2, max=200, help="Simulated futures; more are more exact.")
]
Seed = Annotated[int, typer.Option("--seed", metavar="N", min=0, help="Seed of all chance.")]
SiteName = Annotated[
    str, typer.Argument(metavar="SITE", help="A site.", autocompletion=complete_site, show_default=False)
]


@app.command()
def drain(
    site: SiteName,
    on: On = None,
    horizon: Horizon = "1d",
    replications: Replications = 20,
    seed: Seed = 0,
    json: Json = False,
) -> None:
    """What if a site took no new guests?"""
    _ask([{"drain": site}], on, horizon, replications, seed, json=json)


@app.command("add-site")
def add_site(  # noqa: PLR0913, PLR0917 - one argument for each option
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="Name of the new site, or of that in its file.", show_default=False)
    ] = "",
    slots: Annotated[
        int | None,
        typer.Option(
            "--slots", metavar="N", min=1, help="Its VMs; it is on the terms of the first site.", show_default=False
        ),
    ] = None,
    file: Annotated[
        Path | None,
        typer.Option(
            "--file",
            metavar="FILE",
            help="Its configuration, as of leasehold site serve, and its agreements; instead of --slots.",
            show_default=False,
        ),
    ] = None,
    on: On = None,
    horizon: Horizon = "1d",
    replications: Replications = 20,
    seed: Seed = 0,
    json: Json = False,
) -> None:
    """What if there were one more site, as large as this, or as its file says?"""
    from leasehold.model.errors import InvalidField

    if (slots is None) == (file is None):
        given = None if slots is None else f"{slots} and {file}"
        raise InvalidField("--slots and --file", given, "one of them: the size of the new site, or its configuration")
    if file is not None:
        from leasehold.service.what_if import site_of_file

        change = site_of_file(file, name)
    elif name:
        change = {"add_site": name, "slots": slots}
    else:
        raise InvalidField("NAME", None, "a name beside --slots")
    _ask([change], on, horizon, replications, seed, json=json)


@app.command()
def site(  # noqa: PLR0913, PLR0917 - one argument for each option
    name: SiteName,
    slots: Annotated[
        int | None, typer.Option("--slots", metavar="N", min=1, help="Other number of VMs.", show_default=False)
    ] = None,
    local_policy: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Other backfilling of local requests.",
            autocompletion=complete_discipline,
            show_default=False,
        ),
    ] = None,
    guest_policy: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="Other backfilling of guests.", autocompletion=complete_discipline, show_default=False
        ),
    ] = None,
    victims: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Other victim policy.", autocompletion=complete_victims, show_default=False),
    ] = None,
    on: On = None,
    horizon: Horizon = "1d",
    replications: Replications = 20,
    seed: Seed = 0,
    json: Json = False,
) -> None:
    """What if a site had another size, or other rules?"""
    given = {"slots": slots, "local_policy": local_policy, "guest_policy": guest_policy, "victims": victims}
    change = {"site": name, **{key: value for key, value in given.items() if value is not None}}
    _ask([change], on, horizon, replications, seed, json=json)


@app.command()
def policy(
    name: Annotated[
        str,
        typer.Argument(metavar="NAME", help="A routing policy.", autocompletion=complete_routing, show_default=False),
    ],
    on: On = None,
    horizon: Horizon = "1d",
    replications: Replications = 20,
    seed: Seed = 0,
    json: Json = False,
) -> None:
    """What if guests were routed by another policy?"""
    _ask([{"policy": name}], on, horizon, replications, seed, json=json)


@app.command()
def agreement(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A file of agreements.", show_default=False)],
    on: On = None,
    horizon: Horizon = "1d",
    replications: Replications = 20,
    seed: Seed = 0,
    json: Json = False,
) -> None:
    """What if these agreements were in force?"""
    from leasehold.configuration.agreements import agreement_to_dict, load_document

    changes = [{"agreement": agreement_to_dict(one)} for one in load_document(file).agreements]
    _ask(changes, on, horizon, replications, seed, json=json)


@app.command()
def load(
    factor: Annotated[
        str, typer.Argument(metavar="FACTOR", help="How many times as much, such as x1.2.", show_default=False)
    ],
    on: On = None,
    horizon: Horizon = "1d",
    replications: Replications = 20,
    seed: Seed = 0,
    json: Json = False,
) -> None:
    """What if more requests came, or fewer?"""
    _ask([{"load": _number("FACTOR", factor.removeprefix("x"))}], on, horizon, replications, seed, json=json)


@app.command()
def lend(  # noqa: PLR0917 - one argument for each option
    name: SiteName,
    share: Annotated[str, typer.Argument(metavar="SHARE", help="Share of its slots, such as 0.3.", show_default=False)],
    on: On = None,
    horizon: Horizon = "1d",
    replications: Replications = 20,
    seed: Seed = 0,
    json: Json = False,
) -> None:
    """What if a site lent at most a share of its slots at a time?"""
    _ask([{"lend": name, "share": _number("SHARE", share)}], on, horizon, replications, seed, json=json)


def _number(field: str, text: str) -> float:
    from leasehold.model.errors import InvalidField

    try:
        return float(text)
    except ValueError:
        raise InvalidField(field, text, "a number") from None


def _ask(
    changes: list[dict[str, Any]], on: Path | None, horizon: str, replications: int, seed: int, *, json: bool
) -> None:
    """Ask the gateway, or simulate from a snapshot, and print both futures."""
    from leasehold.configuration.times import read_duration_s
    from leasehold.protocol.forecasts import WhatIfSpec

    spec = WhatIfSpec(
        changes=changes, horizon_s=read_duration_s("--horizon", horizon), replications=replications, seed=seed
    )
    found = _from_gateway(spec) if on is None else _from_snapshot(spec, on)
    if json:
        answer_json({"what_if": found})
    else:
        _show(found)


def _from_gateway(spec: "WhatIfSpec") -> "WhatIf":
    from leasehold.cli.live.gateway import gateway

    with gateway(timeout_s=_PATIENCE_S) as client:
        return client.forecasts.what_if(spec)


def _from_snapshot(spec: "WhatIfSpec", path: Path) -> "WhatIf":
    from leasehold.forecasting.file import read
    from leasehold.forecasting.futures import Forecast
    from leasehold.forecasting.what_if import compare
    from leasehold.protocol.fields import read_duration
    from leasehold.protocol.forecasts import show_comparison
    from leasehold.service.what_if import read_changes

    how = Forecast(spec.replications, spec.seed, read_duration(spec.horizon_s))
    snapshot = read(path).snapshot
    return show_comparison(compare(snapshot, read_changes(spec.changes, snapshot.reference_mips), how))


_PATIENCE_S = 120.0


def _show(found: "WhatIf") -> None:
    """Print a table: each figure as things stand, after the change, and how much that changes it."""
    rows = [_row(one) for one in found.figures]
    for index in range(len(rows) - 1, 0, -1):
        if rows[index][0] == rows[index - 1][0]:
            rows[index][0] = ""
    answer_table(["site", "", "as it is", "changed", "difference", "95 % interval"], rows, range(2, 6))
    span = times.show_duration(found.horizon_s)
    answer(f"\nMeans over {found.replications} pairs of futures of {span} from {times.show_moment(found.taken_at)}.")
    if found.is_shortened:
        answer("They go less far than was asked for: too much happens until then to simulate it all.")


def _row(one: "WhatIfFigure") -> list[str]:
    from leasehold.protocol.forecasts import FIGURE_NAMES

    def shown(value: float) -> str:
        if one.name.endswith("_s"):
            shown = times.show_duration(abs(value))
            return f"-{shown}" if value < 0 and shown != times.show_duration(0) else shown
        return f"{value:z,.1f}"

    span = f"{shown(one.difference_from)} .. {shown(one.difference_to)}" if one.is_clear else "none that is clear"
    same = one.difference == one.difference_from == one.difference_to == 0
    return [
        one.site or "all",
        FIGURE_NAMES[one.name],
        shown(one.as_is),
        shown(one.changed),
        "" if same else shown(one.difference),
        "" if same else span,
    ]
