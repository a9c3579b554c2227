"""Agreements on every way to machines: sent to a site, extended, resumed, moved, offered to a peer."""

from collections.abc import Iterable
from dataclasses import replace
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.gateway.random_worlds import QUICK, REFERENCE_MIPS, SLOTS, Case, cases, drive, three_sites
from tests.gateway.telling import Told, begun, closed, decided, lent, own
from tests.searching import examples

from leasehold.gateway.gateway import Gateway, Routing
from leasehold.gateway.peering import Terms
from leasehold.gateway.quotas import QuotaEnforcer
from leasehold.gateway.restart import take_up
from leasehold.gateway.sites import RemoteSite
from leasehold.model.agreement import EVERYBODY, Agreement, Commitment, NoLimit, Rules, TimeDecay, UsageDecay
from leasehold.model.effect import Decision, Effect, OfferLease, PenaltyImposed, Used, WakeAt
from leasehold.model.event import (
    Agreed,
    CancelRequested,
    ExtendRequested,
    LeaseEnded,
    LeaseSaved,
    PenaltyLifted,
    SiteReported,
    Submitted,
    Tick,
)
from leasehold.model.lease import LeaseState
from leasehold.model.reason import Outcome, Reason
from leasehold.model.use import Holding, Segment
from leasehold.routing.registry import routing_policy
from leasehold.routing.view import SiteLive
from leasehold.sharing.enforcement import Sharing, SharingSettings
from leasehold.sharing.parties import Provider
from leasehold.sharing.rules import amounts_of
from leasehold.testing.worlds import site

WINDOW_MS = 100_000
HALF = Agreement("half", EVERYBODY, "atlas", TimeDecay(500_000, WINDOW_MS, (1_000_000,)))
FOUR = Agreement("four", EVERYBODY, "atlas", NoLimit(), lending_limit=4)
HELD, WAIT, REFUSE = Outcome.HOLD, Outcome.WAIT, Outcome.REFUSE


def sharing(*agreements: Agreement, sites: Iterable[tuple[str, int, str]] = (("a", 4, ""),), **more: Any) -> Sharing:
    places = [Provider(name, {"cpus": slots}, domain) for name, slots, domain in sites]
    return Sharing(places, SharingSettings(**more), agreements)


def federation(*agreements: Agreement, **more: Any) -> Told:
    return Told(site("a", 4, overhead=QUICK), sharing=sharing(*agreements, **more))


def of(group: str, submitted: Submitted, **said: Any) -> Submitted:
    return Submitted(replace(submitted.request, group=group, consumer="x", **said))


def atlas(number: int, vms: int = 1, span_s: float = 10, kind: str = "suspendable", **said: Any) -> Submitted:
    return of("atlas", lent(number, vms, span_s, kind), **said)


def why(effects: Iterable[Effect]) -> list[tuple[int, Reason, int | None]]:
    """Whom an agreement stopped, why, and until when (ms)."""
    made = [effect for effect in effects if isinstance(effect, Decision)]
    return [(e.lease.id, e.reason, e.planned_ms) for e in made if e.rule == "agreement"]


class TestSubmission:
    def test_whoever_has_used_its_share_waits_for_the_next_window(self) -> None:
        told = federation(HALF)
        told.at(0, atlas(1, 4, 60))
        effects = told.at(50, atlas(2))
        assert why(effects) == [(2, Reason.SHARE_EXHAUSTED, WINDOW_MS)]
        assert WakeAt("", WINDOW_MS) in effects
        told.at(60, LeaseEnded(1, 1))
        assert begun(told.at(100, Tick())) == [(2, "a")]

    def test_the_numbers_are_in_the_decision(self) -> None:
        told = federation(HALF)
        told.at(0, atlas(1, 4, 60))
        (decision,) = [e for e in told.at(55, atlas(2)) if isinstance(e, Decision)]
        assert decision.breach is not None
        assert (decision.breach.used, decision.breach.limit) == (550_000, 500_000)

    def test_others_are_not_concerned(self) -> None:
        told = federation(HALF)
        told.at(0, atlas(1, 3, 90))
        effects = told.at(80, atlas(2), of("cms", lent(3, 1, 10)))
        assert begun(effects) == [(3, "a")]

    def test_the_owners_own_users_are_nobodys_guests(self) -> None:
        told = federation(replace(HALF, consumer=EVERYBODY, limit=Commitment(0, 1, 0, 1)))
        assert begun(told.at(0, own(1, 4, 10))) == [(1, "a")]

    def test_one_who_cannot_wait_is_refused_with_the_reason(self) -> None:
        told = federation(HALF)
        told.at(0, atlas(1, 3, 90))
        effects = told.at(70, atlas(2, kind="non-preemptable"))
        assert closed(effects) == [(2, Reason.SHARE_EXHAUSTED)]

    def test_what_is_never_allowed_is_refused(self) -> None:
        assert closed(federation(FOUR).at(0, atlas(1, 4), atlas(2, 5)))[:1] == [(2, Reason.WIDER_THAN_ANY_SITE)]
        told = Told(site("a", 8), sharing=sharing(FOUR, sites=[("a", 8, "")]))
        assert closed(told.at(0, atlas(1, 5))) == [(1, Reason.EXCEEDS_AGREEMENT)]

    def test_an_agreement_at_one_site_leaves_the_others(self) -> None:
        sites = [("a", 4, "das3"), ("b", 4, "")]
        terms = sharing(replace(FOUR, provider="das3", lending_limit=1), sites=sites)
        told = Told(site("a", 4), site("b", 4), sharing=terms)
        assert begun(told.at(0, atlas(1, 2), atlas(2, 2))) == [(1, "b"), (2, "b")]


class TestLines:
    def test_first_come_first_served_within_a_consumer(self) -> None:
        told = federation(FOUR)
        told.at(0, atlas(1, 3, 10))
        effects = told.at(1, atlas(2, 2), atlas(3, 1))
        assert why(effects) == [(2, Reason.CONCURRENCY_LIMIT_REACHED, None), (3, Reason.BEHIND_OWN_REQUEST, None)]
        assert begun(told.at(10, LeaseEnded(1, 1))) == [(2, "a"), (3, "a")]

    def test_nothing_is_said_twice(self) -> None:
        told = federation(FOUR)
        told.at(0, atlas(1, 4, 10))
        assert len(why(told.at(1, atlas(2)))) == 1
        assert why(told.at(2, own(9, 1, 1), CancelRequested(9))) == []

    def test_one_of_a_line_at_most_waits_at_a_site(self) -> None:
        told = federation(HALF)
        told.at(0, own(9, 4, 10))
        told.at(1, atlas(1, 2), atlas(2, 2), atlas(3, 2))
        assert [told.lease(number).site for number in (1, 2, 3)] == ["a", "", ""]
        assert begun(told.at(10, LeaseEnded(9, 1))) == [(1, "a"), (2, "a")]

    def test_where_the_share_cannot_be_used_up_by_them_several_may_wait(self) -> None:
        for plenty in (
            replace(FOUR, lending_limit=100),
            replace(HALF, limit=Commitment(990_000, 10, 990_000, 5)),
        ):
            told = federation(plenty)
            told.at(0, own(9, 4, 10))
            told.at(1, atlas(1, 1), atlas(2, 1), atlas(3, 1))
            assert [told.lease(number).site for number in (1, 2, 3)] == ["a", "a", "a"]

    def test_a_line_is_left_by_whoever_is_cancelled(self) -> None:
        told = federation(FOUR)
        told.at(0, atlas(1, 4, 10))
        told.at(1, atlas(2), atlas(3))
        assert closed(told.at(2, CancelRequested(2))) == [(2, Reason.CANCELLED_BY_USER)]
        assert begun(told.at(10, LeaseEnded(1, 1))) == [(3, "a")]

    def test_two_consumers_stand_in_two_lines(self) -> None:
        told = federation(FOUR, replace(FOUR, name="c", consumer="cms", lending_limit=1))
        told.at(0, atlas(1, 3, 10), of("cms", lent(2, 1, 10)))
        told.at(1, atlas(3, 2), of("cms", lent(4, 1, 10)))
        assert begun(told.at(10, LeaseEnded(2, 1))) == [(4, "a")]


class TestBoundToADomain:
    def test_a_request_goes_only_where_it_is_bound_to(self) -> None:
        sites = [("a", 4, ""), ("b", 4, "das3")]
        told = Told(site("a", 4), site("b", 4), sharing=sharing(sites=sites))
        assert begun(told.at(0, atlas(1, domain="das3"), atlas(2, domain="b"), atlas(3, domain="a"))) == [
            *((1, "b"), (2, "b"), (3, "a")),
        ]
        assert closed(told.at(1, atlas(4, domain="grid5000"))) == [(4, Reason.NO_CAPABLE_SITE)]

    def test_what_is_wider_than_its_domain_is_told_so(self) -> None:
        sites = [("a", 8, ""), ("b", 4, "das3")]
        told = Told(site("a", 8), site("b", 4), sharing=sharing(sites=sites))
        assert closed(told.at(0, atlas(1, 6, domain="das3"))) == [(1, Reason.WIDER_THAN_DOMAIN)]
        assert closed(told.at(1, atlas(2, 9, domain="das3"))) == [(2, Reason.WIDER_THAN_ANY_SITE)]
        assert begun(told.at(2, atlas(3, 6))) == [(3, "a")]


class TestRevoked:
    """To take a limit away lets nobody start: whoever waited under it is refused, and may ask again."""

    def test_who_waits_under_it_is_refused(self) -> None:
        told = federation(replace(FOUR, lending_limit=1), without_agreement="preemptable")
        told.at(0, atlas(1), atlas(2), atlas(3))
        effects = told.at(1, Agreed((), revoked=frozenset({"four"})))
        assert closed(effects) == [(2, Reason.AGREEMENT_REVOKED), (3, Reason.AGREEMENT_REVOKED)]
        assert begun(effects) == []
        assert begun(told.at(2, atlas(4))) == [(4, "a")]

    def test_who_waits_for_room_or_under_another_one_waits_on(self) -> None:
        both = replace(FOUR, lending_limit=1), replace(FOUR, name="c", consumer="cms", lending_limit=1)
        told = federation(*both)
        told.at(0, atlas(1), of("cms", lent(2, 1, 10)), of("cms", lent(3, 1, 10)), of("x", lent(4, 3, 10)))
        effects = told.at(1, Agreed((both[1],), revoked=frozenset({"four"})))
        assert closed(effects) == []
        assert told.lease(3).state is LeaseState.HELD
        assert told.lease(4).state is LeaseState.WAITING

    def test_at_its_own_end_whoever_waits_goes_on_without_it(self) -> None:
        told = federation(replace(FOUR, lending_limit=1), without_agreement="preemptable")
        told.at(0, atlas(1), atlas(2))
        assert begun(told.at(1, Agreed(()))) == [(2, "a")]


class TestWithoutAgreement:
    """Who is let in to whom no agreement applies; the usual setting of the service is `preemptable`."""

    CMS = Agreement("cms-at-a", "a", "cms", NoLimit())
    ALL = Agreement("all", EVERYBODY, EVERYBODY, NoLimit())

    @pytest.mark.parametrize(
        ("allowed", "kind", "is_foreign", "reason"),
        [
            ("refuse", "suspendable", False, Reason.NO_AGREEMENT),
            ("preemptable", "suspendable", False, None),
            ("preemptable", "migratable", False, None),
            ("preemptable", "non-preemptable", False, Reason.PREEMPTABLE_ONLY),
            ("members", "non-preemptable", False, None),
            ("refuse", "suspendable", True, Reason.NOT_A_MEMBER),
            ("preemptable", "cancelable", True, Reason.NOT_A_MEMBER),
            ("members", "suspendable", True, Reason.NOT_A_MEMBER),
            ("allow", "non-preemptable", True, None),
        ],
    )
    def test_who_is_let_in(self, *, allowed: str, kind: str, is_foreign: bool, reason: Reason | None) -> None:
        told = federation(self.CMS, without_agreement=allowed)
        effects = told.at(0, atlas(1, kind=kind, is_foreign=is_foreign))
        assert closed(effects) == ([] if reason is None else [(1, reason)])

    @pytest.mark.parametrize("allowed", ["refuse", "preemptable", "members"])
    @pytest.mark.parametrize("is_foreign", [False, True])
    def test_an_agreement_lets_in_whom_it_names(self, *, allowed: str, is_foreign: bool) -> None:
        told = federation(self.CMS, without_agreement=allowed)
        asked = of("cms/higgs", lent(1, 1, 10, "non-preemptable"), is_foreign=is_foreign)
        assert begun(told.at(0, asked)) == [(1, "a")]

    def test_one_about_all_guests_lets_nobody_in_who_is_not_known(self) -> None:
        told = federation(self.ALL, without_agreement="preemptable")
        assert closed(told.at(0, atlas(1, is_foreign=True))) == [(1, Reason.NOT_A_MEMBER)]

    def test_when_the_agreement_is_over_such_a_guest_gets_no_more_time(self) -> None:
        told = federation(self.CMS, without_agreement="preemptable")
        told.at(0, of("cms", lent(1, 1, 10, "non-preemptable")))
        told.at(1, Agreed(()))
        made = decided(told.at(2, ExtendRequested(1, 5_000)), Outcome.DENY, Outcome.EXTEND)
        assert made == [(1, Outcome.DENY, Reason.PREEMPTABLE_ONLY)]


class TestBroker:
    def test_only_the_best_domain_is_left_to_choose_from(self) -> None:
        sites = [("a", 4, "das3"), ("b", 6, "grid5000"), ("c", 5, "nordugrid")]
        told = Told(*(site(name, slots) for name, slots, _ in sites), sharing=sharing(sites=sites, top_n=1))
        first, second = atlas(1, 3), atlas(2, 3)
        assert begun(told.at(0, first, second)) == [(1, "b"), (2, "c")]


class TestGoingOn:
    def test_an_extension_is_denied_to_whoever_has_used_its_share(self) -> None:
        told = federation(HALF)
        told.at(0, atlas(1, 3, 90))
        effects = told.at(70, ExtendRequested(1, 5_000))
        assert decided(effects) == [(1, Outcome.DENY, Reason.SHARE_EXHAUSTED)]

    def test_a_suspended_guest_resumes_when_there_is_a_share_again(self) -> None:
        told = federation(HALF)
        told.at(0, atlas(1, 4, 90))
        told.at(60, own(2, 4, 20))
        told.at(70, LeaseSaved(1, 1))
        effects = told.at(80, LeaseEnded(2, 1))
        assert why(effects) == [(1, Reason.SHARE_EXHAUSTED, WINDOW_MS)]
        assert told.lease(1).state is LeaseState.SUSPENDED
        assert begun(told.at(100, Tick("a"))) == [(1, "a")]

    def test_a_displaced_lease_moves_only_where_its_consumer_may_be(self) -> None:
        sites = [("a", 4, ""), ("b", 4, "")]
        here = [site(name, 4, overhead=QUICK) for name in ("a", "b")]
        closed_b = replace(FOUR, provider="b", lending_limit=0)
        told = Told(*here, sharing=sharing(closed_b, sites=sites))
        told.at(0, atlas(1, 4, 50, "migratable"))
        assert begun(told.at(10, own(2, 4, 20))) == [(2, "a")]
        assert told.lease(1).site == "a"

    def test_and_then_it_counts_there(self) -> None:
        sites = [("a", 4, ""), ("b", 4, "")]
        here = [site(name, 4, overhead=QUICK) for name in ("a", "b")]
        terms = sharing(FOUR, sites=sites)
        told = Told(*here, sharing=terms)
        told.at(0, atlas(1, 4, 50, "migratable"))
        assert begun(told.at(10, own(2, 4, 20))) == [(1, "b"), (2, "a")] or told.lease(1).site == "b"
        assert terms.grants.units(("atlas", "b", "cpus")) == 4
        assert terms.grants.units(("atlas", "a", "cpus")) == 0


class TestPeers:
    def told(self, *agreements: Agreement) -> Told:
        told = federation(*agreements)
        told.gateway.join(RemoteSite("north", 10, 1, is_peer=True, live=SiteLive(10)))
        told.gateway.peering.agree("north", Terms())
        return told

    def test_what_agreements_hold_back_here_may_go_to_a_peer(self) -> None:
        told = self.told(replace(FOUR, provider="a", lending_limit=0))
        assert [e.lease.site for e in told.at(0, atlas(1)) if isinstance(e, OfferLease)] == ["north"]

    def test_but_to_none_with_which_the_agreement_says_no(self) -> None:
        told = self.told(replace(FOUR, lending_limit=0))
        assert not [e for e in told.at(0, atlas(1)) if isinstance(e, OfferLease)]

    def test_what_runs_at_a_peer_is_accounted_for(self) -> None:
        told = self.told(replace(FOUR, provider="a", lending_limit=0))
        told.at(0, atlas(1, 2))
        told.at(5, SiteReported(1, "north", LeaseState.RUNNING, Reason.ROOM_FREE))
        effects = told.at(9, SiteReported(1, "north", LeaseState.COMPLETED, Reason.COMPLETED))
        (used,) = [e for e in effects if isinstance(e, Used)]
        assert (used.site, used.begin_ms, used.end_ms) == ("north", 5_000, 9_000)


class TestChanges:
    def test_what_is_signed_holds_at_once_for_who_waits(self) -> None:
        told = federation(replace(FOUR, lending_limit=1))
        told.at(0, atlas(1, 1), atlas(2, 1))
        assert begun(told.at(1, Agreed((FOUR,)))) == [(2, "a")]
        assert why(told.at(2, Agreed((replace(FOUR, lending_limit=0),)), atlas(3))) == [
            (3, Reason.EXCEEDS_AGREEMENT, None)
        ]

    def test_a_lifted_penalty_lets_its_consumer_in_again(self) -> None:
        soft = replace(FOUR, lending_limit=1, penalty=1, penalty_ms=3_600_000)
        told = federation(soft, threshold=1)
        told.at(0, atlas(1))
        effects = told.at(1, atlas(2))
        assert [e.penalty.agreement for e in effects if isinstance(e, PenaltyImposed)] == ["four"]
        assert begun(told.at(2, atlas(3))) == []
        assert begun(told.at(3, PenaltyLifted("four", "atlas"))) == [(3, "a")]


class TestRestart:
    def test_use_before_it_counts_after_it(self) -> None:
        told = federation(HALF)
        told.at(0, atlas(1, 4, 50))
        told.at(40, LeaseEnded(1, 1))
        told.at(41, atlas(2, 4, 60))
        past = [Segment(Holding("atlas/x", "a", {"cpus": 4}), 0, 40_000)]
        again = federation(HALF)
        take_up(again.gateway, [told.lease(2)], 45_000, past)
        assert why(again.at(60, atlas(3))) == [(3, Reason.SHARE_EXHAUSTED, WINDOW_MS)]

    def test_what_was_booked_ahead_before_it_is_still_booked_ahead(self) -> None:
        half = replace(FOUR, lending_limit=None, rules=Rules(reserved_ppm=500_000))
        told = federation(half)
        told.at(0, atlas(1, 2, kind="non-preemptable", ready_ms=50_000))
        again = federation(half)
        take_up(again.gateway, [told.lease(1)], 1_000)
        effects = again.at(1, atlas(2, 1, kind="non-preemptable", ready_ms=60_000))
        assert closed(effects) == [(2, Reason.RESERVATION_LIMIT_REACHED)]


AGREEMENTS = st.lists(
    st.builds(
        Agreement,
        name=st.uuids().map(str),
        provider=st.sampled_from(["a", "b", "ab", EVERYBODY]),
        consumer=st.sampled_from(["vo0", "vo1", "vo0/x", EVERYBODY, "@ab"]),
        limit=st.sampled_from(
            [
                NoLimit(),
                Commitment(300_000, 8_000, 600_000, 2_000),
                TimeDecay(300_000, 4_000),
                UsageDecay(300_000, 4_000, normalise=True),
            ]
        ),
        lending_limit=st.sampled_from([None, None, 1, 3, 5]),
        begin_ms=st.sampled_from([None, None, 5_000]),
        end_ms=st.sampled_from([None, None, 20_000]),
        penalty=st.sampled_from([1, 100]),
        penalty_ms=st.just(5_000),
    ),
    max_size=4,
)


def terms(agreements: list[Agreement]) -> Sharing:
    places = [Provider(name, {"cpus": slots}, "ab" if name in "ab" else "") for name, slots in SLOTS.items()]
    return Sharing(places, SharingSettings(threshold=1), agreements)


def grouped(case: Case) -> Case:
    for number, job in enumerate(case.jobs):
        job.consumer = f"vo{number % 3}/x"
    return case


@settings(deadline=None, max_examples=examples(150))
@given(cases(), AGREEMENTS)
def test_whatever_is_agreed_every_invariant_holds_and_nobody_is_forgotten(
    case: Case, agreements: list[Agreement]
) -> None:
    told = terms(agreements)
    chronicle = drive(_gateway(told), grouped(case))
    used = [effect for _, effect in chronicle.effects if isinstance(effect, Used)]
    for lease_id in chronicle.leases:
        stays = [(stay.start_ms, stay.end_ms) for stay in chronicle.stays(lease_id)]
        mine = [(e.begin_ms, e.end_ms) for e in used if e.lease.id == lease_id]
        assert mine == [stay for stay in stays if stay[0] < stay[1]]
    assert not told.ledger.holdings
    assert not told.grants._sums


@settings(deadline=None, max_examples=examples(100))
@given(cases(), AGREEMENTS)
def test_not_asking_about_who_is_certainly_barred_changes_nothing(case: Case, agreements: list[Agreement]) -> None:
    rested = drive(_gateway(terms(agreements)), grouped(case))
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(QuotaEnforcer, "still_blocks", lambda *_: False)
        asked = drive(_gateway(terms(agreements)), grouped(case))
    assert rested.ends() == asked.ends()
    assert [rested.stays(one) for one in rested.leases] == [asked.stays(one) for one in rested.leases]


@settings(deadline=None, max_examples=examples(60))
@given(cases(cancels=False), st.integers(1, 6))
def test_nobody_ever_has_more_than_is_lent_at_a_time(case: Case, most: int) -> None:
    limit = Agreement("most", EVERYBODY, "vo0", NoLimit(), lending_limit=most)
    told = terms([limit])
    held: list[int] = []

    def watch(gateway: Gateway, _now_ms: int) -> None:
        held.append(
            sum(
                lease.vms
                for here in gateway.sites.values()
                for lease in here.allocations.held.values()
                if lease.request.path.startswith("vo0/") and not lease.request.is_local
            )
        )

    drive(_gateway(told), grouped(case), watch)
    assert max(held, default=0) <= most


def _gateway(told: Sharing) -> Gateway:
    routing = Routing(routing_policy("rr")(Random(0)), try_elsewhere=True)
    return Gateway(three_sites(), routing, REFERENCE_MIPS, told)


def test_amounts_of_a_request() -> None:
    request = replace(lent(1, 2, 5).request, claims=(("licence:matlab", 3),))
    assert amounts_of(request) == {"cpus": 2, "memory_mib": 2048, "licence:matlab": 3}
