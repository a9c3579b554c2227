"""A co-allocation: several components, at one or several sites, that hold machines together or not at all.

Co-allocation as KOALA has it (Mohamed and Epema 2005), on which Dumitrescu et al. 2007 build. Each component
becomes an ordinary, Non-preemptable lease with a number of its own; what ties them together is here.
"""

from dataclasses import dataclass, field
from enum import StrEnum

from leasehold.model.agreement import MILLION
from leasehold.model.errors import InvalidField
from leasehold.model.lease import UNPLANNED
from leasehold.model.reason import Reason
from leasehold.model.request import DEFAULT_MEMORY_MIB, LeaseType, Request

MOST_COMPONENTS = 16
"""Placing looks at combinations of sites; this many keep that quick."""


class Claim(StrEnum):
    """How the room of all components is made sure of."""

    INCREMENTAL = "incremental"
    """One component after another, shortly before the start; components with room hold it idle for the others."""

    RESERVATION = "reservation"
    """All at once and ahead, for the earliest time at which there is room for all."""


class CoAllocationState(StrEnum):
    """Where a co-allocation is in its life."""

    HELD = "held"
    """No component has a place."""

    PLACED = "placed"
    """Incremental: each has a site; some may hold their room already."""

    PREPARING = "preparing"
    """Sites with managers of their own are asked to promise their room, and then to commit it; the others have."""

    RESERVED = "reserved"
    """Each is promised its room for the common start."""

    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"
    REFUSED = "refused"
    CANCELLED = "cancelled"

    @property
    def is_final(self) -> bool:
        """Whether nothing can follow."""
        return self in _FINAL


class Promise(StrEnum):
    """How far a site with a manager of its own is with the room of a component (two-phase commit)."""

    NONE = ""
    """It is at no such site."""

    ASKED = "asked"
    PREPARED = "prepared"
    """Promised until a certain time, and for good if it is committed by then."""

    COMMITTING = "committing"
    """Every site has promised its part, and this one is told so."""

    COMMITTED = "committed"


_FINAL = frozenset(
    {CoAllocationState.COMPLETED, CoAllocationState.FAILED, CoAllocationState.REFUSED, CoAllocationState.CANCELLED}
)


@dataclass(frozen=True, slots=True)
class Component:
    """One part of a co-allocation, served within one site.

    ``duration_ms``  on a machine of the reference speed
    ``site``         where it has to run, "" for any site
    ``files``        what it reads, as (site where that is, MiB)
    ``image``        what its machines boot from, as in a `Request`
    """

    vms: int
    duration_ms: int
    site: str = ""
    files: tuple[tuple[str, int], ...] = ()
    memory_mib: int = DEFAULT_MEMORY_MIB
    image: str = ""


@dataclass(frozen=True, slots=True)
class CoAllocationRequest:
    """A co-allocation request. Immutable.

    ``first_lease_id``  of the numbers that its leases may have: `lease_id` says which is whose
    ``place``           the placement policy, `leasehold.gateway.coallocation.placement`
    ``ready_ms``        no component holds machines before
    ``deadline_ms``     all have ended by then, None for no deadline
    ``tries``           how often all of it is tried for before it is refused
    ``retries``         how often a component that lost its machines is placed again
    ``margin_ms``       incremental: how long before the start claiming may begin, besides the travel of files
                        (KOALA's additional claiming time, ACT)
    ``wait_ppm``        incremental: the part of that time which passes before the first claim (KOALA's L)
    """

    id: int
    components: tuple[Component, ...]
    submit_ms: int
    ready_ms: int
    first_lease_id: int
    consumer: str = ""
    group: str = ""
    claim: Claim = Claim.INCREMENTAL
    place: str = "worst-fit"
    deadline_ms: int | None = None
    tries: int = 3
    retries: int = 0
    margin_ms: int = 0
    wait_ppm: int = 750_000
    is_foreign: bool = False

    @property
    def leases_each(self) -> int:
        """How many leases a component can come to have: one for each try, one for each loss."""
        return self.tries + self.retries

    @property
    def lease_ids(self) -> range:
        """All numbers that its leases may have."""
        return range(self.first_lease_id, self.first_lease_id + len(self.components) * self.leases_each)

    def lease_id(self, index: int, turn: int) -> int:
        """Give the number of a component's lease at its first, second, ... turn (from 0 on)."""
        return self.first_lease_id + turn * len(self.components) + index

    def index_of(self, lease_id: int) -> int:
        """Say whose number that is, of its components."""
        return (lease_id - self.first_lease_id) % len(self.components)

    def request(self, index: int, turn: int) -> Request:
        """Make the request that a component is at this turn."""
        component = self.components[index]
        return Request(
            self.lease_id(index, turn),
            LeaseType.NON_PREEMPTABLE,
            component.vms,
            component.duration_ms,
            self.submit_ms,
            self.ready_ms,
            self.deadline_ms,
            consumer=self.consumer,
            memory_mib=component.memory_mib,
            group=self.group,
            is_foreign=self.is_foreign,
            max_restarts=0,
            image=component.image,
        )


@dataclass(slots=True)
class Part:
    """The state of one component.

    ``lease_id``    its present lease
    ``turn``        which of its leases that is, from 0 on
    ``site``        where it is placed, "" while it is not
    ``claimed_ms``  since when it holds its room idle, UNPLANNED while it does not
    ``losses``      how often it lost its machines
    ``has_ended``   whether it is done
    ``promise``     at a site with a manager of its own: how far that is
    """

    lease_id: int
    turn: int = 0
    site: str = ""
    claimed_ms: int = UNPLANNED
    losses: int = 0
    has_ended: bool = False
    promise: Promise = Promise.NONE


@dataclass(slots=True, eq=False)
class CoAllocation:
    """One co-allocation's life.

    ``start_ms``    the common start, UNPLANNED while there is none
    ``claim_ms``    when claiming continues; while it is held, the earliest retry; while it is prepared, until when
                    the sites that are asked may answer
    ``tried``       attempts to start all of it
    ``idle_vm_ms``  VM-milliseconds for which claimed room was held idle so far
    ``reason``      the last one given
    ``end_ms``      when it was over, UNPLANNED before
    """

    request: CoAllocationRequest
    parts: list[Part] = field(default_factory=list)
    state: CoAllocationState = CoAllocationState.HELD
    start_ms: int = UNPLANNED
    claim_ms: int = UNPLANNED
    tried: int = 0
    idle_vm_ms: int = 0
    reason: Reason = Reason.WAITING_FOR_COMPONENTS
    end_ms: int = UNPLANNED

    @property
    def id(self) -> int:
        """Its number."""
        return self.request.id


def check_coallocation(request: CoAllocationRequest) -> CoAllocationRequest:
    """Return the request if every field of it makes sense; raises InvalidField naming one that does not.

    What a component asks for is checked where its own request is (`leasehold.model.request.check_request`).
    """
    count = len(request.components)
    if not 1 <= count <= MOST_COMPONENTS:
        raise InvalidField("components", count, f"from 1 to {MOST_COMPONENTS}")
    if not 0 <= request.wait_ppm < MILLION:
        raise InvalidField("wait_ppm", request.wait_ppm, "a part of the time to the start, less than all of it")
    for name, least in (("tries", 1), ("retries", 0), ("margin_ms", 0)):
        value = getattr(request, name)
        if value < least:
            raise InvalidField(name, value, f"a whole number of at least {least}")
    for component in request.components:
        for site, mib in component.files:
            if mib < 1:
                raise InvalidField("files", f"{mib}@{site}", "a whole number of at least 1 MiB")
    return request
