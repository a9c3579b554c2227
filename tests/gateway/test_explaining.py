"""The three stages of a request, asked without changing anything."""

from random import Random
from typing import Any

from hypothesis import given, settings
from tests.gateway.coallocation.together import joint, part, two_sites
from tests.gateway.random_worlds import REFERENCE_MIPS, Case, Chronicle, cases, drive, three_sites
from tests.searching import examples

from leasehold.gateway.explaining import explain_joint, explain_request
from leasehold.gateway.gateway import Gateway, Routing
from leasehold.model.agreement import CPUS, Agreement, NoLimit
from leasehold.model.effect import Effect
from leasehold.model.event import Event, LendingChanged, Submitted
from leasehold.model.lease import Lease
from leasehold.model.reason import Reason
from leasehold.model.request import LeaseType, Request
from leasehold.routing.registry import routing_policy
from leasehold.sharing.enforcement import Sharing, SharingSettings
from leasehold.sharing.places import Place

PLACES = [Place("a", {CPUS: 4}, "das"), Place("b", {CPUS: 6})]


def gateway(policy: str = "most-free", *agreements: Agreement, **how: Any) -> Gateway:
    sharing = Sharing(PLACES, SharingSettings(**how), agreements)
    return Gateway(two_sites(), Routing(routing_policy(policy)(Random(0))), sharing=sharing)


def request(vms: int = 2, consumer: str = "atlas", kind: LeaseType = LeaseType.SUSPENDABLE) -> Request:
    return Request(1, kind, vms, 10_000, 0, 0, consumer=consumer)


def at_most(site: str, vms: int) -> Agreement:
    return Agreement("few", site, "atlas", NoLimit(), lending_limit=vms)


def test_all_three_stages_of_a_request() -> None:
    told = explain_request(gateway("most-free", at_most("b", 1)), request(), 0)
    (view,) = told.components
    assert view.virtual.sites == ("a", "b")
    assert view.extended.sites == ("a",)
    assert view.extended.breaches["b"].reason is Reason.MORE_THAN_AGREED
    assert (told.execution.sites, told.execution.start_ms, told.reason) == (("a",), 0, Reason.ROUTED)
    assert [(offer.domain, offer.score) for offer in told.offers] == [("das", 4)]


def test_a_site_that_is_too_narrow_is_in_no_environment() -> None:
    told = explain_request(gateway(), request(5), 0)
    assert told.components[0].virtual.sites == ("b",)
    told = explain_request(gateway(), request(7), 0)
    assert (told.components[0].virtual.sites, told.reason) == ((), Reason.WIDER_THAN_ANY_SITE)


def test_where_no_agreement_opens_a_site_the_breach_is_the_reason() -> None:
    told = explain_request(gateway("most-free", at_most("*", 1)), request(), 0)
    assert not told.execution.is_complete
    assert told.reason is Reason.MORE_THAN_AGREED


def test_where_nobody_lends_that_is_the_reason() -> None:
    there = gateway()
    there.handle([LendingChanged(name, lends=False) for name in "ab"], 0)
    assert explain_request(there, request(), 0).reason is Reason.NO_SITE_LENDS


def test_a_joint_request_has_the_stages_of_each_component() -> None:
    told = explain_joint(
        gateway("most-free", at_most("b", 3)), joint(1, part(4), part(3), consumer="atlas"), 0
    )
    assert [view.extended.sites for view in told.components] == [("a",), ("a", "b")]
    assert told.execution.sites == ("a", "b")
    assert told.execution.start_ms == 0


def test_a_reservation_is_explained_with_its_start() -> None:
    there = gateway()
    there.handle([Submitted(Request(9, LeaseType.NON_PREEMPTABLE, 6, 30_000, 0, 0, site="b"))], 0)
    told = explain_joint(there, joint(1, part(4), part(6), claim="reservation"), 0)
    assert (told.execution.sites, told.execution.start_ms) == (("a", "b"), 30_000)
    told = explain_joint(there, joint(1, part(4), part(6)), 0)
    assert not told.execution.is_complete
    assert told.reason is Reason.AWAITS_ITS_PARTS


class Curious(Gateway):
    """A gateway that is asked what would happen before and after every instant."""

    def handle(self, events: Any, now_ms: int) -> list[Effect]:
        """Ask, handle, ask again."""
        events = list[Event](events)
        self._be_asked(now_ms)
        effects = super().handle(events, now_ms)
        self._be_asked(now_ms)
        return effects

    def _be_asked(self, now_ms: int) -> None:
        explain_request(self, Request(0, LeaseType.SUSPENDABLE, 2, 5_000, now_ms, now_ms), now_ms)
        explain_joint(self, joint(1, part(2), part(3), submit_s=now_ms / 1000, claim="reservation"), now_ms)


@settings(max_examples=examples(30))
@given(cases(most_jobs=8))
def test_asking_changes_nothing(case: Case) -> None:
    def run(kind: type[Gateway], policy: str) -> Chronicle:
        routing = Routing(routing_policy(policy)(Random(0)), try_elsewhere=True)
        return drive(kind(three_sites(), routing, REFERENCE_MIPS), case)

    for policy in ("pap-rtdp", "most-free"):
        assert run(Curious, policy).told == run(Gateway, policy).told


def test_a_probe_is_no_lease() -> None:
    there = gateway()
    explain_request(there, request(), 0)
    assert there.leases == dict[int, Lease]()
