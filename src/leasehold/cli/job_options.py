"""The options that describe a job, for every command that takes a description: a file, options, or both."""

import inspect
from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Annotated, Any

import typer

from leasehold.cli.live.names import complete_backup, complete_type
from leasehold.cli.options import Group, Name

if TYPE_CHECKING:
    from leasehold.configuration.job_description.description import JobDescription

NEEDS = "What it needs on each node"
WHEN = "When, and how surely"


def _description(  # noqa: PLR0913, PLR0917 - one argument for each option
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="FILE | -- COMMAND",
            help="A description, FILE.json or FILE.xml, which options override; and the command.",
            show_default=False,
        ),
    ] = None,
    software: Annotated[
        list[str] | None,
        typer.Option(
            "--software",
            "-s",
            metavar="TEXT",
            help='Required software, such as "gcc >= 12, < 14"; may be repeated.',
            rich_help_panel=NEEDS,
            show_default=False,
        ),
    ] = None,
    memory: Annotated[
        str,
        typer.Option(
            metavar="SIZE",
            help="Memory of each node: 2GiB, 512 (MiB); default: 256MiB.",
            rich_help_panel=NEEDS,
            show_default=False,
        ),
    ] = "",
    cores: Annotated[
        int | None,
        typer.Option(metavar="N", help="Cores of each node; default: 1.", rich_help_panel=NEEDS, show_default=False),
    ] = None,
    disk: Annotated[
        str,
        typer.Option(
            metavar="SIZE",
            help="Disk of each node: 10GiB, 512 (MiB); default: none.",
            rich_help_panel=NEEDS,
            show_default="none",
        ),
    ] = "",
    cpu_speed: Annotated[
        str,
        typer.Option(
            metavar="SPEED",
            help="Minimum speed of the cores: 2.4GHz, 2400 (MHz).",
            rich_help_panel=NEEDS,
            show_default="any",
        ),
    ] = "",
    nodes: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            help="Number of nodes, all of one site; default: 1.",
            rich_help_panel=NEEDS,
            show_default=False,
        ),
    ] = None,
    inputs: Annotated[
        list[str] | None,
        typer.Option(
            "--input",
            metavar="FILE",
            help="Input: a local file, or NAME:SIZE@SITE, such as sky.fits:700MiB@lyon; may be repeated.",
            rich_help_panel=NEEDS,
            show_default=False,
        ),
    ] = None,
    execution: Annotated[
        str,
        typer.Option(
            metavar="TIME",
            help="Expected run time: 3600 (seconds), 90m, 2:00:00.",
            rich_help_panel=WHEN,
            show_default=False,
        ),
    ] = "",
    deadline: Annotated[
        str,
        typer.Option(
            metavar="TIME",
            help="Latest end: 18:00, 2026-11-21T18:00, now+2h.",
            rich_help_panel=WHEN,
            show_default=False,
        ),
    ] = "",
    reliability: Annotated[
        float | None,
        typer.Option(
            metavar="R",
            help="Required probability of meeting the deadline, such as 0.999.",
            rich_help_panel=WHEN,
            show_default=False,
        ),
    ] = None,
    backup: Annotated[
        str,
        typer.Option(
            metavar="KIND",
            help="Backup against faults: none, cold (a standby node) or hot (a second copy that runs).",
            rich_help_panel=WHEN,
            autocompletion=complete_backup,
            show_default="none",
        ),
    ] = "",
    restarts: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            help="How often it may restart after node faults; default: 3.",
            rich_help_panel=WHEN,
            show_default=False,
        ),
    ] = None,
    lease_type: Annotated[
        str,
        typer.Option(
            "--type",
            metavar="TYPE",
            help="Lease type, as for `lease submit`.",
            autocompletion=complete_type,
            show_default="suspendable",
        ),
    ] = "",
    name: Name = "",
    group: Group = "",
) -> "JobDescription":
    """Read what is described; raises InputError and InvalidField."""
    from leasehold.cli.live.describing import Said, described

    return described(
        words or (),
        Said(
            software=software,
            memory=memory,
            cores=cores,
            disk=disk,
            cpu_speed=cpu_speed,
            nodes=nodes,
            inputs=inputs,
            execution=execution,
            deadline=deadline,
            reliability=reliability,
            backup=backup,
            restarts=restarts,
            lease_type=lease_type,
            name=name,
            group=group,
        ),
    )


def taking_a_description(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command all options that describe a job; it gets the description as its first argument."""
    ours = inspect.signature(_description).parameters
    _, *own = inspect.signature(command).parameters.values()

    @wraps(command)
    def asked(**said: object) -> None:
        options: dict[str, Any] = {name: said.pop(name) for name in ours}
        description = _description(**options)
        command(description, **said)

    parameters = [*ours.values(), *own]
    asked.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]  # what typer looks at
    asked.__annotations__ = {one.name: one.annotation for one in parameters}
    return asked
