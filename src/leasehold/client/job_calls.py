"""What can be asked of a gateway about jobs, as `leasehold.client.calls` about leases."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Required, TypedDict
from uuid import uuid4

from leasehold.client.calls import insist_on_zones
from leasehold.client.job_records import Image, Job, JobProspect, JobResult, Node
from leasehold.client.question import Call, Page, all_of, one, paged
from leasehold.client.reading import wire
from leasehold.model.request import LeaseType

_LEFT_OUT: tuple[object, ...] = (None, "", [], ())


class JobWish(TypedDict, total=False):
    """A job that is asked for; what is left out is as usual.

    ``cores, memory_mib, disk_mib, cpu_mhz``  of each node
    ``software``         what must be installed, with constraints: "gcc >= 12, < 14"
    ``inputs``           what it reads, as {"name": ..., "size_bytes": ..., "place": ...}
    ``execution_s``      how long it is thought to run
    ``reliability``      how sure it is to be done by its deadline, above 0 and below 1
    ``backup``           what is kept ready against a fault: none, cold or hot
    ``type``             what kind of guest its attempts are
    ``restarts``         how often it may begin anew after faults that are not its own
    ``idempotency_key``  as in `leasehold.client.calls.Wish`
    """

    command: Required[Sequence[str]]
    execution_s: Required[float]
    cores: int
    memory_mib: int
    disk_mib: int
    cpu_mhz: int
    nodes: int
    software: Sequence[str]
    inputs: Sequence[Mapping[str, Any]]
    deadline: datetime | None
    reliability: float | None
    backup: str
    type: LeaseType | str
    restarts: int
    name: str
    group: str
    idempotency_key: str


class WhichJobs(TypedDict, total=False):
    """Which jobs: all that are visible, without any of these.

    ``site``   that were tried there
    ``since``  submitted at this time or later, with its zone
    ``open``   True for those of which something may still become, False for the others
    """

    states: Sequence[str]
    site: str
    consumer: str
    since: datetime | None
    open: bool


def submit_job(wish: JobWish) -> Call[Job]:
    """Ask for a job; raises InvalidField for a time without its zone."""
    body = _body(wish)
    key = body.pop("idempotency_key", None) or str(uuid4())
    return Call("POST", "/v1/jobs", one(Job), body=body, key=key)


def explain_job(wish: JobWish) -> Call[JobProspect]:
    """Ask what would become of a job; raises InvalidField for a time without its zone."""
    return Call("POST", "/v1/jobs/explain", one(JobProspect), body=_body(wish))


def _body(wish: JobWish) -> dict[str, Any]:
    insist_on_zones(deadline=wish.get("deadline"))
    return {key: wire(value) for key, value in wish.items() if value not in _LEFT_OUT}


def job(job_id: int) -> Call[Job]:
    """Ask for one job."""
    return Call("GET", f"/v1/jobs/{job_id}", one(Job))


def jobs(which: WhichJobs) -> Call[Page[Job]]:
    """Ask for jobs, the newest first; raises InvalidField for a time without its zone."""
    insist_on_zones(since=which.get("since"))
    words = [("state", state) for state in which.get("states", ())]
    words += [(name, wire(which[name])) for name in ("site", "consumer", "since") if which.get(name)]
    if "open" in which:
        words.append(("open", str(which["open"]).lower()))
    return paged("/v1/jobs", tuple(words), "jobs", Job)


def cancel_job(job_id: int) -> Call[Job]:
    """Take a job back; one that is over stays as it is."""
    return Call("DELETE", f"/v1/jobs/{job_id}", one(Job))


def job_result(job_id: int) -> Call[JobResult]:
    """Ask what came of a job."""
    return Call("GET", f"/v1/jobs/{job_id}/result", one(JobResult))


def nodes(site: str = "", software: Sequence[str] = (), *, brief: bool = False) -> Call[Page[Node]]:
    """Ask for nodes, by name: all, those of a site, those that have some software."""
    words = [("site", site)] if site else []
    words += [("software", text) for text in software]
    words += [("brief", "true")] if brief else []
    return paged("/v1/nodes", tuple(words), "nodes", Node)


def images() -> Call[tuple[Image, ...]]:
    """Ask for all images."""
    return Call("GET", "/v1/images", all_of("images", Image))
