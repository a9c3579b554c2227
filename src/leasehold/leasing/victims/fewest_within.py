"""Which candidate set has the fewest leases and costs no more than a ceiling?

One table like that of `lightest` for each number of leases, 1, 2, 3 and so on, until the need can be covered
within the ceiling. Exact, in time leases that can be in it times needed VMs times leases of the answer; a
limit on the work ends it earlier, without an answer.
"""

from itertools import chain

from leasehold.leasing.victims.candidate import Candidate, CandidateSet, cost_of
from leasehold.leasing.victims.minimal_sets import MinimalSets, contenders

_Table = list[list[int]]


def fewest_within(sets: MinimalSets, ceiling_vm_ms: int, most_cells: int) -> list[CandidateSet]:
    """The set of fewest leases that costs at most the ceiling; ties: least cost, then fewest VMs too many.

    Nothing if there is none, or if more than ``most_cells`` table cells would have to be filled.
    """
    few = MinimalSets(contenders(sets, lambda lease: lease.cost_vm_ms), sets.needed_vms)
    search = _Search(few, ceiling_vm_ms)
    for _ in range(min(len(few.leases), most_cells // search.cells_per_table)):
        if search.one_lease_more():
            return [search.found()]
    return []


class _Search:
    """Tables ``[index][rest]`` for at most 0, 1, 2... leases: the least price that covers ``rest`` VMs.

    A price is the cost times the widest lease, plus the VMs freed too many, which are fewer than that.
    """

    def __init__(self, sets: MinimalSets, ceiling_vm_ms: int) -> None:
        self.sets = sets
        self.widest = sets.leases[0].vms
        self.ceiling = (ceiling_vm_ms + 1) * self.widest - 1
        self.unreachable = (1 + max(ceiling_vm_ms, cost_of(sets.leases))) * self.widest
        no_lease = [0] + [self.unreachable] * sets.needed_vms
        self.tables: list[_Table] = [[no_lease] * (len(sets.leases) + 1)]

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
