"""Jobs that wait for nodes, each as the request that it would make: estimates of their starts rest on these.

Futures know slots and not nodes. A job that waits has no lease; in a future it asks for one now, at a site that has
nodes for it. How far that is from what nodes then allow is learnt as any other error of predictions.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from leasehold.forecasting.estimates import JOB_NUMBERS
from leasehold.jobs.job import JobRecord, JobRequest, JobState
from leasehold.matching.verdict import Feasibility, Verdict
from leasehold.model.errors import InvalidField
from leasehold.model.request import Request, check_request
from leasehold.service.engine.attempts import Speeds, request_at
from leasehold.service.engine.engine import Engine
from leasehold.service.jobs import NodeGroup, Verdicts, verdicts

MOST_WAITING = 100
"""Jobs that are looked at, those first that came first."""


@dataclass(frozen=True, slots=True)
class WaitingJob:
    """A job without a lease; ``turn`` counts the attempts that it has had."""

    job_id: int
    turn: int
    request: Request


def waiting_jobs(engine: Engine) -> list[WaitingJob]:
    """Give the jobs that wait for nodes or an image, the first to come first; those without any hope are left out."""
    jobs = engine.jobs
    if not jobs.is_used:
        return []
    waiting = [record for record in jobs.scheduler.records.values() if not record.open_attempts]
    now_ms = engine.now_ms
    jobs.catch_up(now_ms)
    found: list[WaitingJob] = []
    seen: dict[object, tuple[NodeGroup, ...]] = {}
    for record in sorted(waiting, key=_by_number)[:MOST_WAITING]:
        needs = record.request.job.needs
        if needs not in seen:
            seen[needs] = verdicts(engine, record.request.job)
        ready_ms = record.since_ms + jobs.setup.settings.build_ms if record.state is JobState.BUILDING else 0
        request = as_request(engine, record.request, seen[needs], now_ms, ready_ms)
        if request is not None:
            found.append(WaitingJob(record.id, len(record.attempts), request))
    return found


def _by_number(record: JobRecord) -> int:
    return record.id


def as_request(
    engine: Engine, asked: JobRequest, groups: Sequence[NodeGroup], now_ms: int, ready_ms: int = 0
) -> Request | None:
    """Give the request for a lease that a job would make; None where no site has nodes for it.

    It is bound to the site with most of these, unless all sites have enough of them. Hosts of machines are taken into
    account where no node is for it as it is.
    """
    needed = asked.job.needs.nodes
    sites = _sites_with(needed, groups, lambda says: says.as_node) or _sites_with(
        needed, groups, lambda says: says.as_host
    )
    if not sites:
        return None
    jobs = engine.jobs
    site = "" if set(sites) >= {*engine.gateway.sites} and len(sites) > 1 else sites[0]
    speeds = jobs.speeds(site) if site else Speeds()
    request = request_at(asked, site, JOB_NUMBERS + asked.id, jobs.setup.longest_ms(asked.job), speeds, now_ms)
    try:
        return check_request(replace(request, ready_ms=max(now_ms, ready_ms)))
    except InvalidField:
        return None


def _sites_with(needed: int, groups: Sequence[NodeGroup], answer_of: Callable[[Verdicts], Verdict | None]) -> list[str]:
    """Give the sites with so many nodes that are up and do not answer *never*, those with most of them first."""
    there = Counter[str]()
    for group in groups:
        verdict = answer_of(group.says)
        if not group.says.problem and verdict is not None and verdict.answer is not Feasibility.NEVER:
            there[group.site] += group.count
    return [site for site, count in there.most_common() if count >= needed]
