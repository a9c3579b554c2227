"""What a gateway tells of co-allocations, and of what would become of a request, as it is on the wire."""

from dataclasses import dataclass
from datetime import datetime

from leasehold.model.lease import LeaseState


@dataclass(frozen=True, slots=True)
class InputFile:
    """Something that a component reads: where it is, and how large."""

    site: str
    mib: int


@dataclass(frozen=True, slots=True)
class CoAllocationComponent:
    """How things stand with one component.

    ``lease``        its present lease
    ``wanted_site``  where it has to be, "" for any site; ``site`` where it is placed, "" while it is not
    ``losses``       how often it lost its machines
    """

    lease: int
    vms: int
    duration_s: float
    memory_mib: int
    wanted_site: str = ""
    site: str = ""
    files: tuple[InputFile, ...] = ()
    losses: int = 0


@dataclass(frozen=True, slots=True)
class CoAllocation:
    """Components that hold machines together, or not at all.

    ``starts_at``   the common start, once there is one
    ``idle_vm_s``   VM-seconds for which machines were held idle for the others
    ``tried``       how often all of it was tried for
    """

    id: int
    consumer: str
    state: str
    claim: str
    place: str
    submitted_at: datetime
    ready_at: datetime
    components: tuple[CoAllocationComponent, ...]
    name: str = ""
    group: str = ""
    reason: str = ""
    explanation: str = ""
    deadline_at: datetime | None = None
    starts_at: datetime | None = None
    ended_at: datetime | None = None
    idle_vm_s: float = 0
    tried: int = 0

    @property
    def is_over(self) -> bool:
        """Whether nothing more will happen to it."""
        return self.ended_at is not None


@dataclass(frozen=True, slots=True)
class Barred:
    """A site that agreements close to a request, and why."""

    site: str
    reason: str
    agreement: str
    explanation: str


@dataclass(frozen=True, slots=True)
class ComponentEnvironment:
    """The sites that there are for a component, and in ``extended`` those that agreements open to it."""

    virtual: tuple[str, ...]
    extended: tuple[str, ...]
    barred: tuple[Barred, ...]


@dataclass(frozen=True, slots=True)
class DomainOffer:
    """How the broker sees a virtual domain; ``used_share`` is what the consumer used of it."""

    domain: str
    sites: tuple[str, ...]
    free_vms: int
    used_share: float
    penalty: int
    score: int


@dataclass(frozen=True, slots=True)
class RuleReading:
    """How much of one rule is used up at a site, over one of its windows."""

    site: str
    agreement: str
    provider: str
    consumer: str
    resource: str
    window_s: float
    used_share: float
    limit_share: float


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """Who would be asked and decides by itself; ``free_vms`` when it was last heard of."""

    name: str
    peer: bool
    free_vms: int


@dataclass(frozen=True, slots=True)
class LeaseExplanation:
    """What would become of a lease right after it was asked for.

    ``site``       where it would start or wait, "" for no site
    ``starts_at``  now, or the planned start; None where nobody can know yet
    ``ends_at``    when its time would be over, if it is not preempted before
    ``walltime_s``  how long its duration is by the clock at that site
    ``elsewhere``  who would be asked, where that is not decided by the gateway
    ``sites``      those that can take it, lend, and are open to it
    """

    state: LeaseState
    reason: str
    explanation: str
    site: str = ""
    starts_at: datetime | None = None
    ends_at: datetime | None = None
    walltime_s: float | None = None
    preempted_leases: int = 0
    preempted_vms: int = 0
    elsewhere: Elsewhere | None = None
    sites: tuple[str, ...] = ()
    barred: tuple[Barred, ...] = ()
    domains: tuple[DomainOffer, ...] = ()
    readings: tuple[RuleReading, ...] = ()


@dataclass(frozen=True, slots=True)
class CoAllocationExplanation:
    """What would become of a co-allocation right after it was asked for; ``sites`` of its components."""

    state: str
    sites: tuple[str, ...]
    reason: str
    explanation: str
    components: tuple[ComponentEnvironment, ...]
    starts_at: datetime | None = None
    domains: tuple[DomainOffer, ...] = ()
    readings: tuple[RuleReading, ...] = ()
