"""A bound on how often the same lease is preempted, put before any policy."""

from leasehold.leasing.victims.candidate import Candidate
from leasehold.leasing.victims.policy import VictimPolicy
from leasehold.leasing.victims.tiers import Guarantee


class InTurns(Guarantee):
    """Which candidate set does not always hit the same leases, and is good by another policy?

    Rule: a lease that has been preempted as often as the bound says, or more often, is touched only if all
        leases that have been preempted less often are not enough.

    Below the bound the other policy is free. At the bound and above, those who gave way least often go first,
    so that a cheap victim that comes back is not taken again and again while others could be.
    """

    def __init__(self, policy: VictimPolicy, most_preemptions: int) -> None:
        super().__init__(policy, "in-turns")
        self.most_preemptions = most_preemptions

    def tier(self, lease: Candidate) -> int:
        """Give 0 below the bound, and one more for each preemption from there on."""
        return max(0, lease.preemptions + 1 - self.most_preemptions)
