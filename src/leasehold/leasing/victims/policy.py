"""What a victim policy is, and what it may rely on."""

from abc import ABC, abstractmethod
from collections.abc import Sequence

from leasehold.leasing.victims.candidate import Candidate, VictimChoice, vms_of
from leasehold.leasing.victims.pool import CandidatePool
from leasehold.model.errors import InvalidField, LeaseholdError
from leasehold.model.request import LeaseType


class CannotCover(LeaseholdError):
    """All candidates together hold fewer VMs than are needed: no choice of victims can help."""

    def __init__(self, needed_vms: int, held_vms: int) -> None:
        self.needed_vms = needed_vms
        self.held_vms = held_vms
        super().__init__(f"needed_vms: {needed_vms} VMs are needed, but all candidates hold only {held_vms}")


class VictimPolicy(ABC):
    """Chooses the leases that give way.

    ``name`` is what users call it, and what decisions give as their rule. The docstring says which
    question the policy answers, by which rule, and where the rule comes from.
    A policy keeps no state: equal candidates give equal choices, in whatever order they are listed.
    """

    name: str

    def choose_from(self, pool: CandidatePool, needed_vms: int) -> VictimChoice:
        """Choose as from all candidates of a pool, which may be thousands that run at a site.

        A policy that can tell which of them matter takes those; ``considered`` then counts only their sets.
        """
        return self.choose(pool.candidates(), needed_vms)

    @abstractmethod
    def choose(self, candidates: Sequence[Candidate], needed_vms: int) -> VictimChoice:
        """Choose an inclusion-minimal set of candidates that holds at least ``needed_vms`` VMs.

        Raises CannotCover if there is none, InvalidField for candidates that make no sense.
        """


def check_candidates(candidates: Sequence[Candidate], needed_vms: int) -> None:
    """Check what every policy relies on; raises CannotCover or InvalidField."""
    if needed_vms < 1:
        raise InvalidField("needed_vms", needed_vms, "a whole number of at least 1")
    for lease in candidates:
        _check_candidate(lease)
    if len({lease.lease_id for lease in candidates}) < len(candidates):
        ids = sorted(lease.lease_id for lease in candidates)
        raise InvalidField("candidates", ids, "each lease once")
    if vms_of(candidates) < needed_vms:
        raise CannotCover(needed_vms, vms_of(candidates))


def _check_candidate(lease: Candidate) -> None:
    if lease.vms < 1:
        raise InvalidField("vms", lease.vms, f"at least 1 for candidate {lease.lease_id}")
    if lease.cost_vm_ms < 0:
        raise InvalidField("cost_vm_ms", lease.cost_vm_ms, f"at least 0 for candidate {lease.lease_id}")
    if lease.lease_type is LeaseType.NON_PREEMPTABLE:
        expected = f"a type that may be preempted for candidate {lease.lease_id}"
        raise InvalidField("lease_type", lease.lease_type.label, expected)
