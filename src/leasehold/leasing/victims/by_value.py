"""The order of the lease types, put before any policy."""

from collections.abc import Sequence

from leasehold.leasing.victims.candidate import Candidate, CandidateSet, Choice, in_order, vms_of
from leasehold.leasing.victims.minimal_sets import MinimalSets
from leasehold.leasing.victims.mov import least_cost_vm_ms
from leasehold.leasing.victims.policy import VictimPolicy, check_candidates
from leasehold.model.request import LeaseType


class ByValue(VictimPolicy):
    """Which candidate set spares the more valuable leases, and is good by another policy?

    Rule: a lease is touched only if all leases of less valuable types together are not enough (Cancelable,
        then Suspendable, then Migratable).
    Source: Salehi, Javadi and Buyya, JPDC 2012, section 4.2 (the local scheduler).

    The types below the last one needed are counted as given; the other policy chooses within that type for
    the rest of the need; what this frees too many is given back to the types below in the same way, so that
    nobody is preempted in vain.
    """

    def __init__(self, policy: VictimPolicy) -> None:
        self.policy = policy
        self.name = f"by-value:{policy.name}"

    def choose(self, candidates: Sequence[Candidate], needed_vms: int) -> Choice:
        """Choose by type first, by the other policy second."""
        check_candidates(candidates, needed_vms)
        below, last = _split(candidates, needed_vms)
        top = self.policy.choose(last, needed_vms - vms_of(below))
        fill = self._fill(below, top.victims, needed_vms)
        exact = top.exact and (fill is None or fill.exact)
        return Choice(
            victims=_joined(top.victims, fill),
            runner_up=self._runner_up(top, fill, below, needed_vms),
            exact=exact,
            bound_vm_ms=None if exact else least_cost_vm_ms(MinimalSets(candidates, needed_vms)),
            considered=top.considered + (fill.considered if fill else 0),
            rule=self.name,
        )

    def _fill(self, below: list[Candidate], taken: CandidateSet, needed_vms: int) -> Choice | None:
        """Choose from the less valuable types what ``taken`` leaves open, if it does."""
        rest = needed_vms - vms_of(taken)
        return self.choose(below, rest) if rest > 0 else None

    def _runner_up(
        self, top: Choice, fill: Choice | None, below: list[Candidate], needed_vms: int
    ) -> CandidateSet | None:
        """The next choice within the most valuable type; without one, the next below it."""
        if top.runner_up:
            return _joined(top.runner_up, self._fill(below, top.runner_up, needed_vms))
        if fill and fill.runner_up:
            return in_order(top.victims + fill.runner_up)
        return None


def by_value(policy: VictimPolicy) -> VictimPolicy:
    """Put the order of the lease types before this policy."""
    return ByValue(policy)


def _split(candidates: Sequence[Candidate], needed_vms: int) -> tuple[list[Candidate], list[Candidate]]:
    """The leases of the types that are not enough without the next one, and those of the next one."""
    below: list[Candidate] = []
    last: list[Candidate] = []
    for lease_type in LeaseType:
        if vms_of(below) + vms_of(last) >= needed_vms:
            break
        below += last
        last = [lease for lease in candidates if lease.lease_type is lease_type]
    return below, last


def _joined(taken: CandidateSet, fill: Choice | None) -> CandidateSet:
    return in_order(taken + fill.victims) if fill else in_order(taken)
