"""A surcharge on whoever was preempted before, put before any policy that looks at costs."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from leasehold.leasing.victims.candidate import Candidate, CandidateSet, Choice, in_order
from leasehold.leasing.victims.minimal_sets import MinimalSets
from leasehold.leasing.victims.mov import least_cost_vm_ms
from leasehold.leasing.victims.policy import VictimPolicy


@dataclass(frozen=True, slots=True)
class Surcharge:
    """How much dearer a lease is for each preemption that it has behind it.

    ``share``     of its cost, for each of them, at the moment when it has come back
    ``halves_ms`` after so much work since then, it is half of that
    """

    share: float
    halves_ms: int

    def on(self, lease: Candidate) -> int:
        """Give what is added to the cost of this lease, in VM-milliseconds."""
        recent = self.halves_ms / (self.halves_ms + lease.ran_ms)
        return round(lease.cost_vm_ms * self.share * lease.preemptions * recent)


class DearerAgain(VictimPolicy):
    """Which candidate set does another policy choose if whoever was preempted before is dearer?

    Rule: the other policy's, at costs that are higher the more often a lease was preempted, and the less it
        has worked since it came back.

    What is charged and written down stays the plain cost.
    """

    def __init__(self, policy: VictimPolicy, surcharge: Surcharge) -> None:
        self.policy = policy
        self.surcharge = surcharge
        self.name = f"dearer-again:{policy.name}"

    def choose(self, candidates: Sequence[Candidate], needed_vms: int) -> Choice:
        """Choose at the higher costs."""
        plain = {lease.lease_id: lease for lease in candidates}
        choice = self.policy.choose([self._dearer(lease) for lease in candidates], needed_vms)
        return Choice(
            victims=_as_they_are(choice.victims, plain),
            runner_up=_as_they_are(choice.runner_up, plain) if choice.runner_up else None,
            exact=choice.exact,
            bound_vm_ms=None if choice.exact else least_cost_vm_ms(MinimalSets(candidates, needed_vms)),
            considered=choice.considered,
            rule=self.name,
            despite=choice.despite,
        )

    def _dearer(self, lease: Candidate) -> Candidate:
        """Leave a cost that makes no sense as it is: the policy refuses it."""
        extra = self.surcharge.on(lease) if lease.preemptions else 0
        return replace(lease, cost_vm_ms=lease.cost_vm_ms + extra) if extra else lease


def _as_they_are(leases: CandidateSet, plain: dict[int, Candidate]) -> CandidateSet:
    return in_order(plain[lease.lease_id] for lease in leases)
