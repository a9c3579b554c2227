"""The nouns: a job that is asked for, its attempts, and how both stand."""

from dataclasses import dataclass, field
from enum import StrEnum

from leasehold.jobs.why import JobReason
from leasehold.matching.choice import Physical, Virtual
from leasehold.matching.needs import Job
from leasehold.model.errors import InvalidField
from leasehold.model.request import LeaseType

NOT_YET = -1


class Backup(StrEnum):
    """What is kept ready against a fault.

    NONE  nothing: after a fault another place is looked for
    COLD  a second place is chosen beforehand, and the copy begins there only when the first has failed
    HOT   copies run along from the beginning, and the first result counts
    """

    NONE = "none"
    COLD = "cold"
    HOT = "hot"


class JobState(StrEnum):
    """Where a job is in its life."""

    WAITING = "waiting"
    """Nothing was given to it: it is retried, or waits for its turn, here or in the queue of a site."""

    BUILDING = "building"
    """An image with its software is built."""

    STARTING = "starting"
    """Machines were given to it, and its command was not seen to run yet."""

    RUNNING = "running"
    """The command of at least one attempt was seen to run."""

    SUSPENDED = "suspended"
    """Its command ran, and gave its machines up for a while."""

    COMPLETED = "completed"
    FAILED = "failed"
    REFUSED = "refused"
    CANCELLED = "cancelled"

    @property
    def is_final(self) -> bool:
        """Whether nothing can follow."""
        return self in _FINAL


_FINAL = frozenset({JobState.COMPLETED, JobState.FAILED, JobState.REFUSED, JobState.CANCELLED})


class AttemptState(StrEnum):
    """How an attempt stands. Of the final ones, FENCED is an attempt whose result does not count any more.

    QUEUED     its lease waits in the queue of its site
    ORDERED    it was given machines, and its command was not seen to run (again) yet
    SUSPENDED  its lease gave its machines up for a while
    """

    QUEUED = "queued"
    ORDERED = "ordered"
    RUNNING = "running"
    SUSPENDED = "suspended"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    FENCED = "fenced"

    @property
    def is_open(self) -> bool:
        """Whether something may still come of it."""
        return self in _OPEN


_OPEN = frozenset({AttemptState.QUEUED, AttemptState.ORDERED, AttemptState.RUNNING, AttemptState.SUSPENDED})


class Fault(StrEnum):
    """What went wrong with an attempt (Thamarai Selvi et al., section 4.6, and the death of a node)."""

    JOB_ERROR = "job-error"
    """Its own code ended with an error: told to its user, and not tried again."""

    SOFTWARE_GONE = "software-gone"
    """The node has not the software any more: a machine is built there, or another place is found."""

    NETWORK_FAILED = "network-failed"
    """The node cannot be reached; what runs there may go on, and is fenced."""

    SERVICE_STOPPED = "service-stopped"
    """The node's own manager has stopped or lost the job."""

    NODE_DIED = "node-died"
    """The node is gone, with all that ran on it."""

    TAKEN_AWAY = "taken-away"
    """No fault: its lease was taken back (preempted for good), and it may begin anew."""

    TIME_OVER = "time-over"
    """It ran longer than it may: once more it would not be quicker, so it is told to its user."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRequest:
    """What somebody asks for. Never changed.

    ``job``          its number, submission, needs and deadline; ``needs.nodes`` machines run the command
    ``lease_type``   what kind of guest its attempts are
    ``reliability``  how sure it is to be done by the deadline, above 0 and below 1; None: nothing is asked
    ``restarts``     how often it may begin anew after faults that are not its own
    ``is_foreign``   as in `leasehold.model.request.Request`

    Raises InvalidField for what makes no sense together.
    """

    job: Job
    command: tuple[str, ...]
    consumer: str = ""
    group: str = ""
    name: str = ""
    lease_type: LeaseType = LeaseType.SUSPENDABLE
    backup: Backup = Backup.NONE
    reliability: float | None = None
    restarts: int = 3
    is_foreign: bool = False

    def __post_init__(self) -> None:
        """Refuse what makes no sense."""
        if self.reliability is not None and not 0 < self.reliability < 1:
            raise InvalidField("reliability", self.reliability, "above 0 and below 1")
        if self.reliability is not None and self.job.deadline_ms is None:
            raise InvalidField("deadline", None, "a time, as reliability is that of being done by then")
        if self.restarts < 0:
            raise InvalidField("restarts", self.restarts, "at least 0")

    @property
    def id(self) -> int:
        """Its number."""
        return self.job.job_id


Place = Physical | Virtual
"""Nodes that have what is needed, or hosts for machines with an image (`leasehold.matching.choice`)."""


@dataclass(slots=True, eq=False)
class Attempt:
    """One try to run a job. Its number is also its fence: a job takes no result of one that is not open.

    ``number``      from 1 on, within its job
    ``is_backup``   whether it stands or runs beside another one
    ``fault``       what went wrong, None for nothing; ``detail`` is what was said of it
    ``exit_status`` of the command, None where it did not end by itself
    """

    number: int
    place: Place
    ordered_ms: int
    is_backup: bool = False
    state: AttemptState = AttemptState.ORDERED
    started_ms: int = NOT_YET
    ended_ms: int = NOT_YET
    fault: Fault | None = None
    detail: str = ""
    exit_status: int | None = None

    @property
    def nodes(self) -> tuple[str, ...]:
        """The names of its nodes or hosts, as ``site/node``."""
        edges = self.place.nodes if isinstance(self.place, Physical) else self.place.hosts
        return tuple(edge.node for edge in edges)

    @property
    def site(self) -> str:
        """The site of its nodes: all are of one."""
        return self.nodes[0].partition("/")[0]


@dataclass(slots=True, eq=False)
class JobRecord:
    """One job's life.

    ``reason``     why it stands as it does, with ``what`` is missing where there is something
    ``restarts``   how often it began anew after a fault
    ``next_ms``    when it is tried again, NOT_YET where no time is set
    ``delivered``  the number of the attempt whose result is the job's, 0 while there is none
    ``since_ms``   from when on its tries are counted: submission, last fault, or when its image was there
    ``standby``    where it would begin if what runs failed now, None where nothing is kept ready
    ``surest``     how sure the present plan is to be done by the deadline, None where nothing was asked
    """

    request: JobRequest
    state: JobState = JobState.WAITING
    reason: JobReason = JobReason.SUBMITTED
    what: str = ""
    attempts: list[Attempt] = field(default_factory=list)
    restarts: int = 0
    next_ms: int = NOT_YET
    since_ms: int = NOT_YET
    standby: Place | None = None
    delivered: int = 0
    surest: float | None = None
    ended_ms: int = NOT_YET

    @property
    def id(self) -> int:
        """Its number."""
        return self.request.id

    @property
    def open_attempts(self) -> list[Attempt]:
        """The attempts of which something may still come."""
        return [attempt for attempt in self.attempts if attempt.state.is_open]

    def attempt(self, number: int) -> Attempt:
        """Give one of its attempts."""
        return self.attempts[number - 1]


def has_lost_a_place(record: JobRecord) -> bool:
    """Whether a fault has befallen a job: what was promised to it when it began is kept as well as may be."""
    return any(attempt.fault is not None for attempt in record.attempts)
