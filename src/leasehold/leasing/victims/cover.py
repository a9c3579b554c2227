"""Victims at a site of nodes: what is missing is a vector, so much of this on that node, and a set frees all of it.

A victim policy is about numbers of VMs. Where one thing alone is missing, it chooses as ever, among the guests that
hold some of it, by how much they hold. Where several are, the same objective is sought over all sets that cover the
vector: `choose_cover` is exact by branch and bound, within `MOST_STEPS`.

Rule: of all inclusion-minimal sets that free at least what is missing of everything, the one of least weight. The
weights are those of the policy: ``mov`` overhead, then leases; ``mlip`` leases, then overhead; ties go to the lowest
lease numbers. The order of the lease types and what a site guarantees come first, as in
`leasehold.leasing.victims.guard`: guests of a later tier are touched only if all others together are not enough.
``youngest-first`` takes them by number until everything is covered, without those that turn out superfluous.
Policies that need the number of VMs for their rule choose by overhead here, and their choice counts as not exact.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from leasehold.leasing.victims.candidate import Candidate, CandidateSet, VictimChoice, ids_of, in_order
from leasehold.leasing.victims.guard import RepreemptionSurcharge, TieredPolicy
from leasehold.leasing.victims.policy import CannotCover, VictimPolicy

Key = tuple[int, int]
"""What is missing: a node and a position in its vector."""

Amounts = Mapping[Key, int]

MOST_STEPS = 50_000

Weight = tuple[int, ...]


def choose_cover(
    policy: VictimPolicy, candidates: Sequence[Candidate], amounts: Mapping[int, Amounts], needs: Amounts
) -> VictimChoice:
    """Choose the victims that free ``needs``; ``amounts`` are what each candidate holds, by lease number.

    Raises CannotCover if all together do not hold that.
    """
    useful = [one for one in candidates if any(amounts[one.lease_id].get(key, 0) > 0 for key in needs)]
    for key, needed in needs.items():
        held = sum(amounts[one.lease_id].get(key, 0) for one in useful)
        if held < needed:
            raise CannotCover(needed, held)
    if len(needs) == 1:
        return _by_number(policy, useful, amounts, *next(iter(needs.items())))
    tiers, inner, dearer = _parts(policy)
    priced = {one.lease_id: one.cost_vm_ms + (0 if dearer is None else dearer.surcharge.on(one)) for one in useful}
    if inner.name == "youngest-first":
        return _finish(policy, tiers, _youngest(useful, amounts, needs), None, exact=False)
    fewest = inner.name == "mlip"
    levels = {one.lease_id: tuple(tier.tier(one) for tier in tiers) for one in useful}
    order = sorted(set(levels.values()), reverse=True)

    def weight(one: Candidate) -> Weight:
        cost = priced[one.lease_id]
        own = (1, cost) if fewest else (cost, 1)
        place = order.index(levels[one.lease_id])
        return (0, 0) * place + own + (0, 0) * (len(order) - place - 1)

    search = _Search(useful, amounts, needs, weight)
    best, second = search.run()
    return _finish(policy, tiers, best, second, exact=search.is_exact and inner.name in ("mov", "mlip"))


def _finish(
    policy: VictimPolicy,
    tiers: Sequence[TieredPolicy],
    best: CandidateSet,
    second: CandidateSet | None,
    *,
    exact: bool,
) -> VictimChoice:
    despite = frozenset[int]().union(*(tier.broken_for(best) for tier in tiers))
    runner_up = in_order(second) if second else None
    bound = None if exact else 0
    return VictimChoice(in_order(best), runner_up, exact, bound, 2 if second else 1, policy.name, despite)


def _parts(policy: VictimPolicy) -> tuple[list[TieredPolicy], VictimPolicy, RepreemptionSurcharge | None]:
    """Take a policy apart: the tiers before it, the outermost first, and what makes some dearer."""
    tiers: list[TieredPolicy] = []
    dearer: RepreemptionSurcharge | None = None
    while isinstance(policy, TieredPolicy | RepreemptionSurcharge):
        if isinstance(policy, TieredPolicy):
            tiers.append(policy)
        else:
            dearer = policy
        policy = policy.policy
    return tiers, policy, dearer


def _by_number(
    policy: VictimPolicy, candidates: Sequence[Candidate], amounts: Mapping[int, Amounts], key: Key, needed: int
) -> VictimChoice:
    """Let a policy choose by how much of the one thing that is missing each holds."""
    plain = {one.lease_id: one for one in candidates}
    choice = policy.choose([replace(one, vms=amounts[one.lease_id][key]) for one in candidates], needed)

    def as_they_are(leases: CandidateSet) -> CandidateSet:
        return tuple(plain[one.lease_id] for one in leases)

    runner_up = None if choice.runner_up is None else as_they_are(choice.runner_up)
    return replace(choice, victims=as_they_are(choice.victims), runner_up=runner_up)


def _youngest(candidates: Sequence[Candidate], amounts: Mapping[int, Amounts], needs: Amounts) -> CandidateSet:
    chosen: list[Candidate] = []
    for one in sorted(candidates, key=lambda lease: -lease.lease_id):
        if covers(chosen, amounts, needs):
            break
        chosen.append(one)
    for one in sorted(chosen, key=lambda lease: lease.lease_id):  # the oldest are spared first
        rest = [other for other in chosen if other is not one]
        if covers(rest, amounts, needs):
            chosen = rest
    return tuple(chosen)


def covers(leases: Sequence[Candidate], amounts: Mapping[int, Amounts], needs: Amounts) -> bool:
    """Whether preempting these frees all that is missing."""
    return all(sum(amounts[one.lease_id].get(key, 0) for one in leases) >= needed for key, needed in needs.items())


class _Search:
    """Branch and bound: cover what is left of the key that fewest can cover, by each of them in turn.

    ``is_exact``  whether nothing was left out
    """

    def __init__(
        self,
        candidates: Sequence[Candidate],
        amounts: Mapping[int, Amounts],
        needs: Amounts,
        weight: Callable[[Candidate], Weight],
    ) -> None:
        self.is_exact = True
        self._amounts = amounts
        self._needs = needs
        self._weights = {one.lease_id: weight(one) for one in candidates}
        self._candidates = sorted(candidates, key=lambda one: (self._weights[one.lease_id], one.lease_id))
        self._best: list[tuple[Weight, tuple[int, ...], CandidateSet]] = []
        self._steps = MOST_STEPS

    def run(self) -> tuple[CandidateSet, CandidateSet | None]:
        """Find the best and the second best set."""
        self._note(self._greedy())
        size = len(next(iter(self._weights.values())))
        self._look((), (0,) * size, dict(self._needs), tuple(self._candidates))
        return self._best[0][2], self._best[1][2] if len(self._best) > 1 else None

    def _greedy(self) -> CandidateSet:
        chosen: list[Candidate] = []
        for one in self._candidates:
            if covers(chosen, self._amounts, self._needs):
                break
            chosen.append(one)
        for one in reversed(chosen.copy()):
            rest = [other for other in chosen if other is not one]
            if covers(rest, self._amounts, self._needs):
                chosen = rest
        return tuple(chosen)

    def _note(self, chosen: CandidateSet) -> None:
        weight = tuple(map(sum, zip(*(self._weights[one.lease_id] for one in chosen), strict=True)))
        found = (weight, ids_of(chosen), chosen)
        if all(found[1] != known[1] for known in self._best):
            self._best = sorted([*self._best, found], key=lambda one: one[:2])[:2]

    def _look(self, chosen: CandidateSet, weight: Weight, left: dict[Key, int], open_: tuple[Candidate, ...]) -> None:
        if self._steps <= 0:
            self.is_exact = False
            return
        self._steps -= 1
        if len(self._best) > 1 and weight > self._best[1][0]:
            return
        if not left:
            if not any(covers([o for o in chosen if o is not one], self._amounts, self._needs) for one in chosen):
                self._note(chosen)
            return
        able = {key: [one for one in open_ if self._amounts[one.lease_id].get(key, 0)] for key in left}
        if any(sum(self._amounts[one.lease_id][key] for one in able[key]) < left[key] for key in left):
            return
        key = min(left, key=lambda one: (len(able[one]), one))
        rest = list(open_)
        for one in able[key]:
            rest.remove(one)
            held = self._amounts[one.lease_id]
            still = {other: needed - held.get(other, 0) for other, needed in left.items()}
            self._look(
                (*chosen, one),
                tuple(map(sum, zip(weight, self._weights[one.lease_id], strict=True))),
                {other: needed for other, needed in still.items() if needed > 0},
                tuple(rest),
            )
