"""``leasehold estimate``: when leases start, continue and end, and how earlier predictions did."""

from contextlib import suppress
from typing import TYPE_CHECKING, Annotated

import typer

from leasehold.cli.live import times
from leasehold.cli.live.gateway import gateway
from leasehold.cli.options import Json
from leasehold.cli.screen import answer, answer_json, answer_table

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from leasehold.protocol.forecasts import CalibrationScore, Estimate, Expectation, JobEstimate, LeaseEstimate
    from leasehold.simulation.calibrate import AgainstClimate

app = typer.Typer(help="Show when leases start and end, with 90 % intervals.", no_args_is_help=True)

WORDS = {"start": "starts", "continues": "continues", "end": "ends"}


@app.command("list")
def list_estimates(json: Json = False) -> None:
    """List when open leases, and jobs that wait for nodes, are expected to start, to continue and to end."""
    with gateway() as client:
        found = client.forecasts.list()
    if json:
        answer_json({"estimates": found.leases, "jobs": found.jobs})
        return
    at = times.now()
    every: list[tuple[str, Expectation]] = [
        *((f"lease {lease.lease}", lease) for lease in found.leases),
        *((f"job {waiting.job}", waiting) for waiting in found.jobs),
    ]
    rows = [
        [name, WORDS[estimate.what], *_times(estimate, at), f"{one.preempted_share:.0%}"]
        for name, one in every
        for estimate in one.estimates
    ]
    answer_table(["of", "", "expected", "earliest", "latest", "preempted"], rows, [2, 3, 4, 5])
    if every:
        oldest_s = max(one.age_s for _, one in every)
        answer(f"\n90 % intervals, worked out {times.show_duration(oldest_s)} ago.")


@app.command()
def show(
    lease_id: Annotated[int, typer.Argument(metavar="ID", min=0, help="Number of a lease.", show_default=False)],
    json: Json = False,
) -> None:
    """Show when a lease is expected to start, to continue and to end, and what may move that."""
    with gateway() as client:
        found = client.forecasts.get(lease_id)
    if json:
        answer_json({"estimate": found})
    else:
        answer("\n".join(sentences(found, times.now())))


@app.command()
def job(
    job_id: Annotated[int, typer.Argument(metavar="ID", min=0, help="Number of a job.", show_default=False)],
    json: Json = False,
) -> None:
    """Show when a job is expected to start and to end, and what may move that.

    Of a job that waits for nodes, from futures in which it asks for machines now; else of the leases of its attempts.
    """
    from leasehold.client import NotFound

    found: list[LeaseEstimate] = []
    waiting: JobEstimate | None = None
    with gateway() as client:
        attempts = [one for one in client.jobs.get(job_id).attempts if one.lease is not None and one.ended_at is None]
        for attempt in attempts:
            with suppress(NotFound):  # nothing is known yet
                found.append(client.forecasts.get(attempt.lease or 0))
        if not attempts:
            with suppress(NotFound):
                waiting = client.forecasts.of_job(job_id)
    if json:
        answer_json({"estimates": found, "waiting": waiting})
    elif waiting is not None:
        answer("\n".join(sentences(waiting, times.now())))
    elif found:
        answer("\n".join(line for one in found for line in [f"lease {one.lease}", *sentences(one, times.now())]))
    else:
        answer(f"Nothing can be said of job {job_id}: it has ended, has no node to wait for, or was not looked at yet.")


def sentences(found: "Expectation", at: "datetime") -> list[str]:
    """Say what is expected of a lease or job, a line for each thing, and below it what may move that."""
    lines: list[str] = []
    for one in found.estimates:
        expected, earliest, latest = _times(one, at)
        word = WORDS[one.what]
        if one.expected_at is None:
            lines.append(f"{word}: cannot be said")
            continue
        where = "".join(f" at {site.site}" for site in one.sites[:1]) if one.what != "end" else ""
        lines.append(f"{word}{where} in about {expected}, with 90 % between {earliest} and {latest}")
        lines += [f"  may be moved by {cause}" for cause in one.moved_by]
    if found.preempted_share:
        lines.append(f"preempted before its end in {found.preempted_share:.0%} of futures")
    return [*lines, f"worked out {times.show_duration(found.age_s)} ago"]


def _times(one: "Estimate", at: "datetime") -> tuple[str, str, str]:
    if one.expected_at is None or one.earliest_at is None or one.latest_at is None:
        return "unknown", "", ""
    leads = (max(0.0, (when - at).total_seconds()) for when in (one.expected_at, one.earliest_at, one.latest_at))
    expected, earliest, latest = map(times.show_duration, leads)
    return expected, earliest, latest


@app.command()
def calibration(json: Json = False) -> None:
    """Show how earlier predictions did: how many 90 % intervals contained what happened."""
    with gateway() as client:
        found = client.forecasts.calibration()
    if json:
        answer_json({"calibration": found})
    elif found.scores:
        show_scores(found.scores)
    else:
        answer("Nothing that was predicted has happened yet.")


def show_scores(scores: "Sequence[CalibrationScore]") -> None:
    """Print scores, one kind of prediction a line."""
    columns = ["", "of", "site", "futures", "scored", "covered", "95 % interval", "early", "late", "factor"]
    answer_table(columns, list(map(_score, scores)), range(4, 10))


def show_climate(found: "Sequence[AgainstClimate]") -> None:
    """Print how predictions did beside the quantiles of earlier waits, for those that both could make."""
    if found:
        columns = ["", "of", "futures", "scored", "covered", "climate covers", "score", "climate's", "better by"]
        answer("\nBeside the 5 % and 95 % quantiles of earlier waits (the climate); of scores less is better:\n")
        answer_table(columns, list(map(_beside, found)), range(3, 9))


def _beside(one: "AgainstClimate") -> list[str]:
    return [
        WORDS[one.kind.what],
        one.kind.whom,
        "agree" if one.is_sure else "differ",
        str(one.scored),
        f"{one.covered / one.scored:.1%}",
        f"{one.climate_covered / one.scored:.1%}",
        f"{one.loss / one.scored:.2f}",
        f"{one.climate_loss / one.scored:.2f}",
        f"{one.gain:.0%}",
    ]


def _score(one: "CalibrationScore") -> list[str]:
    from math import exp

    return [
        WORDS[one.what],
        one.whom or "all",
        one.site or "any",
        "agree" if one.is_sure else "differ",
        str(one.scored),
        f"{one.covered_share:.1%}",
        f"{one.covered_from:.0%} .. {one.covered_to:.0%}",
        str(one.below),
        str(one.above),
        f"{exp(one.width):.1f}",
    ]
