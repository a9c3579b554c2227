"""How a job is followed to its end, and what it wrote."""

import sys
from collections.abc import Iterator

from leasehold.cli.live.jobs import standing
from leasehold.cli.screen import answer, talk
from leasehold.client import Client, Job, JobResult, NotFound

NO_RESULT = "no-result"


def followed(client: Client, job: Job) -> Job:
    """Say whenever a job stands differently, until it is over; give it as it is then."""
    now, said = job, standing(job)
    for seen, told in standings(client, job.id):
        if told != said:
            talk(f"leasehold: {told}")
        now = seen
    return now


def standings(client: Client, job_id: int) -> Iterator[tuple[Job, str]]:
    """Give a job, and how it stands, whenever that reads differently, until it is over."""
    said = ""
    for job in client.jobs.follow(job_id):
        told = standing(job)
        if told != said or job.is_over:
            yield job, told
        said = told


def answer_output(client: Client, job: Job) -> None:
    """Give what a job that is over wrote, if anything came of it."""
    try:
        show_result(client.jobs.result(job.id))
    except NotFound as error:
        if error.problem.slug != NO_RESULT:
            raise


def show_result(result: JobResult) -> None:
    """Print what a job wrote, and say beside it what else there is to know.

    For a program it is as it is; on a terminal, nothing of it is obeyed.
    """
    if result.output:
        answer(result.output.removesuffix("\n"), as_it_is=not sys.stdout.isatty())
    if not result.is_kept:
        talk("leasehold: what it wrote is not kept any more: it was too old, or there was too much")
    elif not result.is_whole:
        talk("leasehold: this is only a part of what it wrote; the rest was not kept")
    if result.exit_status != 0:
        status = "no exit status" if result.exit_status is None else f"exit status {result.exit_status}"
        talk(f"leasehold: job {result.job} ended with {status}")


def is_a_no(job: Job) -> bool:
    """Whether a job is over, and not as it was meant to be."""
    return job.is_over and job.state != "completed"
