"""May it run there? One federation, and each rule that can say no, with its numbers and its sentence."""

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leasehold.model.agreement import (
    EVERYBODY,
    Agreement,
    Breach,
    Commitment,
    DailyHours,
    NoLimit,
    Rules,
    TimeDecay,
)
from leasehold.model.reason import Reason
from leasehold.model.request import LEASE_TYPES, LeaseType, Request
from leasehold.sharing.enforcement import MEMBERS, PREEMPTABLE, REFUSE, Sharing, SharingSettings
from leasehold.sharing.ledger import UsageGrant
from leasehold.sharing.parties import Provider
from leasehold.sharing.rules import UsageRequest, amounts_of
from leasehold.sharing.wording import in_words, percent, span

MIN = 60_000
HOUR = 60 * MIN
LICENCE = "licence:matlab"
PLACES = (
    Provider("delft", {"cpus": 10, LICENCE: 3, "memory_mib": 20_000}, "das3"),
    Provider("leiden", {"cpus": 10}, "das3"),
)
DAS = Rules(15 * MIN, DailyHours(8 * 60, 20 * 60), reserved_ppm=500_000, reserved_longest_ms=14 * 24 * HOUR)


def sharing(*agreements: Agreement, **settings: Any) -> Sharing:
    return Sharing(PLACES, SharingSettings(**settings), agreements)


def ask(
    vms: int = 1, duration_ms: int = HOUR, *, start_ms: int = 0, in_advance: bool = False, **more: int
) -> UsageRequest:
    amounts = {"cpus": vms, "memory_mib": 1024 * vms, **{key.replace("_", ":"): n for key, n in more.items()}}
    return UsageRequest("atlas/production/x", amounts, duration_ms, start_ms, in_advance)


def hold(told: Sharing, lease_id: int, asked: UsageRequest, site: str = "delft", from_ms: int = 0) -> None:
    told.grants.give(lease_id, UsageGrant(asked.at(site), asked.is_reservation))
    told.ledger.begin(lease_id, asked.at(site), from_ms)


def said(breach: Breach | None) -> str:
    assert breach is not None
    return in_words(breach, lambda ms: datetime.fromtimestamp(ms / 1000, UTC).strftime("%H:%M"))


class TestShares:
    LENT = Agreement("lent", "das3", "atlas", Commitment(300_000, 20 * MIN, 600_000, 5 * MIN))

    def test_room_until_the_share_is_used(self) -> None:
        told = sharing(self.LENT)
        hold(told, 1, ask(8))
        assert told.why_not(ask(), "leiden", 14 * MIN) is None
        breach = told.why_not(ask(), "leiden", 15 * MIN)
        assert breach == Breach(
            "lent", "das3", "atlas", "cpus", Reason.SHARE_EXHAUSTED, 300_000, 300_000, 20 * MIN, 20 * MIN, 20 * MIN
        )
        assert said(breach) == "atlas used 30% of its 30% over 20 min at das3; next room 00:20"

    def test_it_comes_back_with_the_next_epoch(self) -> None:
        told = sharing(self.LENT)
        hold(told, 1, ask(8))
        assert told.why_not(ask(), "leiden", 16 * MIN) is not None
        assert told.why_not(ask(), "leiden", 20 * MIN) is None

    def test_an_amendment_is_felt_at_once(self) -> None:
        told = sharing(self.LENT)
        hold(told, 1, ask(8))
        assert told.why_not(ask(), "leiden", 16 * MIN) is not None
        told.agree([Agreement("lent", "das3", "atlas", NoLimit())], 16 * MIN)
        assert told.why_not(ask(), "leiden", 16 * MIN) is None

    def test_of_several_no_the_one_that_lasts_longest_is_told(self) -> None:
        shorter = Agreement("short", "das3", EVERYBODY, TimeDecay(100_000, 5 * MIN, (1_000_000,)))
        told = sharing(self.LENT, shorter)
        hold(told, 1, ask(8))
        breach = told.why_not(ask(), "leiden", 16 * MIN)
        assert breach is not None
        assert breach.agreement == "lent"


class TestLendingLimits:
    LENT = Agreement("lent", "das3", "atlas", NoLimit(), lending_limit=4)

    def test_no_more_at_a_time(self) -> None:
        told = sharing(self.LENT)
        hold(told, 1, ask(3))
        assert told.why_not(ask(1), "delft", 0) is None
        assert said(told.why_not(ask(2), "delft", 0)) == "atlas has 3 VMs of its 4 at a time at das3"

    def test_never_more_than_that_at_once(self) -> None:
        breach = sharing(self.LENT).why_not(ask(5), "delft", 0)
        assert breach is not None
        assert breach.reason is Reason.EXCEEDS_AGREEMENT
        assert said(breach) == "asks for 5 VMs, and atlas may have 4 at a time at das3"


class TestRules:
    LENT = Agreement("das", "das3", EVERYBODY, NoLimit(), rules=DAS)

    def test_too_long_for_the_day(self) -> None:
        breach = sharing(self.LENT).why_not(ask(duration_ms=HOUR, start_ms=9 * HOUR), "delft", 9 * HOUR)
        assert breach is not None
        assert (breach.reason, breach.next_ms) == (Reason.OUTSIDE_AGREED_HOURS, 19 * HOUR + 45 * MIN)
        assert said(breach) == (
            "takes 1 h, and all guests together may run for 15 min at das3 at these hours; next room 19:45"
        )

    def test_the_clock_of_a_run_may_begin_at_any_time_of_day(self) -> None:
        told = sharing(self.LENT, starts_at_ms=20 * HOUR)
        assert told.why_not(ask(duration_ms=HOUR), "delft", 0) is None

    def test_half_of_the_cpus_may_be_reserved_in_advance(self) -> None:
        told = sharing(self.LENT)
        hold(told, 1, ask(8, MIN, in_advance=True))
        assert told.why_not(ask(2, MIN, in_advance=True), "leiden", 0) is None
        breach = told.why_not(ask(3, MIN, in_advance=True), "leiden", 0)
        assert said(breach) == "11 VMs would be reserved in advance at das3, and at most 10 may be"
        assert told.why_not(ask(3, MIN), "leiden", 0) is None

    def test_for_at_most_two_weeks(self) -> None:
        told = sharing(Agreement("das", "das3", EVERYBODY, NoLimit(), rules=Rules(reserved_longest_ms=14 * 24 * HOUR)))
        breach = told.why_not(ask(1, 15 * 24 * HOUR, in_advance=True), "delft", 0)
        assert said(breach) == "takes 15 d, and all guests together may run for 14 d at das3"


class TestResources:
    def test_licences_are_counted_wherever_they_are(self) -> None:
        told = sharing()
        hold(told, 1, ask(licence_matlab=2))
        assert told.why_not(ask(licence_matlab=1), "delft", 0) is None
        breach = told.why_not(ask(licence_matlab=2), "delft", 0)
        assert said(breach) == "2 of 3 of licence:matlab are in use at delft"
        breach = told.why_not(ask(licence_matlab=1), "leiden", 0)
        assert breach is not None
        assert breach.reason is Reason.RESOURCE_UNAVAILABLE

    def test_memory_counts_where_it_is_stated(self) -> None:
        told = sharing()
        assert said(told.why_not(ask(20), "delft", 0)) == "asks for 20480 of memory_mib, and delft has 20000"
        assert told.why_not(ask(20), "leiden", 0) is None

    def test_an_agreement_about_a_licence_says_nothing_of_requests_without_it(self) -> None:
        told = sharing(Agreement("lic", "delft", "atlas", NoLimit(), resource=LICENCE, lending_limit=0))
        assert told.why_not(ask(), "delft", 0) is None
        assert told.why_not(ask(licence_matlab=1), "delft", 0) is not None


class TestWithoutAgreement:
    def test_guests_are_let_in_or_not(self) -> None:
        assert sharing().why_not(ask(), "delft", 0) is None
        breach = sharing(without_agreement=REFUSE).why_not(ask(), "delft", 0)
        assert said(breach) == "atlas/production/x has no agreement at delft"

    @given(
        st.sampled_from([MEMBERS, PREEMPTABLE, REFUSE]),
        st.sampled_from(list(LEASE_TYPES.values())),
        st.booleans(),
        st.sampled_from([(), ((LICENCE, 1),)]),
        st.sampled_from([0, 500]),
        st.booleans(),
        st.booleans(),
    )
    def test_what_is_never_stopped_no_site_stops(
        self,
        allowed: str,
        lease_type: LeaseType,
        is_foreign: bool,  # noqa: FBT001 - drawn
        claims: tuple[tuple[str, int], ...],
        gpu_milli: int,
        states_memory: bool,  # noqa: FBT001 - drawn
        is_agreed: bool,  # noqa: FBT001 - drawn
    ) -> None:
        has = {"cpus": 10, "memory_mib": 1_000} if states_memory else {"cpus": 10}
        agreed = [Agreement("none", "delft", "atlas", NoLimit(), lending_limit=0)] if is_agreed else []
        told = Sharing([Provider("delft", has)], SharingSettings(without_agreement=allowed), agreed)
        request = Request(
            1, lease_type, 1, HOUR, 0, 0, consumer="atlas", claims=claims, gpu_milli=gpu_milli, is_foreign=is_foreign
        )
        may_be_preempted = lease_type is not LeaseType.NON_PREEMPTABLE
        asked = UsageRequest(
            "atlas", amounts_of(request), HOUR, 0, may_be_preempted=may_be_preempted, is_foreign=is_foreign
        )
        assert told.never_stops(request) is (told.why_not(asked, "delft", 0) is None)


class TestSitesThatJoinLater:
    def test_they_are_in_their_domain_from_then_on(self) -> None:
        half = Agreement("half", "das3", "atlas", TimeDecay(500_000, 10 * MIN, (1_000_000,)))
        told = Sharing(PLACES[:1], agreements=[half], domains={"leiden": "das3"})
        hold(told, 1, ask(10))
        assert told.why_not(ask(), "delft", 5 * MIN) is not None
        told.join(Provider("leiden", {"cpus": 10}))
        assert told.why_not(ask(), "leiden", 9 * MIN) is None
        assert told.providers.sites_of("das3") == {"delft", "leiden"}
        told.part_with("leiden")
        assert told.why_not(ask(), "delft", 9 * MIN) is not None


class TestPenalties:
    SOFT = Agreement("soft", "das3", "atlas", NoLimit(), lending_limit=4, penalty=3, penalty_ms=HOUR)

    def test_a_light_rule_may_be_broken_once_and_is_then_held_to(self) -> None:
        told = sharing(self.SOFT, threshold=5)
        hold(told, 1, ask(4))
        assert told.why_not(ask(), "delft", 0) is None
        (penalty,) = told.punish(ask(), "delft", 0)
        assert (penalty.consumer, penalty.points, penalty.until_ms) == ("atlas", 3, HOUR)
        assert told.why_not(ask(), "delft", HOUR - 1) is not None

    def test_until_it_ends(self) -> None:
        told = sharing(self.SOFT, threshold=5)
        hold(told, 1, ask(4))
        told.punish(ask(), "delft", 0)
        assert told.why_not(ask(), "delft", HOUR) is None
        assert told.penalties.standing(HOUR) == []

    def test_or_until_somebody_lifts_it(self) -> None:
        told = sharing(self.SOFT, threshold=5)
        hold(told, 1, ask(4))
        told.punish(ask(), "delft", 0)
        assert len(told.penalties.lift("soft", "atlas")) == 1
        assert told.why_not(ask(), "delft", 1) is None

    def test_the_same_is_not_punished_twice_at_a_time(self) -> None:
        told = sharing(self.SOFT, threshold=5)
        hold(told, 1, ask(4))
        assert len(told.punish(ask(), "delft", 0)) == 1
        assert told.punish(ask(), "delft", 1) == []

    def test_a_grave_rule_is_never_broken(self) -> None:
        told = sharing(self.SOFT, threshold=2)
        hold(told, 1, ask(4))
        assert told.why_not(ask(), "delft", 0) is not None
        assert told.punish(ask(), "delft", 0) == []


def test_whoever_waits_behind_its_own_is_told_for_which_agreement() -> None:
    behind = Breach("lent", "das3", "atlas", "cpus", Reason.BEHIND_OWN_REQUEST, 0, 0)
    assert said(behind) == "atlas may have only so much at das3"


@pytest.mark.parametrize(
    ("ppm", "text"), [(312_000, "31.2%"), (300_000, "30%"), (1_000_000, "100%"), (499, "0%"), (0, "0%")]
)
def test_shares_in_words(ppm: int, text: str) -> None:
    assert percent(ppm) == text


@pytest.mark.parametrize(
    ("duration_ms", "text"),
    [(0, "0 s"), (1_500, "1.5 s"), (90_000, "90 s"), (5_400_000, "90 min"), (90_061_000, "1 d 1 h")],
)
def test_spans_in_words(duration_ms: int, text: str) -> None:
    assert span(duration_ms) == text
