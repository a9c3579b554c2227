"""What each routing policy does with the view that it is given, and what it may not ask."""

from collections import Counter
from collections.abc import Callable, Iterator
from importlib.metadata import EntryPoint, EntryPoints
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.routing.federations import SLOTS, SPEED_MIPS, mean_duration_s, mean_vms

from leasehold import configuration
from leasehold.model.errors import InvalidField, UnknownName
from leasehold.model.request import LeaseType, Request
from leasehold.routing import registry
from leasehold.routing.estimators import LoadEstimator
from leasehold.routing.policies import pap_rnd as pap
from leasehold.routing.policies.pap_rnd import (
    MEASURED_SPREAD,
    PAPER_SPREAD,
    PapRandom,
    Spread,
    cluster_load,
    pap_shares,
)
from leasehold.routing.policies.rr import RoundRobin
from leasehold.routing.policy import (
    Dispatch,
    Hold,
    Information,
    Refuse,
    RoutingPolicy,
    RoutingView,
    SiteFacts,
    SiteHistory,
    SiteLive,
    SiteSet,
    StreamMoments,
    Verdict,
)
from leasehold.routing.proportional import Billiard, Shares
from leasehold.routing.registry import ROUTING_POLICIES, describe, routing_policy, routing_policy_names
from leasehold.routing.view import FixedSources, Sources, UndeclaredInformation

EXTERNAL = StreamMoments.told(0.15, mean_vms(2.75, 6, "grid"), 420)
LOCAL = [
    StreamMoments.told(rate, mean_vms(m, h, "local"), mean_duration_s(a))
    for rate, m, h, a in ((0.0306, 2.5, 6, 5.0), (0.0383, 3.5, 7, 5.35), (0.0511, 4.5, 8, 5.5))
]


def site(i: int, told: StreamMoments | None = None) -> SiteFacts:
    return SiteFacts(f"C{SLOTS[i]}", SLOTS[i], SPEED_MIPS[i], reference_mips=600, told_local=told)


TOLD = SiteSet(site(i, LOCAL[i]) for i in range(3))
UNTOLD = SiteSet(site(i) for i in range(3))


def request(vms: int = 1, kind: LeaseType = LeaseType.SUSPENDABLE) -> Request:
    return Request(1, kind, vms, 420_000, 0, 0)


def view(
    policy: RoutingPolicy | Information,
    sources: Sources | None = None,
    federation: SiteSet = TOLD,
    vms: int = 1,
    now_ms: int = 0,
) -> RoutingView:
    information = policy if isinstance(policy, Information) else policy.information
    sources = sources or FixedSources(external_stream=EXTERNAL)
    return RoutingView(federation, federation.wide_enough(vms), sources, information, now_ms)


def dispatched(policy: RoutingPolicy, requests: int, make_view: Callable[[], RoutingView]) -> list[str]:
    verdicts = [policy.route(request(), make_view(), 0) for _ in range(requests)]
    assert all(isinstance(verdict, Dispatch) for verdict in verdicts)
    return [verdict.site for verdict in verdicts if isinstance(verdict, Dispatch)]


# --- the view ---------------------------------------------------------------------------------------------


def test_the_view_shows_no_more_than_the_policy_declares() -> None:
    sources = FixedSources(
        EXTERNAL, histories={"C64": SiteHistory(in_flight_leases=2)}, live_sites={"C64": SiteLive(free_vms=9)}
    )
    static, history, live = (view(information, sources) for information in Information)
    assert static.external is EXTERNAL
    assert static.local("C128") is LOCAL[1]
    assert history.history("C64").in_flight_leases == live.history("C64").in_flight_leases == 2
    assert live.live("C64").free_vms == 9
    for ask in (static.history, static.live, history.live):
        with pytest.raises(UndeclaredInformation, match=r"set information = Information\.(HISTORY|LIVE)"):
            ask("C64")


def test_a_local_stream_is_as_told_and_else_as_learnt() -> None:
    learnt = StreamMoments(0.5, 1, 60, 60, 0.2, seen=40)
    sources = FixedSources(local_streams={"C64": learnt})
    assert view(Information.STATIC, sources, TOLD).local("C64") is LOCAL[0]
    assert view(Information.STATIC, sources, UNTOLD).local("C64") is learnt
    assert view(Information.STATIC, sources, UNTOLD).local("C128").seen == 0


@given(st.lists(st.integers(1, 9), min_size=1, max_size=12), st.integers(1, 12))
def test_a_federation_knows_which_sites_are_wide_enough(sizes: list[int], vms: int) -> None:
    federation = SiteSet(SiteFacts(f"s{i}", size, 1, 1) for i, size in enumerate(sizes))
    wide = federation.wide_enough(vms)
    assert [s.name for s in wide] == [f"s{i}" for i, size in enumerate(sizes) if size >= vms]
    assert federation.wide_enough(vms) is wide
    assert all(federation[s.name] is s and federation.sites[federation.position(s.name)] is s for s in wide)


def test_sites_without_size_or_with_the_same_name_are_refused() -> None:
    with pytest.raises(InvalidField, match="slots of a: got 0"):
        SiteFacts("a", 0, 1, 1)
    with pytest.raises(InvalidField, match="a name of its own"):
        SiteSet([SiteFacts("a", 1, 1, 1), SiteFacts("a", 2, 1, 1)])


# --- the policies -----------------------------------------------------------------------------------------


def test_rr_takes_turns_and_skips_sites_that_are_too_small() -> None:
    rr = RoundRobin(Random(1))
    sizes = (1, 1, 1, 1, 100, 1, 200, 200, 1)
    verdicts = [rr.route(request(vms), view(rr, vms=vms), 0) for vms in sizes]
    assert [verdict.site for verdict in verdicts] == [
        "C64", "C128", "C256", "C64", "C128", "C256", "C256", "C256", "C64"
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "shares"),
    [
        ("rr", (1 / 3, 1 / 3, 1 / 3)),
        ("lrf-rnd", (0.372, 0.340, 0.287)),
        ("bcf-rnd", (0.122, 0.366, 0.512)),
        ("pap-rnd", (0.195, 0.805, 0)),
        ("pap-rtdp", (0.195, 0.805, 0)),
    ],
)
def test_shares_on_table_2_when_moments_are_told(name: str, shares: tuple[float, ...]) -> None:
    policy = routing_policy(name)(Random(3))
    counts = Counter(dispatched(policy, 9_000, lambda: view(policy)))
    assert [counts[s.name] / 9_000 for s in TOLD.sites] == pytest.approx(shares, abs=0.015)
    assert (counts["C256"] == 0) == (shares[2] == 0)


def test_pap_rtdp_is_a_billiard_sequence_per_type_on_paps_shares() -> None:
    policy = routing_policy("pap-rtdp")(Random(1))
    by_site = pap_shares(view(policy), PAPER_SPREAD).by_site
    billiard = Billiard([by_site[s.name] for s in TOLD.sites], fastest=2)
    expected = [TOLD.sites[billiard.next()].name for _ in range(500)]
    for kind in (LeaseType.CANCELABLE, LeaseType.MIGRATABLE):
        verdicts = [policy.route(request(kind=kind), view(policy), 0) for _ in range(500)]
        assert [verdict.site for verdict in verdicts if isinstance(verdict, Dispatch)] == expected


def test_shares_are_kept_among_the_sites_that_are_wide_enough() -> None:
    policy = routing_policy("bcf-rnd")(Random(1))
    counts = Counter(dispatched(policy, 6_000, lambda: view(policy, vms=100)))
    assert counts["C64"] == 0
    assert counts["C128"] / 6_000 == pytest.approx(0.366 / (0.366 + 0.512), abs=0.02)


@pytest.mark.parametrize("name", ["pap-rnd", "pap-rtdp"])
def test_a_request_that_fits_only_sites_without_a_share_is_sent_all_the_same(name: str) -> None:
    policy = routing_policy(name)(Random(1))
    assert set(dispatched(policy, 20, lambda: view(policy, vms=200))) == {"C256"}


def test_pap_learns_the_shares_that_it_was_not_told() -> None:
    """Steady streams with the moments of table 2 pass by; nobody states anything."""
    learnt, horizon_s = LoadEstimator(time_constant_s=None), 14_000
    for name, stream in zip(("C64", "C128", "C256"), LOCAL, strict=True):
        for i in range(1, round(horizon_s * stream.rate_per_s)):
            learnt.observe_local(name, one_of(stream, i), round(1000 * i / stream.rate_per_s))
    for i in range(1, round(horizon_s * EXTERNAL.rate_per_s)):
        learnt.observe_external(one_of(EXTERNAL, i), round(1000 * i / EXTERNAL.rate_per_s))
    policy = PapRandom(Random(1))
    shares = policy.shares(view(policy, Learnt(learnt), UNTOLD, now_ms=1000 * horizon_s))
    assert [shares.by_site[s.name] for s in UNTOLD.sites] == pytest.approx((0.195, 0.805, 0), abs=0.03)
    assert shares.rule == ""
    assert shares.good_for is not None


def one_of(stream: StreamMoments, i: int) -> Request:
    """Give a request of the stream's mean work, rounded up or down in turns."""
    vms = int(stream.mean_vms) + i % 2
    return Request(i, LeaseType.NON_PREEMPTABLE, vms, round(1000 * stream.mean_vm_s / vms), 0, 0)


class Learnt(FixedSources):
    """Sources that know what an estimator has learnt."""

    def __init__(self, estimator: LoadEstimator) -> None:
        super().__init__()
        self.estimator = estimator

    def external(self, now_ms: int) -> StreamMoments:
        return self.estimator.stream(None, now_ms)

    def local(self, site_name: str, now_ms: int) -> StreamMoments:
        return self.estimator.stream(site_name, now_ms)


def test_before_enough_was_seen_pap_shares_by_computing_power_and_says_so() -> None:
    for seen, rule in ((0, pap.BY_COMPUTING_POWER), (29, pap.BY_COMPUTING_POWER), (30, "")):
        sources = FixedSources(StreamMoments(0.15, 5, 420, 2100, 1.0, seen=seen))
        shares = pap_shares(view(Information.STATIC, sources), PAPER_SPREAD)
        assert shares.rule == rule
        if rule:
            assert list(shares.by_site.values()) == pytest.approx((0.122, 0.366, 0.512), abs=5e-4)
            assert shares.good_for == 30


def test_more_load_than_room_is_shared_by_spare_capacity_and_the_verdict_says_so() -> None:
    sources = FixedSources(StreamMoments.told(5.0, 5, 420))
    policy = routing_policy("pap-rtdp")(Random(1))
    assert policy.route(request(), view(policy, sources), 0) == Dispatch("C64", pap.BY_SPARE_CAPACITY)
    shares = pap_shares(view(policy, sources), PAPER_SPREAD).by_site
    local_loads = (0.364, 0.366, 0.717)
    spare = [(1 - rho) * s.total_mips for rho, s in zip(local_loads, TOLD.sites, strict=True)]
    assert list(shares.values()) == pytest.approx([s / sum(spare) for s in spare], abs=0.002)


def test_no_room_anywhere_beside_local_work_is_shared_by_computing_power() -> None:
    flooded = SiteSet(site(i, StreamMoments.told(10, 10, 1000)) for i in range(3))
    shares = pap_shares(view(Information.STATIC, federation=flooded), PAPER_SPREAD)
    assert shares.rule == pap.ALL_SATURATED
    assert list(shares.by_site.values()) == pytest.approx((0.122, 0.366, 0.512), abs=5e-4)


def test_paps_coefficients_of_variation_are_the_papers_unless_measured_ones_are_wanted() -> None:
    def cvs(spread: Spread, cv: float | None) -> list[float]:
        stream = StreamMoments.told(0.01, 5, 420, cv)
        load = cluster_load(TOLD.sites[0], stream, stream, spread)
        return [(m.square_s2 / m.mean_s**2 - 1) ** 0.5 for m in (load.external, load.local)]

    assert cvs(PAPER_SPREAD, 4.0) == pytest.approx((0.5, 0.1))
    assert cvs(MEASURED_SPREAD, None) == pytest.approx((0.5, 0.1))
    assert cvs(MEASURED_SPREAD, 4.0) == pytest.approx((4.0, 4.0))


class Counting(PapRandom):
    """Counts how often shares are worked out."""

    worked_out = 0

    def shares(self, view: RoutingView) -> Shares:
        self.worked_out += 1
        return super().shares(view)


def test_told_shares_are_worked_out_once_and_learnt_ones_now_and_then() -> None:
    told, learnt = Counting(Random(1)), Counting(Random(1))
    for _ in range(1_001):
        told.route(request(), view(told), 0)
        learnt.route(request(), view(learnt, federation=UNTOLD), 0)
    assert (told.worked_out, learnt.worked_out) == (1, 3)
    told.route(request(), view(told, federation=SiteSet(TOLD.sites[1:])), 0)
    learnt.route(request(), view(learnt, federation=UNTOLD), 3_600_000)
    assert (told.worked_out, learnt.worked_out) == (2, 4)


def test_most_free_takes_the_greatest_free_fraction_and_the_first_among_equals() -> None:
    policy = routing_policy("most-free")(Random(1))
    free = {"C64": 32, "C128": 65, "C256": 128}
    sources = FixedSources(live_sites={name: SiteLive(free_vms=vms) for name, vms in free.items()})
    assert policy.route(request(), view(policy, sources), 0) == Dispatch("C128")
    sources.live_sites = {**sources.live_sites, "C128": SiteLive(free_vms=64)}
    assert policy.route(request(), view(policy, sources), 0) == Dispatch("C64")


def test_least_in_flight_looks_at_own_leases_for_the_size_of_the_site() -> None:
    policy = routing_policy("least-in-flight")(Random(1))
    histories = {name: SiteHistory(in_flight_leases=n) for name, n in (("C64", 2), ("C128", 3), ("C256", 6))}
    sources = FixedSources(histories=histories)
    assert policy.route(request(), view(policy, sources), 0) == Dispatch("C128")
    histories["C128"].in_flight_leases += 3
    assert policy.route(request(), view(policy, sources), 0) == Dispatch("C256")


# --- the registry and other people's policies -------------------------------------------------------------


class FirstWithRoom(RoutingPolicy):
    """Which is the first site with free room?

    Rule: the first in order, else ask again in ten seconds.
    """

    name = "first-with-room"
    information = Information.LIVE

    def route(self, request: Request, view: RoutingView, now_ms: int) -> Verdict:
        for candidate in view.sites:
            if view.live(candidate.name).free_vms >= request.vms:
                return Dispatch(candidate.name)
        return Hold(until_ms=now_ms + 10_000)


def test_a_users_policy_of_ten_lines_dispatches_and_holds() -> None:
    policy = FirstWithRoom(Random(1))
    lives = {"C64": SiteLive(0), "C128": SiteLive(5), "C256": SiteLive(9)}
    shown = view(policy, FixedSources(live_sites=lives))
    assert policy.route(request(7), shown, 500) == Dispatch("C256")
    assert policy.route(request(10), shown, 500) == Hold(until_ms=10_500)


def test_a_refusal_has_a_reason() -> None:
    assert Refuse().reason == "policy-refused"


@pytest.fixture
def installed() -> Iterator[None]:
    """What is found during a test is forgotten after it."""
    yield
    configuration.look_for_installed_policies()


@pytest.mark.usefixtures("installed")
def test_a_users_policy_is_found_by_entry_point(monkeypatch: pytest.MonkeyPatch) -> None:
    here = [
        EntryPoint("mine", f"{__name__}:FirstWithRoom", registry.ENTRY_POINT_GROUP),
        EntryPoint("rr", f"{__name__}:FirstWithRoom", registry.ENTRY_POINT_GROUP),
        EntryPoint("no-policy", "json:loads", registry.ENTRY_POINT_GROUP),
    ]
    monkeypatch.setattr(configuration, "entry_points", lambda **wanted: EntryPoints(here).select(**wanted))
    configuration.look_for_installed_policies()
    assert routing_policy("mine") is FirstWithRoom
    assert routing_policy("rr") is RoundRobin
    assert routing_policy_names()[-2:] == ["mine", "no-policy"]
    assert describe("mine").rule == "the first in order, else ask again in ten seconds."
    with pytest.raises(InvalidField, match="expected a subclass of RoutingPolicy"):
        routing_policy("no-policy")


def test_an_unknown_name_is_answered_with_the_nearest_one() -> None:
    with pytest.raises(UnknownName, match="did you mean 'pap-rtdp'"):
        routing_policy("pap-rdtp")


@pytest.mark.parametrize("name", ROUTING_POLICIES)
def test_every_policy_says_what_it_asks_how_it_decides_where_that_is_from_and_what_it_uses(name: str) -> None:
    said = describe(name)
    assert said.name == ROUTING_POLICIES[name].name == name
    assert said.question.endswith("?")
    assert said.rule
    assert said.source
    assert routing_policy(name).information.label in {"static", "history", "live"}


def test_a_rule_of_several_lines_is_read_whole() -> None:
    assert describe("pap-rtdp").rule.endswith("When the shares change, the sequences restart.")
