"""A choice among the candidate sets that no other one beats, by weights or by an order of the objectives."""

from collections.abc import Callable, Mapping, Sequence
from heapq import nsmallest

from leasehold.leasing.victims.candidate import Candidate, CandidateSet, VictimChoice, in_order
from leasehold.leasing.victims.front import Front, Objective, Score, best_in_order, front
from leasehold.leasing.victims.minimal_sets import MinimalSets
from leasehold.leasing.victims.mov import least_cost_vm_ms
from leasehold.leasing.victims.policy import VictimPolicy
from leasehold.leasing.victims.pool import CandidatePool
from leasehold.model.errors import InvalidField, UnknownName
from leasehold.model.numbers import ABOVE_0, number_above_0

PARETO = "pareto"
_PARTS, _SHARE = ",", "="


class ParetoByWeights(VictimPolicy):
    """Which candidate set is the best compromise between all objectives?

    Rule: of the candidate sets that no other one beats by leases, overhead, lost work and excess, the one
        whose weighted sum is least, each objective being counted from its least (0) to its greatest (1) among
        those sets; ties go to fewer leases, less overhead, less lost work, less excess, then to the lowest
        lease numbers.

    ``pareto`` weighs all four alike, ``pareto:leases=3,excess=1`` only these two, by these weights. Exact as
    long as the whole set of unbeaten candidate sets can be found in time; else among those that were found,
    and the choice says ``exact=False``.
    """

    def __init__(self, weights: Mapping[Objective, float], name: str) -> None:
        self.weights = weights
        self.name = name

    def choose_from(self, pool: CandidatePool, needed_vms: int) -> VictimChoice:
        """Choose among those that unbeaten sets are made of."""
        return self.choose(pool.of_use(needed_vms), needed_vms)

    def choose(self, candidates: Sequence[Candidate], needed_vms: int) -> VictimChoice:
        """Choose the set of least weighted sum."""
        found = front(candidates, needed_vms)
        best, *others = self._two_best(found)
        return VictimChoice(
            victims=best,
            runner_up=others[0] if others else None,
            exact=found.exact,
            bound_vm_ms=None if found.exact else least_cost_vm_ms(MinimalSets(candidates, needed_vms)),
            considered=len(found.sets),
            rule=self.name,
        )

    def _two_best(self, found: Front) -> list[CandidateSet]:
        weigh = self._scale(found)
        ranked = nsmallest(2, range(len(found.sets)), key=lambda place: (weigh(found.scores[place]), place))
        return [found.sets[place] for place in ranked]

    def _scale(self, found: Front) -> Callable[[Score], float]:
        """Count each objective from its least to its greatest; one in which all are alike does not count."""
        weighted = [objective for objective in Objective if self.weights.get(objective)]
        least = {one: found.least(one) for one in weighted}
        span = {one: max(each.of(one) for each in found.scores) - least[one] for one in weighted}

        def weigh(score: Score) -> float:
            return sum(self.weights[one] * (score.of(one) - least[one]) / span[one] for one in weighted if span[one])

        return weigh


class ParetoInOrder(VictimPolicy):
    """Which candidate set is best by one objective, then by the next?

    Rule: the least of the first objective, of those the least of the second, and so on, those that are not
        named last; ties go to the lowest lease numbers. Exact; no other candidate set beats it.

    ``pareto:excess,leases`` is an order; the objectives are leases, overhead, lost and excess. The runner-up
    is the next by this order among the sets that no other one beats.
    """

    def __init__(self, order: Sequence[Objective], name: str) -> None:
        self.order = [*order, *(objective for objective in Objective if objective not in order)]
        self.name = name

    def choose_from(self, pool: CandidatePool, needed_vms: int) -> VictimChoice:
        """Choose among those that unbeaten sets are made of."""
        return self.choose(pool.of_use(needed_vms), needed_vms)

    def choose(self, candidates: Sequence[Candidate], needed_vms: int) -> VictimChoice:
        """Choose the first set by this order."""
        best = in_order(best_in_order(MinimalSets(candidates, needed_vms), self.order))
        found = front(candidates, needed_vms)
        return VictimChoice.optimal(best, self._second(found, best), len(found.sets), self.name)

    def _second(self, found: Front, best: CandidateSet) -> CandidateSet | None:
        places = [place for place, one in enumerate(found.sets) if one != best]
        second = min(places, key=lambda place: self._rank(found.scores[place]), default=None)
        return None if second is None else found.sets[second]

    def _rank(self, score: Score) -> tuple[int, ...]:
        return tuple(score.of(objective) for objective in self.order)


def pareto(asked: str = "") -> VictimPolicy:
    """Make the policy from the text after ``pareto:``, weights or an order; empty: equal weights.

    Raises UnknownName for an unknown objective, InvalidField for anything that is neither weights nor an order.
    """
    name = f"{PARETO}:{asked}" if asked else PARETO
    if not asked:
        return ParetoByWeights(dict.fromkeys(Objective, 1.0), name)
    parts = [part.partition(_SHARE) for part in asked.split(_PARTS)]
    objectives = [_objective(part[0].strip()) for part in parts]
    shares = [part[2] for part in parts if part[1]]
    if len(set(objectives)) < len(objectives) or 0 < len(shares) < len(parts):
        raise InvalidField("victim policy", name, "objectives, each once, all with a weight or none")
    if not shares:
        return ParetoInOrder(objectives, name)
    return ParetoByWeights(dict(zip(objectives, map(_weight, shares), strict=True)), name)


def _objective(name: str) -> Objective:
    known = [objective.value for objective in Objective]
    if name not in known:
        raise UnknownName("objective of a victim policy", name, known)
    return Objective(name)


def _weight(text: str) -> float:
    """Read a weight; raises InvalidField."""
    weight = number_above_0(text)
    if weight is None:
        raise InvalidField("weight of a victim policy", text, ABOVE_0)
    return weight
