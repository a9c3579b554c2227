"""The job: one request exactly as a workload log or model gives it, before any gateway has seen it."""

from dataclasses import dataclass

from leasehold.model.request import LeaseType, Request
from leasehold.simulation.workload.together import StreamCoAllocations

NOT_CANCELLED = -1


@dataclass(slots=True)
class WorkloadJob:
    """One request of a stream; times are integer milliseconds, durations on a machine of the reference speed.

    Deliberately plain and unchecked: a log of a million lines makes a million of these. The readers and the
    model guarantee ``vms >= 1``, ``requested_ms >= 1``, ``actual_ms >= 1``, ``0 <= submit_ms <= ready_ms``.

    ``requested_ms``  wall time asked for
    ``actual_ms``     wall time really needed; one that asked for less is ended when that is over
    ``source_id``     job number in the log, or running number in a model
    ``site``          home cluster; None marks an external request
    ``ready_ms``      not to start before; left out, it is ``submit_ms``
    ``source``        name of the stream that the job came from
    ``group``         the VO, or the group within it, on whose account ``consumer`` asks, "" for none
    ``domain``        the virtual domain or site that it is bound to, "" for any
    ``claims``        units of further resources that it holds while it runs
    ``wait``          as in `leasehold.model.request.Request`
    ``cancelled_after_ms``  after how long its user cancels it, as its log says; `NOT_CANCELLED` where it does not
    ``cores``, ``gpu_model``, ``gpu_milli``, ``image``  what each VM needs, as in a request
    ``together``      how it is split into components that run together, None for a request of its own
    """

    submit_ms: int
    vms: int
    requested_ms: int
    actual_ms: int
    consumer: str = ""
    source_id: str = ""
    lease_type: LeaseType = LeaseType.NON_PREEMPTABLE
    site: str | None = None
    ready_ms: int = -1
    deadline_ms: int | None = None
    memory_mib: int = 1024
    source: str = ""
    group: str = ""
    domain: str = ""
    claims: tuple[tuple[str, int], ...] = ()
    together: StreamCoAllocations | None = None
    cancelled_after_ms: int = NOT_CANCELLED
    wait: bool = False
    cores: int = 1
    gpu_model: str = ""
    gpu_milli: int = 0
    image: str = ""

    def __post_init__(self) -> None:
        """Default the ready time to the submission."""
        if self.ready_ms < 0:
            self.ready_ms = self.submit_ms


def job_of(request: Request) -> WorkloadJob:
    """Make the job of a request that no stream brought: it needs just what it asks for."""
    return WorkloadJob(
        request.submit_ms,
        request.vms,
        request.duration_ms,
        request.duration_ms,
        request.consumer,
        str(request.id),
        request.lease_type,
        None,
        request.ready_ms,
        request.deadline_ms,
        request.memory_mib,
        group=request.group,
        domain=request.domain,
        claims=request.claims,
        wait=request.wait,
        cores=request.cores,
        gpu_model=request.gpu_model,
        gpu_milli=request.gpu_milli,
        image=request.image,
    )
