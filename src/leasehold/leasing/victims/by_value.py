"""The order of the lease types, put before any policy."""

from leasehold.leasing.victims.candidate import Candidate
from leasehold.leasing.victims.policy import VictimPolicy
from leasehold.leasing.victims.tiers import InTiers


class ByValue(InTiers):
    """Which candidate set spares the more valuable leases, and is good by another policy?

    Rule: a lease is touched only if all leases of less valuable types together are not enough (Cancelable,
        then Suspendable, then Migratable).
    Source: Salehi, Javadi and Buyya, JPDC 2012, section 4.2 (the local scheduler).

    The types below the last one needed are counted as given; the other policy chooses within that type for
    the rest of the need; what this frees too many is given back to the types below in the same way, so that
    nobody is preempted in vain.
    """

    def __init__(self, policy: VictimPolicy) -> None:
        super().__init__(policy, "by-value")

    def tier(self, lease: Candidate) -> int:
        """Give the value of its type."""
        return lease.lease_type


def by_value(policy: VictimPolicy) -> VictimPolicy:
    """Put the order of the lease types before this policy."""
    return ByValue(policy)
