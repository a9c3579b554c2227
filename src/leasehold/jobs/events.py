"""What happens to jobs, nodes and images: the input of the job scheduler."""

from dataclasses import dataclass
from enum import StrEnum

from leasehold.jobs.job import NOT_YET, AttemptState, Fault, JobRequest
from leasehold.matching.images import BuildSource, Image
from leasehold.matching.needs import Amounts
from leasehold.matching.nodes import Node


@dataclass(frozen=True, slots=True)
class JobSubmitted:
    """A job was submitted."""

    request: JobRequest


@dataclass(frozen=True, slots=True)
class JobCancelled:
    """Its user takes a job back."""

    job_id: int


@dataclass(frozen=True, slots=True)
class SeenNode:
    """A node as it was just seen, named ``site/node``.

    ``is_host``  whether machines can be built on it
    ``runs``     whether jobs can run on it as it is
    ``problem``  why nothing new can run there now, "" for nothing
    ``fault``    what has befallen whatever runs there; None where the problem harms nothing, as draining
    """

    node: Node
    is_host: bool = False
    runs: bool = True
    problem: str = ""
    fault: Fault | None = None

    @property
    def is_usable(self) -> bool:
        """Whether anything new can run there now."""
        return not self.problem and self.fault is None


class Turn(StrEnum):
    """When the nodes of a site are considered for a job.

    FIRST         with all others of this kind
    NONE_CAN_NOW  where none of those can serve it now, or none ever can
    NONE_CAN      where none of those ever can
    NEVER         not at all
    """

    FIRST = "first"
    NONE_CAN_NOW = "none-can-now"
    NONE_CAN = "none-can"
    NEVER = "never"


@dataclass(frozen=True, slots=True)
class NodesSeen:
    """The nodes of a site were observed, including those that are down. A node that is not named is gone.

    ``names``  all that it has, where ``nodes`` are only some of them; None: there are no others
    ``turn``   when they are considered
    """

    site: str
    nodes: tuple[SeenNode, ...]
    names: frozenset[str] | None = None
    turn: Turn = Turn.FIRST


@dataclass(frozen=True, slots=True)
class NodeOffers:
    """A node says by itself that it is lightly loaded, as `leasehold.jobs.offers` decides at its site.

    What cannot be used is only seen: that is no offer.

    ``until_ms``  when the offer expires; NOT_YET: when the settings say
    """

    seen: SeenNode
    until_ms: int = NOT_YET


@dataclass(frozen=True, slots=True)
class NodeFell:
    """A node is silent, stopped or dead; whatever runs there has that fault."""

    node: str
    fault: Fault
    detail: str = ""


@dataclass(frozen=True, slots=True)
class ImagesSeen:
    """The catalogue: all images that there are, and what new ones could be built from, the preferred source first."""

    images: tuple[Image, ...]
    sources: tuple[BuildSource, ...] = ()


@dataclass(frozen=True, slots=True)
class ImageBuilt:
    """An image that the scheduler asked for is there."""

    key: str
    image: Image


@dataclass(frozen=True, slots=True)
class ImageFailed:
    """An image could not be built; ``why`` is one line, the log is kept elsewhere."""

    key: str
    why: str
    again: bool = False


@dataclass(frozen=True, slots=True)
class AttemptStands:
    """The lease of an attempt waits, was given machines (again), or is suspended; ``why`` is its reason.

    ``begins_ms``  when it is planned to begin, where it waits and its site has promised that
    """

    job_id: int
    number: int
    state: AttemptState
    why: str = ""
    begins_ms: int = NOT_YET


@dataclass(frozen=True, slots=True)
class AttemptRuns:
    """The command of an attempt has begun."""

    job_id: int
    number: int


@dataclass(frozen=True, slots=True)
class AttemptEnded:
    """The command of an attempt has ended by itself, and its output is safe."""

    job_id: int
    number: int
    exit_status: int
    detail: str = ""


@dataclass(frozen=True, slots=True)
class AttemptFailed:
    """An attempt came to nothing."""

    job_id: int
    number: int
    fault: Fault
    detail: str = ""


@dataclass(frozen=True, slots=True)
class AttemptNotNow:
    """A site took no lease of an attempt, or took it back before it began: nothing ran, nothing failed.

    ``full``  those of its nodes on which others have what it was promised: then it is placed again at once
    """

    job_id: int
    number: int
    detail: str = ""
    full: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RoomTaken:
    """A lease that is not an attempt holds machines at a site; sent again when more is known of them.

    ``each``      what each of its ``vms`` has
    ``nodes``     where they are, a name for each VM, as ``site/node``; empty: unknown
    ``since_ms``  since when a look at the nodes shows them; NOT_YET: they were only ordered
    """

    lease_id: int
    site: str
    vms: int
    each: Amounts
    nodes: tuple[str, ...] = ()
    since_ms: int = NOT_YET


@dataclass(frozen=True, slots=True)
class RoomLeft:
    """Such a lease released its machines."""

    lease_id: int
    at_ms: int


@dataclass(frozen=True, slots=True)
class JobTick:
    """The time has come that `WakeJobsAt` named."""


JobEvent = (
    JobSubmitted
    | JobCancelled
    | NodesSeen
    | NodeOffers
    | NodeFell
    | ImagesSeen
    | ImageBuilt
    | ImageFailed
    | AttemptStands
    | AttemptRuns
    | AttemptEnded
    | AttemptFailed
    | AttemptNotNow
    | RoomTaken
    | RoomLeft
    | JobTick
)
