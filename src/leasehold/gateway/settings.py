"""What the owner of a site decides about it, and how a gateway routes."""

from collections.abc import Collection
from dataclasses import dataclass, field

from leasehold.leasing.backfill import Backfiller, Repair, repair_conflicts
from leasehold.leasing.kernel import Profile
from leasehold.leasing.overhead import OverheadModel
from leasehold.leasing.vectors import VectorBackfiller, VectorProfile
from leasehold.leasing.victims.policy import VictimPolicy
from leasehold.model.errors import InvalidField
from leasehold.model.lease import Lease
from leasehold.model.reason import Reason
from leasehold.model.request import LeaseType, Request
from leasehold.model.resources import NodeResources
from leasehold.routing.moments import StreamMoments
from leasehold.routing.policy import RoutingPolicy

Plan = Profile | VectorProfile
"""What is free at a site over time: by slots, or by nodes."""

Queue = Backfiller | VectorBackfiller
"""A queue over such a plan."""


@dataclass(slots=True)
class SiteSettings:
    """One cluster and the terms on which it lends.

    ``slots``                      VMs that fit at the same time; at a site of nodes, their cores
    ``nodes``                      the nodes that it is planned by; none: it is planned by slots, which are alike
    ``speed_mips``                 speed of each of them
    ``local_depth, guest_depth``   reservation depths (see `leasehold.leasing.backfill`)
    ``queues_locals``              whether a local request that cannot start now waits (as on any real
                                   cluster) or is refused (the reading of JPDC 2012)
    ``non_preemptable_share_vms``  most VMs that Non-preemptable guests may hold or have reserved
    ``non_preemptable_max_ms``     longest Non-preemptable guest
    ``can_suspend, can_migrate``   whether its machines' memory can be saved, and moved to another site
    ``hands_over``                 whether saved memory goes to, and comes from, sites with managers of their own
    ``confirms_starts``            whether starts are confirmed when machines were seen (`LeaseStarted`,
                                   `LeaseContinues`), and time counts from then; else they start at once
    ``images``      the names of the images that a lease may name here; ``login``: its user can log in by a key
    ``notice_ms``   for how long the owner lets preemption wait while a guest is told of it; ``can_notify`` says whether
                    the machines can tell it. Plans are made without: a simulated preemption takes no notice
    """

    name: str
    slots: int
    victims: VictimPolicy
    speed_mips: int = 1
    local_depth: int | None = None
    guest_depth: int | None = None
    queues_locals: bool = True
    non_preemptable_share_vms: int | None = None
    non_preemptable_max_ms: int | None = None
    overhead: OverheadModel = field(default_factory=OverheadModel)
    repair: Repair = repair_conflicts
    can_suspend: bool = True
    can_migrate: bool = True
    hands_over: bool = True
    confirms_starts: bool = False
    notice_ms: int = 0
    can_notify: bool = False
    nodes: tuple[NodeResources, ...] = ()
    images: tuple[str, ...] = ()
    login: bool = False

    def __post_init__(self) -> None:
        """Refuse sizes and speeds that make no sense."""
        if self.nodes:
            self.slots = sum(node.cores for node in self.nodes)
        for name in ("slots", "speed_mips"):
            if getattr(self, name) < 1:
                raise InvalidField(f"{self.name}.{name}", getattr(self, name), "a whole number of at least 1")

    def plan(self) -> Plan:
        """Make an empty plan."""
        return VectorProfile(self.nodes) if self.nodes else Profile(self.slots, 0)

    def slots_of(self, lease: Lease) -> int:
        """How many of the slots a lease takes: one for each VM, or as many as their cores at a site of nodes."""
        return lease.vms * lease.request.cores

    def can_serve(self, lease_type: LeaseType) -> bool:
        """Whether the machines here can do what preempting such a guest takes."""
        return can_serve(lease_type, suspend=self.can_suspend, migrate=self.can_migrate)

    def lacks(self, request: Request) -> Reason | None:
        """Say what machines here lack of what a request says they are to be like; None where it is all there."""
        return lacks(request, images=self.images, login=self.login)


def queue_over(plan: Plan, depth: int | None, moved: dict[int, Lease] | None = None) -> Queue:
    """Make an empty queue over a plan, with this reservation depth."""
    return VectorBackfiller(plan, depth, moved) if isinstance(plan, VectorProfile) else Backfiller(plan, depth, moved)


def can_serve(lease_type: LeaseType, *, suspend: bool, migrate: bool) -> bool:
    """Whether machines that can or cannot be suspended and moved will do for a lease of this type."""
    match lease_type:
        case LeaseType.SUSPENDABLE:
            return suspend
        case LeaseType.MIGRATABLE:
            return suspend and migrate
        case _:
            return True


def lacks(request: Request, *, images: Collection[str], login: bool) -> Reason | None:
    """Say why machines that have these images, and let users log in or not, will not do; None where they will."""
    if request.image and request.image not in images:
        return Reason.NO_SUCH_IMAGE
    return Reason.NO_LOGIN if request.login and not login else None


@dataclass(slots=True)
class Routing:
    """How a gateway routes.

    ``told_external, told_locals``  streams that an operator states; the others are learnt
    ``try_elsewhere``               ask the policy again, without the site that refused
    ``use_free_room``               send a request to a site that can start it now, if there is one, and let
                                    requests that wait at a site and have not started go to another
    ``tick_ms``                     how often held requests are asked about again at the latest
    ``max_restarts``                how often a guest whose machines were lost begins again, at most
    ``learns``                      whether streams that are not stated are learnt; in vain where no
                                    guest can come, and not free
    """

    policy: RoutingPolicy
    told_external: StreamMoments | None = None
    told_locals: dict[str, StreamMoments] | None = None
    try_elsewhere: bool = False
    use_free_room: bool = False
    tick_ms: int = 10_000
    learns: bool = True
    max_restarts: int = 0
