"""Agreements while a gateway is at work: kept before they are answered, enforced, and accounted for."""

import json
from collections.abc import Callable
from dataclasses import asdict, replace
from typing import Any

import pytest
from tests.gateway.random_worlds import QUICK, to_the_first
from tests.service.engine.examples import (
    S,
    guest,
    journal,
    lease,
    local,
    state,
    story,
    submitted,
    two_sites,
)

from leasehold.gateway.gateway import Gateway, Routing
from leasehold.model.agreement import CPUS, Agreement, Commitment, NoLimit, Standing
from leasehold.model.errors import InvalidField, UnknownName
from leasehold.model.event import SiteFellSilent
from leasehold.model.reason import Reason
from leasehold.service.commands import (
    AmendAgreement,
    Extend,
    ForgetSite,
    Happened,
    LiftPenalty,
    MessageBatch,
    ProposeAgreement,
    PublishAgreement,
    ResumeAgreement,
    RevokeAgreement,
    SignAgreement,
    SuspendAgreement,
)
from leasehold.service.errors import NoSuchAgreement, NoSuchPenalty
from leasehold.service.messages.site_status import SiteStatus
from leasehold.service.store.filters import EVERYTHING, UsageFilter
from leasehold.service.store.rows import UsageRow
from leasehold.service.store.store import Store
from leasehold.sharing.enforcement import Sharing, SharingSettings
from leasehold.sharing.parties import Provider
from leasehold.sharing.records import AgreementMove, AgreementRecord, AgreementSide
from leasehold.testing.live import BEGIN_MS, Live
from leasehold.testing.worlds import live_site

HOUR = 3_600 * S
HALF = Commitment(epoch_ppm=500_000, epoch_ms=60 * S, burst_ppm=500_000, burst_ms=60 * S)
"""Half of it, in each minute of the clock; `BEGIN_MS` is a full hour."""

JENA = SiteStatus("1", 16, 1, 1, "emulated", True, True, True, 0, 0, 0, 0, 0, 0)  # noqa: FBT003 - as on the wire
ATLAS = Agreement("atlas-at-ours", "ours", "atlas", HALF)


def gateway_of(settings: SharingSettings | None = None) -> Callable[[], Gateway]:
    """What makes gateways with the sites a and b of 4 VMs each, which are the virtual domain `ours`."""

    def make() -> Gateway:
        places = [Provider(name, {CPUS: 4, "licence:matlab": 1}, "ours") for name in "ab"]
        sites = [live_site(name, 4, overhead=QUICK) for name in "ab"]
        return Gateway(sites, Routing(to_the_first()), sharing=Sharing(places, settings))

    return make


@pytest.fixture
def live(sqlite_store: Store) -> Live:
    return two_sites(sqlite_store, make_gateway=gateway_of())


def sharing(live: Live) -> Sharing:
    """The agreements as the decision core knows them."""
    found = live.gateway.quotas.sharing
    assert found is not None
    return found


def said(live: Live, command: Any) -> Any:
    """The answer to a command."""
    (answer,) = live.do(command)
    return answer


def signed(live: Live, agreement: Agreement) -> AgreementRecord:
    """An agreement, drawn up and signed by both."""
    said(live, ProposeAgreement(agreement, "atlas-managers"))
    said(live, SignAgreement(agreement.name, AgreementSide.CONSUMER, 1, "atlas-managers"))
    record: AgreementRecord = said(live, SignAgreement(agreement.name, AgreementSide.PROVIDER, 1, "operators"))
    return record


def kept(live: Live, name: str = ATLAS.name) -> dict[str, Any]:
    """An agreement as it is in the store."""
    return next(asdict(row) for row in live.store.agreements() if row.name == name)


def of_atlas(vms: int, asked_s: float, **told: Any) -> Any:
    return guest(vms, asked_s, group="atlas", **told)


def fill(live: Live, vms_at_b: int = 4) -> None:
    """Let atlas have all VMs, or nearly all."""
    submitted(live, of_atlas(4, 300, domain="a"), of_atlas(vms_at_b, 300, domain="b"))


def used(live: Live) -> list[UsageRow]:
    return live.store.usage(UsageFilter(EVERYTHING, 0, 1 << 62))


def use(row: UsageRow) -> tuple[int, int, int]:
    return row.lease_id, (row.begin_ms - BEGIN_MS) // S, (row.end_ms - BEGIN_MS) // S


class TestLife:
    def test_it_holds_once_both_have_signed_it(self, live: Live) -> None:
        said(live, ProposeAgreement(ATLAS, "atlas-managers"))
        said(live, SignAgreement(ATLAS.name, AgreementSide.CONSUMER, 1, "atlas-managers"))
        assert (kept(live)["standing"], sharing(live).book.agreements) == ("proposed", {})
        said(live, SignAgreement(ATLAS.name, AgreementSide.PROVIDER, 1, "operators"))
        assert kept(live)["standing"] == "signed"
        assert list(sharing(live).book.agreements) == [ATLAS.name]

    def test_it_is_the_same_after_a_restart(self, live: Live) -> None:
        amended = replace(ATLAS, priority=7)
        signed(live, ATLAS)
        said(live, PublishAgreement(ATLAS.name, published=True, by="operators"))
        before = said(live, AmendAgreement(amended, "operators"))
        live.restart()
        assert live.engine.agreements.records == {ATLAS.name: before}
        assert sharing(live).book.agreements == {ATLAS.name: ATLAS}

    def test_an_amendment_holds_once_both_have_signed_it(self, live: Live) -> None:
        signed(live, ATLAS)
        amended = replace(ATLAS, limit=NoLimit())
        said(live, AmendAgreement(amended, "operators"))
        said(live, SignAgreement(ATLAS.name, AgreementSide.PROVIDER, 2, "operators"))
        assert sharing(live).book.agreements == {ATLAS.name: ATLAS}
        said(live, SignAgreement(ATLAS.name, AgreementSide.CONSUMER, 2, "atlas-managers"))
        assert sharing(live).book.agreements == {ATLAS.name: amended}

    def test_suspended_it_binds_nobody_until_it_is_resumed(self, live: Live) -> None:
        signed(live, ATLAS)
        said(live, SuspendAgreement(ATLAS.name, "operators", "new switches"))
        assert (kept(live)["standing"], kept(live)["note"]) == ("suspended", "new switches")
        assert sharing(live).book.agreements == {}
        said(live, ResumeAgreement(ATLAS.name, "operators"))
        assert list(sharing(live).book.agreements) == [ATLAS.name]

    def test_revoked_it_takes_along_what_was_passed_on_of_it(self, live: Live) -> None:
        signed(live, ATLAS)
        signed(live, Agreement("prod", "ours", "atlas/production", HALF, parent=ATLAS.name))
        said(live, RevokeAgreement(ATLAS.name, "operators"))
        assert {row.name: row.standing for row in live.store.agreements()} == {
            ATLAS.name: "revoked",
            "prod": "revoked",
        }

    @pytest.mark.parametrize("restarts", [False, True])
    def test_it_expires_by_itself_at_its_end(self, live: Live, *, restarts: bool) -> None:
        signed(live, replace(ATLAS, end_ms=BEGIN_MS + 90 * S))
        if restarts:
            live.restart()
        live.pass_time(89 * S)
        assert kept(live)["standing"] == "signed"
        live.pass_time(1 * S)
        assert (kept(live)["standing"], kept(live)["since_ms"]) == ("expired", BEGIN_MS + 90 * S)
        assert sharing(live).book.agreements == {}

    def test_one_that_ended_while_nobody_was_there_expires_at_the_start(self, live: Live) -> None:
        signed(live, replace(ATLAS, end_ms=BEGIN_MS + 90 * S))
        live.now_ms += HOUR
        live.restart()
        live.do()
        assert kept(live)["standing"] == "expired"

    def test_a_later_end_is_minded(self, live: Live) -> None:
        first, later = BEGIN_MS + 90 * S, BEGIN_MS + 120 * S
        signed(live, replace(ATLAS, end_ms=first))
        said(live, AmendAgreement(replace(ATLAS, end_ms=later), "operators"))
        for side in AgreementSide:
            said(live, SignAgreement(ATLAS.name, side, 2, "operators"))
        live.pass_time_until(later - 1)
        assert kept(live)["standing"] == "signed"
        live.pass_time_until(later)
        assert kept(live)["standing"] == "expired"

    def test_the_journal_tells_it(self, live: Live) -> None:
        signed(live, ATLAS)
        line = next(row for row in journal(live) if row.what == "agreement-signed")
        assert (line.lease_id, line.site) == (None, "ours")
        detail = {"agreement": ATLAS.name, "consumer": "atlas", "by": "atlas-managers"}
        assert json.loads(line.detail) == detail | {"side": "consumer", "revision": 1}


class TestTwice:
    """Whoever does not know whether it was done asks again, and nothing more happens."""

    @pytest.mark.parametrize(
        "command",
        [
            SignAgreement(ATLAS.name, AgreementSide.PROVIDER, 1, "somebody-else"),
            PublishAgreement(ATLAS.name, published=True, by="operators"),
            SuspendAgreement(ATLAS.name, "operators"),
            RevokeAgreement(ATLAS.name, "operators"),
            AmendAgreement(replace(ATLAS, priority=1), "operators"),
        ],
        ids=lambda command: type(command).__name__,
    )
    def test_the_second_time_changes_nothing(self, live: Live, command: Any) -> None:
        signed(live, ATLAS)
        first, lines = said(live, command), len(journal(live))
        assert said(live, command) == first
        assert len(journal(live)) == lines

    def test_proposed_twice(self, live: Live) -> None:
        first = said(live, ProposeAgreement(ATLAS, "operators"))
        assert said(live, ProposeAgreement(ATLAS, "operators")) == first
        assert isinstance(said(live, ProposeAgreement(ATLAS, "somebody-else")), AgreementMove)
        signed(live, ATLAS)
        assert said(live, ProposeAgreement(ATLAS, "operators")).standing is Standing.SIGNED

    def test_a_name_is_never_given_again(self, live: Live) -> None:
        signed(live, ATLAS)
        said(live, RevokeAgreement(ATLAS.name, "operators"))
        assert isinstance(said(live, ProposeAgreement(ATLAS, "atlas-managers")), AgreementMove)


class TestRefused:
    @pytest.mark.parametrize(
        ("agreement", "problem"),
        [
            (replace(ATLAS, provider="our"), "provider: got 'our', expected one of .*did you mean 'ours'"),
            (
                replace(ATLAS, resource="licence:ansys"),
                "resource: got 'licence:ansys', expected something that",
            ),
            (replace(ATLAS, end_ms=BEGIN_MS), "expected an end in the future"),
            (replace(ATLAS, parent="nobodys"), "parent: got 'nobodys'"),
        ],
    )
    def test_what_could_never_be(self, live: Live, agreement: Agreement, problem: str) -> None:
        answer = said(live, ProposeAgreement(agreement, "operators"))
        assert isinstance(answer, InvalidField)
        with pytest.raises(InvalidField, match=problem):
            raise answer
        assert live.store.agreements() == []

    def test_more_than_its_parent_gives(self, live: Live) -> None:
        signed(live, ATLAS)
        more = replace(HALF, epoch_ppm=600_000)
        answer = said(live, ProposeAgreement(Agreement("p", "ours", "atlas/p", more, parent=ATLAS.name), "x"))
        assert str(answer).startswith("share: got '60%', expected at most 50%")

    def test_what_is_not_there(self, live: Live) -> None:
        assert isinstance(said(live, ResumeAgreement("nobodys", "x")), NoSuchAgreement)
        assert isinstance(said(live, LiftPenalty(1, "x")), NoSuchPenalty)

    def test_a_request_bound_to_nowhere(self, live: Live) -> None:
        assert "expected one of a, b, ours" in str(said(live, of_atlas(1, 10, domain="theirs")))


class TestElsewhere:
    """A site with a manager of its own provides too, as soon as it has said what it has."""

    @pytest.fixture(autouse=True)
    def _heard_of(self, live: Live) -> None:
        said(live, MessageBatch("jena", (), 0, JENA))

    @pytest.mark.parametrize("restarts", [False, True])
    def test_there_can_be_an_agreement_with_it(self, live: Live, *, restarts: bool) -> None:
        if restarts:
            live.restart()
        assert signed(live, replace(ATLAS, provider="jena")).standing is Standing.SIGNED
        assert sharing(live).providers.capacity("jena", CPUS) == 16

    def test_until_it_is_forgotten(self, live: Live) -> None:
        live.do(Happened(SiteFellSilent("jena")))
        live.do(ForgetSite("jena", "operators"))
        assert isinstance(said(live, ProposeAgreement(replace(ATLAS, provider="jena"), "x")), UnknownName)

    def test_no_site_is_called_as_a_domain_is(self, live: Live) -> None:
        assert "got 'ours', expected a name" in str(said(live, MessageBatch("ours", (), 0, JENA)))


class TestHeld:
    """Who has used its share waits at the gateway, and is told why."""

    @pytest.fixture(autouse=True)
    def _used_up(self, live: Live) -> None:
        signed(live, ATLAS)
        fill(live)  # 8 of 8: over half of the minute after 30 s
        live.pass_time(31 * S)
        submitted(live, of_atlas(1, 10))

    def test_with_the_numbers(self, live: Live) -> None:
        row = lease(live, 3)
        assert (row.lease.state, row.metadata.reason) == ("held", "share-exhausted")
        breach = row.metadata.breach
        assert breach is not None
        assert (breach.agreement, breach.consumer, breach.provider) == (ATLAS.name, "atlas", "ours")
        assert (breach.reason, breach.limit, breach.window_ms) == (Reason.SHARE_EXHAUSTED, 500_000, 60 * S)
        assert breach.used >= breach.limit

    def test_the_journal_has_them_too(self, live: Live) -> None:
        (line,) = [row for row in journal(live, 3) if row.what == "hold"]
        assert json.loads(line.detail)["breach"]["agreement"] == ATLAS.name
        assert line.rule == "agreement"

    def test_after_a_restart_as_before(self, live: Live) -> None:
        live.restart()
        live.do()
        assert (state(live, 3), lease(live, 3).metadata.reason) == ("held", "share-exhausted")
        live.pass_time(5 * S)
        assert state(live, 3) == "held"

    def test_others_do_not_wait(self, live: Live) -> None:
        submitted(live, guest(1, 10, group="cms"))
        assert state(live, 4) == "waiting"

    def test_until_the_agreement_is_revoked(self, live: Live) -> None:
        said(live, RevokeAgreement(ATLAS.name, "operators"))
        row = lease(live, 3)
        assert (row.lease.state, row.metadata.reason) == ("refused", "agreement-revoked")
        assert [state(live, lease_id) for lease_id in (1, 2)] == ["running", "running"]

    def test_who_runs_is_not_extended(self, live: Live) -> None:
        assert "cannot be extended: share-exhausted" in str(said(live, Extend(1, 60 * S)))


class TestEnd:
    """When an agreement ends by its date, what waited under it is judged by what holds from then on."""

    ENDING = replace(ATLAS, end_ms=BEGIN_MS + 40 * S)

    def _held(self, live: Live) -> None:
        signed(live, self.ENDING)
        fill(live)
        live.pass_time(31 * S)
        submitted(live, of_atlas(1, 10))
        assert (state(live, 3), lease(live, 3).metadata.reason) == ("held", "share-exhausted")

    def test_it_waits_on_as_one_without_an_agreement_may(self, live: Live) -> None:
        self._held(live)
        live.pass_time(10 * S)
        assert kept(live)["standing"] == "expired"
        assert (state(live, 3), lease(live, 3).metadata.breach) == ("waiting", None)  # for room

    def test_it_is_refused_and_told_why_where_nobody_is_served_without_one(self, sqlite_store: Store) -> None:
        strict = SharingSettings(without_agreement="refuse")
        live = two_sites(sqlite_store, make_gateway=gateway_of(strict))
        self._held(live)
        live.pass_time(10 * S)
        assert (state(live, 3), lease(live, 3).metadata.reason) == ("refused", "no-agreement")
        assert [state(live, lease_id) for lease_id in (1, 2)] == ["running", "running"]

    def test_it_waits_on_under_the_agreement_that_follows(self, live: Live) -> None:
        signed(live, replace(ATLAS, name="next-atlas-at-ours", begin_ms=BEGIN_MS + 40 * S))
        self._held(live)
        live.pass_time(10 * S)
        row = lease(live, 3)
        assert (row.lease.state, row.metadata.reason) == ("held", "share-exhausted")
        breach = row.metadata.breach
        assert breach is not None
        assert breach.agreement == "next-atlas-at-ours"


class TestUse:
    def test_each_time_that_a_lease_held_machines_is_a_row(self, live: Live) -> None:
        submitted(live, of_atlas(2, 60, memory_mib=512, claims=(("licence:matlab", 1),)))
        live.at(BEGIN_MS + 10 * S, local(4, 5))
        live.pass_time(300 * S)
        assert story(live, 1)[-1] == "closed"
        first, owners, second = used(live)
        assert [use(first), use(owners)[:2], use(second)[0]] == [(1, 0, 10), (2, 10), 1]
        assert (first.path, first.site, first.domain) == ("atlas/physics", "a", "ours")
        assert (first.vms, first.memory_mib, first.claims) == (2, 512, (("licence:matlab", 1),))
        assert [row.is_local for row in (first, owners, second)] == [0, 1, 0]

    def test_whoever_ends_is_accounted_for_in_the_same_transaction(self, live: Live) -> None:
        submitted(live, of_atlas(1, 10))
        live.pass_time(9 * S)
        assert used(live) == []
        live.pass_time(1 * S)
        assert ([use(row) for row in used(live)], state(live, 1)) == ([(1, 0, 10)], "completed")

    def test_without_any_agreement_too(self, live: Live) -> None:
        submitted(live, guest(1, 10))
        live.pass_time(10 * S)
        assert [row.path for row in used(live)] == ["physics"]

    def test_a_restart_gives_the_ledger_back(self, live: Live) -> None:
        signed(live, ATLAS)
        submitted(live, of_atlas(3, 20), of_atlas(2, 100, domain="b"))
        live.pass_time(40 * S)
        key, now_ms = ("atlas", "ours", CPUS), live.now_ms

        def ledgers_word() -> int:
            return sharing(live).ledger.used(key, BEGIN_MS, now_ms)

        before = ledgers_word()
        live.restart()
        assert ledgers_word() == before == (3 * 20 + 2 * 40) * S

    def test_what_was_used_before_it_was_signed_counts_in_its_windows(self, live: Live) -> None:
        fill(live)
        live.pass_time(40 * S)
        signed(live, ATLAS)
        submitted(live, of_atlas(1, 10))
        assert (state(live, 3), lease(live, 3).metadata.reason) == ("held", "share-exhausted")

    def test_what_ended_at_the_very_moment_of_signing_counts_too(self, live: Live) -> None:
        submitted(live, of_atlas(4, 40, domain="a"), of_atlas(4, 300, domain="b"))
        said(live, ProposeAgreement(ATLAS, "operators"))
        said(live, SignAgreement(ATLAS.name, AgreementSide.PROVIDER, 1, "operators"))
        live.at(BEGIN_MS + 40 * S, SignAgreement(ATLAS.name, AgreementSide.CONSUMER, 1, "operators"))
        key, ledger = ("atlas", "ours", CPUS), sharing(live).ledger
        before = ledger.used(key, BEGIN_MS, live.now_ms)
        live.restart()
        ledger = sharing(live).ledger
        assert ledger.used(key, BEGIN_MS, live.now_ms) == before == 8 * 40 * S


class TestPenalties:
    @pytest.fixture
    def live(self, sqlite_store: Store) -> Live:
        """Rules of a penalty up to 10 may be broken."""
        return two_sites(sqlite_store, make_gateway=gateway_of(SharingSettings(threshold=10)))

    @pytest.fixture(autouse=True)
    def _broken(self, live: Live) -> None:
        signed(live, replace(ATLAS, penalty=5, penalty_ms=600 * S))
        fill(live, 3)
        live.pass_time(40 * S)
        submitted(live, of_atlas(1, 10))  # over its share, and yet it starts

    def test_whoever_breaks_a_light_rule_is_punished(self, live: Live) -> None:
        (row,) = live.store.penalties()
        assert (row.id, row.penalty.agreement, row.penalty.consumer, row.penalty.provider) == (
            1,
            ATLAS.name,
            "atlas",
            "ours",
        )
        assert (row.penalty.points, row.lease_id, row.penalty.until_ms) == (5, 3, live.now_ms + 600 * S)
        assert "punished" in story(live, 3)

    @pytest.mark.parametrize("restarts", [False, True])
    def test_who_is_punished_breaks_no_rule_any_more(self, live: Live, *, restarts: bool) -> None:
        if restarts:
            live.restart()
        live.pass_time(15 * S)
        submitted(live, of_atlas(1, 10))
        assert (state(live, 4), lease(live, 4).metadata.reason) == ("held", "share-exhausted")

    @pytest.mark.parametrize("restarts", [False, True])
    def test_until_somebody_lifts_it(self, live: Live, *, restarts: bool) -> None:
        live.pass_time(15 * S)
        submitted(live, of_atlas(1, 10))
        lifted = said(live, LiftPenalty(1, "operators"))
        assert (lifted.lifted_by, lifted.lifted_ms) == ("operators", live.now_ms)
        if restarts:
            live.restart()
            live.do()
        assert state(live, 4) != "held"
        assert said(live, LiftPenalty(1, "somebody-else")).lifted_by == "operators"
