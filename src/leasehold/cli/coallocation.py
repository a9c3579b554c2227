"""``leasehold coallocation``: machines at several sites at the same time, all or nothing."""

import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Annotated

import typer

from leasehold.cli.exit_codes import ANSWER_IS_NO
from leasehold.cli.live import times
from leasehold.cli.live.gateway import gateway
from leasehold.cli.live.names import complete_claim, complete_image, complete_place
from leasehold.cli.live.table import Column, answer_rows, cell, columns_of, pick
from leasehold.cli.live.times import show_distance, show_duration, show_moment
from leasehold.cli.options import Group, IdempotencyKey, Json, Name, switch
from leasehold.cli.screen import answer, answer_json, talk
from leasehold.model.errors import InvalidField

if TYPE_CHECKING:
    from leasehold.client import CoAllocation, CoAllocationComponent, CoAllocationPlan, ComponentSpec, Lease

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
    image: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="Image that the machines of all components boot from.",
            show_default="default of their sites",
            autocompletion=complete_image,
        ),
    ] = "",
    ready: Annotated[
        str, typer.Option(metavar="TIME", help="Earliest start; nothing is held before.", show_default="now")
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
    from leasehold.cli.live.leases import read_memory_mib
    from leasehold.client import CoAllocationSpec
    from leasehold.configuration.times import read_duration_s

    at = times.now()
    spec = CoAllocationSpec.of(
        components=_read_components(components, read_memory_mib(memory) if memory else None, image),
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
            _answer_plan(client.coallocations.plan(spec), json=json)
            return
        coallocation = client.coallocations.submit(spec, idempotency_key=idempotency_key)
    if json:
        answer_json({"coallocation": coallocation})
    else:
        _show_number(coallocation)
    if coallocation.state == "refused":
        raise typer.Exit(ANSWER_IS_NO)


@app.command("list")
def list_coallocations(
    everything: Annotated[bool, switch("--all", "-a", does="Include those that have ended.")] = False,
    json: Json = False,
) -> None:
    """List open co-allocations, newest first."""
    with gateway() as client:
        coallocations = [one for one in client.coallocations.list() if everything or not one.is_over]
    answer_rows("coallocations", coallocations, _columns(), json=json)


@app.command()
def show(coallocation_id: CoAllocationId, json: Json = False) -> None:
    """Show a co-allocation: its request, the state of each component, and why."""
    with gateway() as client:
        coallocation = client.coallocations.get(coallocation_id)
        leases = [client.leases.get(component.lease) for component in coallocation.components]
    if json:
        answer_json({"coallocation": coallocation, "leases": leases})
    else:
        answer("\n".join(_account(coallocation, leases, times.now())))


@app.command()
def cancel(coallocation_id: CoAllocationId, json: Json = False) -> None:
    """Cancel a co-allocation with all its components; one that is over is unchanged."""
    with gateway() as client:
        coallocation = client.coallocations.cancel(coallocation_id)
    if json:
        answer_json({"coallocation": coallocation})
    else:
        answer(_standing(coallocation))


REFUSED, PREPARING = "refused", "preparing"
_COMPONENT = re.compile(r"(?P<vms>[0-9]+)(@(?P<site>[^:@,]+))?(:(?P<files>.+))?", re.ASCII)
_FILE = re.compile(r"(?P<mib>[0-9]+)@(?P<site>[^:@,]+)", re.ASCII)


def _read_components(texts: Iterable[str], memory_mib: int | None, image: str) -> "list[ComponentSpec]":
    """Read components such as ``4``, ``4@delft`` and ``8:2048@lyon``; raises InvalidField."""
    return [_component(text, memory_mib, image) for text in texts]


def _component(text: str, memory_mib: int | None, image: str) -> "ComponentSpec":
    from leasehold.client import ComponentSpec

    found = _COMPONENT.fullmatch(text)
    files = [] if found is None or not found["files"] else found["files"].split(",")
    parts = [_FILE.fullmatch(file) for file in files]
    if found is None or int(found["vms"]) < 1 or None in parts:
        raise InvalidField("--component", text, "VMs, and where, as in 4, 4@delft or 8:2048@lyon")
    return ComponentSpec.of(
        vms=int(found["vms"]),
        memory_mib=memory_mib,
        image=image,
        site=found["site"],
        files=[{"site": part["site"], "mib": int(part["mib"])} for part in parts if part is not None],
    )


def _show_number(coallocation: "CoAllocation") -> None:
    """Answer with the number of a co-allocation, and say beside it how it stands."""
    answer(str(coallocation.id))
    talk(f"leasehold: {_standing(coallocation)}")


def _standing(coallocation: "CoAllocation") -> str:
    """Say in one sentence how a co-allocation stands, and why."""
    why = (
        f": each component {coallocation.explanation} ({coallocation.reason})"
        if coallocation.is_over or not coallocation.starts_at
        else ""
    )
    start = (
        ""
        if coallocation.starts_at is None or coallocation.is_over
        else f"; its start is {show_moment(coallocation.starts_at)}"
    )
    return f"co-allocation {coallocation.id} is {coallocation.state}{_at(coallocation)}{why}{start}"


def _at(coallocation: "CoAllocation") -> str:
    return f" at {_sites(coallocation)}" if any(one.site for one in coallocation.components) else ""


def _sites(coallocation: "CoAllocation") -> str:
    return ",".join(component.site or "-" for component in coallocation.components)


def _columns() -> "list[Column[CoAllocation]]":
    """Give the columns of a list of co-allocations."""
    from leasehold.client import CoAllocation

    return pick(
        columns_of(
            CoAllocation,
            {
                "vms": Column("VMS", lambda one, _: "+".join(str(part.vms) for part in one.components), is_figure=True),
                "sites": Column("SITES", lambda one, _: _sites(one)),
                "idle": Column(
                    "IDLE", lambda one, _: show_duration(one.idle_vm_s) if one.idle_vm_s else "", is_figure=True
                ),
                "start": Column("START", lambda one, _: cell(one.starts_at)),
            },
        ),
        "id,state,claim,consumer,vms,sites,idle,start,reason",
    )


def _account(coallocation: "CoAllocation", leases: "Sequence[Lease]", at: datetime) -> Iterator[str]:
    """Tell all that is known of a co-allocation, line by line."""
    yield _standing(coallocation)
    for name, value in _facts(coallocation, at):
        if value:
            yield f"  {name:<10}  {value}"
    for component, lease in zip(coallocation.components, leases, strict=True):
        yield f"  {'component':<10}  {_requested(component)}: lease {lease.id} is {_where(lease)}"


def _facts(coallocation: "CoAllocation", at: datetime) -> Iterator[tuple[str, str]]:
    yield "name", coallocation.name
    yield (
        "consumer",
        f"{coallocation.consumer}, group {coallocation.group}" if coallocation.group else coallocation.consumer,
    )
    yield "claim", f"{coallocation.claim}, placed by {coallocation.place}"
    for name, moment in (
        ("submitted", coallocation.submitted_at),
        ("deadline", coallocation.deadline_at),
        ("start", coallocation.starts_at),
        ("ended", coallocation.ended_at),
    ):
        if moment is not None:
            yield name, f"{show_moment(moment)} ({show_distance(moment, at)})"
    yield "held idle", f"{coallocation.idle_vm_s:g} VM-seconds" if coallocation.idle_vm_s else ""


def _requested(component: "CoAllocationComponent") -> str:
    where = f" at {component.wanted_site}" if component.wanted_site else ""
    image = f", image {component.image}" if component.image else ""
    files = "".join(f", {file.mib} MiB from {file.site}" for file in component.files)
    return f"{component.vms} VMs{where} for {show_duration(component.duration_s)}{image}{files}"


def _where(lease: "Lease") -> str:
    return f"{lease.state} at {lease.site}" if lease.site else f"{lease.state} ({lease.reason})"


def _answer_plan(plan: "CoAllocationPlan", *, json: bool) -> None:
    """Answer with what would become of a co-allocation; exits with 1 where it would be refused."""
    if json:
        answer_json({"plan": plan})
    else:
        answer("\n".join(_planned(plan)))
    if plan.state == REFUSED:
        raise typer.Exit(ANSWER_IS_NO)


def _planned(plan: "CoAllocationPlan") -> Iterator[str]:
    from leasehold.cli.live.leases import could_run, scores

    yield _outlook(plan)
    for number, component in enumerate(plan.components, 1):
        yield from could_run(f"component {number} could run at", component.extended, component.blocked)
    yield from scores(plan.domains)


def _outlook(plan: "CoAllocationPlan") -> str:
    if plan.state == REFUSED:
        return f"would be refused: each component {plan.explanation} ({plan.reason})"
    if not all(plan.sites):
        return f"would wait at the gateway: each component {plan.explanation} ({plan.reason})"
    start = "" if plan.starts_at is None else f", from {show_moment(plan.starts_at)}"
    condition = ", if sites with managers of their own promise that" if plan.state == PREPARING else ""
    return f"would run at {', '.join(plan.sites)}{start}{condition}"
