"""What machines cannot do, nobody is promised: suspending, moving, and who is refused for it."""

from collections.abc import Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.gateway.random_worlds import (
    QUICK,
    SLOTS,
    Case,
    Chronicle,
    cases,
    moving_cases,
    three_sites,
    unfold,
)
from tests.gateway.telling import Told, begun, closed, decided, lent, own
from tests.searching import examples

from leasehold.gateway.settings import SiteSettings
from leasehold.model.effect import MigrateLease, SuspendLease
from leasehold.model.event import LendingChanged
from leasehold.model.lease import LeaseState
from leasehold.model.reason import Outcome, Reason
from leasehold.model.request import LEASE_TYPES, LeaseType
from leasehold.routing.registry import ROUTING_POLICIES
from leasehold.testing.worlds import site

Can = tuple[bool, bool]
"""Whether a site can suspend, and whether it can move machines."""

NEEDS = {
    "cancelable": (False, False),
    "suspendable": (True, False),
    "migratable": (True, True),
    "non-preemptable": (False, False),
}


def will_do(can: Can, kind: str) -> bool:
    return all(able or not needed for able, needed in zip(can, NEEDS[kind], strict=True))


def able(name: str, can: Can, slots: int = 4) -> SiteSettings:
    return site(name, slots, overhead=QUICK, can_suspend=can[0], can_migrate=can[1])


ALL_CAN = [(suspend, migrate) for suspend in (True, False) for migrate in (True, False)]


@pytest.mark.parametrize("can", ALL_CAN)
@pytest.mark.parametrize("kind", list(NEEDS))
def test_a_guest_is_taken_by_machines_that_can_do_what_preempting_it_takes(kind: str, can: Can) -> None:
    effects = Told(able("a", can)).at(0, lent(1, 2, 10, kind))
    if will_do(can, kind):
        assert begun(effects) == [(1, "a")]
    else:
        assert closed(effects) == [(1, Reason.NO_CAPABLE_SITE)]


@pytest.mark.parametrize("can", ALL_CAN)
def test_local_users_ask_for_nothing_of_that(can: Can) -> None:
    assert begun(Told(able("a", can)).at(0, own(1, 4, 10))) == [(1, "a")]


@pytest.mark.parametrize("policy", list(ROUTING_POLICIES))
def test_no_policy_is_even_shown_a_site_that_will_not_do(policy: str) -> None:
    told = Told(able("a", (False, False), 64), able("b", (True, False)), routing=policy)
    effects = told.at(0, *(lent(number, 2, 10) for number in range(1, 6)))
    sites = {told.lease(number).site for number in range(1, 6)}
    assert sites - {""} == {"b"}  # some policies let best effort wait
    assert begun(effects)[0] == (1, "b")


class TestWhoIsRefused:
    def test_is_too_wide_for_all_before_it_is_beyond_their_means(self) -> None:
        told = Told(able("a", (False, False)), able("b", (False, False), 2))
        assert closed(told.at(0, lent(1, 5, 10))) == [(1, Reason.WIDER_THAN_ANY_SITE)]
        assert closed(told.at(1, lent(2, 4, 10))) == [(2, Reason.NO_CAPABLE_SITE)]

    def test_fits_one_site_and_suits_another(self) -> None:
        told = Told(able("a", (False, False), 8), able("b", (True, True), 4))
        assert closed(told.at(0, lent(1, 5, 10))) == [(1, Reason.NO_CAPABLE_SITE)]
        assert begun(told.at(1, lent(2, 5, 10, "cancelable"))) == [(2, "a")]

    def test_is_not_refused_while_the_one_that_can_does_not_lend(self) -> None:
        told = Told(able("a", (False, False)), able("b", (True, True)))
        told.at(0, LendingChanged("b", lends=False))
        effects = told.at(1, lent(1, 2, 10), lent(2, 2, 10, "cancelable"))
        assert decided(effects, Outcome.HOLD) == [(1, Outcome.HOLD, Reason.NO_SITE_AVAILABLE)]
        assert begun(effects) == [(2, "a")]
        assert begun(told.at(2, LendingChanged("b", lends=True))) == [(1, "b")]


class TestMoving:
    def displaced(self, can: Can) -> Told:
        """A Migratable lease loses its place at a, and b has room, if it can."""
        told = Told(able("a", (True, True)), able("b", can))
        told.at(0, lent(1, 4, 10, "migratable"))
        told.at(2, own(2, 4, 10))
        return told

    def test_goes_where_machines_can_be_received(self) -> None:
        told = self.displaced((True, True))
        assert (told.lease(1).site, told.lease(1).state) == ("b", LeaseState.MIGRATING)

    @pytest.mark.parametrize("can", [(False, False), (True, False), (False, True)])
    def test_stays_where_it_is_if_nobody_else_can(self, can: Can) -> None:
        told = self.displaced(can)
        assert (told.lease(1).site, told.lease(1).state) == ("a", LeaseState.SUSPENDING)


abilities = st.fixed_dictionaries({name: st.sampled_from(ALL_CAN) for name in SLOTS})


def sites_that(can: Mapping[str, Can]) -> list[SiteSettings]:
    sites = three_sites()
    for one in sites:
        one.can_suspend, one.can_migrate = can[one.name]
    return sites


def check(chronicle: Chronicle, case: Case, can: Mapping[str, Can]) -> None:
    """Nobody was promised what machines cannot do, and who was refused for it could go nowhere."""
    labels = {kind: label for label, kind in LEASE_TYPES.items()}
    for _, effect in chronicle.effects:
        if isinstance(effect, SuspendLease):
            assert effect.lease.request.lease_type in (LeaseType.SUSPENDABLE, LeaseType.MIGRATABLE)
        if isinstance(effect, MigrateLease):
            assert can[effect.source] == (True, True)
    for _, made in chronicle.decisions(Outcome.DISPATCH, Outcome.MOVE):
        assert will_do(can[made.site], labels[made.lease.request.lease_type])
    for number, (_, reason) in chronicle.ends().items():
        job = case.jobs[number - 1]
        if job.site is None:
            wide_enough = [name for name in SLOTS if SLOTS[name] >= job.vms]
            nobody = bool(wide_enough) and not any(will_do(can[name], labels[job.lease_type]) for name in wide_enough)
            is_cancelled = reason is Reason.CANCELLED_BY_USER
            assert (reason is Reason.NO_CAPABLE_SITE) == nobody or (nobody and is_cancelled)


class TestInRandomWorlds:
    @settings(max_examples=examples(150))
    @given(case=cases(), can=abilities, policy=st.sampled_from(["rr", "most-free", "least-in-flight"]))
    def test_nobody_is_promised_what_machines_cannot_do(self, case: Case, can: Mapping[str, Can], policy: str) -> None:
        check(unfold(case, sites_that(can), policy), case, can)

    @settings(max_examples=examples(150))
    @given(case=moving_cases(), can=abilities)
    def test_nor_when_they_move(self, case: Case, can: Mapping[str, Can]) -> None:
        check(unfold(case, sites_that(can)), case, can)
