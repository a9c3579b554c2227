"""Tiers, put before any policy: nobody of a later tier goes while the earlier ones are enough."""

from abc import abstractmethod
from collections.abc import Sequence

from leasehold.leasing.victims.candidate import Candidate, CandidateSet, Choice, in_order, vms_of
from leasehold.leasing.victims.minimal_sets import MinimalSets
from leasehold.leasing.victims.mov import least_cost_vm_ms
from leasehold.leasing.victims.policy import VictimPolicy, check_candidates


class InTiers(VictimPolicy):
    """Which candidate set touches the earliest tiers only, and is good by another policy?

    Rule: a lease is touched only if all leases of earlier tiers together are not enough.

    The tiers before the last one needed are counted as given; the other policy chooses within that tier for
    the rest of the need; what this frees too many is given back to the tiers before it in the same way, so
    that nobody is preempted in vain. Whatever all candidates could cover is covered.
    """

    def __init__(self, policy: VictimPolicy, before: str) -> None:
        self.policy = policy
        self.name = f"{before}:{policy.name}"

    @abstractmethod
    def tier(self, lease: Candidate) -> int:
        """Say in which tier a lease is; lower ones go first."""

    def choose(self, candidates: Sequence[Candidate], needed_vms: int) -> Choice:
        """Choose by tier first, by the other policy second."""
        check_candidates(candidates, needed_vms)
        below, last = self._split(candidates, needed_vms)
        top = self.policy.choose(last, needed_vms - vms_of(below))
        fill = self._fill(below, top.victims, needed_vms)
        victims = _joined(top.victims, fill)
        exact = top.exact and (fill is None or fill.exact)
        return Choice(
            victims=victims,
            runner_up=self._runner_up(top, fill, below, needed_vms),
            exact=exact,
            bound_vm_ms=None if exact else least_cost_vm_ms(MinimalSets(candidates, needed_vms)),
            considered=top.considered + (fill.considered if fill else 0),
            rule=self.name,
            despite=self.broken_for(victims) | top.despite | (fill.despite if fill else frozenset()),
        )

    def broken_for(self, victims: CandidateSet) -> frozenset[int]:  # noqa: ARG002 - for guarantees
        """Name the victims to whom being in their tier was a promise: nobody, where it is only an order."""
        return frozenset()

    def _split(self, candidates: Sequence[Candidate], needed_vms: int) -> tuple[list[Candidate], list[Candidate]]:
        """The leases of the tiers that are not enough without the next one, and those of the next one."""
        below: list[Candidate] = []
        last: list[Candidate] = []
        for tier in sorted({self.tier(lease) for lease in candidates}):
            if vms_of(below) + vms_of(last) >= needed_vms:
                break
            below += last
            last = [lease for lease in candidates if self.tier(lease) == tier]
        return below, last

    def _fill(self, below: list[Candidate], taken: CandidateSet, needed_vms: int) -> Choice | None:
        """Choose from the earlier tiers what ``taken`` leaves open, if it does."""
        rest = needed_vms - vms_of(taken)
        return self.choose(below, rest) if rest > 0 else None

    def _runner_up(
        self, top: Choice, fill: Choice | None, below: list[Candidate], needed_vms: int
    ) -> CandidateSet | None:
        """The next choice within the last tier; without one, the next below it."""
        if top.runner_up:
            return _joined(top.runner_up, self._fill(below, top.runner_up, needed_vms))
        if fill and fill.runner_up:
            return in_order(top.victims + fill.runner_up)
        return None


class Guarantee(InTiers):
    """Which candidate set breaks no promise, and is good by another policy?

    Rule: leases of the first tier go before all others; to be in a later one is a promise of the site, which
        is broken only where nobody else is left.
    """

    def broken_for(self, victims: CandidateSet) -> frozenset[int]:
        """Name the victims that are not of the first tier."""
        return frozenset(lease.lease_id for lease in victims if self.tier(lease) > 0)


def _joined(taken: CandidateSet, fill: Choice | None) -> CandidateSet:
    return in_order(taken + fill.victims) if fill else in_order(taken)
