"""A gateway that is made anew from the record of its leases goes on as if nothing had happened.

The record holds what a service would have written: of each instant, the leases that an effect speaks of and
those in `Gateway.moved`, and nothing else.
"""

import re
from collections.abc import Iterable
from copy import copy
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.gateway.random_worlds import (
    REFERENCE_MIPS,
    Case,
    Chronicle,
    cases,
    moving_cases,
    three_sites,
    unfold,
)
from tests.searching import examples

from leasehold.gateway.gateway import Gateway, Routing
from leasehold.gateway.invariants import Invariants
from leasehold.gateway.restart import take_up
from leasehold.gateway.settings import SiteSettings
from leasehold.model.effect import AlarmCalledOff, CoAllocationClosed, CoAllocationStarted, Effect, WakeAt
from leasehold.model.event import CancelRequested, Submitted, Tick
from leasehold.model.lease import Lease, LeaseState
from leasehold.model.reason import Outcome, Reason
from leasehold.model.request import LeaseType, Request
from leasehold.routing.registry import routing_policy
from leasehold.simulation.kernel import SimulatedWorld
from leasehold.testing.worlds import site


class Record:
    """What was written down of the leases, as it was then."""

    def __init__(self) -> None:
        self.leases: dict[int, Lease] = {}

    def write(self, effects: Iterable[Effect], gateway: Gateway) -> None:
        for lease in gateway.moved.values():
            self.leases[lease.id] = copy(lease)
        for effect in effects:
            if not isinstance(effect, WakeAt | AlarmCalledOff | CoAllocationStarted | CoAllocationClosed):
                self.leases[effect.lease.id] = copy(effect.lease)

    def open(self) -> list[Lease]:
        return [copy(lease) for lease in self.leases.values() if not lease.state.is_final]


class ForgetfulWorld(SimulatedWorld):
    """A world whose gateway is thrown away and made anew at the instants that are told."""

    def __init__(self, case: Case, routing: Routing, restarts: set[int], depth: str) -> None:
        self.record, self.restarts, self.instants = Record(), restarts, 0
        self.routing, self.depth = routing, depth
        gateway = Gateway(three_sites(depth), routing, REFERENCE_MIPS)
        self.chronicle = Chronicle()
        super().__init__(gateway, enumerate(case.jobs, 1), self.chronicle, Invariants(gateway))
        for at_ms, lease_id in case.cancels:
            self._at(at_ms, CancelRequested(lease_id))

    def _apply(self, effects: list[Effect], now_ms: int) -> None:
        super()._apply(effects, now_ms)
        self.record.write(effects, self.gateway)
        self.instants += 1
        if self.instants in self.restarts:
            self._restart(now_ms)

    def sites(self) -> list[SiteSettings]:
        """What a new gateway finds."""
        return three_sites(self.depth)

    def _restart(self, now_ms: int) -> None:
        memory, experience = self.gateway.knowledge.snapshot(), self.gateway.overheads_snapshot()
        self.gateway = Gateway(self.sites(), self.routing, REFERENCE_MIPS)
        self.gateway.knowledge.restore(memory)
        self.gateway.restore_overheads(experience)
        take_up(self.gateway, self.record.open(), now_ms)
        self._invariants = Invariants(self.gateway)
        effects = self.gateway.handle([], now_ms)
        super()._apply(effects, now_ms)
        self.record.write(effects, self.gateway)


def told(chronicle: Chronicle) -> list[tuple[int, str]]:
    """What happened, in words; alarms are the gateway's own, and places and orders count only as ranks."""
    words = [(at_ms, re.sub(r"(place|order)=\d+", "", said)) for at_ms, said in chronicle.told]
    return sorted((at_ms, said) for at_ms, said in words if not said.startswith("WakeAt"))


@given(
    st.one_of(cases(), moving_cases()),
    st.sets(st.integers(1, 60), max_size=6),
    st.sampled_from(["conservative", "easy", "fcfs"]),
    st.sampled_from(["rr", "least-in-flight", "most-free"]),
)
@settings(max_examples=examples(300))
def test_nobody_can_tell_that_there_was_a_restart(case: Case, restarts: set[int], depth: str, policy: str) -> None:
    def routing() -> Routing:
        return Routing(routing_policy(policy)(Random(0)))

    world = ForgetfulWorld(case, routing(), restarts, depth)
    for _ in world.run():
        pass
    assert not world.gateway.leases
    assert told(world.chronicle) == told(unfold(case, three_sites(depth), routing().policy))


def request(number: int, vms: int, span_s: int, kind: LeaseType, home: str | None = None) -> Request:
    return Request(number, kind, vms, span_s * 1000, 0, 0, site=home)


class TestAfterAnAbsence:
    """At 0 s a local lease of 4 VMs starts for 10 s; another and two guests wait behind it. Back at 60 s."""

    def restarted(self, now_ms: int) -> tuple[Gateway, list[Effect]]:
        gateway = Gateway([site("a", 4)], Routing(routing_policy("rr")(Random(0))))
        own, lent = LeaseType.NON_PREEMPTABLE, LeaseType.SUSPENDABLE
        requests = [
            request(1, 4, 10, own, "a"),
            request(2, 4, 10, own, "a"),
            request(3, 2, 10, lent),
            request(4, 4, 10, own),
        ]
        record = Record()
        record.write(gateway.handle([Submitted(one) for one in requests], 0), gateway)
        again = Gateway([site("a", 4)], Routing(routing_policy("rr")(Random(0))))
        take_up(again, record.open(), now_ms)
        return again, again.handle([CancelRequested(1)], now_ms)

    def test_what_came_due_meanwhile_starts_now_for_its_whole_time(self) -> None:
        gateway, _ = self.restarted(60_000)
        lease = gateway.leases[2]
        assert lease.state is LeaseState.RUNNING
        assert (lease.held_since_ms, lease.reserved_ms, lease.span_ms) == (60_000, 60_000, 10_000)

    def test_who_waits_behind_it_is_told_why_he_waits_longer(self) -> None:
        gateway, effects = self.restarted(60_000)
        moved = [e for e in effects if getattr(e, "reason", None) is Reason.MISSED_START]
        assert {(e.lease.id, e.outcome, e.planned_ms) for e in moved} == {  # type: ignore[union-attr]
            (2, Outcome.MOVE, 60_000),
            (3, Outcome.MOVE, 70_000),
        }
        Invariants(gateway).check(effects, 60_000)

    def test_an_absence_in_which_nothing_came_due_changes_no_promise(self) -> None:
        gateway, effects = self.restarted(9_000)
        assert not [e for e in effects if getattr(e, "reason", None) is Reason.MISSED_START]
        assert gateway.leases[2].held_since_ms == 9_000

    def test_the_sites_alarms_are_set_again(self) -> None:
        gateway, _ = self.restarted(60_000)
        assert gateway.handle([Tick("a")], 70_000)
        assert gateway.leases[3].held_since_ms == 70_000 or gateway.leases[3].reserved_ms >= 70_000
