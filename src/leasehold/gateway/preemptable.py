"""The guests of a site that may give way, in the orders in which victim policies look for them.

Preempting costs the same for all guests of one type, width and memory, whatever the site has learnt of its overheads.
So guests are kept by these three, in order of their numbers, and no order has to be changed when costs or time do.
"""

from bisect import bisect_left, insort
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from heapq import merge, nsmallest
from itertools import islice

from leasehold.leasing.overhead import Overheads
from leasehold.leasing.victims.candidate import Candidate
from leasehold.leasing.victims.pool import CandidatePool, Listed
from leasehold.model.lease import Lease, LeaseState
from leasehold.model.request import LeaseType
from leasehold.model.value_dict import ValueDict


@dataclass(slots=True)
class _Alike:
    """The numbers, in rising order, of guests with the same type, width and memory."""

    lease_type: LeaseType
    vms: int
    memory_mib: int
    numbers: list[int] = field(default_factory=list)


class PreemptableGuests:
    """Guests that hold VMs at a site and may give way; kept up to date as leases enter and leave."""

    def __init__(self, held: Iterable[Lease]) -> None:
        """Begin with these leases; the site's own, and Non-preemptable guests, are left out."""
        self._leases: dict[int, Lease] = ValueDict()
        self._groups: dict[tuple[LeaseType, int, int], _Alike] = {}
        self._run: tuple[int, int] | None = None
        self._may_be_new: dict[int, Lease] = {}
        for lease in held:
            self.add(lease)

    def add(self, lease: Lease) -> None:
        """A lease holds VMs from now on."""
        request = lease.request
        if request.lease_type is LeaseType.NON_PREEMPTABLE:
            return
        key = request.lease_type, lease.vms, request.memory_mib
        insort(self._groups.setdefault(key, _Alike(*key)).numbers, lease.id)
        self._leases[lease.id] = self._may_be_new[lease.id] = lease

    def remove(self, lease: Lease) -> None:
        """It holds none any more."""
        if self._leases.pop(lease.id, None) is None:
            return
        self._may_be_new.pop(lease.id, None)
        key = lease.request.lease_type, lease.vms, lease.request.memory_mib
        numbers = self._groups[key].numbers
        del numbers[bisect_left(numbers, lease.id)]
        if not numbers:
            del self._groups[key]

    def newly_back(self, least_run_ms: int, least_run_resumes: int, now_ms: int) -> dict[int, Lease]:
        """Find those that have not worked for so long yet; the others are not looked at again."""
        if self._run != (least_run_ms, least_run_resumes):
            self._run, self._may_be_new = (least_run_ms, least_run_resumes), dict(self._leases)
        found: dict[int, Lease] = {}
        for lease in list(self._may_be_new.values()):
            if lease.ran_ms(now_ms) < max(least_run_ms, least_run_resumes * lease.overhead_ms):
                found[lease.id] = lease
            elif lease.state is LeaseState.RUNNING:
                del self._may_be_new[lease.id]
        return found

    def pool(self, overheads: Overheads, now_ms: int) -> "HeldPool":
        """Show them to a victim policy, as they are now."""
        groups = list(self._groups.values())
        return HeldPool(self, self._leases, groups, {}, cache(overheads.cost_vm_ms), now_ms)


class HeldPool(CandidatePool):
    """Some of the preemptable guests of a site at one moment: whole groups, without single leases."""

    def __init__(
        self,
        index: PreemptableGuests,
        leases: Mapping[int, Lease],
        groups: Sequence[_Alike],
        without: Mapping[int, Lease],
        cost_vm_ms: Callable[[LeaseType, int, int], int],
        now_ms: int,
    ) -> None:
        """Look at these groups; ``without`` has only leases of theirs."""
        self._index = index
        self._leases = leases
        self._groups = groups
        self._without = without
        self._cost_vm_ms = cost_vm_ms
        self._now_ms = now_ms
        self.vms = sum(one.vms * len(one.numbers) for one in groups) - sum(one.vms for one in without.values())

    def candidates(self) -> Sequence[Candidate]:
        """Give all of them, in the order in which they began to hold VMs."""
        types = {group.lease_type for group in self._groups}
        return self._shown(
            number
            for number, lease in self._leases.items()
            if lease.request.lease_type in types and number not in self._without
        )

    def cheapest(self, needed_vms: int) -> Sequence[Candidate]:
        """Give, of each width, the cheapest, by number where equal: one more than cover the need."""
        of_width: dict[int, list[tuple[int, int]]] = {}
        for group in self._groups:
            most = -(-needed_vms // group.vms) + 1
            cost_vm_ms = self._cost_vm_ms(group.lease_type, group.memory_mib, group.vms)
            first = islice((number for number in group.numbers if number not in self._without), most)
            of_width.setdefault(group.vms, []).extend((cost_vm_ms, number) for number in first)
        return self._shown(
            number for vms, ranked in of_width.items() for _, number in sorted(ranked)[: -(-needed_vms // vms) + 1]
        )

    def of_use(self, needed_vms: int) -> Sequence[Candidate]:
        """Give, of each group, those that would lose least, by number where equal: one more than cover the need."""
        found: list[int] = []
        for group in self._groups:
            most = -(-needed_vms // group.vms) + 1
            numbers: Iterable[int] = (number for number in group.numbers if number not in self._without)
            if group.lease_type is LeaseType.CANCELABLE:
                leases, now_ms = self._leases, self._now_ms
                found += nsmallest(most, numbers, key=lambda number: (leases[number].at_risk_ms(now_ms), number))
            else:
                found += islice(numbers, most)
        return self._shown(found)

    def youngest(self, needed_vms: int) -> Sequence[Candidate]:
        """Give as many with the highest numbers as cover the need."""
        numbers, held_vms = list[int](), 0
        for number in merge(*(reversed(group.numbers) for group in self._groups), reverse=True):
            if number in self._without:
                continue
            numbers.append(number)
            held_vms += self._leases[number].vms
            if held_vms >= needed_vms:
                break
        return self._shown(numbers)

    def by_type(self) -> Sequence[CandidatePool]:
        """Split them."""
        types = sorted({group.lease_type for group in self._groups})
        parts = [self._part([group for group in self._groups if group.lease_type is kind]) for kind in types]
        return [part for part in parts if part.vms]

    def _part(self, groups: Sequence[_Alike]) -> "HeldPool":
        types = {group.lease_type for group in groups}
        without = {number: one for number, one in self._without.items() if one.request.lease_type in types}
        return HeldPool(self._index, self._leases, groups, without, self._cost_vm_ms, self._now_ms)

    def by_run(self, least_run_ms: int, least_run_resumes: int) -> Sequence[CandidatePool]:
        """Split them."""
        found = self._index.newly_back(least_run_ms, least_run_resumes, self._now_ms)
        types = {group.lease_type for group in self._groups}
        short = {
            number: one
            for number, one in found.items()
            if one.request.lease_type in types and number not in self._without
        }
        without = {**self._without, **short}
        long = HeldPool(self._index, self._leases, self._groups, without, self._cost_vm_ms, self._now_ms)
        return [part for part in (long, Listed(self._shown(short))) if part.vms]

    def _shown(self, numbers: Iterable[int]) -> list[Candidate]:
        now_ms, cost_vm_ms = self._now_ms, self._cost_vm_ms
        return [_candidate(self._leases[number], cost_vm_ms, now_ms) for number in numbers]


def _candidate(lease: Lease, cost_vm_ms: Callable[[LeaseType, int, int], int], now_ms: int) -> Candidate:
    """Show a lease to a policy; the work of a Cancelable lease since its last checkpoint would be lost."""
    request, ran_ms = lease.request, lease.ran_ms(now_ms)
    return Candidate(
        lease.id,
        request.lease_type,
        lease.vms,
        cost_vm_ms(request.lease_type, request.memory_mib, lease.vms),
        ends_ms=lease.end_ms,
        lost_vm_ms=lease.vms * lease.at_risk_ms(now_ms) if request.lease_type is LeaseType.CANCELABLE else 0,
        ran_ms=ran_ms,
        preemptions=lease.preemptions,
        came_back_in_ms=lease.overhead_ms,
    )
