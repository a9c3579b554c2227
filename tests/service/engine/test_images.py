"""Leases that name an image, or want their user let in: they go only where machines are like that."""

from typing import Any

import pytest
from tests.gateway.random_worlds import QUICK, to_the_first

from leasehold.gateway.gateway import Gateway, Routing
from leasehold.gateway.settings import SiteSettings
from leasehold.leasing.victims.registry import victim_policy
from leasehold.model.agreement import CPUS
from leasehold.model.coallocation import Claim, CoAllocationRequest, Component
from leasehold.model.errors import InvalidField, UnknownName
from leasehold.model.lease import LeaseState
from leasehold.model.request import LeaseType
from leasehold.service.commands import Submit, SubmitCoAllocation
from leasehold.service.drivers.emulated.fault_injection import FaultInjector, Faults
from leasehold.service.drivers.emulated.machines import EmulatedMachines
from leasehold.service.drivers.emulated.options import Hardware
from leasehold.service.drivers.protocol import Capabilities, Order, PlacementConstraints, Problem, Verb
from leasehold.service.store.rows import LeaseRow
from leasehold.service.store.store import Store
from leasehold.sharing.enforcement import Sharing, SharingSettings
from leasehold.sharing.parties import Provider
from leasehold.testing.live import Live
from leasehold.testing.rows import submit

S = 1_000
IMAGES = {"a": (), "b": ("cuda", "debian"), "c": ("debian",)}
VMS = {"a": 4, "b": 4, "c": 2}


def machines(site: str) -> EmulatedMachines:
    able = Capabilities(images=IMAGES[site])
    return EmulatedMachines(Hardware(VMS[site], 1, 1, QUICK, capabilities=able), FaultInjector(Faults(), site))


def gateway(images: dict[str, tuple[str, ...]] = IMAGES) -> Gateway:
    sites = [
        SiteSettings(name, VMS[name], victim_policy("mov"), overhead=QUICK, confirms_starts=True, images=there)
        for name, there in images.items()
    ]
    sharing = Sharing([Provider(name, {CPUS: VMS[name]}) for name in images], SharingSettings("allow"))
    return Gateway(sites, Routing(to_the_first(), try_elsewhere=True), 1, sharing)


@pytest.fixture
def live(sqlite_store: Store) -> Live:
    return Live(sqlite_store, gateway, {name: machines(name) for name in IMAGES})


def guest(image: str, vms: int = 1, kind: LeaseType = LeaseType.SUSPENDABLE, **values: Any) -> Submit:
    return submit("physics", kind, vms, 100 * S, command=("sleep", "100"), image=image, **values)


def row_of(live: Live, lease_id: int) -> LeaseRow:
    row = live.store.lease(lease_id)
    assert row is not None
    return row


def test_a_lease_goes_to_the_first_site_that_has_its_image_and_its_machines_are_ordered_with_it(live: Live) -> None:
    live.do(guest(""), guest("debian"), guest("cuda"))
    live.pass_time(1 * S)
    assert [row_of(live, number).lease.site for number in (1, 2, 3)] == ["a", "b", "b"]
    assert [(one.lease_id, one.image) for one in live.sites["b"].machines.all()] == [(2, "debian"), (3, "cuda")]


def test_an_image_that_nobody_has_is_refused_with_the_nearest_name(live: Live) -> None:
    (answer,) = live.do(guest("debain"))
    assert isinstance(answer, UnknownName)
    assert str(answer) == "image: got 'debain', expected one of cuda, debian (did you mean 'debian'?)"


def test_where_no_site_states_an_image_that_is_what_is_said(sqlite_store: Store) -> None:
    live = Live(sqlite_store, lambda: gateway({"a": ()}), {"a": machines("a")})
    (answer,) = live.do(guest("debian"))
    assert isinstance(answer, InvalidField)
    assert str(answer) == "image: got 'debian', expected none: no site here states any images"


def together(*images: str) -> SubmitCoAllocation:
    components = tuple(Component(1, 100 * S, image=image) for image in images)
    asked = CoAllocationRequest(0, components, 0, 0, 0, consumer="physics", claim=Claim.RESERVATION)
    return SubmitCoAllocation(asked, command=("sleep", "100"))


def test_so_does_a_component_of_a_coallocation(live: Live) -> None:
    live.do(together("cuda", "debian"))
    live.pass_time(1 * S)
    ordered = {one.lease_id: (name, one.image) for name in live.sites for one in live.sites[name].machines.all()}
    assert ordered[1] == ("b", "cuda")
    assert ordered[2][1] == "debian"
    assert {row_of(live, number).lease.state for number in (1, 2)} == {LeaseState.RUNNING}


def test_a_component_with_an_image_that_nobody_has_is_refused_with_the_nearest_name(live: Live) -> None:
    (answer,) = live.do(together("cuda", "debain"))
    assert isinstance(answer, UnknownName)
    assert str(answer) == "image: got 'debain', expected one of cuda, debian (did you mean 'debian'?)"


def test_an_owner_can_name_only_an_image_of_its_own_site(live: Live) -> None:
    here = submit("home", LeaseType.NON_PREEMPTABLE, 1, 100 * S, command=("true",), site="c", image="cuda")
    (answer,) = live.do(here)
    assert isinstance(answer, UnknownName)
    assert "expected one of debian" in str(answer)


def test_what_fits_only_where_its_image_is_missing_is_refused_for_that(live: Live) -> None:
    live.do(guest("debian", vms=3, domain="c"), guest("cuda", domain="c"))
    assert [row_of(live, number).metadata.reason for number in (1, 2)] == ["wider-than-domain", "no-such-image"]
    assert row_of(live, 2).lease.state is LeaseState.REFUSED


def test_a_preempted_lease_moves_only_to_where_its_image_is(live: Live) -> None:
    live.do(guest("debian", vms=2, kind=LeaseType.MIGRATABLE))
    live.pass_time(1 * S)
    assert row_of(live, 1).lease.site == "b"
    live.do(submit("home", LeaseType.NON_PREEMPTABLE, 4, 50 * S, command=("sleep", "50"), site="b"))
    live.pass_time(30 * S)
    assert (row_of(live, 1).lease.site, row_of(live, 1).lease.migrations) == ("c", 1)


def test_a_lease_whose_user_wants_to_log_in_is_refused_where_no_site_lets_users_in(live: Live) -> None:
    live.do(guest("", login=True))
    assert (row_of(live, 1).lease.state, row_of(live, 1).metadata.reason) == (LeaseState.REFUSED, "no-login")


@pytest.mark.parametrize(
    ("asked", "text"),
    [
        ({"image": "cuda"}, "there is no image cuda here"),
        ({"login": True}, "nobody can log in to these machines by a key"),
    ],
)
def test_machines_refuse_for_good_what_they_cannot_be(asked: dict[str, object], text: str) -> None:
    key = "ssh-ed25519 AAAA" if asked.get("login") else ""
    constraints = PlacementConstraints(image=str(asked.get("image", "")))
    order = Order("1.1.start", Verb.START, 1, 1, 1, 1_024, constraints=constraints, ssh_key=key)
    assert machines("c").carry_out([order], 0) == {order.id: Problem(text, again=False)}
