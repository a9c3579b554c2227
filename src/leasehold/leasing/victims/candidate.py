"""The nouns of victim selection: a lease that may give way, a set of them, and the choice made."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeAlias

from leasehold.model.request import LeaseType


@dataclass(slots=True, unsafe_hash=True)
class Candidate:
    """A running lease that may be preempted, as a policy sees it. Not to be changed; thousands are made at a time.

    ``cost_vm_ms``   what preempting it is charged (`leasehold.leasing.overhead`)
    ``ends_ms``      when it would free its VMs by itself, at the latest
    ``lost_vm_ms``   work done that would be gone: since the last checkpoint, of a lease whose memory is not saved
    ``ran_ms``       how long it has worked since it started, or last came back
    ``came_back_in_ms``  how long it took, or takes, to come back; 0 if it never had to
    ``preemptions``  how often it has been preempted before
    """

    lease_id: int
    lease_type: LeaseType
    vms: int
    cost_vm_ms: int
    ends_ms: int
    lost_vm_ms: int = 0
    ran_ms: int = 0
    preemptions: int = 0
    came_back_in_ms: int = 0


CandidateSet: TypeAlias = tuple[Candidate, ...]


def vms_of(leases: Iterable[Candidate]) -> int:
    """How many VMs these leases hold together."""
    return sum([lease.vms for lease in leases])


def cost_of(leases: Iterable[Candidate]) -> int:
    """What preempting all of them is charged, in VM-milliseconds."""
    return sum([lease.cost_vm_ms for lease in leases])


def ids_of(leases: Iterable[Candidate]) -> tuple[int, ...]:
    """Their numbers in rising order: the last tie-break of every policy."""
    return tuple(sorted([lease.lease_id for lease in leases]))


def in_order(leases: Iterable[Candidate]) -> CandidateSet:
    """The set as it is shown: by lease number."""
    return tuple(sorted(leases, key=lambda lease: lease.lease_id))


@dataclass(frozen=True, slots=True)
class VictimChoice:
    """The victims, and the facts that explain the choice.

    ``victims``      the candidate set that was chosen, by lease number
    ``runner_up``    the second best by the same rule, None where there is or was no other
    ``exact``        whether the rule's own optimum was found
    ``bound_vm_ms``  where it was not: no candidate set costs less than this
    ``considered``   how many candidate sets the choice was made from
    ``rule``         the name of the policy
    ``despite``      the numbers of victims preempted despite a guarantee of the site
    """

    victims: CandidateSet
    runner_up: CandidateSet | None
    exact: bool
    bound_vm_ms: int | None
    considered: int
    rule: str
    despite: frozenset[int] = frozenset()

    @classmethod
    def optimal(cls, best: CandidateSet, second: CandidateSet | None, considered: int, rule: str) -> "VictimChoice":
        """Give the best and the second best of all candidate sets, in any order of their leases."""
        runner_up = in_order(second) if second else None
        return cls(in_order(best), runner_up, exact=True, bound_vm_ms=None, considered=considered, rule=rule)

    @property
    def vms(self) -> int:
        """How many VMs it frees."""
        return vms_of(self.victims)

    @property
    def cost_vm_ms(self) -> int:
        """What it is charged, in VM-milliseconds."""
        return cost_of(self.victims)
