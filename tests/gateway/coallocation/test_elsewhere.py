"""Components at sites with managers of their own, as the gateway decides about them, whatever those sites say."""

from heapq import heappop, heappush
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.gateway.coallocation.together import coallocation, part
from tests.searching import examples

from leasehold.gateway.coallocation.planner import PREPARE_MS
from leasehold.gateway.gateway import Gateway, Routing
from leasehold.gateway.invariants import Invariants
from leasehold.gateway.sites import RemoteSite
from leasehold.model.coallocation import CoAllocationRequest, CoAllocationState, Promise
from leasehold.model.effect import CommitLease, Effect, LeaseClosed, OfferLease, RecallLease, StartLease, WakeAt
from leasehold.model.errors import UnknownName
from leasehold.model.event import (
    CoAllocationSubmitted,
    Event,
    LeaseEnded,
    LeaseStarted,
    SiteForgotten,
    SiteReported,
    Tick,
)
from leasehold.model.lease import LeaseState
from leasehold.model.reason import Reason
from leasehold.routing.registry import routing_policy
from leasehold.routing.view import SiteLive
from leasehold.testing.worlds import site

C, S = CoAllocationState, LeaseState


class Told:
    """A gateway with a site of 4 VMs, and the sites `far` and `north` elsewhere; every instant is checked."""

    def __init__(self, **remote: Any) -> None:
        self.gateway = Gateway([site("own", 4)], Routing(routing_policy("rr")(Random(0))))
        for name in ("far", "north"):
            self.gateway.join(RemoteSite(name, 8, 1, live=SiteLive(8), promises=True, **remote))
        self.gateway.join(RemoteSite("peer", 8, 1, live=SiteLive(8), is_peer=True))
        self.now_ms = 0
        self._invariants = Invariants(self.gateway)
        self.offers: list[OfferLease] = []
        self._wakes: list[tuple[int, str]] = []

    def tell(self, *events: Event, after_ms: int = 1) -> list[Effect]:
        """Let time pass, with every tick that the gateway has asked for, and then tell it this."""
        until_ms, effects = self.now_ms + after_ms, list[Effect]()
        while self._wakes and self._wakes[0][0] <= until_ms:
            self.now_ms, names = self._wakes[0][0], set[str]()
            while self._wakes and self._wakes[0][0] == self.now_ms:
                names.add(heappop(self._wakes)[1])
            effects += self._handle(*(Tick(name) for name in sorted(names)))
        self.now_ms = until_ms
        return effects + self._handle(*events)

    def _handle(self, *events: Event) -> list[Effect]:
        effects = self.gateway.handle(events, self.now_ms)
        self._invariants.check(effects, self.now_ms)
        for one in effects:
            if isinstance(one, OfferLease):
                self.offers.append(one)
            elif isinstance(one, WakeAt):
                heappush(self._wakes, (max(one.at_ms, self.now_ms + 1), one.site))
        return effects

    def ask(self, request: CoAllocationRequest) -> list[Effect]:
        return self.tell(CoAllocationSubmitted(request))

    def report(self, name: str, state: LeaseState, reason: Reason = Reason.ROUTED, **more: Any) -> list[Effect]:
        lease = next(one.lease for one in reversed(self.offers) if one.lease.site == name)
        more.setdefault("planned_ms", lease.request.ready_ms)
        return self.tell(SiteReported(lease.id, name, state, reason, **more))

    def prepared(self, name: str) -> list[Effect]:
        return self.report(name, S.WAITING, prepared_until_ms=self.now_ms + 9_000)

    def begin(self) -> list[Effect]:
        """Let the last that was asked for be promised and confirmed, and its start come."""
        for prepared_until_ms in (self.now_ms + 9_000, -1):
            for name in sorted({one.lease.site for one in self.offers[-2:]}):
                self.report(name, S.WAITING, prepared_until_ms=prepared_until_ms)
        return self.tell(Tick(), after_ms=PREPARE_MS)


def both(**fields: Any) -> CoAllocationRequest:
    return coallocation(1, part(2, 60, "own"), part(5, 60, "far"), part(5, 60, "north"), **fields)


def of_kind(effects: list[Effect], kind: type) -> list[Any]:
    return [one for one in effects if isinstance(one, kind)]


def test_sites_are_asked_for_a_start_that_leaves_them_time_and_own_sites_promise_at_once() -> None:
    told = Told()
    told.ask(both())
    [open_] = told.gateway.coallocations.open.values()
    assert open_.state is C.PREPARING
    assert open_.start_ms == told.now_ms + PREPARE_MS
    assert {one.lease.site for one in told.offers} == {"far", "north"}
    assert {one.lease.request.prepared_until_ms for one in told.offers} == {open_.start_ms}
    own = told.gateway.leases[open_.parts[0].lease_id]
    assert (own.state, own.reserved_ms) == (S.WAITING, open_.start_ms)


def test_nothing_is_committed_before_all_have_promised_and_nothing_starts_before_all_have_confirmed() -> None:
    told = Told()
    told.ask(both())
    [open_] = told.gateway.coallocations.open.values()
    assert not of_kind(told.prepared("far"), CommitLease)
    commits = of_kind(told.prepared("north"), CommitLease)
    assert {one.lease.site for one in commits} == {"far", "north"}
    told.report("far", S.WAITING)
    assert [one.promise for one in open_.parts] == ["", "committed", "committing"]
    told.report("north", S.WAITING)
    assert open_.state == "reserved"
    effects = told.tell(Tick(), after_ms=PREPARE_MS)
    assert [one.state for one in told.gateway.coallocations.open.values()] == ["running"]
    assert len(of_kind(effects, StartLease)) == 1


def test_one_that_is_not_confirmed_by_its_start_starts_nowhere() -> None:
    told = Told()
    told.ask(both())
    told.prepared("far")
    told.prepared("north")
    told.report("far", S.WAITING)
    effects = told.tell(Tick(), after_ms=PREPARE_MS)
    assert not of_kind(effects, StartLease)
    assert {one.lease.site for one in of_kind(effects, RecallLease)} == {"far", "north"}
    assert {one.lease.state for one in of_kind(effects, LeaseClosed)} == {S.CANCELLED}


@pytest.mark.parametrize(
    ("state", "more"),
    [
        (S.WAITING, {"planned_ms": 5}),
        (S.HELD, {}),
        (S.RUNNING, {}),
        (S.STARTING, {}),
        (S.COMPLETED, {"first_start_ms": 1}),
        (S.FAILED, {"first_start_ms": 1}),
        (S.CANCELLED, {}),
        (S.REFUSED, {"reason": Reason.NO_ROOM_AT_READY_TIME}),
    ],
)
def test_a_site_that_says_anything_else_than_that_it_promises_breaks_this_try_off(
    state: LeaseState, more: dict[str, Any]
) -> None:
    told = Told()
    told.ask(both())
    told.prepared("north")
    effects = told.report("far", state, **more)
    [open_] = told.gateway.coallocations.open.values()
    assert open_.state is C.HELD
    assert "north" in {one.lease.site for one in of_kind(effects, RecallLease)}
    assert not told.gateway.registry.remotes["north"].leases
    assert not told.gateway.registry.remotes["far"].leases


def test_what_a_site_never_takes_is_refused_without_asking_it_again() -> None:
    told = Told()
    told.ask(both())
    told.report("far", S.REFUSED, Reason.NON_PREEMPTABLE_TOO_LONG)
    offers = len(told.offers)
    told.tell(Tick(), after_ms=20_000)
    assert not told.gateway.coallocations.open
    assert len(told.offers) == offers


def test_a_component_that_is_lost_elsewhere_ends_the_others() -> None:
    told = Told()
    told.ask(both())
    for name in ("far", "north"):
        told.prepared(name)
    for name in ("far", "north"):
        told.report(name, S.WAITING)
    told.tell(Tick(), after_ms=PREPARE_MS)
    told.report("far", S.RUNNING, first_start_ms=told.now_ms)
    effects = told.report("north", S.FAILED, Reason.MACHINES_LOST)
    assert not told.gateway.coallocations.open
    assert [one.lease.site for one in of_kind(effects, RecallLease)] == ["far"]
    assert not told.gateway.leases


def test_a_component_that_its_site_cannot_start_is_recalled_there_before_another_site_has_it() -> None:
    """Otherwise both would start it once the machines of that site answer again."""
    told = Told()
    told.ask(coallocation(1, part(1, 60, "own"), part(5, 60), part(5, 60, "north")))
    told.begin()
    [asked] = [one.lease.id for one in told.offers if one.lease.site == "far"]
    effects = told.report("far", S.HELD, Reason.SITE_UNREACHABLE, planned_ms=-1)
    assert asked in [one.lease.id for one in of_kind(effects, RecallLease)]
    assert asked not in told.gateway.leases
    assert not told.gateway.registry.remotes["far"].leases


def test_only_sites_that_promise_can_be_named() -> None:
    told = Told()
    with pytest.raises(UnknownName, match=r"'peer'.*far, north"):
        told.gateway.coallocations.check(coallocation(1, part(1, at="peer"), part(1)))


def test_machines_that_nobody_can_hold_idle_are_asked_for_only_where_own_ones_are_not_free() -> None:
    told = Told()
    told.ask(coallocation(1, part(2), part(2)))
    assert not told.offers
    told.ask(coallocation(2, part(2), part(2)))
    assert {one.lease.site for one in told.offers} <= {"far", "north"}
    assert told.offers


_REPORTS = st.tuples(
    st.sampled_from(["far", "north"]),
    st.sampled_from([*S]),
    st.sampled_from([Reason.ROUTED, Reason.MACHINES_LOST, Reason.NO_ROOM_AT_READY_TIME, Reason.WIDER_THAN_SITE]),
    st.sampled_from([-1, 0, 1]),
    st.booleans(),
)
_HAPPENS = st.one_of(
    _REPORTS,
    st.integers(1, 40_000),
    st.sampled_from(["ask", "begin", "forget far", "started", "ended"]),
)


@given(st.lists(_HAPPENS, max_size=30))
@settings(max_examples=examples(800))
def test_whatever_sites_say_and_when_all_begin_together_or_none(happens: list[Any]) -> None:  # noqa: C901, PLR0912 - one each
    told, number = Told(), 1
    told.ask(both(tries=2, retries=1))
    for what in happens:
        if isinstance(what, int):
            told.tell(Tick(), after_ms=what)
        elif isinstance(what, tuple):
            name, state, reason, when, is_prepared = what
            for one in told.offers[-2:]:
                if one.lease.site == name:
                    more = {"planned_ms": one.lease.request.ready_ms + when, "first_start_ms": when}
                    more["prepared_until_ms"] = told.now_ms + 5_000 if is_prepared else -1
                    told.tell(SiteReported(one.lease.id, name, state, reason, **more))
        elif what == "ask" and number < 4:
            number += 1
            told.ask(coallocation(number, part(2), part(5), tries=2))
        elif what == "begin":
            told.begin()
        elif what == "forget far":
            told.tell(SiteForgotten("far"))
        else:
            for lease in list(told.gateway.sites["own"].allocations.held.values()):
                started = lease.state is S.STARTING
                event = (
                    LeaseStarted(lease.id, lease.incarnation) if started else LeaseEnded(lease.id, lease.incarnation)
                )
                told.tell(event)
        for open_ in told.gateway.coallocations.open.values():
            if open_.state is C.RUNNING:
                assert {one.promise for one in open_.parts} <= {Promise.NONE, Promise.COMMITTED}
    told.tell(Tick(), after_ms=500_000)
    for name, remote in told.gateway.registry.remotes.items():
        running = {id_ for one in told.gateway.coallocations.open.values() for id_ in one.request.lease_ids}
        assert remote.leases.keys() <= running, name
