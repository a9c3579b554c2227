"""A victim policy from a plain function: whom would you preempt first?"""

import inspect
from collections.abc import Callable, Iterable, Sequence

from leasehold.leasing.victims.candidate import Candidate, CandidateSet, VictimChoice, ids_of, in_order, vms_of
from leasehold.leasing.victims.minimal_sets import MinimalSets
from leasehold.leasing.victims.mov import least_cost_vm_ms
from leasehold.leasing.victims.policy import VictimPolicy
from leasehold.model.errors import InvalidField

Preference = Callable[[Sequence[Candidate], int], Iterable[Candidate]]
"""Takes the candidates and the VMs needed; gives candidates, the ones to preempt first first."""


class FunctionPolicy(VictimPolicy):
    """Whom does a function prefer?

    Rule: preempts in the order that the function gives, until there is room.

    Leases that turn out superfluous are spared, the last ones first. The function promises no optimum, so
    the choice says ``exact=False`` and how cheap the cheapest set would have been.
    """

    def __init__(self, preference: Preference, name: str) -> None:
        self.preference = preference
        self.name = name
        self.__doc__ = inspect.getdoc(preference) or type(self).__doc__

    def choose(self, candidates: Sequence[Candidate], needed_vms: int) -> VictimChoice:
        """Choose what the function prefers; raises InvalidField if it gives no valid set of candidates."""
        sets = MinimalSets(candidates, needed_vms)
        preferred = self._enough(in_order(candidates), needed_vms)
        return VictimChoice(
            victims=in_order(without_superfluous(preferred, needed_vms)),
            runner_up=None,
            exact=False,
            bound_vm_ms=least_cost_vm_ms(sets),
            considered=1,
            rule=self.name,
        )

    def _enough(self, candidates: CandidateSet, needed_vms: int) -> list[Candidate]:
        """As many of the preferred leases as cover the need."""
        known = {lease.lease_id: lease for lease in candidates}
        taken: dict[int, Candidate] = {}
        held_vms = 0
        for lease in self.preference(candidates, needed_vms):
            if known.get(getattr(lease, "lease_id", -1)) != lease:
                raise self._refused(lease, "candidates that it was given")
            if lease.lease_id in taken:
                raise self._refused(lease, "each candidate once")
            taken[lease.lease_id] = lease
            held_vms += lease.vms
            if held_vms >= needed_vms:
                return list(taken.values())
        raise self._refused(ids_of(taken.values()), f"candidates that hold {needed_vms} VMs together")

    def _refused(self, value: object, expected: str) -> InvalidField:
        return InvalidField(f"result of victim policy {self.name}", value, expected)


def from_function(preference: Preference, name: str = "") -> VictimPolicy:
    """Make a policy of ``(candidates, needed_vms) -> candidates, the ones to preempt first first``.

    The candidates come by lease number, so that equal candidates always give equal choices. Without a name
    it is the function's, with hyphens; the function's docstring describes the policy. Also a decorator.
    """
    return FunctionPolicy(preference, name or getattr(preference, "__name__", "function").replace("_", "-"))


def without_superfluous(leases: Sequence[Candidate], needed_vms: int) -> CandidateSet:
    """Spare every lease that is not needed, trying the last ones first: what stays is inclusion-minimal."""
    kept: list[Candidate] = []
    too_many = vms_of(leases) - needed_vms
    for lease in reversed(leases):
        if lease.vms <= too_many:
            too_many -= lease.vms
        else:
            kept.append(lease)
    return tuple(kept[::-1])
