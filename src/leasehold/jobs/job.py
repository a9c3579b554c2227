"""The nouns: a job that is asked for, its attempts and places, the state of each, and the reasons for it."""

from dataclasses import dataclass, field, replace
from enum import StrEnum

from leasehold.matching.assignment import Edge
from leasehold.matching.choice import Physical, Virtual
from leasehold.matching.images import Image, Recipe
from leasehold.matching.needs import Job
from leasehold.matching.verdict import FITS, Verdict
from leasehold.model.errors import InvalidField
from leasehold.model.request import LeaseType


class JobReason(StrEnum):
    """Why it was decided so."""

    SUBMITTED = "submitted"
    # where and when
    RUNS_ON_NODES = "runs-on-nodes"
    RUNS_IN_MACHINES = "runs-in-machines"
    RUNS_ALONG = "runs-along"
    TAKES_OVER = "takes-over"
    GOES_ON_WITH_FEWER = "goes-on-with-fewer"
    IMAGE_IS_BUILT = "image-is-built"
    TRIED_AGAIN_LATER = "tried-again-later"
    NODES_DOWN = "nodes-down"
    WAITS_ITS_TURN = "waits-its-turn"
    WAITS_AT_SITE = "waits-at-site"
    SUSPENDED = "suspended"
    NODE_FULL = "node-full"
    SITE_SAID_NOT_NOW = "site-said-not-now"
    # faults
    SOFTWARE_GONE = "software-gone"
    NETWORK_FAILED = "network-failed"
    SERVICE_STOPPED = "service-stopped"
    NODE_DIED = "node-died"
    TAKEN_AWAY = "taken-away"
    TIME_OVER = "time-over"
    INPUT_GONE = "input-gone"
    # over
    COMPLETED = "completed"
    JOB_ERROR = "job-error"
    NEVER_HERE = "never-here"
    WAITED_TOO_LONG = "waited-too-long"
    NOT_SURE_ENOUGH = "not-sure-enough"
    IMAGE_FAILED = "image-failed"
    TOO_MANY_FAULTS = "too-many-faults"
    TOO_LATE = "too-late"
    CANCELLED_BY_USER = "cancelled-by-user"
    # results that do not count
    RESULT_FENCED = "result-fenced"


_SENTENCES: dict[JobReason, str] = {
    JobReason.SUBMITTED: "was submitted and has not been scheduled yet",
    JobReason.RUNS_ON_NODES: "gets nodes that have what it needs",
    JobReason.RUNS_IN_MACHINES: "gets machines built for it, because no suitable node is available",
    JobReason.RUNS_ALONG: "has a second copy, to be as reliable as requested",
    JobReason.GOES_ON_WITH_FEWER: "continues on the other nodes, which are as many as it needs",
    JobReason.TAKES_OVER: "starts on its standby node, because the first attempt failed",
    JobReason.IMAGE_IS_BUILT: "waits until an image with its software is built",
    JobReason.TRIED_AGAIN_LATER: "found no room and will be retried",
    JobReason.NODES_DOWN: "waits for nodes that could run it but are down",
    JobReason.WAITS_ITS_TURN: "waits, because jobs ahead of it took the room",
    JobReason.WAITS_AT_SITE: "waits in the queue of its site",
    JobReason.SUSPENDED: "is suspended at its site",
    JobReason.NODE_FULL: "was returned to the queue, because its node was full when it was to start",
    JobReason.SITE_SAID_NOT_NOW: "was not accepted by the site and will be retried",
    JobReason.SOFTWARE_GONE: "lost its node, because the software that it needs is no longer installed there",
    JobReason.NETWORK_FAILED: "lost its node, because the node is unreachable",
    JobReason.SERVICE_STOPPED: "lost its node, because the node's own manager stopped",
    JobReason.NODE_DIED: "lost its node, because the node failed",
    JobReason.TAKEN_AWAY: "lost its node, because its lease was ended",
    JobReason.TIME_OVER: "exceeded its time limit and will not be retried",
    JobReason.INPUT_GONE: "needs an input that is no longer stored and will not be retried",
    JobReason.COMPLETED: "ran to its end",
    JobReason.JOB_ERROR: "exited with an error and will not be retried",
    JobReason.NEVER_HERE: "cannot run anywhere here",
    JobReason.WAITED_TOO_LONG: "found no room within the retry limit",
    JobReason.NOT_SURE_ENOUGH: "cannot be made as reliable as requested",
    JobReason.IMAGE_FAILED: "needs an image that could not be built",
    JobReason.TOO_MANY_FAULTS: "exceeded its restart limit",
    JobReason.TOO_LATE: "can no longer meet its deadline",
    JobReason.CANCELLED_BY_USER: "was cancelled by its user",
    JobReason.RESULT_FENCED: "returned a result that does not count, because another was accepted first",
}


def sentence(reason: JobReason) -> str:
    """Render a reason for a person."""
    return _SENTENCES[reason]


NOT_YET = -1


OF_PEER = ":"
"""Between the name of a peer and that of a site behind it, which may be one of another peer there; none is in names."""


def site_of(node: str) -> str:
    """Return the site of a node, whose name is ``site/node``; of a peer's it is ``peer:site``."""
    return node.partition("/")[0]


def provider_of(site: str) -> str:
    """Name who is asked for the nodes of a site: that site, or the peer that it is behind."""
    return site.partition(OF_PEER)[0]


def hops_to(site: str) -> int:
    """Say over how many gateways a site is reached; 0: it is behind no peer."""
    return site.count(OF_PEER)


def name_there(node: str) -> str:
    """Give the name that a node has at its site, or that its peer has told."""
    site, _, name = node.partition("/")
    _, is_behind, beyond = site.partition(OF_PEER)
    return f"{beyond}/{name}" if is_behind else name


def site_there(site: str) -> str:
    """Give the name that a peer has told of a site behind it; "" for one with a manager, which tells of no other."""
    return site.partition(OF_PEER)[2]


def image_there(image: str, site: str) -> str:
    """Give the name that the manager of a site, or the peer that it is behind, has told of an image there."""
    return image.partition(OF_PEER)[2] if hops_to(site) else image


def behind(provider: str, name: str) -> str:
    """Give the name here of what a peer calls so: a node with its site, a site, or an image."""
    return f"{provider}{OF_PEER}{name}"


ARRAY_ID, ARRAY_INDEX = "LEASEHOLD_ARRAY_ID", "LEASEHOLD_ARRAY_INDEX"
"""The variables in which a job of an array finds the number of the array, and its own index."""


MOST_IN_ARRAY = 1_000
HIGHEST_INDEX = 1_000_000


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
    """The state of an attempt. Among the final ones, FENCED means that its result no longer counts.

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
    """Its own code ended with an error: reported to its user, and not retried."""

    SOFTWARE_GONE = "software-gone"
    """The node has not the software any more: a machine is built there, or another place is found."""

    NETWORK_FAILED = "network-failed"
    """The node cannot be reached; what runs there may continue, and is fenced."""

    SERVICE_STOPPED = "service-stopped"
    """The node's own manager has stopped or lost the job."""

    NODE_DIED = "node-died"
    """The node is gone, with all that ran on it."""

    TAKEN_AWAY = "taken-away"
    """No fault: its lease was preempted permanently, and it may restart."""

    TIME_OVER = "time-over"
    """It exceeded its time limit: a retry would take as long, so this is reported to its user."""

    INPUT_GONE = "input-gone"
    """An input is not stored any more, or has changed: no node is to blame, and its user is told."""


FAULT_SENTENCES = {
    Fault.JOB_ERROR: "its command exited with an error",
    Fault.SOFTWARE_GONE: "the required software is no longer on the node",
    Fault.NETWORK_FAILED: "the node is unreachable",
    Fault.SERVICE_STOPPED: "the node's own manager stopped, or lost the attempt",
    Fault.NODE_DIED: "the node failed",
    Fault.TAKEN_AWAY: "its lease was ended",
    Fault.TIME_OVER: "it exceeded its time limit",
    Fault.INPUT_GONE: "an input of it is no longer stored",
}
"""What went wrong with an attempt, for a person."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRequest:
    """What is asked for. Never changed.

    ``job``          its number, submission, needs and deadline; ``needs.nodes`` machines run the command
    ``environment``  variables that its command finds, by name in the order in which they were given
    ``array_id``     the number of the first job of its array, 0 where it is in none; ``array_index`` is its own there
    ``lease_type``   what kind of guest its attempts are
    ``reliability``  how sure it is to be done by the deadline, above 0 and below 1; None: nothing is asked
    ``restarts``     how often it may restart after faults that are not its own
    ``is_foreign``   as in `leasehold.model.request.Request`

    Raises InvalidField for what makes no sense together.
    """

    job: Job
    command: tuple[str, ...]
    consumer: str = ""
    group: str = ""
    name: str = ""
    environment: tuple[tuple[str, str], ...] = ()
    array_id: int = 0
    array_index: int = 0
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
            raise InvalidField("deadline", None, "a time: reliability is the probability of ending by then")
        if self.restarts < 0:
            raise InvalidField("restarts", self.restarts, "at least 0")

    @property
    def id(self) -> int:
        """Its number."""
        return self.job.job_id

    @property
    def words(self) -> tuple[str, ...]:
        """What its machines run: the command, started by ``env`` with its variables where there are any."""
        variables = [f"{name}={value}" for name, value in self.environment]
        if self.array_id:
            variables += [f"{ARRAY_ID}={self.array_id}", f"{ARRAY_INDEX}={self.array_index}"]
        return ("env", *variables, *self.command) if variables else self.command


Place = Physical | Virtual
"""Nodes that have what is needed, or hosts for machines with an image (`leasehold.matching.choice`)."""


@dataclass(slots=True, eq=False)
class Attempt:
    """One attempt to run a job. Its number is also its fence: a job takes no result of one that is not open.

    ``number``      from 1 on, within its job
    ``is_backup``   whether it is a backup of another attempt
    ``fault``       what went wrong, None for nothing; ``detail`` explains it
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
        return site_of(self.nodes[0])

    @property
    def image(self) -> str:
        """The name of its machines' image; "" where it runs on nodes as they are, or the image is not built yet."""
        place = self.place
        return place.image.name if isinstance(place, Virtual) and isinstance(place.image, Image) else ""


@dataclass(slots=True, eq=False)
class JobRecord:
    """One job's life.

    ``reason``     the reason for its state; ``what`` names what is missing, if anything
    ``restarts``   how often it restarted after a fault
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


@dataclass(frozen=True, slots=True)
class JobPlacement:
    """Places to begin at, the first for the job itself and the others for copies; or why there are none.

    ``standby``  a place that is kept ready
    ``surest``   how sure that is, where it was asked; without places, how sure it can be had at most
    """

    places: tuple[Place, ...] = ()
    verdict: Verdict = FITS
    surest: float | None = None
    standby: Place | None = None

    @property
    def recipe(self) -> Recipe | None:
        """What has to be built before the job can begin, where that is so."""
        return next((recipe for place in self.places if (recipe := recipe_of(place))), None)


def recipe_of(place: Place) -> Recipe | None:
    """Give what has to be built for a place; None where all is there."""
    return place.image if not isinstance(place, Physical) and isinstance(place.image, Recipe) else None


def edges_of(place: Place) -> tuple[Edge, ...]:
    """Give the nodes or hosts of a place."""
    return place.nodes if isinstance(place, Physical) else place.hosts


def without(place: Place, node: str) -> Place:
    """Give a place but for one of its nodes or hosts."""
    rest = tuple(edge for edge in edges_of(place) if edge.node != node)
    return replace(place, nodes=rest) if isinstance(place, Physical) else replace(place, hosts=rest)


def names_of(place: Place) -> tuple[str, ...]:
    """Give the names of the nodes or hosts of a place."""
    return tuple(edge.node for edge in edges_of(place))


def last_call_ms(record: JobRecord) -> int:
    """Give when a job is too late if it did not begin before; NOT_YET where it has no deadline."""
    job = record.request.job
    return NOT_YET if job.deadline_ms is None else max(0, job.deadline_ms - job.needs.execution_ms)


def is_too_late(record: JobRecord, now_ms: int) -> bool:
    """Whether a job cannot be done before its deadline wherever it begins now."""
    return NOT_YET < last_call_ms(record) <= now_ms
