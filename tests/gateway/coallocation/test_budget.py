"""However much is asked for together, an instant looks at so much and no more; and in time all is found."""

from collections.abc import Sequence
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.gateway.coallocation.together import coallocation, part, two_sites
from tests.searching import examples

from leasehold.gateway.coallocation.co_allocator import REST_MS
from leasehold.gateway.gateway import Gateway, Routing
from leasehold.gateway.planning import plan_coallocation
from leasehold.model.coallocation import CoAllocationRequest, CoAllocationState
from leasehold.model.effect import CoAllocationClosed, CoAllocationStarted, Effect, WakeAt
from leasehold.model.event import CoAllocationSubmitted, LeaseEnded, Submitted
from leasehold.model.lease import LeaseState
from leasehold.model.request import LeaseType, Request
from leasehold.routing.registry import routing_policy
from leasehold.testing.worlds import site

PLENTY = 10**9
OVERSHOOT = 400
"""What may still be looked at for the start, or the co-allocation, at which the budget was spent."""


class Counted(Gateway):
    """Keeps how much each instant looked at."""

    def __init__(self, sites: Sequence[Any], most_looks: int) -> None:
        super().__init__(sites, Routing(routing_policy("rr")(Random(0))), most_looks=most_looks)
        self.spent: list[int] = []

    def handle(self, events: Any, now_ms: int) -> list[Effect]:
        self.coallocations.planner.budget.renew()
        effects = super().handle(events, now_ms)
        self.spent.append(self.coallocations.planner.budget.spent)
        return effects


def crowded(most_looks: int) -> Counted:
    """Three sites whose plans have a step at each of some hundred seconds, and hardly any room."""
    there = Counted([site(name, 32) for name in "abc"], most_looks)
    locals_ = [
        Request(number, LeaseType.NON_PREEMPTABLE, 1, 1_000 * (60 + 7 * number), 0, 0, site="abc"[number % 3])
        for number in range(1, 91)
    ]
    there.handle([Submitted(one) for one in locals_], 0)
    return there


def wide(number: int, claim: str = "reservation") -> CoAllocationRequest:
    """Sixteen components that can be placed in very many ways, none of which will do for long."""
    vms = [6 - i % 3 for i in range(16)] if claim == "reservation" else [1] * 16
    return coallocation(number, *[part(one, 600) for one in vms], claim=claim, consumer="physics")


@pytest.mark.parametrize("claim", ["reservation", "incremental"])
def test_no_request_takes_more_than_the_budget_and_the_next_instant_takes_no_more(claim: str) -> None:
    unbounded = crowded(PLENTY)
    unbounded.handle([CoAllocationSubmitted(wide(1, claim))], 1_000)
    assert unbounded.spent[-1] > 1_200, "the case is too easy to show anything"
    there = crowded(1_000)
    there.handle([CoAllocationSubmitted(wide(number, claim)) for number in range(1, 41)], 1_000)
    plan_coallocation(there, wide(41, claim), 1_000)
    for at_ms in range(1_001, 5_000, 250):
        there.handle([], at_ms)
    assert max(there.spent) <= 1_000 + OVERSHOOT


def test_those_who_wait_are_left_alone_after_an_instant_that_took_much() -> None:
    there = crowded(1_000)
    there.handle([CoAllocationSubmitted(wide(number)) for number in range(1, 11)], 1_000)
    before = len(there.spent)
    for at_ms in range(1_001, 1_000 + REST_MS, 50):
        there.handle([], at_ms)
    assert sum(there.spent[before:]) == 0
    there.handle([], 1_000 + REST_MS)
    assert there.spent[-1] > 0


def by_its_alarms(there: Counted, until: Any, now_ms: int, effects: Sequence[Effect]) -> int:
    """Wake a gateway whenever it asked for that, until something is so; gives when it was."""
    due = {effect.at_ms for effect in effects if isinstance(effect, WakeAt)}
    while not until():
        now_ms = min(at_ms for at_ms in due if at_ms > now_ms)
        due |= {one.at_ms for one in there.handle([], now_ms) if isinstance(one, WakeAt)}
    return now_ms


@pytest.mark.soak
def test_a_search_goes_on_where_it_stopped_and_everybody_has_a_turn() -> None:
    there = crowded(1_000)
    effects = there.handle([CoAllocationSubmitted(wide(number)) for number in range(1, 6)], 1_000)
    coallocations = list(there.coallocations.open.values())
    assert {one.state for one in coallocations} == {CoAllocationState.HELD}
    by_its_alarms(there, lambda: all(one.state is not CoAllocationState.HELD for one in coallocations), 1_000, effects)
    assert {one.state for one in coallocations} <= {CoAllocationState.RESERVED, CoAllocationState.RUNNING}


def test_who_would_be_placed_at_once_does_not_wait_behind_searches_for_ever() -> None:
    there = crowded(1_000)
    effects = there.handle([CoAllocationSubmitted(wide(number, "incremental")) for number in range(1, 9)], 1_000)
    effects += there.handle([CoAllocationSubmitted(coallocation(20, part(1, 5), submit_s=1))], 1_000)
    small = there.coallocations.open[20]
    by_its_alarms(there, lambda: small.state is not CoAllocationState.HELD, 1_000, effects)
    assert small.state in {CoAllocationState.RUNNING, CoAllocationState.PLACED}


COALLOCATIONS = st.lists(
    st.tuples(
        st.lists(st.tuples(st.integers(1, 6), st.integers(1, 9)), min_size=1, max_size=4),
        st.sampled_from(["reservation", "incremental"]),
        st.integers(0, 4),
    ),
    min_size=1,
    max_size=5,
)


@settings(max_examples=examples(60))
@given(COALLOCATIONS)
def test_a_budget_that_lasts_changes_nothing(wanted: list[tuple[list[tuple[int, int]], str, int]]) -> None:
    def story(most_looks: int) -> list[str]:
        there, told, now_ms = Counted(two_sites(), most_looks), list[str](), 0
        for number, (parts, claim, after_s) in enumerate(wanted, 1):
            now_ms += 1_000 * after_s
            for lease in [*there.leases.values()]:
                if lease.state is LeaseState.RUNNING and lease.held_since_ms + lease.span_ms <= now_ms:
                    there.handle([LeaseEnded(lease.id, lease.incarnation, killed=True)], now_ms)
            components = [part(vms, duration_s) for vms, duration_s in parts]
            asked = coallocation(number, *components, claim=claim, submit_s=now_ms / 1_000)
            effects = there.handle([CoAllocationSubmitted(asked)], now_ms)
            told += [repr(effect) for effect in effects]
            told += [type(one).__name__ for one in effects if isinstance(one, CoAllocationStarted | CoAllocationClosed)]
        return told

    assert story(10_000) == story(PLENTY)
