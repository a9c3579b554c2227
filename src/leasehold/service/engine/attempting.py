"""From an attempt to the lease that it is, and from what becomes of that back to the attempt."""

from dataclasses import dataclass, field
from math import ceil

from leasehold.jobs.events import AttemptFailed, AttemptNotNow, JobEvent
from leasehold.jobs.job import Attempt, Fault, JobRecord
from leasehold.matching.choice import Physical
from leasehold.matching.images import Image
from leasehold.model.lease import Lease
from leasehold.model.reason import Reason, sentence
from leasehold.model.request import Request, check_request
from leasehold.service.drivers.protocol import Observation, PlacementConstraints
from leasehold.service.engine.job_setup import JobSetup
from leasehold.service.engine.places import image_name
from leasehold.service.store.rows import LeaseMetadata

FAULTS = {fault.value: fault for fault in Fault}
ORDER_REFUSED = "its machines could not be started: {}"


@dataclass(slots=True)
class Heard:
    """What machines have said of an attempt's lease, until that is over.

    ``ended``         whether its command has ended by itself, and then how
    ``fault``         as which fault it counts, where the machines know that
    ``refused``       why they could not be told to start, or to go on
    ``full``          whether that was because others had their room
    ``while_it_ran``  what there was to say of its command while that ran
    ``began_anew``    whether it had run, and its machines began anew (a node of a Slurm cluster died)
    """

    ended: bool = False
    exit_status: int | None = None
    detail: str = ""
    fault: str = ""
    refused: str = ""
    full: bool = False
    while_it_ran: str = ""
    began_anew: bool = False

    def take(self, seen: Observation, *, ended: bool) -> None:
        """Take in the last thing that was seen of it."""
        self.ended, self.exit_status, self.detail, self.fault = (
            ended,
            seen.exit_status,
            seen.detail,
            seen.fault,
        )


@dataclass(frozen=True, slots=True)
class Speeds:
    """Of a site, and the one that durations refer to, in MIPS."""

    site: int = 1
    reference: int = 1


@dataclass(frozen=True, slots=True)
class Asking:
    """Makes requests of attempts."""

    setup: JobSetup = field(default_factory=JobSetup)

    def request(self, record: JobRecord, attempt: Attempt, lease_id: int, speeds: Speeds, now_ms: int) -> Request:
        """Ask for the lease of an attempt, bound to its site. Raises InvalidField for what no lease can be.

        Its duration is that of the job with the margin, and with the start of machines, by the clock: it is
        told at the reference speed, since leases are shorter on faster sites and jobs are not.
        """
        asked, needs = record.request, record.request.job.needs
        wall_ms = ceil(needs.execution_ms * self.setup.margin) + self._boot_ms(attempt)
        return check_request(
            Request(
                id=lease_id,
                lease_type=asked.lease_type,
                vms=len(attempt.nodes),
                duration_ms=-(-wall_ms * speeds.site // speeds.reference),
                submit_ms=now_ms,
                ready_ms=now_ms,
                consumer=asked.consumer,
                memory_mib=max(1, needs.amounts.memory_mib + _of_its_system_mib(attempt)),
                group=asked.group,
                domain=attempt.site,
                is_foreign=asked.is_foreign,
            )
        )

    def _boot_ms(self, attempt: Attempt) -> int:
        return 0 if isinstance(attempt.place, Physical) else self.setup.settings.making.boot_ms


def particulars(record: JobRecord, attempt: Attempt) -> LeaseMetadata:
    """Say what the machines of an attempt are to be, and to run."""
    asked = record.request
    nodes = tuple(name.partition("/")[2] for name in attempt.nodes)
    constraints = PlacementConstraints(nodes, image_name(attempt.place), asked.job.needs.amounts.cores)
    return LeaseMetadata(asked.name, asked.command, job_id=record.id, constraints=constraints)


def _of_its_system_mib(attempt: Attempt) -> int:
    place = attempt.place
    if isinstance(place, Physical) or not isinstance(place.image, Image):
        return 0
    return place.image.needs.memory_mib


def came_to_nothing(
    record: JobRecord, attempt: Attempt, lease: Lease, reason: Reason, heard: Heard, now_ms: int
) -> JobEvent:
    """Say what it means for an attempt that its lease is over, and its command has not ended by itself.

    Rule: who never began has met a *not now*, whoever refused it, and so has who finds its room taken when it
    is to go on. Lost machines are the fault that they
    themselves name; else a service that would not start them has stopped, and whatever was lost has died.
    Any other lease was taken away, by whom ever, unless its time is over and its command has had it.
    """
    job_id, number = record.id, attempt.number
    if reason in {Reason.MACHINES_LOST, Reason.NEVER_STARTED}:
        if heard.full:
            return AttemptNotNow(job_id, number, heard.refused, full=attempt.nodes)
        if heard.refused:
            detail = ORDER_REFUSED.format(heard.refused)
            return AttemptFailed(job_id, number, Fault.SERVICE_STOPPED, detail)
        fault = FAULTS.get(heard.fault, Fault.NODE_DIED)
        return AttemptFailed(job_id, number, fault, heard.detail)
    said = f"its lease {lease.id} {sentence(reason)}"
    if attempt.started_ms < 0:
        return AttemptNotNow(job_id, number, said)
    if reason is Reason.WALLTIME_REACHED and _had_its_time(record, attempt, heard, now_ms):
        told = "; ".join(filter(None, (said, heard.while_it_ran)))
        return AttemptFailed(job_id, number, Fault.TIME_OVER, told)
    return AttemptFailed(job_id, number, Fault.TAKEN_AWAY, said)


def _had_its_time(record: JobRecord, attempt: Attempt, heard: Heard, now_ms: int) -> bool:
    """Whether a command ran as long as it was thought to take: no machines came late, or began anew."""
    return not heard.began_anew and now_ms - attempt.started_ms >= record.request.job.needs.execution_ms


def lost_its_software(record: JobRecord, heard: Heard) -> bool:
    """Whether a command that ended did so because what it needs is not there; else it is its own affair."""
    return bool(record.request.job.needs.software) and heard.fault == Fault.SOFTWARE_GONE
