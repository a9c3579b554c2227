"""What can be asked of the engine. Each is answered once everything that follows from it is in the store."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from leasehold.model.event import Event
from leasehold.model.request import DEFAULT_MEMORY_MIB, LeaseType
from leasehold.service.enactors.protocol import Observation, OwnJob, Problem

if TYPE_CHECKING:
    from leasehold.service.letters.wire import About


@dataclass(frozen=True, slots=True)
class Submit:
    """Take a request in.

    ``key, request_hash``  the consumer's Idempotency-Key ("" without) and a hash of what came with it
    ``site``               its home site where it is local, None for an outside request
    ``own_job``            what the site's own scheduler calls the job that this stands for, "" without
    ``ready_ms``           not before, Unix ms; None: now
    """

    consumer: str
    lease_type: LeaseType
    vms: int
    duration_ms: int
    memory_mib: int = DEFAULT_MEMORY_MIB
    ready_ms: int | None = None
    deadline_ms: int | None = None
    site: str | None = None
    name: str = ""
    group: str = ""
    command: tuple[str, ...] = ()
    key: str = ""
    request_hash: str = ""
    origin: str = ""
    origin_id: int = 0
    work_done: int = 0
    own_job: str = ""


@dataclass(frozen=True, slots=True)
class Cancel:
    """Take a lease back."""

    lease_id: int


@dataclass(frozen=True, slots=True)
class Extend:
    """Let a lease last longer, if nobody is in the way."""

    lease_id: int
    by_ms: int


@dataclass(frozen=True, slots=True)
class Drain:
    """Start nothing more at a site; whoever runs there stays."""

    site: str
    by: str
    note: str = ""


@dataclass(frozen=True, slots=True)
class Undrain:
    """Let a drained site take leases again."""

    site: str
    by: str


@dataclass(frozen=True, slots=True)
class ForgetSite:
    """A site that decides for itself will not come back: close what is there, and forget it."""

    site: str
    by: str


@dataclass(frozen=True, slots=True)
class KeepPeer:
    """Exchange requests with another gateway from now on, or on these terms.

    ``url``      where it is called, so that it can ask us; "" where we lend it nothing
    ``ask``      when it is asked, `leasehold.gateway.peering.Ask`
    ``max_vms``  most VMs that it may have here at a time; None: any number
    """

    name: str
    url: str
    ask: str
    max_vms: int | None
    by: str


@dataclass(frozen=True, slots=True)
class RemovePeer:
    """Exchange nothing with a gateway any more.

    ``silent``  as whom it has not been heard of for too long: what it has, or is had from it, is given up
    """

    name: str
    silent: frozenset[str]
    by: str


@dataclass(frozen=True, slots=True)
class Observed:
    """An enactor saw this."""

    site: str
    observations: tuple[Observation, ...]


@dataclass(frozen=True, slots=True)
class Told:
    """An enactor was told these orders; those with a problem were not taken on."""

    site: str
    orders: tuple[str, ...]
    problems: dict[str, Problem]


@dataclass(frozen=True, slots=True)
class Surveyed:
    """An enactor was looked at as a whole: what is not among these is not there.

    ``asked_ms`` is when looking began: what was ordered later is not judged by it.
    """

    site: str
    observations: tuple[Observation, ...]
    asked_ms: int


@dataclass(frozen=True, slots=True)
class OwnJobsSeen:
    """All jobs that a site's own users have with its own scheduler, in the order in which it starts them.

    It is answered with the names of those for which there is room now.
    """

    site: str
    jobs: tuple[OwnJob, ...]


@dataclass(frozen=True, slots=True)
class Mail:
    """Letters from a correspondent, each with its number, and the last of ours that arrived there.

    ``about``  what a site says of itself; None from a gateway
    """

    correspondent: str
    letters: "tuple[tuple[int, str], ...]"
    acknowledged: int
    about: "About | None" = None


@dataclass(frozen=True, slots=True)
class Happened:
    """Something for the decision core as it is."""

    event: Event


Command = (
    Submit
    | Cancel
    | Extend
    | Drain
    | Undrain
    | ForgetSite
    | KeepPeer
    | RemovePeer
    | Observed
    | Told
    | Surveyed
    | OwnJobsSeen
    | Mail
    | Happened
)
