"""With against without preemption: the same requests, and guests that give way or hold what they have."""

from collections.abc import Mapping
from random import Random

import pytest

from leasehold.experiments.intergrid import world
from leasehold.experiments.intergrid.plan import LAST, STUDIES, Term, configuration_named, plan
from leasehold.experiments.intergrid.world import WaitsForRoom
from leasehold.model.request import LeaseType, Request
from leasehold.routing.policy import Dispatch, Hold, Refuse, Verdict, newcomer
from leasehold.routing.view import FixedSources, RoutingView, SiteFacts, SiteLive, SiteSet
from leasehold.simulation.workload.job import WorkloadJob

S = 1_000
FULL, FREE = {"a": SiteLive(1), "b": SiteLive(1)}, {"a": SiteLive(8), "b": SiteLive(8)}


class Desk:
    """Two sites; requests of 4 VMs for 100 s, of which the policy knows what they were."""

    def __init__(self, *kinds: LeaseType, deadline_ms: int | None = None) -> None:
        self.policy = WaitsForRoom(Random(1))
        jobs = (WorkloadJob(0, 4, 100 * S, 100 * S, lease_type=kind, deadline_ms=deadline_ms) for kind in kinds)
        self.came = list(self.policy.hardened(jobs))
        self.federation = SiteSet(SiteFacts(name, 8, 1, 1) for name in "ab")

    def ask(self, number: int, lives: Mapping[str, SiteLive], now_ms: int = 0) -> Verdict:
        return self.policy.route(_request(number), self._view(lives, now_ms), now_ms)

    def select(self, count: int, lives: Mapping[str, SiteLive], now_ms: int) -> list[int]:
        waiting = [newcomer(_request(number)) for number in range(1, count + 1)]
        return [one.request.id for one in self.policy.select(waiting, self._view(lives, now_ms), now_ms)]

    def _view(self, lives: Mapping[str, SiteLive], now_ms: int) -> RoutingView:
        sources = FixedSources(live_sites=lives)
        return RoutingView(self.federation, self.federation.sites, sources, self.policy.information, now_ms)


def _request(number: int) -> Request:
    return Request(number, LeaseType.NON_PREEMPTABLE, 4, 100 * S, 0, 0)


def test_guests_come_as_those_who_hold_what_they_have() -> None:
    desk = Desk(LeaseType.CANCELABLE, LeaseType.MIGRATABLE, deadline_ms=300 * S)
    assert {job.lease_type for job in desk.came} == {LeaseType.NON_PREEMPTABLE}
    assert {job.deadline_ms for job in desk.came} == {None}


def test_each_site_has_its_turn() -> None:
    desk = Desk(*[LeaseType.CANCELABLE] * 3)
    assert [desk.ask(number, FREE) for number in (1, 2, 3)] == [Dispatch("a"), Dispatch("b"), Dispatch("a")]


def test_best_effort_waits_for_the_site_whose_turn_it_was() -> None:
    desk = Desk(LeaseType.SUSPENDABLE)
    assert isinstance(desk.ask(1, FULL), Hold)
    assert isinstance(desk.ask(1, {**FULL, "b": SiteLive(8)}, 10**9), Hold)
    assert desk.ask(1, {**FULL, "a": SiteLive(4)}, 10**9) == Dispatch("a")


def test_who_must_start_at_once_is_refused() -> None:
    assert isinstance(Desk(LeaseType.NON_PREEMPTABLE).ask(1, FULL), Refuse)


def test_migratable_waits_while_its_deadline_allows() -> None:
    desk = Desk(LeaseType.MIGRATABLE, deadline_ms=300 * S)
    assert isinstance(desk.ask(1, FULL, 200 * S), Hold)
    assert isinstance(desk.ask(1, FULL, 201 * S), Refuse)


def test_only_who_finds_room_or_can_wait_no_longer_is_asked_again() -> None:
    """Thousands may wait; here three, of whom one has waited as long as its deadline allows."""
    kinds = [LeaseType.SUSPENDABLE, LeaseType.SUSPENDABLE, LeaseType.MIGRATABLE]
    desk = Desk(*kinds, deadline_ms=300 * S)
    for number in (1, 2, 3):
        assert isinstance(desk.ask(number, FULL), Hold)
    assert desk.select(3, FULL, 200 * S) == []
    assert desk.select(3, FULL, 201 * S) == [3]
    assert desk.select(3, {**FULL, "b": SiteLive(4)}, 200 * S) == [2]


@pytest.mark.evaluation
def test_without_preemption_fewer_local_requests_are_served() -> None:
    read = plan("acsc2011", 6)
    names = [read.name_of(read.swept[0], "base", policy) for policy in ("preempting", "never")]
    preempting, never = (world.run(read.configurations[name], 1) for name in names)
    assert preempting["vms_preempted"] > 0
    assert never["vms_preempted"] == 0
    assert preempting["local_served_pct"] > never["local_served_pct"]
    assert preempting["local_served_pct"] == pytest.approx(100 - preempting["local_rejection_pct"])


def test_the_sweep_that_is_not_of_the_publication_is_of_shorter_runs() -> None:
    """Its sites are full, and a run of two days takes minutes; also where it meets the others, its runs are its own."""
    whole, quick = plan("acsc2011"), plan("acsc2011", 6)
    hours = {letter: {whole.configurations[one].hours for one in whole.names_for([f"1{letter}"])} for letter in "cde"}
    assert hours == {"c": {48}, "d": {48}, "e": {6}}
    assert sorted(whole.names_for(["1e"])) == sorted(quick.names_for(["1e"]))
    assert all(configuration_named(one) == quick.configurations[one] for one in quick.names_for(["1e"]))


def test_the_headline_is_a_claim_of_its_own() -> None:
    served, rejected = STUDIES["acsc2011"].claims[:2]
    assert served.contrasts == ((Term(1 / 1.72, "preempting", LAST), Term(-1.0, "never", LAST)),)
    assert rejected.figure == "2c"
    assert {claim.topic for claim in STUDIES["acsc2011"].claims} == {"preemption", "rejection"}


def test_the_headline_of_jpdc_2012_is_among_its_claims() -> None:
    study = STUDIES["003"]
    found = {claim.text for claim in study.claims if claim.text.startswith(study.headline)}
    assert len(found) == len(study.headline)
