"""``leasehold job``: commands that run where their requirements are met; a file, options or both describe a job."""

import inspect
from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Annotated, Any

import typer

from leasehold.cli.exit_codes import ANSWER_IS_NO
from leasehold.cli.live import times
from leasehold.cli.live.gateway import gateway
from leasehold.cli.live.names import JOB_STATES, complete_backup, complete_job_state, complete_site, complete_type
from leasehold.cli.live.table import answer_json_line, answer_line, answer_rows
from leasehold.cli.options import Group, IdempotencyKey, Json, Name, switch
from leasehold.cli.screen import answer, answer_json, talk

if TYPE_CHECKING:
    from leasehold.configuration.job_description.description import JobDescription


app = typer.Typer(help="Run commands on nodes that meet their requirements.", no_args_is_help=True)

JobId = Annotated[int, typer.Argument(metavar="ID", min=0, show_default=False)]


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
    from leasehold.cli.live.jobs import Options, read_description

    return read_description(
        words or (),
        Options(
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
    def asked(**values: object) -> None:
        options: dict[str, Any] = {name: values.pop(name) for name in ours}
        description = _description(**options)
        command(description, **values)

    parameters = [*ours.values(), *own]
    asked.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]  # what typer looks at
    asked.__annotations__ = {one.name: one.annotation for one in parameters}
    return asked


@app.command()
@taking_a_description
def submit(
    description: "JobDescription",
    idempotency_key: IdempotencyKey = "",
    wait: Annotated[bool, switch("--wait", does="Wait until it is over, and print its output.")] = False,
    json: Json = False,
) -> None:
    """Submit a job and print its ID. Exits with 1 if it is refused or, with --wait, failed."""
    from leasehold.cli.live.jobs import answer_output, followed, is_a_no, spec_of, standing

    with gateway() as client:
        job = client.jobs.submit(spec_of(description), idempotency_key=idempotency_key)
        if not json and not wait:
            answer(str(job.id))
        talk(f"leasehold: {standing(job)}")
        if wait:
            job = followed(client, job)
        if json:
            answer_json({"job": job})
        elif wait:
            answer_output(client, job)
    if is_a_no(job):
        raise typer.Exit(ANSWER_IS_NO)


@app.command()
@taking_a_description
def explain(description: "JobDescription", json: Json = False) -> None:
    """Predict what would happen to a job, with the answers of the nodes, equal ones grouped.

    Nothing is submitted; --json names up to five nodes of each group.

    Exits with 1 if it would run nowhere now.
    """
    from leasehold.cli.live.jobs import answer_prospect, spec_of

    with gateway() as client:
        prospect = client.jobs.explain(spec_of(description))
    answer_prospect(prospect, json=json)


@app.command()
@taking_a_description
def describe(
    description: "JobDescription",
    xml: Annotated[bool, switch("--xml", does="Print JSDL XML instead of JSON.")] = False,
    json: Json = False,
) -> None:
    """Print a job description, without contacting a gateway."""
    from leasehold.configuration.job_description.writing import fields_of, to_json, to_xml

    if json:
        answer_json({"description": fields_of(description)})
    else:
        answer(to_xml(description).rstrip("\n") if xml else to_json(description))


@app.command("list", epilog=f"States: {JOB_STATES.legend()}.")
def list_jobs(
    states: Annotated[
        list[str] | None,
        typer.Option(
            "--state",
            "-t",
            metavar="STATE",
            help="Only these states, by name or code, such as R,PD; may be repeated.",
            autocompletion=complete_job_state,
            show_default=False,
        ),
    ] = None,
    site: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="Only those attempted at this site.",
            autocompletion=complete_site,
            show_default=False,
        ),
    ] = "",
    consumer: Annotated[str, typer.Option(metavar="NAME", help="Only this consumer.", show_default=False)] = "",
    since: Annotated[
        str,
        typer.Option(metavar="TIME", help="Only those submitted since, such as now-1d.", show_default=False),
    ] = "",
    everything: Annotated[bool, switch("--all", "-a", does="Include those that are over.")] = False,
    json: Json = False,
) -> None:
    """List open jobs, newest first."""
    from leasehold.cli.live.jobs import JOBS
    from leasehold.client import JobFilter

    which = JobFilter.of(
        state=JOB_STATES.read(states or []),
        site=site,
        consumer=consumer,
        since=times.read_moment("--since", since, times.now()) if since else None,
        open=None if everything or states else True,
    )
    with gateway() as client:
        jobs = list(client.jobs.list(which))
    answer_rows("jobs", jobs, JOBS, json=json)


@app.command()
def show(job_id: JobId, json: Json = False) -> None:
    """Show a job: its request, its state, and each attempt."""
    from leasehold.cli.live.jobs import account

    with gateway() as client:
        job = client.jobs.get(job_id)
    if json:
        answer_json({"job": job})
    else:
        answer("\n".join(account(job, times.now())))


@app.command()
def wait(job_id: JobId, json: Json = False) -> None:
    """Follow the state of a job until it is over; exits with 1 if it failed."""
    from leasehold.cli.live.jobs import is_a_no, standings

    with gateway() as client:
        for job, sentence in standings(client, job_id):
            if json:
                answer_json_line({"job": job})
            else:
                answer_line(sentence)
    if is_a_no(job):
        raise typer.Exit(ANSWER_IS_NO)


@app.command()
def cancel(job_id: JobId, json: Json = False) -> None:
    """Cancel a job with all its attempts; one that is over is unchanged."""
    from leasehold.cli.live.jobs import standing

    with gateway() as client:
        job = client.jobs.cancel(job_id)
    if json:
        answer_json({"job": job})
    else:
        answer(standing(job))


@app.command()
def result(job_id: JobId, json: Json = False) -> None:
    """Print the output of a job; exits with 1 if it failed or has none."""
    from leasehold.cli.live.jobs import show_result

    with gateway() as client:
        found = client.jobs.result(job_id)
    if json:
        answer_json({"result": found})
    else:
        show_result(found)
    if found.exit_status != 0:
        raise typer.Exit(ANSWER_IS_NO)
