"""What happens to jobs, nodes and images, as the desk is told of it."""

from dataclasses import dataclass

from leasehold.jobs.job import Fault, JobRequest
from leasehold.matching.capabilities import Node
from leasehold.matching.images import Image


@dataclass(frozen=True, slots=True)
class JobSubmitted:
    """Somebody asks for a job."""

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
    """

    node: Node
    is_host: bool = False
    runs: bool = True


@dataclass(frozen=True, slots=True)
class NodesSeen:
    """A site was looked at: these are all of its nodes, and those not among them are gone."""

    site: str
    nodes: tuple[SeenNode, ...]


@dataclass(frozen=True, slots=True)
class NodeOffers:
    """A node says by itself that it is lightly loaded (the receiver-initiated strategy)."""

    seen: SeenNode


@dataclass(frozen=True, slots=True)
class NodeFell:
    """A node is silent, stopped or dead; whatever runs there has that fault."""

    node: str
    fault: Fault
    detail: str = ""


@dataclass(frozen=True, slots=True)
class ImagesSeen:
    """The catalogue: all images that there are, and what could be built into a new one from ``base``.

    ``buildable``  packages by name, each with the version that would be installed
    """

    images: tuple[Image, ...]
    base: Image | None = None
    buildable: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class ImageBuilt:
    """An image that the desk asked for is there."""

    key: str
    image: Image


@dataclass(frozen=True, slots=True)
class ImageFailed:
    """An image could not be built; ``why`` is one line, the log is kept elsewhere."""

    key: str
    why: str
    again: bool = False


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
    """A site took no lease of an attempt, or took it back before it began: nothing ran, nothing failed."""

    job_id: int
    number: int
    detail: str = ""


@dataclass(frozen=True, slots=True)
class JobTick:
    """The time has come for which the desk asked."""


JobEvent = (
    JobSubmitted
    | JobCancelled
    | NodesSeen
    | NodeOffers
    | NodeFell
    | ImagesSeen
    | ImageBuilt
    | ImageFailed
    | AttemptRuns
    | AttemptEnded
    | AttemptFailed
    | AttemptNotNow
    | JobTick
)
