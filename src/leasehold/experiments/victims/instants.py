"""The same instants for all rules: each time a run is short of room, everybody is asked whom to preempt.

Means over the instants of a run, by rule:

=============== ==========================================================================================
leases          guests that give way
vms             VMs that they hold
excess          VMs beyond the need
overhead_vm_s   what preempting them is charged
lost_vm_s       work that is gone
beaten_pct      instants at which another candidate set is no worse by any of these, and better by one
dearer_type_pct instants at which a more valuable type is touched than all less valuable ones ask for
=============== ==========================================================================================

The rule ``optimum`` has, for each of them alone, the least that any candidate set has. Of the instants
themselves it is counted how many there were, and how many of them with one candidate set only (``forced``).
"""

from collections import Counter
from collections.abc import Mapping, Sequence

from leasehold.experiments.victims.others import OthersRule
from leasehold.leasing.victims.candidate import Candidate, CandidateSet, Choice, vms_of
from leasehold.leasing.victims.front import Front, front
from leasehold.leasing.victims.minimal_sets import MinimalSets
from leasehold.leasing.victims.objectives import Objective, Score, score
from leasehold.leasing.victims.policy import VictimPolicy
from leasehold.model.request import LeaseType

OPTIMUM = "optimum"
MEANS = ("leases", "vms", "excess", "overhead_vm_s", "lost_vm_s")
SHARES = ("beaten_pct", "dearer_type_pct")
MOST_HALF_MADE = 200_000
MS_PER_S, PERCENT = 1_000, 100


class Asked(VictimPolicy):
    """Chooses as a policy does, and asks every rule what it would have chosen."""

    def __init__(self, policy: VictimPolicy, rules: Mapping[str, OthersRule]) -> None:
        """Ask these rules, beside the policy that decides."""
        self.policy = policy
        self.name = policy.name
        self.rules = rules
        self.sums = Counter[str]()
        self.instants = self.inexact = self.forced = 0

    def choose(self, candidates: Sequence[Candidate], needed_vms: int) -> Choice:
        """Decide as the policy does."""
        self._ask(candidates, needed_vms)
        return self.policy.choose(candidates, needed_vms)

    def _ask(self, candidates: Sequence[Candidate], needed_vms: int) -> None:
        best = front(candidates, needed_vms, MOST_HALF_MADE)
        self.instants += 1
        self.inexact += not best.exact
        self.forced += MinimalSets(candidates, needed_vms).count == 1
        self._add(OPTIMUM, _least(best), needed_vms)
        dearest = _dearest_needed(candidates, needed_vms)
        for name, rule in self.rules.items():
            victims = rule(candidates, needed_vms)
            found = score(victims, needed_vms)
            self._add(name, found, needed_vms)
            self.sums[f"{name}:beaten_pct"] += PERCENT * best.beats(found)
            self.sums[f"{name}:dearer_type_pct"] += PERCENT * (_dearest(victims) > dearest)

    def _add(self, name: str, found: Score, needed_vms: int) -> None:
        values = (found.leases, found.excess + needed_vms, found.excess, found.overhead, found.lost)
        for key, value in zip(MEANS, values, strict=True):
            self.sums[f"{name}:{key}"] += value


def means(asked: Sequence[Asked]) -> dict[str, float]:
    """Give the means over all instants of all sites, and how many instants there were."""
    sums, instants = Counter[str](), sum(one.instants for one in asked)
    for one in asked:
        sums.update(one.sums)
    found = {key: value / instants / _unit(key) for key, value in sums.items()}
    inexact, forced = (
        sum(values) for values in zip(*((one.inexact, one.forced) for one in asked), strict=True)
    )
    return found | {"instants": float(instants), "inexact": float(inexact), "forced": float(forced)}


def _unit(key: str) -> int:
    return MS_PER_S if key.endswith("_vm_s") else 1


def _least(best: Front) -> Score:
    return Score(*(best.least(objective) for objective in Objective))


def _dearest(victims: CandidateSet) -> LeaseType:
    return max(lease.lease_type for lease in victims)


def _dearest_needed(candidates: Sequence[Candidate], needed_vms: int) -> LeaseType:
    """The first type at which all leases up to it are enough."""
    return next(
        kind
        for kind in LeaseType
        if vms_of(lease for lease in candidates if lease.lease_type <= kind) >= needed_vms
    )
