"""``leasehold joint``: machines at several sites at the same time, all or nothing."""

from typing import Annotated

import typer

from leasehold.cli.exit_codes import ANSWER_IS_NO
from leasehold.cli.live.completion import complete_claim, complete_place
from leasehold.cli.options import Group, IdempotencyKey, Json, Name, switch

app = typer.Typer(help="Ask for machines at several sites, all or nothing.", no_args_is_help=True)

JointId = Annotated[int, typer.Argument(metavar="ID", min=0, show_default=False)]


@app.command()
def submit(  # noqa: PLR0913, PLR0917 - one argument for each option
    components: Annotated[
        list[str],
        typer.Option(
            "--component",
            "-c",
            metavar="VMS[@SITE][:MIB@SITE,...]",
            help="One component: 4, 4@delft (it has to be there), 8:2048@lyon (it reads 2048 MiB from "
            "there); once for each.",
            show_default=False,
        ),
    ],
    duration: Annotated[
        str,
        typer.Option(
            metavar="TIME",
            help="For how long, on machines of the reference speed, counted from the common start; a faster "
            "site needs less: 3600 (seconds), 90m, 1h30m, 2:00:00.",
            show_default=False,
        ),
    ],
    claim: Annotated[
        str,
        typer.Option(
            metavar="WAY",
            help="incremental (one after another, shortly before the start) or reservation (all at once, ahead).",
            autocompletion=complete_claim,
        ),
    ] = "incremental",
    place: Annotated[
        str,
        typer.Option(
            metavar="POLICY",
            help="worst-fit (where most is free) or close-to-files.",
            autocompletion=complete_place,
        ),
    ] = "worst-fit",
    memory: Annotated[
        str,
        typer.Option(metavar="SIZE", help="Memory of each machine: 2GiB, 512 (MiB); else 1GiB.", show_default=False),
    ] = "",
    ready: Annotated[str, typer.Option(metavar="TIME", help="Hold nothing before this.", show_default="now")] = "",
    deadline: Annotated[
        str, typer.Option(metavar="TIME", help="When all must have ended, as in now+2h.", show_default=False)
    ] = "",
    margin: Annotated[
        str,
        typer.Option(
            metavar="TIME",
            help="From how long before the start on machines may be claimed.",
            show_default="none",
        ),
    ] = "",
    tries: Annotated[int, typer.Option(metavar="N", help="How often all of it is tried for before it is refused.")] = 3,
    retries: Annotated[
        int, typer.Option(metavar="N", help="How often a component that lost its machines is placed again.")
    ] = 0,
    name: Name = "",
    group: Group = "",
    idempotency_key: IdempotencyKey = "",
    dry_run: Annotated[bool, switch("--dry-run", does="Say what would become of it; ask for nothing.")] = False,
    json: Json = False,
    command: Annotated[
        list[str] | None,
        typer.Argument(metavar="COMMAND", help="What each machine runs, after --.", show_default=False),
    ] = None,
) -> None:
    """Ask for components that run together; the number of the joint lease is the answer.

    Exits with 1 if it is refused.
    """
    from leasehold.cli.live.durations import read_duration_s
    from leasehold.cli.live.gateway import gateway
    from leasehold.cli.live.joints import answer_explained_joint, read_components, show_number
    from leasehold.cli.live.moments import now, read_moment
    from leasehold.cli.live.submitting import read_memory_mib
    from leasehold.cli.screen import answer_json
    from leasehold.client.joint_calls import JointWish
    from leasehold.client.reading import wire

    at = now()
    wish = JointWish(
        components=read_components(components, read_memory_mib(memory) if memory else None),
        duration_s=read_duration_s("--duration", duration),
        claim=claim,
        place=place,
        ready=read_moment("--ready", ready, at) if ready else None,
        deadline=read_moment("--deadline", deadline, at) if deadline else None,
        margin_s=read_duration_s("--margin", margin) if margin else 0,
        tries=tries,
        retries=retries,
        name=name,
        group=group,
        command=command or (),
    )
    with gateway() as client:
        if dry_run:
            answer_explained_joint(client.joints.explain(**wish), json=json)
            return
        wish["idempotency_key"] = idempotency_key
        joint = client.joints.submit(**wish)
    if json:
        answer_json({"joint": wire(joint)})
    else:
        show_number(joint)
    if joint.state == "refused":
        raise typer.Exit(ANSWER_IS_NO)


@app.command("list")
def list_joints(
    everything: Annotated[bool, switch("--all", "-a", does="Those that are over, too.")] = False,
    json: Json = False,
) -> None:
    """List the joint leases that are not over, the newest first."""
    from leasehold.cli.live.gateway import gateway
    from leasehold.cli.live.joints import HEADS, overview
    from leasehold.cli.live.table import print_table
    from leasehold.cli.screen import answer_json
    from leasehold.client.reading import wire

    with gateway() as client:
        joints = [one for one in client.joints.list() if everything or not one.is_over]
    if json:
        answer_json({"joints": wire(joints)})
    else:
        print_table(HEADS, overview(joints), figures=(0, 4, 6))


@app.command()
def show(joint_id: JointId, json: Json = False) -> None:
    """Say what a joint lease asked for, how each component stands, and why."""
    from leasehold.cli.live.gateway import gateway
    from leasehold.cli.live.joints import account
    from leasehold.cli.live.moments import now
    from leasehold.cli.screen import answer, answer_json
    from leasehold.client.reading import wire

    with gateway() as client:
        joint = client.joints.get(joint_id)
        leases = [client.leases.get(component.lease) for component in joint.components]
    if json:
        answer_json({"joint": wire(joint), "leases": wire(leases)})
    else:
        answer("\n".join(account(joint, leases, now())))


@app.command()
def cancel(joint_id: JointId, json: Json = False) -> None:
    """Take a joint lease back, with all of its components; one that is over stays as it is."""
    from leasehold.cli.live.gateway import gateway
    from leasehold.cli.live.joints import standing
    from leasehold.cli.screen import answer, answer_json
    from leasehold.client.reading import wire

    with gateway() as client:
        joint = client.joints.cancel(joint_id)
    if json:
        answer_json({"joint": wire(joint)})
    else:
        answer(standing(joint))
