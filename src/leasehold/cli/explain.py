"""``leasehold lease explain``: what would become of a request, without making it."""

from typing import Annotated

import typer

from leasehold.cli.live.completion import complete_site, complete_type
from leasehold.cli.options import Group, Json


def explain(
    duration: Annotated[
        str, typer.Option(metavar="TIME", help="For how long: 3600 (seconds), 90m.", show_default=False)
    ],
    lease_type: Annotated[
        str,
        typer.Option(
            "--type",
            metavar="TYPE",
            help="As for `lease submit`.",
            autocompletion=complete_type,
            show_default=False,
        ),
    ],
    vms: Annotated[int, typer.Option(metavar="N", help="How many machines.")] = 1,
    group: Group = "",
    domain: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="Only at this virtual domain or site.",
            autocompletion=complete_site,
            show_default=False,
        ),
    ] = "",
    json: Json = False,
) -> None:
    """Say what would become of a request, without making it: its environments, stage by stage.

    The sites that there are for it, those that agreements open, and where it would run now. Exits with 1 if
    it would run nowhere now.
    """
    from leasehold.cli.live.durations import read_duration_s
    from leasehold.cli.live.gateway import gateway
    from leasehold.cli.live.joints import answer_explained

    with gateway() as client:
        told = client.joints.explain_lease(
            type=lease_type,
            vms=vms,
            duration_s=read_duration_s("--duration", duration),
            group=group,
            domain=domain,
        )
    answer_explained(told, json=json)
