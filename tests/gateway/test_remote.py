"""Sites that decide for themselves, as their gateway sees them: offered to, followed, recalled, forgotten."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from itertools import count
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.searching import examples

from leasehold.gateway.gateway import Gateway, Routing
from leasehold.gateway.invariants import Invariants
from leasehold.gateway.restart import take_up
from leasehold.gateway.sites import RemoteSite
from leasehold.model.effect import Decision, Effect, ExtendLease, LeaseClosed, OfferLease, RecallLease, StartLease
from leasehold.model.event import (
    CancelRequested,
    Event,
    ExtendRequested,
    ExtensionAnswered,
    ExtensionAsked,
    LeaseEnded,
    LendingChanged,
    SiteFellSilent,
    SiteForgotten,
    SiteReported,
    Submitted,
    Tick,
)
from leasehold.model.lease import LeaseState
from leasehold.model.reason import Outcome, Reason
from leasehold.model.request import LeaseType, Request
from leasehold.routing.registry import ROUTING_POLICIES, routing_policy
from leasehold.routing.view import SiteLive
from leasehold.testing.worlds import site

S = LeaseState


class Told:
    """A gateway whose every instant is checked, and what it wanted done."""

    def __init__(
        self,
        *remotes: RemoteSite,
        own: int = 0,
        policy: str = "rr",
        try_elsewhere: bool = False,
        max_restarts: int = 0,
    ) -> None:
        self._policy, self._own, self._try_elsewhere = policy, own, try_elsewhere
        self._max_restarts = max_restarts
        self.gateway = self._make()
        for remote in remotes:
            self.gateway.join(remote)
        self.now_ms = 0
        self._invariants = Invariants(self.gateway)

    def _make(self) -> Gateway:
        sites = [site("own", self._own)] if self._own else []
        routing = Routing(
            routing_policy(self._policy)(Random(0)), try_elsewhere=self._try_elsewhere, max_restarts=self._max_restarts
        )
        return Gateway(sites, routing)

    def tell(self, *events: Event) -> list[Effect]:
        self.now_ms += 1
        effects = self.gateway.handle(events, self.now_ms)
        self._invariants.check(effects, self.now_ms)
        self._check_what_is_unanswered()
        return effects

    def _check_what_is_unanswered(self) -> None:
        for name, leases in self.gateway.registry.offers.snapshot().items():
            assert leases
            assert dict(leases).keys() <= self.gateway.registry.remotes[name].leases.keys()

    def restart(self) -> None:
        before = self.gateway
        self.gateway = self._make()
        for remote in before.registry.remotes.values():
            self.gateway.join(replace(remote, leases={}))
        self.gateway.registry.not_lending = before.registry.not_lending
        self.gateway.restore(before.snapshot())
        self.gateway.knowledge.restore(before.knowledge.snapshot())
        take_up(self.gateway, before.leases.values(), self.now_ms)
        self._invariants = Invariants(self.gateway)
        self.tell(Tick())


def far(slots: int = 8, name: str = "far") -> RemoteSite:
    return RemoteSite(name, slots, 1, live=SiteLive(slots))


def submitted(number: int = 1, vms: int = 2, kind: LeaseType = LeaseType.SUSPENDABLE) -> Submitted:
    return Submitted(Request(number, kind, vms, 60_000, 0, 0))


def report(state: LeaseState, reason: Reason = Reason.ROOM_FREE, number: int = 1, name: str = "far") -> SiteReported:
    first_ms = -1 if state in (S.WAITING, S.REFUSED, S.HELD) else 1
    return SiteReported(number, name, state, reason, first_start_ms=first_ms)


def kinds(effects: Iterable[Effect]) -> list[type]:
    return [type(effect) for effect in effects]


def outcomes(effects: Iterable[Effect]) -> list[tuple[Outcome, Reason, str]]:
    return [(one.outcome, one.reason, one.site) for one in effects if isinstance(one, Decision)]


def closed(effects: Iterable[Effect]) -> list[tuple[LeaseState, Reason]]:
    return [(one.lease.state, one.reason) for one in effects if isinstance(one, LeaseClosed)]


def sent_far() -> Told:
    """A request is at the remote site, and the gateway's own could take it."""
    told = Told(far(), own=4, try_elsewhere=True)
    told.tell(LendingChanged("own", lends=False))
    told.tell(submitted())
    told.tell(LendingChanged("own", lends=True))
    return told


class TestOffers:
    def test_a_request_is_offered_and_waits_for_what_the_site_says(self) -> None:
        told = Told(far())
        effects = told.tell(submitted())
        assert OfferLease in kinds(effects)
        lease = told.gateway.leases[1]
        assert (lease.state, lease.site) == (S.WAITING, "far")

    def test_what_becomes_of_it_is_what_the_site_reports(self) -> None:
        told = Told(far())
        told.tell(submitted())
        for state in (S.RUNNING, S.SUSPENDING, S.SUSPENDED, S.RESUMING, S.RUNNING):
            assert not closed(told.tell(report(state)))
            assert told.gateway.leases[1].state is state
        assert closed(told.tell(report(S.COMPLETED, Reason.COMPLETED))) == [(S.COMPLETED, Reason.COMPLETED)]
        assert not told.gateway.leases
        assert told.tell(report(S.RUNNING)) == []

    def test_one_that_is_refused_is_refused(self) -> None:
        told = Told(far())
        told.tell(submitted())
        effects = told.tell(report(S.REFUSED, Reason.NO_ROOM_AT_READY_TIME))
        assert closed(effects) == [(S.REFUSED, Reason.NO_ROOM_AT_READY_TIME)]

    def test_or_goes_elsewhere_where_the_gateway_tries_that(self) -> None:
        told = sent_far()
        effects = told.tell(report(S.REFUSED, Reason.NO_ROOM_AT_READY_TIME))
        assert StartLease in kinds(effects)
        assert told.gateway.leases[1].site == "own"

    def test_who_was_refused_everywhere_is_told_what_the_last_site_said(self) -> None:
        told = Told(far(), far(name="north"), try_elsewhere=True)
        told.tell(submitted())
        first = told.gateway.leases[1].site
        told.tell(report(S.REFUSED, Reason.NO_ROOM_AT_READY_TIME, name=first))
        second = told.gateway.leases[1].site
        assert {first, second} == {"far", "north"}
        effects = told.tell(report(S.REFUSED, Reason.NON_PREEMPTABLE_TOO_LONG, name=second))
        assert closed(effects) == [(S.REFUSED, Reason.NON_PREEMPTABLE_TOO_LONG)]

    def test_who_has_refused_is_not_asked_again_after_a_restart(self) -> None:
        told = Told(far(), far(name="north"), try_elsewhere=True)
        told.tell(submitted())
        first = told.gateway.leases[1].site
        told.tell(report(S.REFUSED, Reason.NO_ROOM_AT_READY_TIME, name=first))
        second = told.gateway.leases[1].site
        told.restart()
        assert closed(told.tell(report(S.REFUSED, Reason.DEADLINE_TOO_TIGHT, name=second)))

    def test_news_of_a_lease_that_is_elsewhere_change_nothing(self) -> None:
        told = sent_far()
        told.tell(report(S.REFUSED))
        assert told.tell(report(S.COMPLETED)) == []
        assert told.tell(SiteReported(1, "nowhere", S.COMPLETED, Reason.COMPLETED)) == []

    @pytest.mark.parametrize("state", list(S))
    def test_no_report_breaks_anything(self, state: LeaseState) -> None:
        for before in S:
            told = Told(far(), try_elsewhere=True)
            told.tell(submitted())
            told.tell(report(before), report(state))
            told.tell(CancelRequested(1))


class TestUnanswered:
    """What was offered since a site was last heard of is not in what it said."""

    @staticmethod
    def burst(told: Told, count: int) -> list[str]:
        told.tell(*(submitted(number, vms=2) for number in range(1, count + 1)))
        return [told.gateway.leases[number].site for number in range(1, count + 1)]

    @pytest.mark.parametrize("policy", ["most-free", "price"])
    def test_a_burst_between_two_reports_goes_where_room_is_left(self, policy: str) -> None:
        told = Told(far(8), far(6, name="near"), policy=policy)
        sites = self.burst(told, 5)
        assert (sites.count("far"), sites.count("near")) == (3, 2)

    def test_what_finds_no_room_waits_there(self) -> None:
        told = Told(far(4), policy="most-free")
        self.burst(told, 3)
        live = told.gateway.knowledge.live("far", told.now_ms)
        assert (live.free_vms, live.guest_waiting_vms) == (0, 2)

    @pytest.mark.parametrize("state", [S.RUNNING, S.WAITING, S.HELD, S.COMPLETED])
    def test_what_was_heard_of_is_in_what_the_site_says(self, state: LeaseState) -> None:
        told = Told(far(8), policy="most-free")
        self.burst(told, 1)
        assert told.gateway.knowledge.live("far", told.now_ms).free_vms == 6
        told.tell(report(state))
        assert told.gateway.knowledge.live("far", told.now_ms).free_vms == 8

    def test_what_is_refused_takes_no_room(self) -> None:
        told = Told(far(8), policy="most-free")
        self.burst(told, 1)
        told.tell(report(S.REFUSED, Reason.ROOM_IN_USE))
        assert told.gateway.knowledge.live("far", told.now_ms).free_vms == 8

    def test_it_outlives_a_restart_and_not_the_site(self) -> None:
        told = Told(far(8), policy="most-free")
        self.burst(told, 2)
        told.restart()
        assert told.gateway.knowledge.live("far", told.now_ms).free_vms == 4
        told.tell(SiteForgotten("far"))
        told.gateway.join(far(8))
        assert told.gateway.knowledge.live("far", told.now_ms).free_vms == 8


class TestCancels:
    def test_a_lease_that_is_there_is_asked_back_once_and_closed_when_the_site_says_so(self) -> None:
        told = Told(far())
        told.tell(submitted())
        assert kinds(told.tell(CancelRequested(1))) == [RecallLease]
        assert told.tell(CancelRequested(1)) == []
        effects = told.tell(report(S.CANCELLED, Reason.CANCELLED_BY_USER))
        assert closed(effects) == [(S.CANCELLED, Reason.CANCELLED_BY_USER)]

    @pytest.mark.parametrize("restarts", [False, True])
    def test_one_that_is_refused_meanwhile_goes_nowhere_else(self, restarts: bool) -> None:  # noqa: FBT001
        told = sent_far()
        told.tell(CancelRequested(1))
        if restarts:
            told.restart()
        effects = told.tell(report(S.REFUSED, Reason.ROOM_IN_USE))
        assert closed(effects) == [(S.CANCELLED, Reason.CANCELLED_BY_USER)]

    def test_one_that_its_site_holds_is_asked_back_too(self) -> None:
        told = Told(far())
        told.tell(submitted())
        told.tell(report(S.HELD, Reason.NO_SITE_AVAILABLE))
        assert kinds(told.tell(CancelRequested(1))) == [RecallLease]

    def test_one_that_its_site_holds_stays_there_over_a_restart(self) -> None:
        told = Told(far(), own=8)
        told.tell(LendingChanged("own", lends=False))
        told.tell(submitted())
        told.tell(report(S.HELD, Reason.NO_SITE_AVAILABLE))
        told.restart()
        assert told.gateway.leases[1].site == "far"
        assert not told.gateway.pending.held


class TestWhoIsThere:
    def test_a_silent_site_is_offered_nothing_until_it_is_heard_of(self) -> None:
        told = Told(far())
        told.tell(SiteFellSilent("far"))
        effects = told.tell(submitted())
        assert outcomes(effects) == [(Outcome.HOLD, Reason.NO_SITE_AVAILABLE, "")]
        told.gateway.registry.remotes["far"].silent = False
        told.gateway.retry_all()
        assert OfferLease in kinds(told.tell(Tick()))

    @pytest.mark.parametrize("by_its_owner", [True, False])
    def test_so_is_one_that_takes_no_guests(self, by_its_owner: bool) -> None:  # noqa: FBT001
        told = Told(far())
        told.gateway.registry.remotes["far"].lends = not by_its_owner
        told.tell(LendingChanged("far", lends=by_its_owner))
        assert outcomes(told.tell(submitted())) == [(Outcome.HOLD, Reason.NO_SITE_AVAILABLE, "")]
        told.gateway.registry.remotes["far"].lends = True
        assert OfferLease in kinds(told.tell(LendingChanged("far", lends=True)))

    def test_a_site_that_grows_gets_what_was_too_wide_and_keeps_what_it_has(self) -> None:
        told = Told(far(2))
        told.tell(submitted())
        told.gateway.join(far(8))
        assert OfferLease in kinds(told.tell(submitted(2, vms=8)))
        assert set(told.gateway.registry.remotes["far"].leases) == {1, 2}
        told.gateway.join(far(1))
        told.tell(report(S.RUNNING))

    def test_a_site_that_is_forgotten_takes_its_leases_along(self) -> None:
        told = Told(far(), own=2)
        told.tell(submitted(1, vms=8))
        assert closed(told.tell(SiteForgotten("far"))) == [(S.FAILED, Reason.MACHINES_LOST)]
        assert outcomes(told.tell(submitted(2, vms=8)))[-1][1] is Reason.WIDER_THAN_ANY_SITE
        assert told.tell(SiteFellSilent("far")) == []
        told.gateway.join(far())
        assert OfferLease in kinds(told.tell(submitted(3, vms=8)))


class TestExtending:
    """A site that decides for itself is asked for how long a lease is to last in all, and what it says is followed."""

    @pytest.fixture
    def told(self) -> Told:
        told = Told(far(), own=1)
        told.tell(submitted())
        told.tell(report(S.RUNNING))
        return told

    def duration_ms(self, told: Told) -> int:
        return told.gateway.leases[1].request.duration_ms

    def test_its_site_is_asked_for_the_whole_duration(self, told: Told) -> None:
        assert told.tell(ExtendRequested(1, 1000)) == [ExtendLease(told.gateway.leases[1], 61_000)]
        assert self.duration_ms(told) == 60_000, "nothing is granted yet"

    def test_what_it_grants_is_a_decision_and_the_request_says_so(self, told: Told) -> None:
        told.tell(ExtendRequested(1, 1000))
        [decision] = told.tell(ExtensionAnswered(1, "far", 61_000))
        assert isinstance(decision, Decision)
        assert (decision.outcome, decision.reason, decision.site) == (Outcome.EXTEND, Reason.EXTENDED, "far")
        assert (self.duration_ms(told), decision.duration_ms) == (61_000, 61_000)

    def test_what_it_refuses_is_denied_for_its_reason(self, told: Told) -> None:
        told.tell(ExtendRequested(1, 1000))
        effects = told.tell(ExtensionAnswered(1, "far", 61_000, Reason.ROOM_IN_USE))
        assert outcomes(effects) == [(Outcome.DENY, Reason.ROOM_IN_USE, "far")]
        assert self.duration_ms(told) == 60_000
        assert kinds(told.tell(ExtendRequested(1, 500))) == [ExtendLease], "it can be asked for less"

    def test_an_answer_that_comes_twice_counts_once(self, told: Told) -> None:
        told.tell(ExtendRequested(1, 1000))
        told.tell(ExtensionAnswered(1, "far", 61_000))
        assert told.tell(ExtensionAnswered(1, "far", 61_000)) == []
        assert told.tell(ExtensionAnswered(1, "far", 61_000, Reason.ROOM_IN_USE)) == []
        assert self.duration_ms(told) == 61_000

    def test_another_is_refused_until_it_has_answered_also_after_a_restart(self, told: Told) -> None:
        told.tell(ExtendRequested(1, 1000))
        for _ in range(2):
            effects = told.tell(ExtendRequested(1, 2000))
            assert outcomes(effects) == [(Outcome.DENY, Reason.EXTENSION_UNDER_WAY, "far")]
            told.restart()
        told.tell(ExtensionAnswered(1, "far", 61_000))
        assert kinds(told.tell(ExtendRequested(1, 2000))) == [ExtendLease]

    def test_what_its_owner_grants_there_unasked_is_followed(self, told: Told) -> None:
        effects = told.tell(ExtensionAnswered(1, "far", 70_000))
        assert outcomes(effects) == [(Outcome.EXTEND, Reason.EXTENDED, "far")]
        assert self.duration_ms(told) == 70_000

    def test_less_than_was_asked_for_is_followed_and_the_answer_is_still_to_come(self, told: Told) -> None:
        told.tell(ExtendRequested(1, 20_000))
        told.tell(ExtensionAnswered(1, "far", 70_000))
        assert outcomes(told.tell(ExtendRequested(1, 1))) == [(Outcome.DENY, Reason.EXTENSION_UNDER_WAY, "far")]
        told.tell(ExtensionAnswered(1, "far", 80_000, Reason.DEADLINE_TOO_TIGHT))
        assert self.duration_ms(told) == 70_000
        assert kinds(told.tell(ExtendRequested(1, 1))) == [ExtendLease]

    @pytest.mark.parametrize(
        "news", [report(S.COMPLETED, Reason.COMPLETED), report(S.FAILED, Reason.MACHINES_LOST), SiteForgotten("far")]
    )
    def test_one_that_leaves_its_site_before_the_answer_is_not_extended(self, told: Told, news: Event) -> None:
        told.tell(ExtendRequested(1, 1000))
        effects = told.tell(news)
        assert outcomes(effects)[0] == (Outcome.DENY, Reason.NOT_RUNNING, "far")
        assert told.tell(ExtensionAnswered(1, "far", 61_000)) == []

    def test_one_that_begins_again_has_what_was_granted_before(self) -> None:
        told = Told(far(), max_restarts=1)
        told.tell(submitted())
        told.tell(report(S.RUNNING))
        told.tell(ExtensionAnswered(1, "far", 70_000))
        assert OfferLease in kinds(told.tell(report(S.FAILED, Reason.MACHINES_LOST)))
        lease = told.gateway.leases[1]
        assert (lease.request.duration_ms, lease.work_left) == (70_000, 70_000)

    def test_the_word_of_another_site_counts_for_nothing(self, told: Told) -> None:
        told.gateway.join(far(name="north"))
        assert told.tell(ExtensionAnswered(1, "north", 70_000), ExtensionAnswered(9, "far", 70_000)) == []
        assert self.duration_ms(told) == 60_000


class TestBeingAskedToExtend:
    """The site's end: a gateway that sent a lease asks for its whole duration."""

    @pytest.fixture
    def told(self) -> Told:
        told = Told(own=2)
        told.tell(submitted())
        return told

    def test_it_decides_as_for_its_own_users_and_twice_is_once(self, told: Told) -> None:
        for _ in range(2):
            [decision] = told.tell(ExtensionAsked(1, 61_000))
            assert isinstance(decision, Decision)
            assert (decision.outcome, decision.duration_ms) == (Outcome.EXTEND, 61_000)
        lease = told.gateway.leases[1]
        assert (lease.request.duration_ms, lease.span_ms) == (61_000, 61_000)

    def test_it_refuses_for_its_own_reasons(self, told: Told) -> None:
        told.tell(submitted(2))
        assert outcomes(told.tell(ExtensionAsked(2, 61_000))) == [(Outcome.DENY, Reason.NOT_RUNNING, "own")]
        assert told.tell(ExtensionAsked(3, 61_000)) == [], "of what is over its gateway has heard"


NEXT = {
    S.WAITING: (S.RUNNING, S.REFUSED, S.CANCELLED, S.HELD),
    S.HELD: (S.WAITING, S.REFUSED, S.CANCELLED),
    S.RUNNING: (S.SUSPENDING, S.COMPLETED, S.KILLED, S.FAILED, S.TERMINATED, S.CANCELLED),
    S.SUSPENDING: (S.SUSPENDED, S.FAILED, S.CANCELLED),
    S.SUSPENDED: (S.RESUMING, S.CANCELLED),
    S.RESUMING: (S.RUNNING, S.KILLED, S.CANCELLED),
}


class Courses:
    """What can happen next; which lease or site it happens to is drawn."""

    def __init__(self, policy: str, draw: Random, *, try_elsewhere: bool) -> None:
        self.told = Told(far(6), far(3, "north"), own=4, policy=policy, try_elsewhere=try_elsewhere)
        self._draw = draw
        self._numbers = count(1)

    @property
    def remotes(self) -> list[RemoteSite]:
        return list(self.told.gateway.registry.remotes.values())

    def submit(self) -> None:
        kind = self._draw.choice(list(LeaseType))
        self.told.tell(submitted(next(self._numbers), self._draw.randint(1, 7), kind))

    def answer(self) -> None:
        leases = [lease for remote in self.remotes for lease in remote.leases.values()]
        if leases:
            lease = self._draw.choice(leases)
            self.told.tell(report(self._draw.choice(NEXT[lease.state]), number=lease.id, name=lease.site))

    def cancel(self) -> None:
        if self.told.gateway.leases:
            self.told.tell(CancelRequested(self._draw.choice(list(self.told.gateway.leases))))

    def extend(self) -> None:
        if self.told.gateway.leases:
            self.told.tell(ExtendRequested(self._draw.choice(list(self.told.gateway.leases)), 1000))

    def answer_extension(self) -> None:
        leases = [lease for remote in self.remotes for lease in remote.leases.values()]
        if leases:
            lease, refusal = self._draw.choice(leases), self._draw.choice([None, Reason.ROOM_IN_USE])
            self.told.tell(ExtensionAnswered(lease.id, lease.site, max(lease.wanted_ms, 1), refusal))

    def silence(self) -> None:
        self.told.tell(SiteFellSilent(self._draw.choice(self.remotes).name))

    def hear(self) -> None:
        self._draw.choice(self.remotes).silent = False
        self.told.gateway.retry_all()
        self.told.tell(Tick())

    def resize(self) -> None:
        self.told.gateway.join(far(self._draw.randint(1, 8), self._draw.choice(self.remotes).name))
        self.told.tell(Tick())

    def lend(self) -> None:
        name = self._draw.choice(["far", "north", "own"])
        self.told.tell(LendingChanged(name, lends=self._draw.random() < 0.7))

    def restart(self) -> None:
        self.told.restart()

    def end(self) -> None:
        for one in [one for one in self.told.gateway.leases.values() if one.held_since_ms >= 0]:
            self.told.tell(LeaseEnded(one.id, one.incarnation))


STEPS = [Courses.submit, Courses.answer] * 3 + [
    *(
        Courses.cancel,
        Courses.extend,
        Courses.answer_extension,
        Courses.silence,
        Courses.hear,
        Courses.resize,
        Courses.lend,
        Courses.restart,
        Courses.end,
    )
]


@pytest.mark.parametrize("policy", sorted(ROUTING_POLICIES))
@given(st.lists(st.sampled_from(STEPS), max_size=40), st.randoms(use_true_random=False), st.booleans())
@settings(max_examples=examples(20), deadline=None)
def test_every_policy_gets_along_with_remote_sites_whatever_they_say(
    policy: str,
    steps: list[Callable[[Courses], None]],
    draw: Random,
    try_elsewhere: bool,  # noqa: FBT001 - it is drawn
) -> None:
    courses = Courses(policy, draw, try_elsewhere=try_elsewhere)
    for step in steps:
        step(courses)
    for remote in courses.remotes:
        for lease_id in list(remote.leases):
            courses.told.tell(report(S.COMPLETED, Reason.COMPLETED, lease_id, remote.name))
        assert not remote.leases
