"""What a gateway tells of jobs, nodes and images, as it is on the wire."""

from dataclasses import dataclass
from datetime import datetime

FINAL = frozenset({"completed", "failed", "refused", "cancelled"})
"""The states of a job after which nothing follows."""


@dataclass(frozen=True, slots=True)
class JobInput:
    """A file that a job reads; ``place`` is the site where it lies, "" where it is with whoever asked."""

    name: str
    size_bytes: int
    place: str = ""


@dataclass(frozen=True, slots=True)
class JobNeeds:
    """What each of a job's nodes must have, and what all of it reads."""

    cores: int
    memory_mib: int
    execution_s: float
    disk_mib: int = 0
    cpu_mhz: int = 0
    nodes: int = 1
    software: tuple[str, ...] = ()
    inputs: tuple[JobInput, ...] = ()


@dataclass(frozen=True, slots=True)
class Attempt:
    """One try to run a job.

    ``lease``    None for a place that is only kept ready
    ``nodes``    its nodes, or the hosts of its machines, as ``site/node``
    ``image``    what its machines boot from, "" where it runs on the nodes as they are
    ``virtual``  whether machines are built for it
    ``backup``   whether it stands or runs beside another one
    ``state``    queued (at its site), ordered, running, suspended, succeeded, failed, or fenced: its result
                 no longer counts
    """

    number: int
    site: str
    nodes: tuple[str, ...]
    state: str
    ordered_at: datetime
    lease: int | None = None
    image: str = ""
    virtual: bool = False
    backup: bool = False
    fault: str = ""
    detail: str = ""
    exit_status: int | None = None
    started_at: datetime | None = None
    ended_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Job:
    """A command that says what it needs, and all that was tried to run it.

    ``what``          is missing, where something is
    ``next_try_at``   when it is tried again
    ``surest``        how sure the present plan is to be done by the deadline
    ``exit_status``   of the attempt whose result is the job's
    """

    id: int
    consumer: str
    state: str
    submitted_at: datetime
    command: tuple[str, ...]
    needs: JobNeeds
    attempts: tuple[Attempt, ...]
    name: str = ""
    group: str = ""
    reason: str = ""
    explanation: str = ""
    what: str = ""
    deadline: datetime | None = None
    ended_at: datetime | None = None
    next_try_at: datetime | None = None
    type: str = ""
    backup: str = "none"
    reliability: float | None = None
    surest: float | None = None
    restarts: int = 0
    restarts_used: int = 0
    exit_status: int | None = None

    @property
    def is_over(self) -> bool:
        """Whether nothing more will happen to it."""
        return self.state in FINAL


@dataclass(frozen=True, slots=True)
class JobResult:
    """What came of a job.

    ``is_whole``  whether ``output`` is all that its command wrote
    ``is_kept``   whether the gateway still has it: it lets go of what is old, or beyond its consumer's quota
    """

    job: int
    attempt: int
    output: str
    exit_status: int | None = None
    is_whole: bool = True
    is_kept: bool = True


@dataclass(frozen=True, slots=True)
class NodeVerdict:
    """What nodes say to a job: never here, not now (wait), or fit; ``what`` may be missing."""

    answer: str
    reason: str
    explanation: str = ""
    what: str = ""


@dataclass(frozen=True, slots=True)
class NodeGroup:
    """Nodes of a site that say the same to a job: to run there as they are, and in a machine on one.

    ``nodes``    the first of them by name, ``count`` how many they are in all
    ``problem``  why nothing can run there now, "" for nothing
    """

    site: str
    nodes: tuple[str, ...]
    count: int
    problem: str = ""
    as_node: NodeVerdict | None = None
    as_host: NodeVerdict | None = None


@dataclass(frozen=True, slots=True)
class JobPlace:
    """Where a job would begin, or a copy of it; the nodes are hosts where machines would be built.

    ``builds``  packages of an image that would be built first
    """

    site: str
    nodes: tuple[str, ...]
    reason: str
    explanation: str = ""
    image: str = ""
    virtual: bool = False
    builds: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class JobProspect:
    """What would become of a job: it would be running, building, waiting or refused.

    ``surest``  how sure it is to be done by its deadline, None where nothing was asked
    ``groups``  what the nodes say to it: those that would do first, then the many before the few
    """

    state: str
    reason: str
    places: tuple[JobPlace, ...]
    groups: tuple[NodeGroup, ...]
    explanation: str = ""
    what: str = ""
    surest: float | None = None


@dataclass(frozen=True, slots=True)
class Node:
    """A node as it was last seen.

    ``software``      what is installed, with versions; empty in a brief list, where only their number is
    ``is_host, runs`` whether machines can be built on it, and whether jobs can run on it as it is
    ``problem``       why nothing can run there now, and as which ``fault`` that counts
    ``failures``      how often it failed since it was first seen
    """

    name: str
    site: str
    cores: int
    free_cores: int
    memory_mib: int
    free_memory_mib: int
    disk_mib: int
    free_disk_mib: int
    seen_at: datetime
    first_seen_at: datetime
    cpu_mhz: int = 0
    bytes_per_s: int = 0
    software: tuple[str, ...] = ()
    packages: int = 0
    is_host: bool = False
    runs: bool = True
    problem: str = ""
    fault: str = ""
    failures: int = 0
    failed_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Image:
    """An image at a site: there, building or failed; then ``problem`` says why."""

    name: str
    state: str
    size_bytes: int
    least_memory_mib: int
    since: datetime
    seen_at: datetime
    site: str = ""
    software: tuple[str, ...] = ()
    packages: tuple[str, ...] = ()
    problem: str = ""
