"""Which candidate sets are there, how many, which is lightest, and which has the fewest leases below a ceiling?

Go through the leases from the widest to the narrowest, take or pass each, and stop as soon as the taken
ones cover the need. The last one taken is the narrowest and was still needed, so none is superfluous; and
every inclusion-minimal set, written from wide to narrow, is such a walk. So **walks and candidate sets are
the same thing**, and a table over (next lease, VMs still needed) counts them without listing them, draws
one of them with equal chances, and finds the best.

Leases of equal width are interchangeable. So counting and drawing go from width to width instead of
from lease to lease: how many of this width, then any so many of them. And the best sets take the best of
each width (`contenders`). However many guests run, tables are about as large as the need.

`two_lightest` is exact at any size: the shortest and the second shortest walk among those leases that can be in
them, by dynamic programming in time leases times needed VMs. `fewest_within` fills one table like that for each
number of leases, 1, 2, 3 and so on, until the need can be covered within the ceiling: exact, in time leases that
can be in it times needed VMs times leases of the answer; a limit on the work ends it earlier, without an answer.
"""

from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from heapq import nsmallest
from itertools import accumulate, chain, groupby, pairwise, repeat
from math import ceil, comb, log
from operator import add, attrgetter, itemgetter, mul
from random import Random
from typing import Any, NamedTuple

from leasehold.leasing.victims.candidate import Candidate, CandidateSet, cost_of, ids_of
from leasehold.leasing.victims.policy import check_candidates


class MinimalSets:
    """All inclusion-minimal sets of these candidates that hold at least ``needed_vms`` VMs.

    ``leases`` are the candidates from wide to narrow, ``held_from[i]`` is what those from i on hold together.
    Raises CannotCover or InvalidField.
    """

    def __init__(self, candidates: Sequence[Candidate], needed_vms: int) -> None:
        check_candidates(candidates, needed_vms)
        self.leases = tuple(sorted(candidates, key=lambda lease: (-lease.vms, lease.lease_id)))
        self.needed_vms = needed_vms
        narrow_to_wide = [lease.vms for lease in reversed(self.leases)]
        self.held_from = [*accumulate(narrow_to_wide, initial=0)][::-1]
        self._known: dict[tuple[int, int], list[int]] = {}

    @property
    def count(self) -> int:
        """How many sets there are."""
        return self._ways[0][self.needed_vms]

    def listed(self) -> list[CandidateSet]:
        """Every set, each from wide to narrow."""
        found: list[CandidateSet] = []
        begun: list[tuple[CandidateSet, int]] = [((), self.needed_vms)]
        for lease, held_after in zip(self.leases, self.held_from[1:], strict=True):
            found += [(*taken, lease) for taken, rest in begun if rest <= lease.vms]
            passing = [(taken, rest) for taken, rest in begun if rest <= held_after]
            begun = [((*taken, lease), rest - lease.vms) for taken, rest in begun if rest > lease.vms]
            begun += passing
        return found

    def drawn(self, draws: int, random: Random) -> list[CandidateSet]:
        """That many sets, drawn independently and with equal chances."""
        return [self._drawn(random) for _ in range(draws)]

    def _drawn(self, random: Random) -> CandidateSet:
        """Draw how many leases of each width, as often as there are sets with so many; then which."""
        taken: list[Candidate] = []
        rest = self.needed_vms
        for index, width in enumerate(self._widths):
            ways = self._cumulated(index, rest)
            many = bisect_right(ways, random.randrange(ways[-1]))
            taken += [width.leases[place] for place in sorted(_sampled(len(width.leases), many, random.getrandbits))]
            rest -= many * width.vms
            if rest <= 0:
                break
        return tuple(taken)

    def _cumulated(self, index: int, rest: int) -> list[int]:
        """In how many ways is ``rest`` covered with at most 0, 1, 2... leases of this width?"""
        if (index, rest) not in self._known:
            ways = self._widths[index].ways(rest, self._ways[index + 1])
            self._known[index, rest] = [*accumulate(ways)]
        return self._known[index, rest]

    @cached_property
    def _widths(self) -> "list[_Width]":
        """Each width with its leases, from wide to narrow."""
        return [_Width.of(vms, [*leases], self.needed_vms) for vms, leases in groupby(self.leases, key=_VMS)]

    @cached_property
    def _ways(self) -> list[list[int]]:
        """``[index][rest]``: how many walks cover ``rest`` VMs with widths from ``index`` on; 0 if none needs that."""
        rows = [[1] + [0] * self.needed_vms]
        for width, rests in zip(reversed(self._widths), reversed(self._rests()), strict=True):
            below = rows[-1]
            rows.append(
                [1, *(sum(width.ways(rest, below)) if rests >> rest & 1 else 0 for rest in range(1, len(below)))]
            )
        return rows[::-1]

    def _rests(self) -> list[int]:
        """For each width, the bits of the VMs that may be needed still when a walk comes to it."""
        found = [1 << self.needed_vms]
        for width in self._widths[:-1]:
            rests = found[-1]
            for _ in width.choices[1:]:
                rests |= rests >> width.vms
            found.append(rests)
        return found


_LEAST_SET, _FEW = 21, 5
"""From which size on `Random.sample` keeps a set of places that were drawn, instead of a list of the others."""


def _sampled(size: int, many: int, bits: Callable[[int], int]) -> Collection[int]:
    """Draw so many of ``range(size)``: the same as `Random.sample`, and from the same bits, with fewer calls."""
    if size > _LEAST_SET + (4 ** ceil(log(many * 3, 4)) if many > _FEW else 0):
        chosen, length = set[int](), size.bit_length()
        while len(chosen) < many:
            place = bits(length)
            if place < size:
                chosen.add(place)
        return chosen
    places, found = list(range(size)), list[int]()
    for left in range(size, size - many, -1):
        length = left.bit_length()
        place = bits(length)
        while place >= left:
            place = bits(length)
        found.append(places[place])
        places[place] = places[left - 1]
    return found


_VMS: Callable[[Candidate], Any] = attrgetter("vms")
_LEASE_ID: Callable[[Candidate], Any] = attrgetter("lease_id")


@dataclass(frozen=True, slots=True)
class _Width:
    """The leases of one width, and in how many ways 0, 1, 2... of them are chosen, as far as it matters."""

    vms: int
    leases: list[Candidate]
    choices: list[int]

    @classmethod
    def of(cls, vms: int, leases: list[Candidate], needed_vms: int) -> "_Width":
        """Count; no walk takes more of them than cover the need alone."""
        most = min(len(leases), -(-needed_vms // vms))
        return cls(vms, leases, [comb(len(leases), many) for many in range(most + 1)])

    def ways(self, rest: int, below: list[int]) -> Iterator[int]:
        """In how many ways is ``rest`` covered with 0, 1, 2... of these leases, and narrower ones?

        ``below[left]`` says in how many the narrower ones cover what is left. A walk ends as soon as it has
        covered the need, so it takes no more than that.
        """
        left = below[rest :: -self.vms]
        if rest % self.vms:
            left.append(below[0])
        return map(mul, self.choices, left)


def contenders(sets: MinimalSets, rank: Callable[[Candidate], Any], spare: int = 0) -> list[Candidate]:
    """The leases that the lowest sets by sums of ``rank`` are made of: the lowest of each width.

    Of one width no set takes more than cover the need alone. One that takes another lease, and leaves one of
    the lowest out, is not the best: put that one in its place. With one ``spare`` there are two to put in
    its place, so that it is not the second best either.
    """
    found: list[Candidate] = []
    for vms, leases in groupby(sets.leases, key=_VMS):
        most = -(-sets.needed_vms // vms) + spare
        found += sorted(leases, key=rank)[:most]  # those that are equal stay in order of their numbers
    return found


def two_lightest(
    sets: MinimalSets, first: Callable[[Candidate], int], then: Callable[[Candidate], int]
) -> tuple[CandidateSet, CandidateSet | None]:
    """The best set and the next: least sum of ``first``, then of ``then``, then the lowest lease numbers.

    The weights are whole, not negative, and not both 0. Without a second set, None.
    """
    leases = contenders(sets, lambda lease: (first(lease), then(lease)), spare=1)
    few = MinimalSets(leases, sets.needed_vms)
    return _Walks(few, _weights(few, first, then)).two_best()


def least_weight(sets: MinimalSets, weight: Callable[[Candidate], int]) -> int:
    """The least sum of weights that a set has; without the sets, no ties have to be broken."""
    few = MinimalSets(contenders(sets, weight), sets.needed_vms)
    return _Walks(few, [weight(lease) for lease in few.leases]).least_of_all()


def _weights(sets: MinimalSets, first: Callable[[Candidate], int], then: Callable[[Candidate], int]) -> list[int]:
    """Weigh each lease by one integer whose sums order sets by first, then, lowest numbers.

    No two sets are equally heavy. The lowest bits hold the numbers: of two sets, the one with the smallest
    lease that is not in both comes first, so each lease weighs less than it, all later ones together, spare.
    """
    leases = sets.leases
    then_limit = 1 + sum(then(lease) for lease in leases)
    bit = {number: 1 << place for place, number in enumerate(reversed(ids_of(leases)))}
    return [((first(lease) * then_limit + then(lease)) << len(leases)) - bit[lease.lease_id] for lease in leases]


class _Alike(NamedTuple):
    """The leases of one width, the lightest first, and what the first 0, 1, 2... of them weigh together."""

    vms: int
    leases: tuple[Candidate, ...]
    sums: list[int]


class _Detour(NamedTuple):
    """The best walk that leaves the best one at a given width: what it took, and where it continues."""

    weight: int
    taken: CandidateSet
    start: int
    rest: int


class _Walks:
    """Of each width the best set takes the lightest leases. So does the next best, but for one at most.

    It takes more or fewer of some width; or of one width, instead of the last one, that which comes after it.
    """

    def __init__(self, sets: MinimalSets, weights: list[int]) -> None:
        self.needed_vms = sets.needed_vms
        self.unreachable = 1 + sum(weights)
        self.widths = []
        for vms, alike in groupby(zip(sets.leases, weights, strict=True), key=lambda pair: pair[0].vms):
            leases, theirs = zip(*sorted(alike, key=itemgetter(1)), strict=True)
            self.widths.append(_Alike(vms, leases, [*accumulate(theirs, initial=0)]))
        self.least = self._least_weights()

    def _least_weights(self) -> list[list[int]]:
        """``[index][rest]``: the least weight that covers ``rest`` VMs with widths from ``index`` on; not from all."""
        rows = [[0] + [self.unreachable] * self.needed_vms]
        for width in self.widths[:0:-1]:
            with_it = self._halving if len(width.leases) > _MANY_ALIKE else self._one_by_one
            rows.append(with_it(width, rows[-1]))
        return [[], *rows[::-1]]

    def _one_by_one(self, width: _Alike, row: list[int]) -> list[int]:
        """Take or pass each lease of a width."""
        for before, after in pairwise(width.sums):
            weight, taken = after - before, chain(repeat(0, width.vms), row)
            row = [
                without if without < with_it + weight else with_it + weight
                for without, with_it in zip(row, taken, strict=False)
            ]
        return row

    def _halving(self, width: _Alike, below: list[int]) -> list[int]:
        """Find what the leases of a width leave to narrower ones, first for the middle of what may be needed.

        Each further lease weighs more than the one before. So where more is needed, not less is left, and each
        answer halves the search for the others.
        """
        vms, sums, most, row = width.vms, width.sums, len(width.leases), below.copy()
        for offset in range(vms):
            left = below[offset::vms] if offset == 0 else [0, *below[offset::vms]]
            todo = [(1, len(left), 0, len(left))]
            while todo:
                first, end, low, high = todo.pop()
                if first == end:
                    continue
                middle = (first + end) // 2
                since = max(low, middle - most)
                until = min(high, middle + 1)
                found = [*map(add, left[since:until], sums[middle - since :: -1])]
                least = min(found)
                row[middle * vms - (vms - offset) % vms] = min(least, self.unreachable)
                place = since + found.index(least)
                todo += [(first, middle, low, place + 1), (middle + 1, end, place, high)]
        return row

    def least_of_all(self) -> int:
        """Return what the best walk weighs."""
        return min(self._totals(0, self.needed_vms))

    def _totals(self, start: int, rest: int) -> list[int]:
        """What the best walks from here weigh that take 0, 1, 2... of the first width."""
        (vms, leases, sums), below = self.widths[start], self.least[start + 1]
        most = min(len(leases), -(-rest // vms))
        return [sums[many] + below[max(0, rest - many * vms)] for many in range(most + 1)]

    def two_best(self) -> tuple[CandidateSet, CandidateSet | None]:
        """Return the best walk and the next."""
        best, detours = self._best_from(0, self.needed_vms)
        second = min(detours, key=lambda detour: detour.weight, default=None)
        if second is None or second.weight >= self.unreachable:
            return best, None
        return best, second.taken + self._best_from(second.start, second.rest)[0]

    def _best_from(self, start: int, rest: int) -> tuple[CandidateSet, list[_Detour]]:
        """The best walk from here, and the best ways to leave it; the second best walk takes one of those."""
        taken: CandidateSet = ()
        spent = 0
        detours: list[_Detour] = []
        while rest > 0:
            (vms, leases, sums), totals = self.widths[start], self._totals(start, rest)
            start += 1
            many, *others = nsmallest(2, range(len(totals)), key=totals.__getitem__)
            detours += [
                _Detour(spent + totals[other], (*taken, *_by_number(leases[:other])), start, rest - other * vms)
                for other in others
            ]
            if 0 < many < len(leases):
                dearer = spent + totals[many] + sums[many + 1] - 2 * sums[many] + sums[many - 1]
                instead = _by_number((*leases[: many - 1], leases[many]))
                detours.append(_Detour(dearer, (*taken, *instead), start, rest - many * vms))
            taken, spent, rest = (*taken, *_by_number(leases[:many])), spent + sums[many], rest - many * vms
        return taken, detours


def _by_number(leases: Iterable[Candidate]) -> CandidateSet:
    return tuple(sorted(leases, key=_LEASE_ID))


_MANY_ALIKE = 48
"""Above so many leases of one width halving is quicker than going one by one."""


_PriceTable = list[list[int]]


def fewest_within(sets: MinimalSets, ceiling_vm_ms: int, most_cells: int) -> list[CandidateSet]:
    """The set of fewest leases that costs at most the ceiling; ties: least cost, then fewest VMs too many.

    Nothing if there is none, or if more than ``most_cells`` table cells would have to be filled.
    """
    few = MinimalSets(contenders(sets, lambda lease: lease.cost_vm_ms), sets.needed_vms)
    search = _FewestSearch(few, ceiling_vm_ms)
    for _ in range(min(len(few.leases), most_cells // search.cells_per_table)):
        if search.one_lease_more():
            return [search.found()]
    return []


class _FewestSearch:
    """Tables ``[index][rest]`` for at most 0, 1, 2... leases: the least price that covers ``rest`` VMs.

    A price is the cost times the widest lease, plus the VMs freed too many, which are fewer than that.
    """

    def __init__(self, sets: MinimalSets, ceiling_vm_ms: int) -> None:
        self.sets = sets
        self.widest = sets.leases[0].vms
        self.ceiling = (ceiling_vm_ms + 1) * self.widest - 1
        self.unreachable = (1 + max(ceiling_vm_ms, cost_of(sets.leases))) * self.widest
        no_lease = [0] + [self.unreachable] * sets.needed_vms
        self.tables: list[_PriceTable] = [[no_lease] * (len(sets.leases) + 1)]

    @property
    def cells_per_table(self) -> int:
        """About how many cells of a table can matter (see `_reachable`)."""
        slack = self.sets.held_from[0] - self.sets.needed_vms
        return len(self.sets.leases) * min(self.sets.needed_vms, slack + 1)

    def one_lease_more(self) -> bool:
        """Fill the next table; whether it has an answer."""
        fewer = self.tables[-1]
        table = [fewer[-1]]
        for index in range(len(self.sets.leases) - 1, -1, -1):
            table.append(self._row(index, table[-1], fewer[index + 1]))
        table.reverse()
        self.tables.append(table)
        return table[0][self.sets.needed_vms] <= self.ceiling

    def _row(self, index: int, passed: list[int], fewer: list[int]) -> list[int]:
        lease = self.sets.leases[index]
        price = lease.cost_vm_ms * self.widest
        low, high = self._reachable(index)
        taken = _after_taking(lease, fewer)[low:high]
        row = passed.copy()
        row[low:high] = [
            without if without <= with_it + price else with_it + price
            for without, with_it in zip(passed[low:high], taken, strict=True)
        ]
        return row

    def _reachable(self, index: int) -> tuple[int, int]:
        """The range of VMs that may be needed at a lease: at least those that no earlier lease can cover.

        And at most those that as many leases as the table admits, from this one on, hold.
        """
        held_from, needed = self.sets.held_from, self.sets.needed_vms
        beyond = min(index + len(self.tables), len(self.sets.leases))
        low = max(1, needed - (held_from[0] - held_from[index]))
        return low, min(needed, held_from[index] - held_from[beyond]) + 1

    def found(self) -> CandidateSet:
        """Read the answer off the tables; of equal ones, that with the narrower leases."""
        taken: list[Candidate] = []
        fewer, rest = len(self.tables) - 1, self.sets.needed_vms
        for index, lease in enumerate(self.sets.leases):
            without = self.tables[fewer][index + 1][rest]
            if self.tables[fewer][index][rest] == without:
                continue
            taken.append(lease)
            fewer, rest = fewer - 1, rest - lease.vms
            if rest <= 0:
                break
        return tuple(taken)


def _after_taking(lease: Candidate, fewer: list[int]) -> list[int]:
    """By VMs needed before taking the lease: the least price of what follows, or the VMs too many."""
    return [*chain(range(lease.vms, 0, -1), fewer)]
