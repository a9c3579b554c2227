"""The broker (uSLA-BRKG-A): worked examples by hand, and what must hold for any agreements."""

from collections.abc import Callable
from dataclasses import replace
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leasehold.model.agreement import CPUS, MILLION, Agreement, Commitment, Limit, NoLimit, TimeDecay
from leasehold.model.errors import UnknownName
from leasehold.model.reason import Reason
from leasehold.model.use import Holding
from leasehold.sharing.broker import Broker, next_room_ms, readings, rules_for
from leasehold.sharing.broker_policies.registry import BROKER_POLICIES, broker_policy, describe
from leasehold.sharing.enforcement import Sharing, SharingSettings
from leasehold.sharing.offers import Recommendation
from leasehold.sharing.parties import Provider
from leasehold.sharing.rules import UsageRequest

MINUTE_MS = 60_000
FREE = {"delft": 4, "leiden": 6, "lyon": 9, "solo": 1}
PLACES = (
    Provider("delft", {CPUS: 10}, "das3"),
    Provider("leiden", {CPUS: 10}, "das3"),
    Provider("lyon", {CPUS: 20}, "grid5000"),
    Provider("solo", {CPUS: 5}),
)


def share(name: str, provider: str, percent: int, consumer: str = "atlas", penalty: int = 100) -> Agreement:
    """A share over aligned windows of ten minutes, the present one only."""
    limit = TimeDecay(percent * 10_000, 10 * MINUTE_MS, (MILLION,))
    return Agreement(name, provider, consumer, limit, penalty=penalty)


def ask(vms: int = 2, path: str = "atlas/simulation") -> UsageRequest:
    return UsageRequest(path, {CPUS: vms}, duration_ms=MINUTE_MS, start_ms=0)


def recommend(
    *agreements: Agreement,
    used: tuple[tuple[str, int, int], ...] = (),
    now_ms: int = MINUTE_MS,
    policy: str = "most-room",
    asked: UsageRequest | None = None,
    **settings: object,
) -> Recommendation:
    """Ask the broker after these were ``used``: (site, VMs, for so many ms) from 0 on."""
    sharing = Sharing(PLACES, SharingSettings(broker_policy=policy, **settings), agreements)  # type: ignore[arg-type]
    for lease_id, (site, vms, _) in enumerate(used):
        sharing.ledger.begin(lease_id, Holding("atlas/simulation", site, {CPUS: vms}), 0)
    for span_ms, lease_id in sorted((span_ms, lease_id) for lease_id, (_, _, span_ms) in enumerate(used)):
        sharing.ledger.end(lease_id, span_ms)
    return Broker(sharing, Random(0)).recommend(asked or ask(), FREE, FREE.__getitem__, now_ms)


def domains(recommendation: Recommendation) -> list[str]:
    return [offer.domain for offer in recommendation.offers]


# Examples by hand


def test_without_agreements_every_domain_is_eligible_and_the_roomiest_is_best() -> None:
    told = recommend()
    assert [(offer.domain, offer.score) for offer in told.offers] == [
        ("das3", 10),
        ("grid5000", 9),
        ("solo", 1),
    ]
    assert told.sites == ("delft", "leiden", "lyon", "solo")


def test_a_used_up_share_excludes_a_domain_with_its_numbers() -> None:
    # 12 of 20 CPUs for one of ten minutes: 720,000 of 12,000,000 CPU-ms are 6%, of 5%.
    told = recommend(share("s", "das3", 5), used=(("delft", 6, MINUTE_MS), ("leiden", 6, MINUTE_MS)))
    assert domains(told) == ["grid5000", "solo"]
    assert {one.site for one in told.excluded} == {"delft", "leiden"}
    breach = told.excluded[0].breach
    assert (breach.reason, breach.used, breach.limit) == (Reason.SHARE_EXHAUSTED, 60_000, 50_000)
    assert breach.next_ms == 10 * MINUTE_MS


def test_a_domain_is_eligible_if_one_of_its_sites_is() -> None:
    told = recommend(share("s", "delft", 5), used=(("delft", 6, MINUTE_MS),))
    assert told.offers[1].domain == "das3"
    assert told.offers[1].sites == ("leiden",)
    assert told.offers[1].free_vms == 6


@pytest.mark.parametrize(("threshold", "eligible"), [(39, False), (40, True)])
def test_a_broken_rule_excludes_only_if_its_penalty_is_above_the_threshold(threshold: int, *, eligible: bool) -> None:
    told = recommend(share("s", "solo", 1, penalty=40), used=(("solo", 5, MINUTE_MS),), threshold=threshold)
    assert ("solo" in domains(told)) is eligible


def test_the_broker_gives_the_top_n_and_says_what_else_there_was() -> None:
    told = recommend(top_n=1)
    assert domains(told) == ["das3"]
    assert [offer.domain for offer in told.others] == ["grid5000", "solo"]


def test_equal_scores_are_ordered_by_name() -> None:
    told = recommend(policy="cheapest-penalty")
    assert domains(told) == ["das3", "grid5000", "solo"]


def test_least_used_prefers_where_the_consumer_was_least() -> None:
    everywhere = [share(name, name, 50) for name in ("das3", "grid5000", "solo")]
    used = (("delft", 4, MINUTE_MS), ("lyon", 2, MINUTE_MS), ("solo", 2, MINUTE_MS))
    told = recommend(*everywhere, used=used, policy="least-used")
    # 2 of 20 CPUs, 4 of 20, 2 of 5; each for one of ten minutes
    assert [(offer.domain, offer.used_ppm) for offer in told.offers] == [
        ("grid5000", 10_000),
        ("das3", 20_000),
        ("solo", 40_000),
    ]


def test_cheapest_penalty_prefers_where_nothing_is_broken_and_then_the_lightest_rule() -> None:
    rules = [share("d", "das3", 0, penalty=7), share("g", "grid5000", 0, penalty=3)]
    told = recommend(*rules, policy="cheapest-penalty", threshold=10)
    assert [(offer.domain, offer.penalty) for offer in told.offers] == [
        ("solo", 0),
        ("grid5000", 3),
        ("das3", 7),
    ]


def test_sphinx_prefers_where_the_most_of_the_quota_is_left() -> None:
    rules = [share("d", "das3", 30), share("l", "leiden", 10), share("g", "grid5000", 12)]
    used = (("leiden", 5, MINUTE_MS), ("lyon", 4, MINUTE_MS))
    told = recommend(*rules, used=used, policy="sphinx")
    # of ten minutes, das3: 5 of 20 CPUs for one are 2.5 %, leiden: 5 of 10, so 5 %; grid5000: 4 of 20, so 2 %
    assert [(offer.domain, offer.score) for offer in told.offers] == [
        ("solo", MILLION),
        ("grid5000", 100_000),
        ("das3", 50_000),
    ]


def test_gridbus_prefers_the_lightest_penalty_and_then_the_most_room() -> None:
    rules = [share("d", "das3", 0, penalty=7)]
    told = recommend(*rules, policy="gridbus", threshold=10)
    assert [(offer.domain, offer.penalty, offer.free_vms) for offer in told.offers] == [
        ("grid5000", 0, 9),
        ("solo", 0, 1),
        ("das3", 7, 10),
    ]


def test_gruber_prefers_where_the_limits_leave_the_most_of_the_room() -> None:
    rules = [share("d", "das3", 40), share("l", "leiden", 30), share("g", "grid5000", 30)]
    used = (("leiden", 10, MINUTE_MS), ("lyon", 2, MINUTE_MS))
    told = recommend(*rules, used=used, policy="gruber")
    # delft 4 free, leiden 6 free and 2 of 3 CPUs left: 6, of 7 left at das3; grid5000: 9 free and 5.8 of 6 left
    assert [(offer.domain, offer.free_vms, offer.score) for offer in told.offers] == [
        ("das3", 10, 6),
        ("grid5000", 9, 5),
        ("solo", 1, 1),
    ]


def test_gruber_counts_a_limit_of_a_whole_domain_once() -> None:
    told = recommend(share("d", "das3", 15), policy="gruber")
    assert [(offer.domain, offer.score) for offer in told.offers] == [("grid5000", 9), ("das3", 3), ("solo", 1)]


def test_rules_are_sorted_by_their_applicability_range_the_narrowest_first() -> None:
    hour = Commitment(MILLION, 60 * MINUTE_MS, MILLION, 30 * MINUTE_MS)
    rules = [
        Agreement("all-of-all", "*", "*", NoLimit()),
        share("domain-vo", "das3", 50),
        share("site-vo", "delft", 50),
        Agreement("site-user-hour", "delft", "atlas/simulation", hour, resource="memory_mib"),
        share("site-user", "delft", 50, "atlas/simulation"),
    ]
    sharing = Sharing(PLACES, None, rules)
    names = [rule.name for rule in rules_for(sharing, "atlas/simulation", "delft", 0)]
    assert names == ["site-user", "site-user-hour", "site-vo", "domain-vo", "all-of-all"]


def test_each_window_of_a_rule_is_read() -> None:
    limit = Commitment(300_000, 20 * MINUTE_MS, 600_000, 5 * MINUTE_MS)
    sharing = Sharing(PLACES, None, [Agreement("c", "solo", "atlas", limit)])
    sharing.ledger.begin(1, Holding("atlas", "solo", {CPUS: 5}), 0)
    read = readings(sharing, "atlas", "solo", 2 * MINUTE_MS)
    # all 5 CPUs for 2 minutes: 40% of 5 minutes, 10% of 20
    assert [(one.window_ms, one.used_ppm, one.limit_ppm) for one in read] == [
        (5 * MINUTE_MS, 400_000, 600_000),
        (20 * MINUTE_MS, 100_000, 300_000),
    ]


@pytest.mark.parametrize(
    ("limit", "minutes", "expected"),
    [
        (Commitment(300_000, 20 * MINUTE_MS, 600_000, 5 * MINUTE_MS), 10, [10, 20]),
        (Commitment(0, 20 * MINUTE_MS, 600_000, 5 * MINUTE_MS), 5, [5, None]),  # never
        (Commitment(900_000, 20 * MINUTE_MS, 950_000, 5 * MINUTE_MS), 5, [5, None]),  # the epoch has room
        (TimeDecay(400_000, 5 * MINUTE_MS, (MILLION, MILLION // 2)), 5, [None]),  # never, while use goes on
    ],
)
def test_a_window_that_is_used_up_says_when_it_has_room_again(
    limit: Limit, minutes: int, expected: list[int | None]
) -> None:
    sharing = Sharing(PLACES, None, [Agreement("c", "solo", "atlas", limit)])
    sharing.ledger.begin(1, Holding("atlas", "solo", {CPUS: 5}), 0)
    now_ms = minutes * MINUTE_MS - 1
    rooms = [next_room_ms(sharing, one, "solo", now_ms) for one in readings(sharing, "atlas", "solo", now_ms)]
    assert rooms == [None if at is None else at * MINUTE_MS for at in expected]


def test_of_a_decaying_share_there_is_room_when_old_use_has_left_it() -> None:
    limit = TimeDecay(300_000, 5 * MINUTE_MS, (MILLION, MILLION // 2))
    sharing = Sharing(PLACES, None, [Agreement("c", "solo", "atlas", limit)])
    sharing.ledger.begin(1, Holding("atlas", "solo", {CPUS: 5}), 0)
    sharing.ledger.end(1, 4 * MINUTE_MS)
    # 80 % of this window is used, which counts for 40 % in the next and for nothing in the one after it
    [read] = readings(sharing, "atlas", "solo", 5 * MINUTE_MS - 1)
    assert next_room_ms(sharing, read, "solo", 5 * MINUTE_MS - 1) == 10 * MINUTE_MS


# What must hold for any agreements

PERCENT = st.integers(0, 20)
USED = st.lists(st.tuples(st.sampled_from(sorted(FREE)), st.integers(1, 5), st.integers(1, MINUTE_MS)), max_size=4)
RULES = st.lists(
    st.builds(
        share,
        st.integers(0, 99).map("rule-{}".format),
        st.sampled_from([*FREE, "das3", "grid5000", "*"]),
        PERCENT,
        st.sampled_from(["atlas", "atlas/simulation", "*"]),
        st.integers(1, 9),
    ),
    max_size=6,
    unique_by=lambda rule: rule.name,
)


@given(rules=RULES, used=USED, lower=st.integers(0, 9), by=st.integers(0, 9))
def test_a_higher_threshold_never_excludes_more(
    rules: list[Agreement], used: list[tuple[str, int, int]], lower: int, by: int
) -> None:
    strict = recommend(*rules, used=tuple(used), threshold=lower)
    lax = recommend(*rules, used=tuple(used), threshold=lower + by)
    assert set(strict.sites) <= set(lax.sites)


@given(rules=RULES, used=USED, by=st.integers(0, 50))
def test_a_higher_limit_never_excludes_more(rules: list[Agreement], used: list[tuple[str, int, int]], by: int) -> None:
    def raised(rule: Agreement) -> Agreement:
        assert isinstance(rule.limit, TimeDecay)
        return replace(rule, limit=replace(rule.limit, share_ppm=rule.limit.share_ppm + by * 10_000))

    before = recommend(*rules, used=tuple(used))
    after = recommend(*map(raised, rules), used=tuple(used))
    assert set(before.sites) <= set(after.sites)


@given(rules=RULES, used=USED, n=st.integers(0, 3), policy=st.sampled_from(sorted(BROKER_POLICIES)))
def test_the_top_n_begin_the_top_n_plus_1_and_nobody_is_lost(
    rules: list[Agreement], used: list[tuple[str, int, int]], n: int, policy: str
) -> None:
    few = recommend(*rules, used=tuple(used), top_n=n, policy=policy)
    more = recommend(*rules, used=tuple(used), top_n=n + 1, policy=policy)
    assert domains(more)[:n] == domains(few)
    everywhere = {*few.sites, *(site for offer in few.others for site in offer.sites)}
    assert everywhere | {one.site for one in few.excluded} == set(FREE)


def scores(rules: list[Agreement], used: list[tuple[str, int, int]], policy: str) -> dict[str, int]:
    told = recommend(*rules, used=tuple(used), policy=policy, threshold=9)
    return {offer.domain: offer.score for offer in told.offers}


@given(rules=RULES, used=USED, more=st.integers(1, MINUTE_MS), policy=st.sampled_from(["sphinx", "gruber"]))
def test_more_use_of_a_domain_never_raises_its_score(
    rules: list[Agreement], used: list[tuple[str, int, int]], more: int, policy: str
) -> None:
    before, after = scores(rules, used, policy), scores(rules, [*used, ("delft", 1, more)], policy)
    assert after["das3"] <= before["das3"]
    assert all(score >= 0 for score in after.values())


@given(rules=RULES, used=USED)
def test_gruber_never_counts_more_than_is_free(rules: list[Agreement], used: list[tuple[str, int, int]]) -> None:
    free = scores(rules, used, "most-room")
    assert all(score <= free[domain] for domain, score in scores(rules, used, "gruber").items())
    assert scores([], used, "gruber") == scores([], used, "most-room")


@given(rules=RULES, used=USED)
def test_gridbus_never_pays_for_room(rules: list[Agreement], used: list[tuple[str, int, int]]) -> None:
    told = recommend(*rules, used=tuple(used), policy="gridbus", threshold=9)
    costs = [(offer.penalty, -offer.free_vms) for offer in told.offers]
    assert costs == sorted(costs)


# Policies by name


def test_a_random_policy_repeats_itself_with_its_stream() -> None:
    assert domains(recommend(policy="random")) == domains(recommend(policy="random"))


def test_every_policy_says_what_it_asks_and_where_it_comes_from() -> None:
    for name in BROKER_POLICIES:
        described = describe(name)
        assert described.question.endswith("?")
        assert described.rule
        assert described.source


def test_an_unknown_policy_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(UnknownName, match="did you mean 'most-room'"):
        broker_policy("most-rooms")


def test_a_function_of_ones_own_is_a_policy() -> None:
    by_name: Callable[..., int] = lambda offer, _stream: -len(offer.domain)  # noqa: E731 - as a user writes it
    told = Broker(Sharing(PLACES), Random(0), by_name).recommend(ask(), FREE, FREE.__getitem__, 0)
    assert domains(told) == ["das3", "solo", "grid5000"]
