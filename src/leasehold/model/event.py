"""Events that the gateway receives. The owner of the clock, simulator or service, delivers them.

An event about a lease carries its ``incarnation``: an event about an earlier start of the same
lease is out of date and is ignored.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from leasehold.model.agreement import Agreement
from leasehold.model.coallocation import CoAllocationRequest
from leasehold.model.lease import LeaseState
from leasehold.model.reason import Reason
from leasehold.model.request import Request
from leasehold.model.use import Segment


@dataclass(frozen=True, slots=True)
class Carried:
    """What a lease brings along that was handed back by another site: its saved memory, and what it went through.

    ``memory_at``  where that memory is; ``work_left`` is the rest of its work, in work units
    """

    memory_at: str
    work_left: int
    preemptions: int = 0
    migrations: int = 0
    overhead_vm_ms: int = 0


@dataclass(slots=True)
class Submitted:
    """A request came: at the gateway, or at its home cluster when it is local; it may continue from saved memory."""

    request: Request
    carried: Carried | None = None


@dataclass(slots=True)
class LeaseStarted:
    """The machines of a lease that was started are there: its time begins.

    ``since_ms``  since when, as far as that is known; None: since now
    """

    lease_id: int
    incarnation: int
    since_ms: int | None = None


@dataclass(slots=True)
class LeaseNotStarted:
    """The machines of a lease did not start, and it is not tried any more where it is.

    ``elsewhere``  whether it may be tried at another site
    """

    lease_id: int
    incarnation: int
    elsewhere: bool = True


@dataclass(slots=True)
class LeaseIsLate:
    """The time that was planned for a lease is over, and its machines have not been seen yet."""

    lease_id: int
    incarnation: int


@dataclass(slots=True)
class LeaseEnded:
    """The lease's work is done, or (``killed``) its requested time is over."""

    lease_id: int
    incarnation: int
    killed: bool = False


@dataclass(slots=True)
class LeaseSaved:
    """The memory of a suspended lease is on disk; or (``ended``) its work was done before that."""

    lease_id: int
    incarnation: int
    ended: bool = False


@dataclass(slots=True)
class LeaseContinues:
    """A resumed or migrated lease works again; ``since_ms`` as in `LeaseStarted`."""

    lease_id: int
    incarnation: int
    since_ms: int | None = None


@dataclass(slots=True)
class LeaseFailed:
    """The machines of a lease are lost, with whatever they were doing."""

    lease_id: int
    incarnation: int


@dataclass(slots=True)
class LeaseCheckpointed:
    """The guest in a lease's machines has saved its work by its own means: what it did until ``at_ms`` is safe."""

    lease_id: int
    incarnation: int
    at_ms: int


@dataclass(slots=True)
class CancelRequested:
    """The user takes a lease back."""

    lease_id: int


@dataclass(slots=True)
class ExtendRequested:
    """The user wants a lease to last longer, by ``by_ms`` on a machine of the reference speed."""

    lease_id: int
    by_ms: int


@dataclass(slots=True)
class ExtensionAsked:
    """The gateway that sent a lease here wants it to last ``duration_ms`` in all, on a machine of the reference speed.

    All of it, and not how much more: asked twice, it is granted once.
    """

    lease_id: int
    duration_ms: int


@dataclass(slots=True)
class ExtensionAnswered:
    """A site that decides for itself says for how long, in all, a lease may last there.

    With a ``refusal`` it is not extended, and ``duration_ms`` is what was asked for.
    """

    lease_id: int
    site: str
    duration_ms: int
    refusal: Reason | None = None


@dataclass(slots=True)
class LendingChanged:
    """The owner of a site lends from now on, or takes no new guests."""

    site: str
    lends: bool


@dataclass(frozen=True, slots=True)
class Outage:
    """VMs of a site that cannot be used, because their nodes failed or are serviced, and until when as expected."""

    vms: int
    until_ms: int
    node: str = ""
    """Which node it is, where the site is planned by nodes."""


@dataclass(slots=True)
class OutagesChanged:
    """The nodes of a site that are down now, all of them; what ran there is reported apart (`LeaseFailed`).

    Sent when a node fails or is repaired, and when it is not repaired by the time that was expected.
    """

    site: str
    outages: tuple[Outage, ...]


@dataclass(slots=True)
class NativeQueueSeen:
    """The native jobs of a site, as its scheduler reports them: running ones, and waiting ones in order.

    Sent whenever the scheduler has started one that was to wait here, or has started one on other nodes than planned.
    ``nodes`` says, by lease, on which nodes how many machines of a running one are, at a site that is planned by nodes.
    """

    site: str
    running: tuple[int, ...]
    waiting: tuple[int, ...]
    nodes: Mapping[int, tuple[tuple[str, int], ...]] = field(default_factory=dict)


class Operation(StrEnum):
    """Operations that are measured; a migration is measured at its destination."""

    START = "start"
    SUSPEND = "suspend"
    RESUME = "resume"
    MIGRATE = "migrate"


@dataclass(slots=True)
class OverheadMeasured:
    """An operation on the machines of a lease at a site is done, and took ``took_ms`` for all of its VMs."""

    site: str
    operation: Operation
    memory_mib: int
    vms: int
    took_ms: int


@dataclass(slots=True)
class SiteReported:
    """A site that decides for itself says what has become of a lease that was offered to it.

    ``planned_ms, first_start_ms``  the start that it promises and the first one there was, -1 without
    ``work_left``                   of a lease that it hands back: the rest of its work, in work units; -1: all of it
    ``prepared_until_ms``           until when it can be committed; -1: it is, or need not be
    ``onward``                      the gateways beyond a peer that it went on to, nearest first, as each calls the next
    """

    lease_id: int
    site: str
    state: LeaseState
    reason: Reason
    planned_ms: int = -1
    first_start_ms: int = -1
    preemptions: int = 0
    overhead_vm_ms: int = 0
    migrations: int = 0
    work_left: int = -1
    prepared_until_ms: int = -1
    onward: tuple[str, ...] = ()


@dataclass(slots=True)
class LeaseCommitted:
    """The gateway that sent a component here has the promises of all others: what was promised here holds."""

    lease_id: int


@dataclass(slots=True)
class SiteFellSilent:
    """Nothing has been heard of a site for too long: of its manager, or of the machines of an own site."""

    site: str


@dataclass(slots=True)
class SiteAnswered:
    """The machines of an own site that was silent have answered again."""

    site: str


@dataclass(slots=True)
class SiteForgotten:
    """Such a site will not come back: what was there is lost."""

    site: str


@dataclass(slots=True)
class Agreed:
    """These agreements are signed, and no others; each holds in its time.

    ``history``  what was used, and is over, as far back as they look
    ``revoked``  those that a party has just put an end to; requests that wait under them are refused
    """

    agreements: tuple[Agreement, ...]
    history: tuple[Segment, ...] = ()
    revoked: frozenset[str] = frozenset()


@dataclass(slots=True)
class PenaltyLifted:
    """An administrator ends the penalty of a consumer for breaking an agreement."""

    agreement: str
    consumer: str


@dataclass(slots=True)
class CoAllocationSubmitted:
    """A co-allocation came: its components run together or not at all."""

    request: CoAllocationRequest


@dataclass(slots=True)
class CoAllocationCancelled:
    """The user takes a co-allocation back, with all of its components."""

    coallocation_id: int


@dataclass(slots=True)
class Tick:
    """Time has come: a reservation is due somewhere, or the gateway wanted to be woken."""

    site: str = ""


Event = (
    Submitted
    | LeaseStarted
    | LeaseNotStarted
    | LeaseIsLate
    | LeaseEnded
    | LeaseSaved
    | LeaseContinues
    | LeaseFailed
    | LeaseCheckpointed
    | CancelRequested
    | ExtendRequested
    | ExtensionAsked
    | ExtensionAnswered
    | LendingChanged
    | OutagesChanged
    | NativeQueueSeen
    | OverheadMeasured
    | SiteReported
    | LeaseCommitted
    | SiteFellSilent
    | SiteAnswered
    | SiteForgotten
    | Agreed
    | PenaltyLifted
    | CoAllocationSubmitted
    | CoAllocationCancelled
    | Tick
)
