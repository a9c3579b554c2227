"""A Migratable guest that cannot continue at a site with a manager of its own is moved, by way of its gateway."""

from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.gateway.random_worlds import QUICK
from tests.gateway.telling import Told, closed, decided, lent, own
from tests.searching import examples

from leasehold.gateway.sites import RemoteSite, carried_by
from leasehold.model.effect import (
    Effect,
    LeaseClosed,
    MigrateLease,
    OfferLease,
    RecallLease,
    ResumeLease,
    StartLease,
    SuspendLease,
    WakeAt,
)
from leasehold.model.event import (
    CancelRequested,
    Event,
    LeaseContinues,
    LeaseEnded,
    LeaseFailed,
    LeaseSaved,
    SiteReported,
    Submitted,
    Tick,
)
from leasehold.model.lease import Lease, LeaseState
from leasehold.model.reason import Outcome, Reason
from leasehold.model.request import LeaseType, Request
from leasehold.routing.view import SiteLive
from leasehold.testing.worlds import site


class Manager:
    """A site that decides for itself, and what it has said; it is told things at whole seconds."""

    def __init__(self, name: str, *, hands_over: bool) -> None:
        self.name = name
        self.told = Told(site(name, 4, overhead=QUICK, hands_over=hands_over))
        self.hands_over = hands_over
        self.known: dict[int, Lease] = {}

    def remote(self) -> RemoteSite:
        at = self.told.gateway.sites[self.name]
        return RemoteSite(self.name, 4, 1, hands_over=self.hands_over, live=SiteLive(max(0, at.free_vms)))


class Federation:
    """A gateway with site ``a``, and managers: every message takes a millisecond, and machines as long as planned."""

    def __init__(self, *managers: str, slots: int = 4, hands_over: bool = True, max_restarts: int = 0) -> None:
        here = site("a", slots, overhead=QUICK, hands_over=hands_over)
        self.home = Told(here, routing="most-free", try_elsewhere=True, use_free_room=True, max_restarts=max_restarts)
        self.managers = {name: Manager(name, hands_over=hands_over) for name in managers}
        self.ends: dict[int, Reason] = {}
        self.moves: list[tuple[int, str]] = []
        self._due: list[tuple[int, int, Told, Event]] = []
        self._number = self._now_ms = 0
        for manager in self.managers.values():
            self.home.gateway.join(manager.remote())

    def at(self, now_s: float, *events: Event, to: str = "") -> None:
        """Let time pass until then, and tell the gateway, or a manager, what happens in that instant."""
        self.until(now_s - 0.001)
        told, now_ms = self.managers[to].told if to else self.home, max(round(now_s * 1000), self._now_ms + 1)
        for event in events:
            self._plan(now_ms, told, event)
        self.until((now_ms + 5) / 1000)

    def until(self, until_s: float) -> None:
        """Let time pass: all events of an instant are told together."""
        while self._due and self._due[0][0] <= until_s * 1000:
            self._now_ms = now_ms = self._due[0][0]
            now = [one for one in self._due if one[0] == now_ms]
            self._due = self._due[len(now) :]
            for name in ("", *self.managers):
                told = self.managers[name].told if name else self.home
                events = [event for _, _, whose, event in now if whose is told]
                if events:
                    self._tell(name, events, now_ms)

    def _tell(self, name: str, events: list[Event], now_ms: int) -> None:
        told = self.managers[name].told if name else self.home
        effects = told.at(now_ms / 1000, *events)
        for effect in effects:
            self._carry_out(told, effect, now_ms)
        if name:
            self._report(self.managers[name], effects, now_ms)
        else:
            self._deliver(effects, now_ms)

    def _deliver(self, effects: list[Effect], now_ms: int) -> None:
        for effect in effects:
            if isinstance(effect, LeaseClosed):
                self.ends[effect.lease.id] = effect.reason
            elif isinstance(effect, OfferLease):
                lease, manager = effect.lease, self.managers[effect.lease.site]
                request = replace(lease.request, wait=effect.wait, goes_back=True, max_restarts=0)
                request = replace(request, submit_ms=now_ms + 1, ready_ms=max(now_ms + 1, request.ready_ms))
                self._plan(now_ms + 1, manager.told, Submitted(request, carried_by(lease)))
            elif isinstance(effect, RecallLease):
                self._plan(now_ms + 1, self.managers[effect.lease.site].told, CancelRequested(effect.lease.id))

    def _report(self, manager: Manager, effects: list[Effect], now_ms: int) -> None:
        gateway = manager.told.gateway
        manager.known |= {one.id: one for one in gateway.leases.values() if not one.request.is_local}
        reasons = {one.lease.id: one.reason for one in effects if isinstance(one, LeaseClosed)}
        manager.known |= {
            one.lease.id: one.lease
            for one in effects
            if isinstance(one, LeaseClosed) and not one.lease.request.is_local
        }
        self.home.gateway.registry.remotes[manager.name].live = manager.remote().live
        for lease in list(manager.known.values()):
            why = reasons.get(lease.id, Reason.ROUTED)
            counts = (lease.preemptions, lease.overhead_vm_ms, lease.migrations, lease.work_left)
            when = (lease.reserved_ms, lease.first_start_ms)
            report = SiteReported(lease.id, manager.name, lease.state, why, *when, *counts)
            self._plan(now_ms + 1, self.home, report)
            if lease.state.is_final:
                del manager.known[lease.id]

    def _carry_out(self, told: Told, effect: Effect, now_ms: int) -> None:
        match effect:
            case StartLease(lease):
                self._end(told, lease, now_ms)
            case ResumeLease(lease, takes_ms) | MigrateLease(lease, _, takes_ms):
                if isinstance(effect, MigrateLease):
                    self.moves.append((lease.id, lease.site))
                self._plan(now_ms + takes_ms, told, LeaseContinues(lease.id, lease.incarnation))
                self._end(told, lease, now_ms + takes_ms)
            case SuspendLease(lease, save_ms):
                self._plan(now_ms + save_ms, told, LeaseSaved(lease.id, lease.incarnation))
            case WakeAt(name, at_ms):
                self._plan(max(at_ms, now_ms + 1), told, Tick(name))
            case _:
                pass

    def _end(self, told: Told, lease: Lease, from_ms: int) -> None:
        speed = told.gateway.sites[lease.site].settings.speed_mips
        self._plan(from_ms + -(-lease.work_left // speed), told, LeaseEnded(lease.id, lease.incarnation))

    def _plan(self, at_ms: int, told: Told, event: Event) -> None:
        self._number += 1
        self._due.append((at_ms, self._number, told, event))
        self._due.sort(key=lambda one: one[:2])

    def lease(self, number: int = 1) -> Lease:
        return self.home.lease(number)


def preempted(*, hands_over: bool = True, deadline_s: float = 60, **said: int) -> Federation:
    """Lease 1 of 20 s runs at ``b``, which has a manager, for 5 s, until an owner there wants all of it for 100 s.

    Site ``a`` was full when it came, and is free since.
    """
    federation = Federation("b", hands_over=hands_over, **said)
    federation.at(0, own(8, 4, 2))
    federation.at(0, lent(1, 4, 20, "migratable", deadline_s=deadline_s))
    assert (federation.lease().site, federation.lease().state) == ("b", LeaseState.RUNNING)
    federation.at(5, own(9, 4, 100, "b"), to="b")
    return federation


class TestAGuestThatCannotFinishWhereItIs:
    def test_continues_at_another_site_with_its_memory(self) -> None:
        federation = preempted()
        assert federation.lease().state is LeaseState.SUSPENDING
        federation.until(60)
        assert federation.ends[1] is Reason.COMPLETED
        assert federation.moves == [(1, "a")]

    def test_has_what_it_went_through_counted_and_the_rest_of_its_work(self) -> None:
        federation = preempted()
        federation.until(7.1)
        lease = federation.lease()
        assert (lease.site, lease.state, lease.work_left) == ("a", LeaseState.MIGRATING, 15_003)
        assert (lease.preemptions, lease.migrations, lease.handed_back, lease.restarts) == (1, 1, 1, 0)
        assert lease.memory_at == ""
        assert federation.managers["b"].told.gateway.leases.keys() == {9}

    def test_and_back(self) -> None:
        federation = preempted(deadline_s=200)
        federation.at(6, CancelRequested(9), to="b")
        federation.until(12)
        federation.at(15, own(10, 4, 300))
        federation.until(200)
        assert federation.ends[1] is Reason.COMPLETED

    def test_has_failed_where_no_other_site_can_be_in_time(self) -> None:
        federation = preempted(deadline_s=21)
        federation.until(60)
        assert federation.ends[1] is Reason.DEADLINE_LOST
        assert federation.home.gateway.leases == {}

    def test_waits_at_home_while_that_is_in_time(self) -> None:
        federation = preempted(deadline_s=300)
        federation.until(300)
        assert (federation.ends[1], federation.moves) == (Reason.COMPLETED, [])

    @pytest.mark.parametrize(("restarts", "end"), [(1, Reason.COMPLETED), (0, Reason.DEADLINE_LOST)])
    def test_begins_again_where_memory_cannot_leave_its_site(self, restarts: int, end: Reason) -> None:
        federation = preempted(hands_over=False, max_restarts=restarts)
        federation.until(60)
        assert (federation.ends[1], federation.moves) == (end, [])

    def test_is_cancelled_while_it_leaves(self) -> None:
        federation = preempted()
        federation.at(5.5, CancelRequested(1))
        federation.until(60)
        assert (federation.ends[1], federation.moves) == (Reason.CANCELLED_BY_USER, [])

    def test_may_lose_its_memory_while_it_leaves(self) -> None:
        federation = preempted()
        federation.at(5.5, LeaseFailed(1, 1), to="b")
        federation.until(60)
        assert (federation.ends[1], federation.moves) == (Reason.MACHINES_LOST, [])


def test_a_guest_that_waits_for_its_time_and_loses_it_gets_another_site() -> None:
    federation = Federation("b")
    federation.at(0, own(8, 4, 9))
    federation.at(0, lent(1, 4, 10, "migratable", ready_s=10, deadline_s=30))
    assert (federation.lease().site, federation.lease().state) == ("b", LeaseState.WAITING)
    federation.at(1, own(9, 4, 100, "b"), to="b")
    lease = federation.lease()
    assert (lease.site, lease.reserved_ms, lease.handed_back, lease.memory_at) == ("a", 10_000, 1, "")
    federation.until(60)
    assert (federation.ends[1], federation.moves) == (Reason.COMPLETED, [])


OWNERS = st.lists(
    st.tuples(st.integers(1, 80), st.sampled_from("abc"), st.integers(1, 4), st.integers(1, 60)), max_size=8
)
GUESTS = st.lists(
    st.tuples(st.integers(0, 60), st.integers(1, 4), st.integers(1, 30), st.none() | st.integers(31, 120)),
    min_size=1,
    max_size=6,
)


@settings(max_examples=examples(120), deadline=None)
@given(owners=OWNERS, guests=GUESTS, hands_over=st.booleans())
def test_whatever_owners_do_every_guest_comes_to_one_end_and_no_two_sites_run_it(
    owners: list[tuple[int, str, int, int]],
    guests: list[tuple[int, int, int, int | None]],
    hands_over: bool,  # noqa: FBT001 - it is drawn
) -> None:
    federation = Federation("b", "c", hands_over=hands_over, max_restarts=2)
    happen: list[tuple[int, Callable[[], None]]] = []
    for number, (at_s, name, vms, span_s) in enumerate(owners, 100):
        request = Request(number, LeaseType.NON_PREEMPTABLE, vms, span_s * 1000, at_s * 1000, at_s * 1000, site=name)
        to = "" if name == "a" else name
        happen.append((at_s, lambda at=at_s, one=request, to=to: federation.at(at, Submitted(one), to=to)))  # type: ignore[misc]
    for number, (at_s, vms, span_s, deadline_s) in enumerate(guests, 1):
        deadline_ms = None if deadline_s is None else (at_s + deadline_s) * 1000
        request = Request(
            number, LeaseType.MIGRATABLE, vms, span_s * 1000, at_s * 1000, at_s * 1000, deadline_ms, wait=True
        )
        happen.append((at_s, lambda at=at_s, one=request: federation.at(at, Submitted(one))))  # type: ignore[misc]
    for at_s, one in sorted(happen, key=lambda pair: pair[0]):
        federation.until(at_s - 0.001)
        _at_one_place(federation)
        one()
    federation.until(100_000)
    assert federation.ends.keys() >= set(range(1, len(guests) + 1))
    assert not federation.home.gateway.leases
    assert not any(manager.told.gateway.leases for manager in federation.managers.values())
    for number, (at_s, _, _, deadline_s) in enumerate(guests, 1):
        if federation.ends[number] is Reason.DEADLINE_LOST:
            assert deadline_s is not None, f"guest {number} of {at_s} s had no deadline to lose"


def _at_one_place(federation: Federation) -> None:
    holding: list[int] = []
    for told in (federation.home, *(manager.told for manager in federation.managers.values())):
        for place in told.gateway.sites.values():
            holding += [one.id for one in place.allocations.held.values() if not one.request.is_local]
    assert len(holding) == len(set(holding))


def test_the_gateway_says_that_it_was_handed_back_and_where_it_goes() -> None:
    federation = preempted()
    federation.until(5.9)
    seen: list[Effect] = []
    told = federation.home.at

    def overhear(now_s: float, *events: Event) -> list[Effect]:
        effects = told(now_s, *events)
        seen.extend(effects)
        return effects

    federation.home.at = overhear  # type: ignore[method-assign]
    federation.until(7.1)
    assert (1, Outcome.HOLD, Reason.HANDED_BACK) in decided(seen)
    assert closed(seen) == []
