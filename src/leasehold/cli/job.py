"""``leasehold job``: commands that run where their requirements are met; a file, options or both describe a job."""

from pathlib import Path
from typing import Annotated

import typer

from leasehold.cli.exit_codes import ANSWER_IS_NO
from leasehold.cli.live import times
from leasehold.cli.live.gateway import gateway
from leasehold.cli.live.names import JOB_STATES, complete_job_state, complete_site
from leasehold.cli.live.table import answer_json_line, answer_line, answer_rows
from leasehold.cli.options import IdempotencyKey, JobOptions, Json, switch, taking
from leasehold.cli.screen import answer, answer_json, talk
from leasehold.model.errors import InvalidField

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
    """Submit a job, or an array of jobs, and print its ID.

    Exits with 1 if it is refused; with --wait, as its command, and with 1 if it failed otherwise. With --array the ID
    is that of the first job, and the highest exit status counts.
    """
    from leasehold.cli.live.jobs import (
        answer_output,
        exit_status_of,
        followed,
        jobs_of,
        read_description,
        spec_of,
        standing,
        stored_inputs,
    )

    description = read_description(options)
    with gateway() as client:
        spec = spec_of(stored_inputs(client, description))
        job = client.jobs.submit(spec, idempotency_key=idempotency_key)
        if not json and not wait:
            answer(str(job.id))
        jobs = jobs_of(client, job.id) if spec.array else [job]
        for number, one in enumerate(jobs):
            talk(f"leasehold: {standing(one)}")
            if wait:
                jobs[number] = followed(client, one)
                if not json:
                    answer_output(client, jobs[number])
        if json:
            answer_json({"jobs": jobs} if spec.array else {"job": jobs[0]})
    _exit_as(max(map(exit_status_of, jobs)))


@app.command()
@taking(JobOptions)
def plan(options: JobOptions, json: Json = False) -> None:
    """Predict what would happen to a job, what would go better, and what the nodes answer, equal ones grouped.

    Nothing is submitted; --json names up to five nodes of each group.

    Exits with 0 if it would start now at nobody's cost, with 1 if it would wait, an image is built first, or others
    give way, with 3 if it would be refused.
    """
    from leasehold.cli.live.jobs import answer_prospect, read_description, spec_of

    spec = spec_of(read_description(options))
    with gateway() as client:
        prospect = client.jobs.plan(spec)
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
def list_jobs(  # noqa: PLR0917 - each is an option
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
    array: Annotated[
        int | None, typer.Option(metavar="ID", min=0, help="Only this array; all of it.", show_default=False)
    ] = None,
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
        array=array,
        open=None if everything or states or array is not None else True,
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


Array = Annotated[bool, switch("--array", does="The whole array of this ID.")]


@app.command()
def explain(job_id: JobId, json: Json = False) -> None:
    """Explain why a job waits, was restarted, or lost its machines, and what each node says to it now."""
    from leasehold.cli.live.jobs import answer_explained

    with gateway() as client:
        told = client.jobs.explain(job_id)
    if json:
        answer_json({"explanation": told})
    else:
        answer_explained(told)


@app.command()
def wait(job_id: JobId, array: Array = False, json: Json = False) -> None:
    """Follow the state of a job until it is over; exits as its command, and with 1 if it failed otherwise."""
    from leasehold.cli.live.jobs import exit_status_of, jobs_of, standings

    statuses = []
    with gateway() as client:
        for number in [one.id for one in jobs_of(client, job_id)] if array else [job_id]:
            for job, sentence in standings(client, number):
                if json:
                    answer_json_line({"job": job})
                else:
                    answer_line(sentence)
            statuses.append(exit_status_of(job))
    _exit_as(max(statuses))


@app.command()
def logs(
    job_id: JobId,
    follow: Annotated[bool, switch("--follow", "-f", does="Print what it writes until it is over.")] = False,
    json: Json = False,
) -> None:
    """Print what a job has written so far: its standard output, and its standard error to standard error."""
    from leasehold.cli.live.jobs import follow_log

    with gateway() as client:
        if json and follow:
            raise InvalidField("--json", True, "nothing with --follow")  # noqa: FBT003 - the value that was given
        if json:
            answer_json({"log": client.jobs.output(job_id)})
            return
        for log in follow_log(client, job_id, is_followed=follow):
            last = log
    if not last.attempt:
        talk(f"leasehold: job {job_id} has not begun yet")
    elif not last.is_whole:
        talk("leasehold: this is only part of its output; the rest was not kept, or is not kept apart")


@app.command()
def cancel(job_id: JobId, array: Array = False, json: Json = False) -> None:
    """Cancel a job with all its attempts; one that is over is unchanged."""
    from leasehold.cli.live.jobs import jobs_of, standing

    with gateway() as client:
        numbers = [one.id for one in jobs_of(client, job_id)] if array else [job_id]
        jobs = [client.jobs.cancel(number) for number in numbers]
    if json:
        answer_json({"jobs": jobs} if array else {"job": jobs[0]})
    else:
        answer("\n".join(map(standing, jobs)))


@app.command()
def result(job_id: JobId, json: Json = False) -> None:
    """Print the output of a job, and its standard error to standard error; exits as its command.

    Exits with 1 if it has no result.
    """
    from leasehold.cli.live.jobs import show_result

    with gateway() as client:
        found = client.jobs.result(job_id)
    if json:
        answer_json({"result": found})
    else:
        show_result(found)
    _exit_as(ANSWER_IS_NO if found.exit_status is None else found.exit_status)


@app.command()
def get(
    job_id: JobId,
    names: Annotated[
        list[str] | None, typer.Argument(metavar="NAME...", help="Only these files.", show_default=False)
    ] = None,
    to: Annotated[
        Path, typer.Option(metavar="DIR", help="Folder to write them to.", show_default="the current one")
    ] = Path(),
    json: Json = False,
) -> None:
    """Write the files that a job left behind to this machine; exits with 1 if one is not kept."""
    from leasehold.cli.live.jobs import get_files, show_bytes

    with gateway() as client:
        files = get_files(client, job_id, names or [], to)
    if json:
        answer_json({"files": files})
    else:
        for file in files:
            if file.sha256:
                answer_line(f"{to / file.name}, {show_bytes(file.size_bytes)}")
            else:
                talk(f"leasehold: {file.name} is not kept: {file.problem}")
    if not all(file.sha256 for file in files):
        raise typer.Exit(ANSWER_IS_NO)


def _exit_as(status: int) -> None:
    if status:
        raise typer.Exit(status)
