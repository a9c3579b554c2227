"""Who gave way and what would have saved them: the recorded choice is made again; and why each site said no."""

from dataclasses import replace
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.gateway.coallocation.together import two_sites
from tests.gateway.random_worlds import PREEMPTABLE, Case, cases, three_sites, unfold
from tests.searching import examples

from leasehold.gateway.explaining import Remedy, Replay, Spared, replay
from leasehold.gateway.gateway import Gateway, Routing
from leasehold.leasing.victims.candidate import Candidate
from leasehold.leasing.victims.registry import VICTIM_POLICIES, victim_policy
from leasehold.model.agreement import CPUS, Agreement, NoLimit
from leasehold.model.effect import Decision, SiteRefusal
from leasehold.model.event import LendingChanged, SiteFellSilent, Submitted
from leasehold.model.reason import Outcome, Reason
from leasehold.model.request import LeaseType, Request
from leasehold.routing.registry import routing_policy
from leasehold.sharing.enforcement import Sharing, SharingSettings
from leasehold.sharing.parties import Provider

CANCELABLE, SUSPENDABLE, MIGRATABLE = LeaseType.CANCELABLE, LeaseType.SUSPENDABLE, LeaseType.MIGRATABLE
COST_MS = {CANCELABLE: 0, SUSPENDABLE: 60_000, MIGRATABLE: 90_000}


def candidate(number: int, kind: LeaseType, vms: int) -> Candidate:
    return Candidate(number, kind, vms, cost_of(kind, vms), ends_ms=1_000_000)


def cost_of(kind: LeaseType, vms: int) -> int:
    return COST_MS[kind] * vms


def again(rule: str, candidates: list[Candidate], needed_vms: int, lease_id: int) -> Replay:
    policy = victim_policy(rule)
    victims = [one.lease_id for one in policy.choose(candidates, needed_vms).victims]
    assert lease_id in victims
    found = replay(policy, candidates, needed_vms, victims, lease_id, cost_of)
    assert found is not None
    assert found.agrees
    return found


def test_a_suspendable_victim_would_have_been_spared_as_a_migratable_one() -> None:
    candidates = [candidate(1, SUSPENDABLE, 4), candidate(2, SUSPENDABLE, 4), candidate(3, MIGRATABLE, 4)]
    found = again("by-value:mov", candidates, 4, 1)
    assert found.spared == (Spared(Remedy.TYPE, MIGRATABLE, 4), Spared(Remedy.VMS, SUSPENDABLE, 2))


def test_where_the_others_are_too_few_nothing_would_have_saved_it() -> None:
    candidates = [candidate(1, SUSPENDABLE, 4), candidate(2, MIGRATABLE, 2)]
    assert again("by-value:mov", candidates, 4, 1).spared == (Spared(Remedy.ALONE, SUSPENDABLE, 4),)


def test_a_wide_victim_of_a_rule_that_wants_few_leases_would_have_been_spared_if_narrower() -> None:
    candidates = [candidate(1, SUSPENDABLE, 8), candidate(2, SUSPENDABLE, 4), candidate(3, SUSPENDABLE, 4)]
    found = again("mlip", candidates, 8, 1)
    assert Spared(Remedy.VMS, SUSPENDABLE, 4) not in found.spared  # three of four VMs are alike: it is the first
    assert Spared(Remedy.VMS, SUSPENDABLE, 1) in found.spared


def test_another_choice_than_the_recorded_one_is_seen_and_explains_nothing() -> None:
    candidates = [candidate(1, SUSPENDABLE, 4), candidate(2, SUSPENDABLE, 4)]
    found = replay(victim_policy("mov"), candidates, 4, [2], 2, cost_of)
    assert found is not None
    assert (found.agrees, found.spared) == (False, ())
    assert replay(victim_policy("mov"), candidates, 4, [9], 9, cost_of) is None


@settings(max_examples=examples(100))
@given(case=cases(PREEMPTABLE), victims=st.sampled_from(["by-value:moml", *VICTIM_POLICIES]))
def test_each_recorded_preemption_is_decided_alike_again(case: Case, victims: str) -> None:
    chronicle = unfold(case, three_sites(victims=victims))
    for _, one in chronicle.effects:
        if not isinstance(one, Decision) or one.preemption is None:
            continue
        report, policy = one.preemption, victim_policy(victims)
        assert sorted(c.lease_id for c in report.candidates if c.lease_id in report.victims) == sorted(report.victims)
        found = replay(policy, report.candidates, report.needed_vms, report.victims, one.lease.id, cost_of)
        assert found is not None
        assert found.agrees
        for spared in found.spared:
            check_spared(one.lease.id, spared, report.candidates, report.needed_vms, policy.name)


def check_spared(lease_id: int, spared: Spared, candidates: tuple[Candidate, ...], needed_vms: int, rule: str) -> None:
    """An own reading of what it means to be spared: other victims, who free enough without it."""
    others = [one for one in candidates if one.lease_id != lease_id]
    (mine,) = (one for one in candidates if one.lease_id == lease_id)
    if spared.by is Remedy.ALONE:
        assert sum(one.vms for one in others) < needed_vms
        return
    lost_vm_ms = mine.lost_vm_ms * spared.vms // mine.vms
    if spared.by is Remedy.TYPE:
        lost_vm_ms = mine.vms * mine.ran_ms if spared.lease_type is CANCELABLE else 0
    cost_vm_ms = cost_of(spared.lease_type, spared.vms)
    changed = replace(mine, lease_type=spared.lease_type, vms=spared.vms, cost_vm_ms=cost_vm_ms, lost_vm_ms=lost_vm_ms)
    chosen = victim_policy(rule).choose([changed, *others], needed_vms).victims
    assert lease_id not in {one.lease_id for one in chosen}
    assert sum(one.vms for one in chosen) >= needed_vms


# Why each site does not take a request


def held(there: Gateway, request: Request) -> tuple[Decision, tuple[SiteRefusal, ...]]:
    effects = there.handle([Submitted(request)], 0)
    (made,) = (one for one in effects if isinstance(one, Decision) and one.outcome in {Outcome.HOLD, Outcome.REFUSE})
    return made, made.sites


def federation(*agreements: Agreement) -> Gateway:
    places = [Provider("a", {CPUS: 4}), Provider("b", {CPUS: 6})]
    sharing = Sharing(places, SharingSettings(), agreements)
    return Gateway(two_sites(), Routing(routing_policy("most-free")(Random(0))), sharing=sharing)


def request(vms: int = 2, consumer: str = "atlas") -> Request:
    return Request(1, SUSPENDABLE, vms, 10_000, 0, 0, consumer=consumer)


def test_a_refused_request_is_told_of_each_site_why_it_did_not_take_it() -> None:
    few = Agreement("few", "b", "atlas", NoLimit(), lending_limit=1)
    made, sites = held(federation(few), request(5))
    assert made.reason is Reason.EXCEEDS_AGREEMENT
    assert [(one.site, one.reason) for one in sites] == [
        ("a", Reason.WIDER_THAN_SITE),
        ("b", Reason.EXCEEDS_AGREEMENT),
    ]
    assert sites[1].breach is not None
    assert sites[1].breach.agreement == "few"


@pytest.mark.parametrize(
    ("event", "reason"),
    [
        (LendingChanged("b", lends=False), Reason.SITE_DRAINED),
        (SiteFellSilent("b"), Reason.SITE_UNREACHABLE),
    ],
)
def test_one_that_waits_for_a_site_is_told_what_that_site_lacks(
    event: LendingChanged | SiteFellSilent, reason: Reason
) -> None:
    there = federation()
    there.handle([event], 0)
    made, sites = held(there, request(5))
    assert made.reason is Reason.NO_SITE_AVAILABLE
    assert [(one.site, one.reason) for one in sites] == [("a", Reason.WIDER_THAN_SITE), ("b", reason)]


def test_a_site_to_which_it_is_not_bound_has_no_say() -> None:
    _, sites = held(federation(), replace(request(7), domain="b"))
    assert [(one.site, one.reason) for one in sites] == [("b", Reason.WIDER_THAN_SITE)]
