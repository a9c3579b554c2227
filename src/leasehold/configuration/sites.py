"""From the terms of a cluster to what the gateway needs of it."""

from math import floor

from leasehold.configuration.policies import find_victim_policy
from leasehold.configuration.terms import ClusterTerms
from leasehold.gateway.settings import SiteSettings
from leasehold.leasing.disciplines import reservation_depth
from leasehold.leasing.repair import REPAIRS
from leasehold.leasing.victims.by_value import by_value
from leasehold.leasing.victims.policy import VictimPolicy


def site_settings(name: str, slots: int, terms: ClusterTerms) -> SiteSettings:
    """Give the settings of a cluster of this name and size; raises as `find_victim_policy` does.

    A share of 1 caps nothing: what is reserved for different times may be more than there is at one time.
    """
    share = terms.non_preemptable_share
    return SiteSettings(
        name=name,
        slots=slots,
        victims=victims_of(terms),
        speed_mips=terms.speed_mips,
        local_depth=reservation_depth(terms.local_policy),
        guest_depth=reservation_depth(terms.guest_policy),
        queues_locals=terms.local_queue == "queue",
        non_preemptable_share_vms=None if share is None or share == 1 else floor(share * slots),
        non_preemptable_max_ms=terms.non_preemptable_max_ms,
        overhead=terms.overhead,
        repair=REPAIRS[terms.repair],
    )


def victims_of(terms: ClusterTerms) -> VictimPolicy:
    """Find who gives way here: the policy, the order of the types before it, the guarantees before both.

    Raises as `find_victim_policy` does.
    """
    chosen = terms.guard.within(find_victim_policy(terms.victims))
    return terms.guard.around(by_value(chosen) if terms.value_order else chosen)
