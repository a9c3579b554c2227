"""What a gateway tells: its answers, typed, under the names that they have on the wire.

Times carry their zone; durations are seconds. A key that this client does not know is left out, so that a
newer gateway may say more.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from leasehold.model.lease import LeaseState
from leasehold.model.request import LeaseType


@dataclass(frozen=True, slots=True)
class Lease:
    """One lease: what was asked for, and where it is in its life.

    ``walltime_s``        how long ``duration_s`` is by the clock at its site, while it has all of it
    ``local, home``       whether it was asked for at its own site, and which one that is
    ``site``              where it is, or was last; "" while it waits at the gateway
    ``reason``            the last one, from `leasehold.model.reason.Reason`; ``explanation`` is its sentence
    ``planned_start_at``  the start that it is promised while it waits
    ``ends_at``           when its requested time will be over, while it holds machines
    ``ended_at``          when it came to its end
    ``domain, claims``    what it is bound to, and units of further resources that it holds while it runs
    ``coallocation, job``        the co-allocation of which it is a component, the job of which it is an attempt
    """

    id: int
    type: LeaseType
    vms: int
    duration_s: float
    memory_mib: int
    consumer: str
    state: LeaseState
    submitted_at: datetime
    ready_at: datetime
    walltime_s: float | None = None
    name: str = ""
    group: str = ""
    local: bool = False
    home: str | None = None
    site: str = ""
    reason: str = ""
    explanation: str = ""
    deadline_at: datetime | None = None
    planned_start_at: datetime | None = None
    started_at: datetime | None = None
    ends_at: datetime | None = None
    ended_at: datetime | None = None
    preemptions: int = 0
    migrations: int = 0
    domain: str = ""
    claims: Mapping[str, int] = field(default_factory=dict)
    coallocation: int | None = None
    job: int | None = None
    command: tuple[str, ...] = ()

    @property
    def is_over(self) -> bool:
        """Whether nothing more will happen to it."""
        return self.state.is_final


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of a lease's journal: what happened, and what the lease was afterwards."""

    seq: int
    at: datetime
    what: str
    state: LeaseState
    site: str = ""
    reason: str = ""
    explanation: str = ""
    rule: str = ""
    detail: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Change:
    """Something that happened just now, to a lease or to a site (then ``lease`` is None and ``state`` "").

    ``seq`` counts up; whoever has seen it may go on watching after it. ``job`` is that which it is about, or
    of whose attempt the lease is.
    """

    seq: int
    at: datetime
    what: str
    lease: int | None = None
    job: int | None = None
    site: str = ""
    state: str = ""
    reason: str = ""
    explanation: str = ""
    rule: str = ""
    consumer: str = ""
    detail: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What the machines of a site can do."""

    suspend: bool = False
    migrate: bool = False
    checkpoint: bool = False
    commands: bool = False


@dataclass(frozen=True, slots=True)
class Occupancy:
    """Who has the VMs of a site: its own users, guests, nobody."""

    local: int
    guests: int
    free: int


@dataclass(frozen=True, slots=True)
class Queue:
    """How many leases wait at a site."""

    local: int
    guests: int


@dataclass(frozen=True, slots=True)
class Overhead:
    """How long a site takes to start, suspend, resume or take over a lease of one VM with 1024 MiB.

    ``configured_s``  by the owner's terms, which say nothing of starts
    ``learnt_s``      as it is planned by now; of a start, as it usually takes; None where that is not known
    ``count``         how many measurements that is based on
    """

    operation: str
    configured_s: float | None = None
    learnt_s: float | None = None
    count: int = 0


@dataclass(frozen=True, slots=True)
class Site:
    """One site; ``status`` is up, drained or unreachable, and ``problem`` its last trouble with machines.

    ``domain``     the virtual domain that it is in, "" for none
    ``resources``  units of what it has besides its slots: memory, licences, services
    ``allows``     which guests its owner takes, "" where it decides for itself
    """

    name: str
    slots: int
    speed_mips: int
    status: str
    driver: str
    capabilities: Capabilities
    vms: Occupancy
    waiting: Queue
    drained_by: str = ""
    note: str = ""
    last_seen_at: datetime | None = None
    problem: str = ""
    overheads: tuple[Overhead, ...] = ()
    domain: str = ""
    resources: Mapping[str, int] = field(default_factory=dict)
    allows: str = ""


@dataclass(frozen=True, slots=True)
class Way:
    """What went one way between two gateways; ``status`` is up, closed, silent or off."""

    status: str
    offered: int = 0
    taken: int = 0
    refused: int = 0
    open: int = 0
    open_vms: int = 0
    rate_per_hour: float = 0.0
    last_heard_at: datetime | None = None
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Lent:
    """What a peer lends in all, and the most that one lease can have of it, and could at once."""

    slots: int
    free: int
    widest: int
    widest_free: int


@dataclass(frozen=True, slots=True)
class Peer:
    """A gateway that requests are exchanged with.

    ``url``        where it is called, so that it can ask us; "" where we lend it nothing
    ``ask``        when we ask it: where none-can of our sites take a request, none-can-now, or never
    ``max_vms``    most VMs that it may have here at a time, None for any number
    ``borrowing``  what we ask of it, and ``lending`` what it asks of us
    ``has``        what it lends, None before it was heard of
    """

    name: str
    url: str
    ask: str
    max_vms: int | None
    borrowing: Way
    lending: Way
    has: Lent | None = None
    added_at: datetime | None = None
    added_by: str = ""


@dataclass(frozen=True, slots=True)
class Token:
    """What is known of a token, which is all but its text."""

    id: str
    consumer: str
    roles: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    sites: tuple[str, ...] = ()
    note: str = ""
    created_at: datetime | None = None
    expires_at: datetime | None = None
    revoked_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class NewToken(Token):
    """A token that was just made; its text, ``token``, is told here and never again."""

    token: str = field(repr=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks, and what they may.

    ``token_id``     None for a token that another issuer has made
    ``permissions``  what they may, and over what: own, group, site, all
    """

    consumer: str
    roles: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    sites: tuple[str, ...] = ()
    token_id: str | None = None
    permissions: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Health:
    """Whether a gateway lives, whether it serves, and if not, why not."""

    alive: bool
    ready: bool
    why_not: str = ""
