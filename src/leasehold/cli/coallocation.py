"""``leasehold coallocation``: machines at several sites at the same time, all or nothing."""

from typing import Annotated

import typer

from leasehold.cli.exit_codes import ANSWER_IS_NO
from leasehold.cli.live import times
from leasehold.cli.live.gateway import gateway
from leasehold.cli.live.names import complete_claim, complete_place
from leasehold.cli.live.table import print_rows
from leasehold.cli.options import Group, IdempotencyKey, Json, Name, switch
from leasehold.cli.screen import answer, answer_json

app = typer.Typer(help="Request machines at several sites that run together or not at all.", no_args_is_help=True)

CoAllocationId = Annotated[int, typer.Argument(metavar="ID", min=0, show_default=False)]


@app.command()
def submit(  # noqa: PLR0913, PLR0917 - one argument for each option
    components: Annotated[
        list[str],
        typer.Option(
            "--component",
            "-c",
            metavar="VMS[@SITE][:MIB@SITE,...]",
            help="A component: 4 (VMs), 4@delft (must be at delft), 8:2048@lyon (reads 2048 MiB from lyon); "
            "may be repeated.",
            show_default=False,
        ),
    ],
    duration: Annotated[
        str,
        typer.Option(
            metavar="TIME",
            help="Maximum duration on machines of the reference speed, counted from the common start; less "
            "on faster sites: 3600 (seconds), 90m, 1h30m, 2:00:00.",
            show_default=False,
        ),
    ],
    claim: Annotated[
        str,
        typer.Option(
            metavar="WAY",
            help="incremental (one component after another, shortly before the start) or reservation (all in advance).",
            autocompletion=complete_claim,
        ),
    ] = "incremental",
    place: Annotated[
        str,
        typer.Option(
            metavar="POLICY",
            help="worst-fit (the site with most free VMs) or close-to-files.",
            autocompletion=complete_place,
        ),
    ] = "worst-fit",
    memory: Annotated[
        str,
        typer.Option(
            metavar="SIZE", help="Memory of each machine: 2GiB, 512 (MiB); default: 1GiB.", show_default=False
        ),
    ] = "",
    ready: Annotated[
        str, typer.Option(metavar="TIME", help="Earliest start; hold nothing before.", show_default="now")
    ] = "",
    deadline: Annotated[
        str, typer.Option(metavar="TIME", help="Latest end of all components, such as now+2h.", show_default=False)
    ] = "",
    margin: Annotated[
        str,
        typer.Option(
            metavar="TIME",
            help="How long before the start machines may be claimed.",
            show_default="none",
        ),
    ] = "",
    tries: Annotated[int, typer.Option(metavar="N", help="Number of attempts before it is refused.")] = 3,
    retries: Annotated[
        int, typer.Option(metavar="N", help="How often a component that loses its machines is placed again.")
    ] = 0,
    name: Name = "",
    group: Group = "",
    idempotency_key: IdempotencyKey = "",
    dry_run: Annotated[bool, switch("--dry-run", does="Predict the outcome; submit nothing.")] = False,
    json: Json = False,
    command: Annotated[
        list[str] | None,
        typer.Argument(metavar="COMMAND", help="Command of each machine, after --.", show_default=False),
    ] = None,
) -> None:
    """Submit a co-allocation and print its ID.

    Exits with 1 if it is refused.
    """
    from leasehold.cli.live.coallocations import answer_explained_coallocation, read_components, show_number
    from leasehold.cli.live.leases import read_memory_mib
    from leasehold.client import CoAllocationSpec
    from leasehold.configuration.times import read_duration_s

    at = times.now()
    spec = CoAllocationSpec.of(
        components=read_components(components, read_memory_mib(memory) if memory else None),
        duration_s=read_duration_s("--duration", duration),
        claim=claim,
        place=place,
        ready=times.read_moment("--ready", ready, at) if ready else None,
        deadline=times.read_moment("--deadline", deadline, at) if deadline else None,
        margin_s=read_duration_s("--margin", margin) if margin else 0,
        tries=tries,
        retries=retries,
        name=name,
        group=group,
        command=command,
    )
    with gateway() as client:
        if dry_run:
            answer_explained_coallocation(client.coallocations.explain(spec), json=json)
            return
        coallocation = client.coallocations.submit(spec, idempotency_key=idempotency_key)
    if json:
        answer_json({"coallocation": coallocation})
    else:
        show_number(coallocation)
    if coallocation.state == "refused":
        raise typer.Exit(ANSWER_IS_NO)


@app.command("list")
def list_coallocations(
    everything: Annotated[bool, switch("--all", "-a", does="Include those that are over.")] = False,
    json: Json = False,
) -> None:
    """List open co-allocations, newest first."""
    from leasehold.cli.live.coallocations import COALLOCATIONS

    with gateway() as client:
        coallocations = [one for one in client.coallocations.list() if everything or not one.is_over]
    if json:
        answer_json({"coallocations": coallocations})
    else:
        print_rows(COALLOCATIONS, coallocations)


@app.command()
def show(coallocation_id: CoAllocationId, json: Json = False) -> None:
    """Show a co-allocation: its request, the state of each component, and why."""
    from leasehold.cli.live.coallocations import account

    with gateway() as client:
        coallocation = client.coallocations.get(coallocation_id)
        leases = [client.leases.get(component.lease) for component in coallocation.components]
    if json:
        answer_json({"coallocation": coallocation, "leases": leases})
    else:
        answer("\n".join(account(coallocation, leases, times.now())))


@app.command()
def cancel(coallocation_id: CoAllocationId, json: Json = False) -> None:
    """Cancel a co-allocation with all its components; one that is over is unchanged."""
    from leasehold.cli.live.coallocations import standing

    with gateway() as client:
        coallocation = client.coallocations.cancel(coallocation_id)
    if json:
        answer_json({"coallocation": coallocation})
    else:
        answer(standing(coallocation))
