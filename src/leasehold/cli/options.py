"""Options that several commands share, and the completion of names."""

from pathlib import Path
from typing import Annotated, Any

import typer


def complete_discipline(incomplete: str) -> list[str]:
    """Complete a backfilling discipline."""
    from leasehold.leasing.backfill import DISCIPLINES

    return _beginning(incomplete, DISCIPLINES)


def complete_victims(incomplete: str) -> list[str]:
    """Complete a victim policy."""
    from leasehold.leasing.victims.registry import victim_policy_names

    return _beginning(incomplete, victim_policy_names())


def complete_routing(incomplete: str) -> list[str]:
    """Complete a routing policy."""
    from leasehold.routing.registry import routing_policy_names

    return _beginning(incomplete, routing_policy_names())


def complete_policy(incomplete: str) -> list[str]:
    """Complete a policy of any kind."""
    return [
        name for complete in (complete_routing, complete_victims, complete_discipline) for name in complete(incomplete)
    ]


def complete_scenario(incomplete: str) -> list[str]:
    """Complete a scenario that comes with Leasehold, or a file."""
    from leasehold.simulation.scenario.parse import packaged_names

    files = [str(path) + ("/" if path.is_dir() else "") for path in _matching_files(incomplete)]
    return _beginning(incomplete, packaged_names()) + files


def _beginning(incomplete: str, names: "list[str] | dict[str, int | None]") -> list[str]:
    return [name for name in names if name.startswith(incomplete)]


def _matching_files(incomplete: str) -> list[Path]:
    folder, _, start = incomplete.rpartition("/")
    try:
        return sorted(path for path in Path(folder or ".").iterdir() if path.name.startswith(start))
    except OSError:
        return []


def switch(*names: str, does: str) -> Any:  # noqa: ANN401 - what typer takes for an option
    """Make an option without a value, shown without one in the help."""
    return typer.Option(*names, help=does, metavar="")


Name = Annotated[str, typer.Option(metavar="NAME", help="A name for it.", show_default=False)]
Group = Annotated[str, typer.Option(metavar="NAME", help="Request for this one of your groups.", show_default=False)]
IdempotencyKey = Annotated[
    str,
    typer.Option(
        metavar="KEY",
        help="Requests with the same key are accepted once.",
        show_default=False,
    ),
]
Json = Annotated[bool, switch("--json", does="Answer with one JSON object.")]
Quiet = Annotated[bool, switch("--quiet", "-q", does="Print only the path of the result.")]
Force = Annotated[bool, switch("--force", does="Replace the run folder that is there.")]
Out = Annotated[
    Path | None,
    typer.Option("--out", "-o", metavar="PATH", help="Output path.", show_default=False),
]
ReportFile = Annotated[
    Path | None,
    typer.Option("--report", "-r", metavar="FILE", help="Write a report, one HTML file.", show_default=False),
]
Seed = Annotated[int | None, typer.Option(metavar="N", help="Seed of all random streams.", show_default=False)]
RunFolder = Annotated[Path, typer.Argument(metavar="RUN", help="A run folder.", show_default=False)]
Claims = Annotated[
    list[str] | None,
    typer.Option(
        "--claim",
        metavar="RESOURCE=N",
        help="Licence or service units it uses while it runs, such as licence:matlab=2; may be repeated.",
        rich_help_panel="What",
        show_default=False,
    ),
]
