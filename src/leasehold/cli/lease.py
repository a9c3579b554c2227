"""``leasehold lease``: ask a gateway for machines, and look after what it gave."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from leasehold.cli import activity
from leasehold.cli.exit_codes import ANSWER_IS_NO
from leasehold.cli.live import times
from leasehold.cli.live.gateway import gateway
from leasehold.cli.live.names import LEASE_STATES, complete_image, complete_site, complete_state, complete_type
from leasehold.cli.live.table import answer_json_line, answer_line
from leasehold.cli.options import Claims, Group, IdempotencyKey, Json, Name, switch, taking
from leasehold.cli.screen import answer, answer_json, talk
from leasehold.model.request import MOST_RESTARTS

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from leasehold.client import Client, Lease, LeaseSpec, MachineAccess
    from leasehold.protocol.forecasts import LeaseEstimate

app = typer.Typer(help="Request machines from a gateway, and manage leases.", no_args_is_help=True)

LeaseId = Annotated[int, typer.Argument(metavar="ID", min=0, show_default=False)]
LeaseIds = Annotated[list[int], typer.Argument(metavar="ID...", min=0, show_default=False)]
Site = Annotated[
    str,
    typer.Option(metavar="NAME", help="Only at this site.", autocompletion=complete_site, show_default=False),
]
WHAT = "What"
WHEN = "When"
WHERE = "Where"

Domain = Annotated[
    str,
    typer.Option(
        metavar="NAME",
        help="Run only at this virtual domain or site.",
        rich_help_panel=WHERE,
        autocompletion=complete_site,
        show_default=False,
    ),
]
Duration = Annotated[
    str,
    typer.Option(
        metavar="TIME",
        help="Maximum duration on machines of the reference speed, counted from their observed start; "
        "less on faster sites: 3600 (seconds), 90m, 1h30m, 2:00:00 or 1-12:00:00.",
        rich_help_panel=WHAT,
        show_default=False,
    ),
]
TypeOf = Annotated[
    str,
    typer.Option(
        "--type",
        metavar="TYPE",
        help="What happens when its VMs are needed: cancelable (ends), suspendable (is suspended), "
        "migratable (moves), non-preemptable (nothing).",
        rich_help_panel=WHAT,
        autocompletion=complete_type,
        show_default=False,
    ),
]
Vms = Annotated[int, typer.Option(metavar="N", help="Number of machines, all at one site.", rich_help_panel=WHAT)]
Memory = Annotated[
    str,
    typer.Option(
        metavar="SIZE",
        help="Memory of each machine: 2GiB, 512 (MiB); default: 1GiB.",
        rich_help_panel=WHAT,
        show_default=False,
    ),
]
Cores = Annotated[
    int | None,
    typer.Option(
        metavar="N", help="Cores of each machine; default 1.", rich_help_panel=WHAT, min=1, show_default=False
    ),
]
Gpus = Annotated[
    str,
    typer.Option(
        metavar="[MODEL:]N",
        help="GPUs of each machine: a100:2, a100:0.5 (half of one), or 2 of any model.",
        rich_help_panel=WHAT,
        show_default=False,
    ),
]
Image = Annotated[
    str,
    typer.Option(
        metavar="NAME",
        help="Image that its machines boot from, or its command runs in; `leasehold site show` lists those of a site.",
        rich_help_panel=WHAT,
        autocompletion=complete_image,
        show_default=False,
    ),
]
SshKeyFile = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="Public key by which you log in to its machines, such as ~/.ssh/id_ed25519.pub.",
        rich_help_panel=WHAT,
        show_default=False,
    ),
]
Deadline = Annotated[
    str,
    typer.Option(
        metavar="TIME",
        help="Latest end: 2026-11-21T18:00, or now+2h.",
        rich_help_panel=WHEN,
        show_default=False,
    ),
]
Ready = Annotated[
    str,
    typer.Option(metavar="TIME", help="Earliest start.", rich_help_panel=WHEN, show_default="now"),
]
Local = Annotated[
    bool,
    typer.Option(
        "--local",
        metavar="",
        help="Run at your own site, ahead of all guests; has no type.",
        rich_help_panel=WHERE,
    ),
]
Home = Annotated[
    str,
    typer.Option(
        metavar="NAME",
        help="Home site of a local request.",
        rich_help_panel=WHERE,
        autocompletion=complete_site,
        show_default=False,
    ),
]

Notify = Annotated[
    str,
    typer.Option(
        metavar="HOW",
        help="How its guest is told before it is preempted, where the site's owner allows time for that: a signal such"
        " as SIGUSR1, file, or the address of a webhook.",
        rich_help_panel=WHAT,
        show_default=False,
    ),
]
NoWait = Annotated[
    bool,
    switch("--no-wait", does="Refuse a migratable or non-preemptable lease that would have to wait."),
]
MaxRestarts = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        min=0,
        max=MOST_RESTARTS,
        help="How often it begins again if its machines are lost; default: as often as the gateway lets guests.",
        rich_help_panel=WHAT,
        show_default=False,
    ),
]


@dataclass(frozen=True, slots=True)
class LeaseOptions:
    """The options of `submit` and `plan`, None or "" where they say nothing."""

    duration: Duration
    lease_type: TypeOf = ""
    vms: Vms = 1
    memory: Memory = ""
    cores: Cores = None
    gpus: Gpus = ""
    image: Image = ""
    ssh_key: SshKeyFile = None
    deadline: Deadline = ""
    ready: Ready = ""
    local: Local = False
    site: Home = ""
    group: Group = ""
    domain: Domain = ""
    claims: Claims = None
    no_wait: NoWait = False
    max_restarts: MaxRestarts = None
    notify: Notify = ""
    name: Name = ""
    project: Annotated[
        str, typer.Option(metavar="NAME", help="A label for accounting; not interpreted.", show_default=False)
    ] = ""
    idempotency_key: IdempotencyKey = ""
    wait: Annotated[bool, switch("--wait", does="Wait until it has ended; exit with 1 if it failed.")] = False
    command: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="COMMAND",
            help="Command to run, after --; without one only the machines are started.",
            show_default=False,
        ),
    ] = None

    def spec(self, at: "datetime") -> "LeaseSpec":
        """Give what a gateway is asked with; raises InvalidField."""
        from leasehold.cli.live.leases import read_claims, read_memory_mib, read_ssh_key
        from leasehold.client import LeaseSpec
        from leasehold.configuration.times import read_duration_s

        as_they_are = {name: value for name, value in asdict(self).items() if name in LeaseSpec.model_fields}
        return LeaseSpec.of(
            **as_they_are
            | {
                "type": self.lease_type,
                "duration_s": read_duration_s("--duration", self.duration),
                "memory_mib": read_memory_mib(self.memory) if self.memory else None,
                "deadline": times.read_moment("--deadline", self.deadline, at) if self.deadline else None,
                "ready": times.read_moment("--ready", self.ready, at) if self.ready else None,
                "ssh_key": "" if self.ssh_key is None else read_ssh_key(self.ssh_key),
                "claims": read_claims(self.claims or ()),
                "wait": False if self.no_wait else None,
            }
        )


@app.command()
@taking(LeaseOptions)
def submit(options: LeaseOptions, json: Json = False) -> None:
    """Submit a lease and print its ID. Exits with 1 if it is refused."""
    from leasehold.cli.live.leases import is_a_no, show_json, show_number, waited_for

    with gateway() as client:
        lease = client.leases.submit(options.spec(times.now()), idempotency_key=options.idempotency_key)
        if not json:
            show_number(lease)
        if options.wait:
            lease = waited_for(client, lease)
        if json:
            show_json(lease)
    if is_a_no(lease):
        raise typer.Exit(ANSWER_IS_NO)


@app.command()
@taking(LeaseOptions)
def plan(
    options: LeaseOptions,
    within: Annotated[
        int,
        typer.Option(
            metavar="SECONDS",
            min=0,
            max=30,
            help="About how long to simulate futures, for intervals and risks; 0: not at all.",
        ),
    ] = 2,
    json: Json = False,
) -> None:
    """Predict what would happen to a lease submitted now, without submitting it.

    Where and when it would start and end, at whose cost, how likely it is preempted as each lease type, what
    agreements leave, and which other requests would be better off. Exits with 0 if it would start as asked, with 1 if
    it would wait or has other consequences, with 3 if it would be refused. --wait and --idempotency-key change nothing.
    """
    from leasehold.cli.live.leases import answer_plan

    at = times.now()
    spec = options.spec(at)
    with gateway() as client:
        planned = client.leases.plan(spec, within_s=within)
    answer_plan(planned, spec.duration_s, at, json=json)


@app.command("list", epilog=f"States: {LEASE_STATES.legend()}.")
def list_leases(  # noqa: PLR0913, PLR0917 - one argument for each option
    states: Annotated[
        list[str] | None,
        typer.Option(
            "--state",
            "-t",
            metavar="STATE",
            help="Only these states, by name or code, such as R,PD; may be repeated.",
            autocompletion=complete_state,
            show_default=False,
        ),
    ] = None,
    site: Site = "",
    consumer: Annotated[str, typer.Option(metavar="NAME", help="Only this consumer.", show_default=False)] = "",
    since: Annotated[
        str,
        typer.Option(
            metavar="TIME",
            help="Only those submitted since: 2026-11-21, or now-1d.",
            show_default=False,
        ),
    ] = "",
    mine: Annotated[bool, switch("--mine", does="Only your own.")] = False,
    everything: Annotated[bool, switch("--all", "-a", does="Include those that have ended.")] = False,
    watch: Annotated[bool, switch("--watch", "-w", does="Update the list until Ctrl-C.")] = False,
    json: Json = False,
    no_header: Annotated[bool, switch("--no-header", does="Omit the header.")] = False,
    columns: Annotated[
        str,
        typer.Option(
            "--format",
            "-o",
            metavar="COLUMNS",
            help="Columns, such as id,st,site,start; an unknown one lists all.",
            show_default=False,
        ),
    ] = "",
    limit: Annotated[
        int,
        typer.Option("--limit", "-n", metavar="N", help="At most the newest N; 0 for all. --watch shows all.", min=0),
    ] = 200,
) -> None:
    """List open leases, newest first."""
    from leasehold.cli.live.leases import answer_leases, read_columns
    from leasehold.cli.live.leases import watch as keep_showing
    from leasehold.client import LeaseFilter
    from leasehold.model.errors import InvalidField

    wanted = read_columns(columns)
    if json and watch:
        raise InvalidField("--watch", "--json", "only one of them: `leasehold lease watch --json` reports changes")
    with gateway() as client:
        owner = client.tokens.inspect().consumer if mine else consumer
        which = LeaseFilter.of(
            state=LEASE_STATES.read(states or []),
            site=site,
            consumer=owner,
            since=times.read_moment("--since", since, times.now()) if since else None,
            open=None if everything or states else True,
        )
        if watch:
            keep_showing(client, which, wanted, head=not no_header)
            return
        answer_leases(client.leases.list(which), wanted, limit, json=json, head=not no_header)


app.command()(activity.queue)
app.command()(activity.decisions)
app.command()(activity.timeline)


@app.command()
def show(lease_id: LeaseId, json: Json = False) -> None:
    """Show a lease: its request, its state, and why."""
    from leasehold.cli.live.leases import account, asked_back, is_asked_back, login

    with gateway() as client:
        lease = client.leases.get(lease_id)
        is_cancelled = not json and is_asked_back(lease, client.leases.journal(lease_id))
        sites = {site.name: site for site in (client.sites.list() if is_cancelled else ())}
        expected = None if lease.is_over else _estimate_of(client, lease_id)
        access = _access_to(client, lease) if lease.ssh_key and not lease.is_over else ()
    if json:
        answer_json({"lease": lease, "estimate": expected, "access": access})
        return
    answer("\n".join(account(lease, times.now())))
    for one in access:
        answer(f"  machine {one.machine}: {login(one)}")
    if expected is not None:
        from leasehold.cli.estimate import sentences

        answer("\n".join(f"  {line}" for line in sentences(expected, times.now())))
    if is_cancelled:
        answer(asked_back(lease, sites.get(lease.site), times.now()))


def _access_to(client: "Client", lease: "Lease") -> "Sequence[MachineAccess]":
    """Ask where one can log in; nothing for others than its owner, or where that is not known here."""
    from leasehold.client import NotAllowed, NotFound

    try:
        return client.leases.access(lease.id).machines
    except (NotAllowed, NotFound):
        return ()


def _estimate_of(client: "Client", lease_id: int) -> "LeaseEstimate | None":
    """Ask what is expected of a lease; None where nothing is known yet."""
    from leasehold.client import NotFound

    try:
        return client.forecasts.get(lease_id)
    except NotFound:
        return None


@app.command()
def explain(lease_id: LeaseId, json: Json = False) -> None:
    """Explain why a lease waits, was refused, or lost its machines, and what would help.

    Every reason that it met, in order, at every site; for each preemption for whom it was, by which rule, and what
    would have avoided it. Alternatives are tried, not guessed.
    """
    from leasehold.cli.live.leases import explained

    with gateway() as client:
        told = client.leases.explain(lease_id)
    if json:
        answer_json({"explanation": told})
    else:
        answer("\n".join(explained(told, times.now())))


@app.command()
def watch(
    lease_ids: Annotated[list[int] | None, typer.Argument(metavar="[ID...]", min=0, show_default=False)] = None,
    json: Annotated[bool, switch("--json", does="Print one JSON object per line.")] = False,
) -> None:
    """Follow events: of these leases until all are over, or of all leases from now on.

    Exits with 1 if one of these failed.
    """
    from leasehold.cli.live.leases import going_on, happening, is_a_no, until_over

    with gateway() as client, going_on(lease_ids or ()):
        changes = until_over(client, lease_ids) if lease_ids else client.leases.watch()
        for change in changes:
            if json:
                answer_json_line({"change": change})
            else:
                answer_line(happening(change))
        ended = [client.leases.get(lease_id) for lease_id in lease_ids or []]
    if any(map(is_a_no, ended)):
        raise typer.Exit(ANSWER_IS_NO)


@app.command()
def cancel(lease_ids: LeaseIds, json: Json = False) -> None:
    """Cancel leases; those that are over are unchanged."""
    from leasehold.cli.live.leases import asked_back, cancel_each, may_have_machines, standing

    with gateway() as client:
        done = cancel_each(client, lease_ids)
        is_anywhere = not json and any(map(may_have_machines, done.leases))
        sites = {site.name: site for site in (client.sites.list() if is_anywhere else ())}
    if json:
        answer_json({"leases": done.leases, "problems": done.problems})
    else:
        for lease in done.leases:
            answer(standing(lease))
            if line := asked_back(lease, sites.get(lease.site), times.now()):
                answer(line)
    for problem in done.problems.values():
        talk(f"leasehold: {problem}")
    raise typer.Exit(done.code)


@app.command()
def extend(
    lease_id: LeaseId,
    by: Annotated[
        str,
        typer.Option(
            metavar="TIME",
            help="Additional time, on machines of the reference speed: 600 (seconds), 90m, 2:00:00.",
            show_default=False,
        ),
    ],
    json: Json = False,
) -> None:
    """Extend a lease if nothing else needs its room; exits with 1 otherwise.

    A site with a manager of its own, or a peer, is asked. If it does not answer within a few seconds, the command says
    that it was asked; `leasehold lease show` has its answer later.
    """
    from leasehold.cli.live.leases import ending, lasting
    from leasehold.configuration.times import read_duration_s

    by_s = read_duration_s("--by", by)
    with gateway() as client:
        lease = client.leases.extend(lease_id, by_s)
    if json:
        answer_json({"lease": lease})
    else:
        answer(ending(lease, times.now()))
        if duration := lasting(lease):
            answer(f"  {duration}")


@app.command()
def checkpointed(lease_id: LeaseId, json: Json = False) -> None:
    """Report that a lease's guest has saved its work: what it did until now cannot be lost.

    A guest that was told of its preemption gives way at once. Exits with 1 if the lease has no machines.
    """
    from leasehold.cli.live.leases import standing

    with gateway() as client:
        lease = client.leases.checkpointed(lease_id)
    if json:
        answer_json({"lease": lease})
    else:
        answer(f"{standing(lease)}; checkpoint reported")


@app.command()
def logs(
    lease_id: LeaseId,
    console: Annotated[bool, switch("--console", does="Show the console output of its machines instead.")] = False,
    raw: Annotated[
        bool, switch("--raw", does="With --console: do not escape control characters; for trusted output only.")
    ] = False,
    json: Json = False,
) -> None:
    """Show the history of a lease, with reasons."""
    from leasehold.cli.live.leases import history

    with gateway() as client:
        text = client.leases.console(lease_id) if console else ""
        entries = [] if console else list(client.leases.journal(lease_id))
    if json:
        answer_json({"console": text} if console else {"entries": entries})
    elif console and not text:
        talk("leasehold: its machines have no output yet")
    else:
        answer(text.rstrip("\n") if console else "\n".join(history(entries)), as_it_is=raw and console)
