"""``leasehold job``: commands that run where their requirements are met; a file, options or both describe a job."""

from typing import Annotated

import typer

from leasehold.cli.exit_codes import ANSWER_IS_NO
from leasehold.cli.live import times
from leasehold.cli.live.gateway import gateway
from leasehold.cli.live.names import JOB_STATES, complete_job_state, complete_site
from leasehold.cli.live.table import answer_json_line, answer_line, answer_rows
from leasehold.cli.options import IdempotencyKey, JobOptions, Json, switch, taking
from leasehold.cli.screen import answer, answer_json, talk

app = typer.Typer(help="Run commands on nodes that meet their requirements.", no_args_is_help=True)

JobId = Annotated[int, typer.Argument(metavar="ID", min=0, show_default=False)]


@app.command()
@taking(JobOptions)
def submit(
    options: JobOptions,
    idempotency_key: IdempotencyKey = "",
    wait: Annotated[bool, switch("--wait", does="Wait until it has ended, and print its output.")] = False,
    json: Json = False,
) -> None:
    """Submit a job and print its ID. Exits with 1 if it is refused or, with --wait, failed."""
    from leasehold.cli.live.jobs import answer_output, followed, is_a_no, read_description, spec_of, standing

    spec = spec_of(read_description(options))
    with gateway() as client:
        job = client.jobs.submit(spec, idempotency_key=idempotency_key)
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
@taking(JobOptions)
def explain(options: JobOptions, json: Json = False) -> None:
    """Predict what would happen to a job, with the answers of the nodes, equal ones grouped.

    Nothing is submitted; --json names up to five nodes of each group.

    Exits with 1 if it would run nowhere now.
    """
    from leasehold.cli.live.jobs import answer_prospect, read_description, spec_of

    spec = spec_of(read_description(options))
    with gateway() as client:
        prospect = client.jobs.explain(spec)
    answer_prospect(prospect, json=json)


@app.command()
@taking(JobOptions)
def describe(
    options: JobOptions,
    xml: Annotated[bool, switch("--xml", does="Print JSDL XML instead of JSON.")] = False,
    json: Json = False,
) -> None:
    """Print a job description, without contacting a gateway."""
    from leasehold.cli.live.jobs import read_description
    from leasehold.configuration.job_description.documents import fields_of, to_json, to_xml

    description = read_description(options)
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
    everything: Annotated[bool, switch("--all", "-a", does="Include those that have ended.")] = False,
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
