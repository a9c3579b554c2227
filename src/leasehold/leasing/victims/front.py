"""Which candidate sets does no other one beat? The Pareto set over four objectives, each a sum over leases.

Exact as long as a bounded number of half-made sets suffices: walks (see `minimal_sets`) are extended lease by
lease, and of those that have the same need left, only undominated ones are extended. Beyond that bound
the front holds the best sets of many weightings of the objectives instead: each of them is not beaten either,
by an exact search at any size, but others may be missing. `compare` puts the choices of policies among them, to
help operators choose one.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from heapq import heappush, heapreplace
from itertools import groupby, permutations, product
from typing import NamedTuple

from leasehold.leasing.victims.candidate import Candidate, CandidateSet, ids_of, in_order
from leasehold.leasing.victims.minimal_sets import MinimalSets, two_lightest
from leasehold.leasing.victims.policy import VictimPolicy


class Objective(StrEnum):
    """What there should be little of."""

    LEASES = "leases"
    """How many guests give way."""

    OVERHEAD = "overhead"
    """What saving, loading and moving them is charged, in VM-milliseconds."""

    LOST = "lost"
    """Work that is gone, in VM-milliseconds."""

    EXCESS = "excess"
    """VMs that are freed beyond the need."""


class Score(NamedTuple):
    """The four objectives of one candidate set; its fields have the names of the objectives."""

    leases: int
    overhead: int
    lost: int
    excess: int

    def of(self, objective: Objective) -> int:
        """Give one of them."""
        value: int = getattr(self, objective.value)
        return value

    def is_as_good_as(self, other: "Score") -> bool:
        """Whether it is no worse by any objective."""
        return all(mine <= theirs for mine, theirs in zip(self, other, strict=True))

    def dominates(self, other: "Score") -> bool:
        """Whether it is no worse by any objective, and better by one."""
        return self != other and self.is_as_good_as(other)


WEIGHT: dict[Objective, Callable[[Candidate], int]] = {
    Objective.LEASES: lambda _: 1,
    Objective.OVERHEAD: lambda lease: lease.cost_vm_ms,
    Objective.LOST: lambda lease: lease.lost_vm_ms,
    Objective.EXCESS: lambda lease: lease.vms,
}
"""What a lease adds to each objective; VMs, of which the need is taken off in the end, to the excess."""


def score(leases: Iterable[Candidate], needed_vms: int) -> Score:
    """Say how good a candidate set is."""
    chosen = list(leases)
    sums = (sum(weight(lease) for lease in chosen) for weight in WEIGHT.values())
    number, overhead, lost, vms = sums
    return Score(number, overhead, lost, vms - needed_vms)


MOST_HALF_MADE = 6_000
"""Maximum number of partial sets extended from lease to lease, in about 30 ms."""

_SCALE = 10**12


@dataclass(frozen=True, slots=True)
class Front:
    """Candidate sets of which none beats another, by leases, overhead, lost work and excess in this order.

    Of sets that are equal by all objectives it has the one with the lowest lease numbers.

    ``exact``  whether every set that no other beats is here, or equal to one that is
    """

    sets: tuple[CandidateSet, ...]
    scores: tuple[Score, ...]
    exact: bool

    def least(self, objective: Objective) -> int:
        """Give the least that any candidate set has of an objective: the optimum by it alone."""
        return min(one.of(objective) for one in self.scores)

    def beats(self, found: Score) -> bool:
        """Whether some set here is no worse than this by any objective, and better by one."""
        return any(one.dominates(found) for one in self.scores)


def front(candidates: Sequence[Candidate], needed_vms: int, most_half_made: int = MOST_HALF_MADE) -> Front:
    """Find the candidate sets that no other one beats; raises CannotCover or InvalidField."""
    sets = MinimalSets(candidates, needed_vms)
    grown = _grown(sets, most_half_made)
    found = _weighted(sets) if grown is None else grown
    unbeaten = sorted(_unbeaten(found, needed_vms), key=lambda one: (one[0], ids_of(one[1])))
    return Front(
        sets=tuple(one for _, one in unbeaten),
        scores=tuple(value for value, _ in unbeaten),
        exact=grown is not None,
    )


def _unbeaten(found: Iterable[CandidateSet], needed_vms: int) -> list[tuple[Score, CandidateSet]]:
    """Keep what no other beats; of equal ones that with the lowest lease numbers."""
    ranked = sorted(((score(one, needed_vms), ids_of(one)), in_order(one)) for one in found)
    kept: list[tuple[Score, CandidateSet]] = []
    for (value, _), one in ranked:  # whatever beats a set comes before it
        if not any(other.is_as_good_as(value) for other, _ in kept):
            kept.append((value, one))
    return kept


# Every one: half-made sets, grown lease by lease


class _HalfMade(NamedTuple):
    """A walk so far: what its leases add up to, and the bits of their numbers, less for lower ones."""

    leases: int
    overhead: int
    lost: int
    order: int
    taken: CandidateSet

    def longer(self, lease: Candidate, bit: int) -> "_HalfMade":
        """Take one more lease."""
        return _HalfMade(
            self.leases + 1,
            self.overhead + lease.cost_vm_ms,
            self.lost + lease.lost_vm_ms,
            self.order - bit,
            (*self.taken, lease),
        )


def _grown(sets: MinimalSets, most: int) -> list[CandidateSet] | None:
    """Find every candidate set that may be unbeaten; None where there are too many half-made ones."""
    few = MinimalSets(_of_use(sets), sets.needed_vms)
    bits = {number: 1 << place for place, number in enumerate(reversed(ids_of(few.leases)))}
    begun: dict[int, list[_HalfMade]] = {sets.needed_vms: [_HalfMade(0, 0, 0, 0, ())]}
    made: dict[int, list[_HalfMade]] = {}
    looked_at = 0
    for lease, held_after in zip(few.leases, few.held_from[1:], strict=True):
        grown: dict[int, list[_HalfMade]] = {}
        for rest, walks in begun.items():
            longer = [walk.longer(lease, bits[lease.lease_id]) for walk in walks]
            (made if rest <= lease.vms else grown).setdefault(rest - lease.vms, []).extend(longer)
            if rest <= held_after:
                grown.setdefault(rest, []).extend(walks)
        begun = {rest: _best(walks) for rest, walks in grown.items()}
        made = {rest: _best(walks) for rest, walks in made.items()}
        looked_at += sum(map(len, begun.values()))
        if looked_at > most:
            return None
    return [walk.taken for walks in made.values() for walk in walks]


def _best(walks: list[_HalfMade]) -> list[_HalfMade]:
    """Keep those that no other beats, however both are extended.

    Whatever beats a walk comes before it. Of the ones before, all with no more leases, those that matter are
    stairs: the more overhead, the less lost work.
    """
    kept: list[_HalfMade] = []
    overheads: list[int] = []
    losses: list[int] = []
    for walk in sorted(walks):
        place = bisect_right(overheads, walk.overhead)
        if place and losses[place - 1] <= walk.lost:
            continue
        kept.append(walk)
        end = place
        while end < len(losses) and losses[end] >= walk.lost:
            end += 1
        overheads[place:end], losses[place:end] = [walk.overhead], [walk.lost]
    return kept


def _of_use(sets: MinimalSets) -> list[Candidate]:
    """The leases that unbeaten sets are made of.

    Of one width no set takes more than cover the need alone. A lease for which so many others of its width
    are no dearer, lose no more work, and come before it where they are equal, can be left out: whichever set
    takes it leaves one of those, and is no worse with that one in its place.
    """
    found: list[Candidate] = []
    for vms, alike in groupby(sets.leases, key=lambda lease: lease.vms):
        most = -(-sets.needed_vms // vms)
        least_lost: list[int] = []  # of those so far, all no dearer: the least losses, negated, the greatest first
        for lease in sorted(alike, key=_by_cost):
            if len(least_lost) < most:
                heappush(least_lost, -lease.lost_vm_ms)
            elif lease.lost_vm_ms < -least_lost[0]:
                heapreplace(least_lost, -lease.lost_vm_ms)
            else:
                continue
            found.append(lease)
    return found


def _by_cost(lease: Candidate) -> tuple[int, int, int]:
    return lease.cost_vm_ms, lease.lost_vm_ms, lease.lease_id


# Some of them, at any size: the best of many weightings


def _weighted(sets: MinimalSets) -> list[CandidateSet]:
    """The best set by each order of two objectives, and by each of a few weightings of all."""
    firsts = [best_in_order(sets, (one, other)) for one, other in permutations(Objective, 2)]
    scores = [score(one, sets.needed_vms) for one in firsts]
    spans = [max(values) - min(values) or 1 for values in zip(*scores, strict=True)]
    mixed = [_best_weighted(sets, parts, spans) for parts in product((1, 4), repeat=len(Objective))]
    return firsts + mixed


def best_in_order(sets: MinimalSets, order: Sequence[Objective]) -> CandidateSet:
    """The best set by these objectives, the first deciding before the second; then by the other ones."""
    return two_lightest(sets, first=in_this_order(sets, order), then=lambda _: 0)[0]


def in_this_order(sets: MinimalSets, order: Sequence[Objective]) -> Callable[[Candidate], int]:
    """Weigh a lease so that sums compare by these objectives one after another, then by the other ones."""
    first, *others = [*order, *(objective for objective in Objective if objective not in order)]
    factors = [(WEIGHT[first], 1)]
    for objective in others:
        limit = 1 + sum(WEIGHT[objective](lease) for lease in sets.leases)
        factors = [(weight, factor * limit) for weight, factor in factors]
        factors.append((WEIGHT[objective], 1))
    return lambda lease: sum(weight(lease) * factor for weight, factor in factors)


def _best_weighted(sets: MinimalSets, parts: Sequence[int], spans: Sequence[int]) -> CandidateSet:
    """The best set by a sum of all objectives, each as part of how far it spreads."""
    factors = [max(1, part * _SCALE // span) for part, span in zip(parts, spans, strict=True)]
    weights = list(zip(WEIGHT.values(), factors, strict=True))

    def weight(lease: Candidate) -> int:
        return sum(of(lease) * factor for of, factor in weights)

    return two_lightest(sets, first=weight, then=lambda _: 0)[0]


@dataclass(frozen=True, slots=True)
class ComparedSet:
    """A candidate set: what it costs, which policies choose it, and whether another set beats it."""

    victims: CandidateSet
    score: Score
    chosen_by: tuple[str, ...]
    is_beaten: bool


@dataclass(frozen=True, slots=True)
class VictimComparison:
    """The sets that no other one beats, and whatever else some policy chooses, by their scores.

    ``exact``  whether every set that no other beats is among them, or equal to one that is
    """

    options: tuple[ComparedSet, ...]
    exact: bool


def compare(candidates: Sequence[Candidate], needed_vms: int, policies: Mapping[str, VictimPolicy]) -> VictimComparison:
    """Ask these policies, and put their answers among the unbeaten sets; raises as `front` does."""
    best = front(candidates, needed_vms)
    chosen_by: dict[CandidateSet, list[str]] = {one: [] for one in best.sets}
    for name, policy in policies.items():
        chosen_by.setdefault(policy.choose(candidates, needed_vms).victims, []).append(name)
    options = [_compared(victims, names, needed_vms, best) for victims, names in chosen_by.items()]
    ranked = sorted(options, key=lambda one: (one.score, ids_of(one.victims)))
    return VictimComparison(tuple(ranked), best.exact)


def _compared(victims: CandidateSet, names: Sequence[str], needed_vms: int, best: Front) -> ComparedSet:
    found = score(victims, needed_vms)
    return ComparedSet(victims, found, tuple(names), is_beaten=best.beats(found))
