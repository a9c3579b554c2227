"""Victims found through the index of a site are those that are chosen from a list of all its guests."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.searching import examples

from leasehold.gateway import preemptable
from leasehold.gateway.preemptable import PreemptableGuests
from leasehold.gateway.preemptable import _candidate as make
from leasehold.leasing.overhead import OverheadModel
from leasehold.leasing.victims.candidate import Candidate, VictimChoice
from leasehold.leasing.victims.from_function import from_function
from leasehold.leasing.victims.guard import Guard, by_value
from leasehold.leasing.victims.policy import VictimPolicy
from leasehold.leasing.victims.registry import victim_policy
from leasehold.model.lease import Lease, LeaseState
from leasehold.model.request import LeaseType, Request

OVERHEADS = OverheadModel(terminate_ms=7)
NOW_MS = 1_000_000
GUARDS = (
    Guard(),
    Guard(least_run_resumes=1),
    Guard(least_run_ms=300_000),
    Guard(least_run_ms=200_000, least_run_resumes=2, most_preemptions=2),
    Guard(surcharge=0.5, least_run_resumes=1),
)
NAMES = ("mov", "least-lost", "mlip", "youngest-first", "exact-cover", "moml", "pareto")


@from_function
def dearest_first(candidates: Sequence[Candidate], needed_vms: int) -> list[Candidate]:  # noqa: ARG001 - any number
    """Who costs most?"""
    return sorted(candidates, key=lambda lease: -lease.cost_vm_ms)


def guest(number: int, random: Random) -> Lease:
    """A lease that runs, or is on its way, or is of the site's own users."""
    kind, vms = random.choice([*LeaseType]), random.choice((1, 1, 2, 2, 3, 8))
    request = Request(number, kind, vms, 900_000, 0, 0, memory_mib=random.choice((512, 1024, 2048)))
    lease = Lease(number, request, vms, number, 900_000)
    lease.state = random.choice((LeaseState.RUNNING, LeaseState.RUNNING, LeaseState.RESUMING))
    lease.held_since_ms = lease.reserved_ms = random.randrange(NOW_MS)
    lease.overhead_ms = random.choice((0, 0, 50_000, 400_000))
    lease.span_ms = random.randrange(1, 2_000_000)
    lease.preemptions = random.randrange(4)
    lease.checkpointed_ms = random.choice((-1, -1, random.randrange(NOW_MS)))
    return lease


def unsaved_ms(one: Lease, now_ms: int) -> int:
    """The overlap of the time in which it has worked with the time since its last checkpoint."""
    if one.state is not LeaseState.RUNNING:
        return 0
    return max(0, now_ms - max(one.held_since_ms + one.overhead_ms, one.checkpointed_ms))


def listed(leases: dict[int, Lease], now_ms: int) -> list[Candidate]:
    """Show every guest that may give way, as a list."""
    return [
        Candidate(
            one.id,
            one.request.lease_type,
            one.vms,
            OVERHEADS.cost_vm_ms(one.request.lease_type, one.request.memory_mib, one.vms),
            ends_ms=one.end_ms,
            lost_vm_ms=one.vms * unsaved_ms(one, now_ms) if one.request.lease_type is LeaseType.CANCELABLE else 0,
            ran_ms=one.ran_ms(now_ms),
            preemptions=one.preemptions,
            came_back_in_ms=one.overhead_ms,
        )
        for one in leases.values()
        if one.request.lease_type is not LeaseType.NON_PREEMPTABLE
    ]


def policies() -> Iterator[VictimPolicy]:
    for chosen in (*map(victim_policy, NAMES), dearest_first):
        for guard in GUARDS:
            within = guard.within(chosen)
            yield from (guard.around(within), guard.around(by_value(within)))


def told(choice: VictimChoice) -> VictimChoice:
    """Leave out how many sets were looked at."""
    return replace(choice, considered=0)


@given(st.integers(0, 2**32), st.integers(1, 60), st.integers(1, 40))
@settings(max_examples=examples(40), deadline=None)
def test_who_is_chosen_from_the_index_is_who_is_chosen_from_the_list(seed: int, many: int, needed_vms: int) -> None:
    random = Random(seed)
    numbers = random.sample(range(1, 1_000), many)
    held = {number: guest(number, random) for number in numbers[: many // 2]}
    index, now_ms = PreemptableGuests(held.values()), NOW_MS
    for number in numbers[many // 2 :]:
        held[number] = guest(number, random)
        index.add(held[number])
    policy = random.choice(list(policies()))
    while True:
        candidates = listed(held, now_ms)
        pool = index.pool(OVERHEADS, now_ms)
        assert pool.vms == sum(lease.vms for lease in candidates)
        assert list(pool.candidates()) == candidates
        if pool.vms < needed_vms:
            return
        expected, found = policy.choose(candidates, needed_vms), policy.choose_from(pool, needed_vms)
        assert told(found) == told(expected)
        for victim in found.victims:
            index.remove(held.pop(victim.lease_id))
        for lease in random.sample(list(held.values()), len(held) // 3):
            lease.state = LeaseState.RUNNING
        now_ms += random.choice((1, 100_000))


@pytest.mark.parametrize("name", ["mov", "mlip", "youngest-first", "by-value:mov", "by-value:pareto"])
def test_few_of_many_guests_are_shown(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    shown = list[Lease]()

    def noted(lease: Lease, cost_vm_ms: Callable[[LeaseType, int, int], int], now_ms: int) -> Candidate:
        shown.append(lease)
        return make(lease, cost_vm_ms, now_ms)

    monkeypatch.setattr(preemptable, "_candidate", noted)
    random = Random(1)
    index = PreemptableGuests(guest(number, random) for number in range(5_000))
    policy = Guard(least_run_resumes=1).around(victim_policy(name))
    policy.choose_from(index.pool(OVERHEADS, 10 * NOW_MS), 8)
    shown.clear()
    policy.choose_from(index.pool(OVERHEADS, 10 * NOW_MS), 8)
    assert len([lease for lease in shown if lease.state is LeaseState.RUNNING]) < 100
