"""Between a request's arrival and its site: dispatched, held or refused, on true information."""

from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from tests.gateway.random_worlds import (
    ALL_TYPES,
    HOLDS_VMS,
    QUICK,
    REFERENCE_MIPS,
    SLOTS,
    SPEEDS,
    ByTheView,
    Case,
    cases,
    drive,
    moving_cases,
    three_sites,
    unfold,
)
from tests.searching import examples

from leasehold.gateway.gateway import Gateway, Routing
from leasehold.model.effect import Decision, Effect, LeaseClosed, WakeAt
from leasehold.model.errors import UnknownName
from leasehold.model.event import CancelRequested, Submitted, Tick
from leasehold.model.lease import LeaseState
from leasehold.model.reason import Outcome, Reason
from leasehold.model.request import LeaseType, Request
from leasehold.routing.policies.pap_rnd import BY_COMPUTING_POWER, ENOUGH_SEEN
from leasehold.routing.policies.pap_rtdp import PapRtdp
from leasehold.routing.policy import Dispatch, Hold, Refuse, RoutingPolicy, RoutingView, SiteSet, Verdict
from leasehold.routing.registry import ROUTING_POLICIES
from leasehold.routing.view import FixedSources, Information, UndeclaredInformation
from leasehold.simulation.workload.job import WorkloadJob
from leasehold.testing.worlds import History, guest, local, play, site

HELD_UNTIL_THE_END = 10_000
WAITS = (LeaseState.WAITING, LeaseState.SUSPENDING, LeaseState.SUSPENDED)

Rule = Callable[[Request, RoutingView, int], Verdict]


class Scripted(RoutingPolicy):
    """Does what its rule says, and remembers when it was asked about whom and which sites it was offered."""

    name = "scripted"
    information = Information.HISTORY

    def __init__(self, rule: Rule, patience: int = 1000) -> None:
        super().__init__(Random(0))
        self._rule = rule
        self._patience = patience
        self.asked: list[tuple[float, int]] = []
        self.offered: list[list[str]] = []

    def route(self, request: Request, view: RoutingView, now_ms: int) -> Verdict:
        self.asked.append((now_ms / 1000, request.id))
        self.offered.append([site.name for site in view.sites])
        assert len(self.asked) <= self._patience, "asked over and over"
        return self._rule(request, view, now_ms)


def holding_until(time_s: float, **hold: Any) -> Scripted:
    """Hold everything until a time, then send it to the first site."""

    def rule(_request: Request, view: RoutingView, now_ms: int) -> Verdict:
        return Hold(**hold) if now_ms < time_s * 1000 else Dispatch(view.sites[0].name)

    return Scripted(rule)


def times_of(policy: Scripted, lease_id: int = 1) -> list[float]:
    return [now_s for now_s, asked in policy.asked if asked == lease_id]


def refusals(history: History, lease_id: int) -> list[tuple[str, Reason]]:
    made = [decision for _, decision in history.decisions(Outcome.REFUSE)]
    return [(decision.site, decision.reason) for decision in made if decision.lease.id == lease_id]


def test_what_a_policy_keeps_of_a_site_lasts_until_something_is_sent_there_or_time_passes() -> None:
    kept: list[set[str]] = []

    def rule(request: Request, view: RoutingView, _now_ms: int) -> Verdict:
        kept.append({site.name for site in view.sites if site in view.memo})
        view.memo.update(dict.fromkeys(view.sites))
        view.memo["whatever else"] = view
        return Dispatch("b" if request.id == 2 else "a")

    sites = [site("a", 9), site("b", 9), site("c", 9)]
    play([guest(0, 1, 5), guest(0, 1, 5), guest(0, 1, 5), guest(1, 1, 5)], sites, Scripted(rule))
    assert kept == [set(), {"b", "c"}, {"a", "c"}, set()]


class TestHolding:
    def test_a_held_request_is_asked_about_at_every_tick(self) -> None:
        policy = holding_until(30)
        history = play([guest(0, 1, 5)], [site("a", 4)], policy, tick_ms=10_000)
        assert times_of(policy) == [0, 10, 20, 30]
        assert history.first_start_s(1) == 30

    def test_at_every_event_of_the_gateway(self) -> None:
        policy = holding_until(30)
        log = [guest(0, 1, 5), local(4, 1, 8), guest(9, 1, 5)]
        play(log, [site("a", 4)], policy, tick_ms=10_000)
        # An arrival at 4, one at 9, a tick at 10, an end at 12, ticks at 20 and 30.
        assert times_of(policy) == [0, 4, 9, 10, 12, 20, 30]

    def test_and_at_the_time_that_the_policy_names(self) -> None:
        policy = holding_until(3, until_ms=3_000)
        history = play([guest(0, 1, 5)], [site("a", 4)], policy, tick_ms=10_000)
        assert times_of(policy) == [0, 3]
        assert history.first_start_s(1) == 3

    def test_a_time_that_is_past_means_as_soon_as_time_has_passed(self) -> None:
        policy = holding_until(0.002, until_ms=0)
        play([guest(0, 1, 5)], [site("a", 4)], policy)
        assert times_of(policy) == [0, 0.001, 0.002]

    def test_requests_are_asked_about_in_the_order_in_which_they_came(self) -> None:
        policy = holding_until(20)
        play([guest(0, 1, 5), guest(0, 1, 5), guest(2, 1, 5), guest(20, 1, 5)], [site("a", 4)], policy)
        assert [asked for now_s, asked in policy.asked if now_s == 20] == [1, 2, 3, 4]

    def test_that_it_is_held_is_said_once_with_reason_rule_and_time(self) -> None:
        policy = holding_until(25, until_ms=25_000)
        history = play([guest(0, 1, 5)], [site("a", 4)], policy)
        ((now_s, held),) = history.decisions(Outcome.HOLD)
        assert (now_s, held.reason, held.rule) == (0, Reason.HELD_AT_GATEWAY, "scripted")
        assert (held.site, held.planned_ms) == ("", 25_000)

    def test_a_held_request_can_be_refused_later(self) -> None:
        policy = Scripted(lambda _request, _view, now_ms: Hold() if now_ms < 10_000 else Refuse())
        history = play([guest(0, 1, 5)], [site("a", 4)], policy)
        assert history.ends()[1] == (10, Reason.POLICY_REFUSED)

    def test_a_held_request_can_be_cancelled(self) -> None:
        gateway = Gateway([site("a", 4)], Routing(holding_until(HELD_UNTIL_THE_END)))
        gateway.handle([Submitted(Request(1, LeaseType.CANCELABLE, 1, 5_000, 0, 0))], 0)
        (closed,) = gateway.handle([CancelRequested(1)], 4_000)
        assert isinstance(closed, LeaseClosed)
        assert (closed.lease.id, closed.reason) == (1, Reason.CANCELLED_BY_USER)
        assert gateway.handle([Tick()], 10_000) == []

    def test_one_that_a_site_refused_meanwhile_is_offered_every_site_again(self) -> None:
        def rule(_request: Request, view: RoutingView, now_ms: int) -> Verdict:
            return Hold() if now_ms == 1_000 and len(view.sites) == 1 else Dispatch(view.sites[0].name)

        policy = Scripted(rule)
        log = [local(0, 4, 6), guest(1, 1, 5, "non-preemptable")]
        history = play(log, [site("a", 4), site("b", 4)], policy, try_elsewhere=True)
        assert policy.offered == [["a", "b"], ["b"], ["a", "b"]]
        assert history.moves(2) == [(6, "start", "a")]

    def test_ticks_do_not_pile_up(self) -> None:
        """However many requests are held until different times, one tick in ten seconds is enough."""

        def rule(request: Request, view: RoutingView, now_ms: int) -> Verdict:
            if now_ms >= 200_000:
                return Dispatch(view.sites[0].name)
            return Hold(now_ms + 500 if now_ms == request.submit_ms else None)

        history = play([guest(n, 1, 5) for n in range(20)], [site("a", 4)], Scripted(rule, 10**6))
        late = [e for now_ms, e in history.effects if isinstance(e, WakeAt) and now_ms >= 100_000]
        assert sum(wake.site == "" for wake in late) <= 11


class TestRefusing:
    @pytest.mark.parametrize("reason", [Reason.POLICY_REFUSED, Reason.DEADLINE_TOO_TIGHT])
    def test_a_policy_refuses_with_its_reason(self, reason: Reason) -> None:
        history = play([guest(3, 1, 5)], [site("a", 4)], Scripted(lambda *_: Refuse(reason)))
        assert history.ends() == {1: (3, reason)}
        assert refusals(history, 1) == [("", reason)]

    def test_a_site_that_does_not_exist_is_named_with_the_nearest_that_does(self) -> None:
        policy = Scripted(lambda *_: Dispatch("north1"))
        with pytest.raises(UnknownName, match=r"scripted: site: got 'north1'.*did you mean 'north'"):
            play([guest(0, 1, 5)], [site("north", 4), site("south", 4)], policy)


class TestTryingElsewhere:
    """Site a is full at 1 s, when a Non-preemptable request wants to start at once."""

    log = (local(0, 4, 10), guest(1, 1, 5, "non-preemptable"))

    def play(self, policy: Scripted, **options: Any) -> History:
        return play(self.log, [site("a", 4), site("b", 4), site("c", 4)], policy, **options)

    def test_the_policy_is_asked_again_without_the_site_that_refused(self) -> None:
        policy = holding_until(0)
        history = self.play(policy, try_elsewhere=True)
        assert policy.offered == [["a", "b", "c"], ["b", "c"]]
        assert history.moves(2) == [(1, "start", "b")]
        assert refusals(history, 2) == [("a", Reason.NO_ROOM_AT_READY_TIME)]

    def test_unless_the_gateway_does_not_try_elsewhere(self) -> None:
        policy = holding_until(0)
        history = self.play(policy)
        assert policy.offered == [["a", "b", "c"]]
        assert history.ends()[2] == (1, Reason.NO_ROOM_AT_READY_TIME)

    def test_when_every_site_has_refused_it_is_over(self) -> None:
        policy = holding_until(0)
        log = [guest(1, 4, 5, "non-preemptable", deadline_s=2)]
        history = play(log, [site("a", 4), site("b", 4)], policy, try_elsewhere=True)
        too_tight = Reason.DEADLINE_TOO_TIGHT
        assert refusals(history, 1) == [("a", too_tight), ("b", too_tight), ("", too_tight)]
        assert history.ends()[1] == (1, too_tight)

    def test_a_policy_that_insists_on_a_site_is_not_asked_for_ever(self) -> None:
        policy = Scripted(lambda *_: Dispatch("a"), patience=50)
        assert self.play(policy, try_elsewhere=True).ends()[2] == (1, Reason.NO_ROOM_AT_READY_TIME)


@pytest.mark.parametrize("name", ROUTING_POLICIES)
@settings(max_examples=examples(40))
@given(case=cases())
def test_a_wide_request_goes_only_to_sites_that_are_wide_enough(name: str, case: Case) -> None:
    chronicle = unfold(case, three_sites(), name)
    for _, sent in chronicle.decisions(Outcome.DISPATCH):
        assert sent.lease.vms <= SLOTS[sent.site]


@settings(max_examples=examples(60))
@given(case=cases())
def test_the_sites_that_are_offered_are_those_that_are_wide_enough(case: Case) -> None:
    def decide(request: Request, view: RoutingView, _now_ms: int) -> Verdict:
        assert [s.name for s in view.sites] == [name for name, slots in SLOTS.items() if slots >= request.vms]
        return Dispatch(view.sites[-1].name)

    unfold(case, three_sites(), ByTheView(decide))


class TestDeterminism:
    @pytest.mark.parametrize("name", ROUTING_POLICIES)
    @settings(max_examples=examples(25))
    @given(case=cases())
    def test_the_same_seed_gives_the_same_effects(self, name: str, case: Case) -> None:
        first, second = (unfold(case, three_sites(), name, seed=5).told for _ in range(2))
        assert first == second

    @pytest.mark.parametrize("name", ["lrf-rnd", "bcf-rnd", "pap-rnd"])
    def test_policies_that_draw_are_told_apart_by_their_seed(self, name: str) -> None:
        case = Case(tuple(guest(n, 1, 5) for n in range(40)))
        by_seed = {tuple(where_sent(unfold(case, three_sites(), name, seed=n).effects)) for n in range(4)}
        assert len(by_seed) == 4


def where_sent(effects: list[tuple[int, Effect]]) -> list[str]:
    made = [effect for _, effect in effects if isinstance(effect, Decision)]
    return [decision.site for decision in made if decision.outcome is Outcome.DISPATCH]


class TestWhatAPolicyIsToldOfTheSites:
    """Figures of the view against a recount from the leases themselves."""

    @settings(max_examples=examples(100))
    @given(case=cases())
    def test_live_figures_are_what_the_sites_hold(self, case: Case) -> None:
        check_live_figures(case)

    @settings(max_examples=examples(100))
    @given(case=cases())
    def test_the_earliest_start_is_that_of_the_plan(self, case: Case) -> None:
        def decide(request: Request, view: RoutingView, now_ms: int) -> Verdict:
            for site_facts in view.sites:
                ask = view.live(site_facts.name).earliest_start_ms
                assert ask is not None
                earliest_ms = earliest_by_hand(gateway, site_facts.name, request, now_ms)
                assert ask(request.vms, request.duration_ms) == earliest_ms
            return Dispatch(view.sites[0].name)

        gateway = Gateway(three_sites(), Routing(ByTheView(decide)), REFERENCE_MIPS)
        drive(gateway, case)

    def test_what_is_wider_than_a_site_never_starts_there(self) -> None:
        def decide(_request: Request, view: RoutingView, _now_ms: int) -> Verdict:
            ask = view.live("c").earliest_start_ms
            assert ask is not None
            assert ask(SLOTS["c"] + 1, 1) is None
            return Dispatch("a")

        unfold(Case((guest(0, 1, 1),)), three_sites(), ByTheView(decide))

    @settings(max_examples=examples(100))
    @given(case=cases())
    def test_history_counts_what_was_sent_and_what_came_of_it(self, case: Case) -> None:
        check_history(case, one_after_another)

    @settings(max_examples=examples(100))
    @given(case=moving_cases())
    def test_also_of_guests_that_move_from_site_to_site(self, case: Case) -> None:
        check_history(case, lambda _request, _view, _now_ms: Dispatch("a"))


class TestRunTimes:
    """What guests have needed of the time that they asked for is known when the next one comes."""

    @staticmethod
    def learnt(*jobs: WorkloadJob, speed_mips: int = 1) -> float:
        seen: list[float] = []

        def rule(request: Request, view: RoutingView, _now_ms: int) -> Verdict:
            seen.append(view.needed_part(request))
            return Dispatch("a")

        later = guest(10_000, 1, 1)
        play([*jobs, later], [site("a", 4, speed_mips=speed_mips, overhead=QUICK)], Scripted(rule))
        return seen[-1]

    @staticmethod
    def after(*parts: float) -> float:
        """The mean of these, of the belief in everybody, and of that in this user, by hand."""
        of_all = (5 + sum(parts)) / (5 + len(parts))
        return (20 * of_all + sum(parts)) / (20 + len(parts))

    def test_at_first_everybody_is_believed(self) -> None:
        assert self.learnt() == 1.0

    @pytest.mark.parametrize("speed_mips", [1, 3])
    def test_who_needs_a_quarter_is_seen_to(self, speed_mips: int) -> None:
        jobs = [guest(number, 1, 100, needed_s=25) for number in range(4)]
        assert self.learnt(*jobs, speed_mips=speed_mips) == pytest.approx(self.after(*4 * [0.25]), abs=1e-3)

    @pytest.mark.parametrize("speed_mips", [1, 3, 7])
    def test_who_needs_all_of_it_or_more_needs_exactly_all(self, speed_mips: int) -> None:
        jobs = [guest(0, 1, 10), guest(1, 1, 10, needed_s=20), guest(2, 1, 9.999)]
        assert self.learnt(*jobs, speed_mips=speed_mips) == 1.0

    def test_what_was_done_before_a_preemption_counts_and_what_saving_takes_does_not(self) -> None:
        preempted = guest(0, 4, 100, needed_s=50)
        assert self.learnt(preempted, local(5, 4, 10)) == pytest.approx(self.after(0.5))

    def test_own_users_of_a_site_teach_nothing(self) -> None:
        assert self.learnt(local(0, 1, 100, 1)) == 1.0

    def test_nor_does_who_was_taken_back(self) -> None:
        seen: list[float] = []

        def rule(request: Request, view: RoutingView, _now_ms: int) -> Verdict:
            seen.append(view.needed_part(request))
            return Dispatch("a")

        gateway = Gateway([site("a", 4)], Routing(Scripted(rule)))
        gateway.handle([Submitted(Request(1, LeaseType.SUSPENDABLE, 1, 100_000, 0, 0))], 0)
        gateway.handle([CancelRequested(1)], 10_000)
        gateway.handle([Submitted(Request(2, LeaseType.SUSPENDABLE, 1, 100_000, 20_000, 20_000))], 20_000)
        assert seen == [1.0, 1.0]

    def test_a_policy_has_to_say_that_it_uses_it(self) -> None:
        shown = RoutingView(SiteSet(()), (), FixedSources(), Information.STATIC, 0)
        with pytest.raises(UndeclaredInformation, match="needed_part"):
            shown.needed_part(Request(1, LeaseType.SUSPENDABLE, 1, 1, 0, 0))


def check_history(case: Case, rule: Rule) -> None:
    gateway = Gateway(three_sites(), Routing(ByTheView(rule)), REFERENCE_MIPS)
    ledger = Ledger(gateway)
    chronicle = drive(gateway, case, ledger.watch)
    preempted = Counter(decision.site for _, decision in chronicle.decisions(Outcome.PREEMPT))
    for name in SLOTS:
        history = gateway.knowledge.history(name)
        assert history.sent == [ledger.came[name, kind] for kind in ALL_TYPES]
        assert history.preempted_leases == preempted[name]
        assert (history.in_flight_leases, history.in_flight_vms) == (0, 0)


def check_live_figures(case: Case) -> None:
    def decide(request: Request, view: RoutingView, _now_ms: int) -> Verdict:
        for name in SLOTS:
            live = view.live(name)
            seen = (live.free_vms, live.running_guest_vms, live.local_waiting_vms, live.guest_waiting_vms)
            assert seen == recounted(gateway, name)
        return Dispatch(view.sites[request.id % len(view.sites)].name)

    gateway = Gateway(three_sites(), Routing(ByTheView(decide)), REFERENCE_MIPS)
    drive(gateway, case)


def one_after_another(request: Request, view: RoutingView, _now_ms: int) -> Verdict:
    return Dispatch(view.sites[request.id % len(view.sites)].name)


class Ledger:
    """Sees after every instant which outside leases are where; notes who is new there."""

    def __init__(self, gateway: Gateway) -> None:
        self.came = Counter[tuple[str, LeaseType]]()
        self._gateway = gateway
        self._where: dict[int, str] = {}

    def watch(self, gateway: Gateway, _now_ms: int) -> None:
        guests = [lease for lease in gateway.leases.values() if lease.site and not lease.request.is_local]
        for lease in guests:
            if self._where.get(lease.id) != lease.site:
                self._where[lease.id] = lease.site
                self.came[lease.site, lease.request.lease_type] += 1
        for name in SLOTS:
            history = gateway.knowledge.history(name)
            here = [lease.vms for lease in guests if lease.site == name]
            assert (history.in_flight_leases, history.in_flight_vms) == (len(here), sum(here))


def recounted(gateway: Gateway, name: str) -> tuple[int, int, int, int]:
    """What a site has free, lends, and has waiting of its own and of others, from the states of leases."""
    here = [lease for lease in gateway.leases.values() if lease.site == name]
    held = [lease for lease in here if lease.state in HOLDS_VMS]
    waiting = [lease for lease in here if lease.state in WAITS]
    return (
        SLOTS[name] - sum(lease.vms for lease in held),
        sum(lease.vms for lease in held if not lease.request.is_local),
        sum(lease.vms for lease in waiting if lease.request.is_local),
        sum(lease.vms for lease in waiting if not lease.request.is_local),
    )


def earliest_by_hand(gateway: Gateway, name: str, request: Request, now_ms: int) -> int:
    """Try every instant at which something that is booked ends, on a list of bookings."""
    span_ms = -(-request.duration_ms * REFERENCE_MIPS // SPEEDS[name])
    bookings = [
        (lease.reserved_ms, lease.reserved_ms + lease.span_ms, lease.vms)
        for lease in gateway.leases.values()
        if lease.site == name and lease.reserved_ms >= 0
    ]

    def fits(start_ms: int) -> bool:
        begins = {start_ms, *(b for b, _, _ in bookings if start_ms < b < start_ms + span_ms)}
        used = (sum(vms for begin, end, vms in bookings if begin <= at < end) for at in begins)
        return max(used) + request.vms <= SLOTS[name]

    return min(at for at in {now_ms, *(end for _, end, _ in bookings)} if at >= now_ms and fits(at))


class TestPapWithoutBeingTold:
    """PAP-RTDP knows nothing at first; it learns the streams from what comes by."""

    def rules(self, jobs: list[WorkloadJob]) -> list[str]:
        sites = [site("a", 40), site("b", 20)]
        history = play(jobs, sites, PapRtdp(Random(0)))
        return [decision.rule for _, decision in history.decisions(Outcome.DISPATCH)]

    def test_it_begins_with_its_fallback_and_goes_over_to_its_own_rule(self) -> None:
        jobs = [local(n, 1, 5) if n % 2 else guest(n, 1, 5) for n in range(200)]
        assert self.rules(jobs) == [BY_COMPUTING_POWER] * ENOUGH_SEEN + ["pap-rtdp"] * (100 - ENOUGH_SEEN)

    def test_a_gateway_that_does_not_learn_stays_with_the_fallback(self) -> None:
        jobs = [guest(n, 1, 5) for n in range(100)]
        history = play(jobs, [site("a", 40), site("b", 20)], PapRtdp(Random(0)), learns=False)
        assert {made.rule for _, made in history.decisions(Outcome.DISPATCH)} == {BY_COMPUTING_POWER}

    def test_what_it_has_learnt_moves_guests_away_from_a_site_with_busy_users(self) -> None:
        busy = [local(n, 9, 1, home="a") for n in range(600)]
        mixed = sorted([*busy, *(guest(n, 1, 1) for n in range(600))], key=lambda job: job.submit_ms)
        history = play(mixed, [site("a", 10), site("b", 10)], PapRtdp(Random(0)))
        sent = [made.site for _, made in history.decisions(Outcome.DISPATCH)]
        assert sent[:ENOUGH_SEEN].count("a") == ENOUGH_SEEN / 2
        assert sent[-100:].count("a") < 20
