"""Which agreements hold, when, and for whom."""

from dataclasses import replace

import pytest

from leasehold.model.agreement import EVERYBODY, Agreement, NoLimit, TimeDecay, UsageDecay
from leasehold.model.errors import InvalidField
from leasehold.sharing.book import AgreementBook
from leasehold.sharing.parties import Provider, Providers

SITES = (
    Provider("delft", {"cpus": 10}, "das3"),
    Provider("leiden", {"cpus": 6}, "das3"),
    Provider("lyon", {"cpus": 4}),
)
ATLAS = Agreement("atlas", "das3", "atlas", TimeDecay(300_000, 1_000))


def book(*agreements: Agreement) -> AgreementBook:
    book = AgreementBook(Providers(SITES))
    book.replace(agreements)
    return book


def names(found: tuple[Agreement, ...]) -> list[str]:
    return [agreement.name for agreement in found]


class TestForWhom:
    def test_for_all_beneath_the_consumer_at_all_sites_of_the_provider(self) -> None:
        told = book(ATLAS)
        assert names(told.applying("atlas/production/x", "leiden", 0)) == ["atlas"]
        assert names(told.applying("atlas", "lyon", 0)) == names(told.applying("cms/x", "delft", 0)) == []

    def test_the_narrowest_range_comes_first(self) -> None:
        told = book(
            Agreement("all", EVERYBODY, EVERYBODY, NoLimit()),
            ATLAS,
            Agreement("group", "das3", "atlas/production", NoLimit()),
            Agreement("here", "delft", "atlas", NoLimit()),
        )
        assert names(told.applying("atlas/production/x", "delft", 0)) == ["here", "group", "atlas", "all"]

    def test_what_a_site_lends_its_domain_holds_for_all_guests_there(self) -> None:
        told = book(Agreement("lent", "delft", "@das3", NoLimit()))
        assert names(told.applying("cms/x", "delft", 0)) == ["lent"]
        assert names(told.applying("cms/x", "leiden", 0)) == []


class TestWhen:
    def test_from_its_begin_until_before_its_end(self) -> None:
        told = book(replace(ATLAS, begin_ms=100, end_ms=200))
        assert [bool(told.in_force(now_ms)) for now_ms in (99, 100, 199, 200)] == [False, True, True, False]

    def test_time_may_be_asked_about_in_any_order(self) -> None:
        told = book(replace(ATLAS, begin_ms=100, end_ms=200))
        assert [bool(told.in_force(now_ms)) for now_ms in (200, 100, 99, 199)] == [False, True, False, True]

    def test_a_temporary_one_of_higher_priority_holds_alone_in_its_time(self) -> None:
        told = book(ATLAS, replace(ATLAS, name="conference", priority=1, begin_ms=100, end_ms=200))
        assert [names(told.applying("atlas", "delft", now_ms)) for now_ms in (0, 100, 200)] == [
            ["atlas"],
            ["conference"],
            ["atlas"],
        ]

    def test_a_delegation_holds_only_as_long_as_what_it_is_a_part_of(self) -> None:
        part = Agreement("part", "das3", "atlas/production", NoLimit(), parent="atlas")
        told = book(part, replace(ATLAS, end_ms=200))
        assert names(told.applying("atlas/production", "delft", 199)) == ["part", "atlas"]
        assert names(told.applying("atlas/production", "delft", 200)) == []
        assert not book(part).in_force(0)


class TestWatched:
    def test_the_accounts_that_limits_look_at(self) -> None:
        udecay = Agreement("u", "das3", "cms", UsageDecay(300_000, 600))
        watched = book(ATLAS, udecay, Agreement("n", "lyon", "cms", NoLimit())).watched()
        assert watched.keys == {("atlas", "das3", "cpus"), ("cms", "das3", "cpus"), ("", "das3", "cpus")}
        assert (watched.reach_ms, watched.windows_ms) == (4_000, frozenset({1_000, 600}))


class TestProviders:
    def test_a_domain_has_what_its_sites_have(self) -> None:
        providers = Providers(SITES)
        assert [providers.capacity(p, "cpus") for p in ("delft", "das3", EVERYBODY, "nowhere")] == [
            10,
            16,
            20,
            0,
        ]
        assert providers.sites_of("das3") == {"delft", "leiden"}

    def test_sites_come_and_go(self) -> None:
        providers = Providers(SITES)
        providers.part_with("delft")
        assert providers.capacity("das3", "cpus") == 6
        providers.join(Provider("leiden", {"cpus": 8}, "das3"))
        assert providers.capacity("das3", "cpus") == 8

    def test_a_domain_has_a_name_of_its_own(self) -> None:
        with pytest.raises(InvalidField):
            Providers([*SITES, Provider("x", {"cpus": 1}, "lyon")])
