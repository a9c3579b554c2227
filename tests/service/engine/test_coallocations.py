"""Co-allocations in a live gateway: kept, gone on with after a restart, and nothing of them leaks."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.searching import examples
from tests.service.engine.conftest import NewStore
from tests.service.engine.examples import S, guest, journal, lease, local, seen, submitted, two_sites
from tests.service.engine.test_atomicity import contents, failing

from leasehold.model.coallocation import Claim, CoAllocationRequest, Component
from leasehold.model.errors import InvalidField, UnknownName
from leasehold.service.commands import Cancel, CancelCoAllocation, Command, SubmitCoAllocation, Undrain
from leasehold.service.drivers.protocol import Phase
from leasehold.service.errors import IdempotencyConflict, NoSuchCoAllocation, TooManyOpen, Unavailable
from leasehold.service.store.rows import CoAllocationRow
from leasehold.testing.live import BEGIN_MS, Live

BOTH = pytest.mark.parametrize("claim", list(Claim))
SHARED_STORES = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow]


def together(*vms: int, asked_s: float = 60, claim: Claim = Claim.INCREMENTAL, **said: Any) -> SubmitCoAllocation:
    """A co-allocation of components of so many VMs each."""
    components = tuple(Component(count, round(asked_s * S)) for count in vms)
    of_it = {name: said.pop(name) for name in ("name", "command", "key", "request_hash") if name in said}
    return SubmitCoAllocation(request(components, claim=claim, **said), **of_it)


def request(components: tuple[Component, ...], **said: Any) -> CoAllocationRequest:
    fields: dict[str, Any] = {"submit_ms": 0, "ready_ms": 0, "first_lease_id": 0, "consumer": "physics"}
    return CoAllocationRequest(0, components, **fields | said)


def coallocation(live: Live, coallocation_id: int = 1) -> CoAllocationRow:
    """A co-allocation as it is in the store."""
    row = live.store.coallocation(coallocation_id)
    assert row is not None
    return row


def states(live: Live, coallocation_id: int = 1) -> list[str]:
    return [row.lease.state for row in live.store.components(coallocation_id)]


# What is kept


@BOTH
def test_a_coallocation_request_and_its_leases_are_kept_together(live: Live, claim: Claim) -> None:
    [(row, is_new)] = live.do(together(4, 3, claim=claim, name="wave", command=("sleep", "50")))
    assert (row.coallocation.id, row.coallocation.state, row.name, is_new) == (1, "running", "wave", True)
    assert coallocation(live) == row
    assert states(live) == ["running", "running"]
    assert [
        (one.metadata.coallocation_id, one.metadata.name, one.metadata.command) for one in live.store.components(1)
    ] == [
        (1, "wave", ("sleep", "50")),
        (1, "wave", ("sleep", "50")),
    ]
    live.pass_time(70 * S)
    assert (coallocation(live).coallocation.state, coallocation(live).coallocation.reason) == ("completed", "completed")
    assert coallocation(live).coallocation.end_ms >= 0


def test_an_ordinary_lease_belongs_to_none(live: Live) -> None:
    submitted(live, guest(1, 60))
    assert lease(live, 1).metadata.coallocation_id is None


def test_each_lease_has_its_story(live: Live) -> None:
    live.do(together(4, 4))
    told = [(line.what, line.reason) for line in journal(live, 1)]
    assert told[0][0] == "submitted"
    assert told[1:-1] == [
        ("hold", "waiting-for-components"),
        ("dispatch", "coallocated"),
        ("start", "room-free"),
    ]
    assert told[-1] == ("started", "")


def test_idle_machines_are_held_and_counted(live: Live) -> None:
    live.do(together(4, 4, margin_ms=40 * S))
    assert states(live) == ["held", "held"]
    live.pass_time(30 * S)
    assert (states(live), coallocation(live).coallocation.state) == (["running", "running"], "placed")
    live.pass_time(10 * S)
    assert (coallocation(live).coallocation.state, coallocation(live).coallocation.idle_vm_ms) == (
        "running",
        8 * 10 * S,
    )
    live.pass_time(70 * S)
    assert coallocation(live).coallocation.state == "completed"


def test_numbers_are_kept_free_for_leases_to_come(live: Live) -> None:
    live.do(together(2, 2, tries=2, retries=1))
    assert coallocation(live).coallocation.request.lease_ids == range(1, 7)
    assert submitted(live, guest(1, 60)) == [7]
    live.restart()
    assert submitted(live, guest(1, 60)) == [8]


# What cannot be


def test_what_makes_no_sense_is_answered_with_its_field(live: Live) -> None:
    answers = live.do(
        together(),
        together(0),
        SubmitCoAllocation(request((Component(1, S, "mars"),))),
        together(1, place="best-fit"),
        together(1, deadline_ms=BEGIN_MS - 1),
        CancelCoAllocation(7),
    )
    assert [type(answer) for answer in answers] == [
        *(InvalidField, InvalidField, UnknownName, UnknownName, InvalidField, NoSuchCoAllocation)
    ]
    assert live.store.highest_lease_id() == 0


def test_a_coallocation_request_that_can_never_be_is_kept_as_refused(live: Live) -> None:
    [(row, _)] = live.do(together(4, 5))
    assert (row.coallocation.state, row.coallocation.reason) == ("refused", "wider-than-any-site")
    assert states(live) == ["refused", "refused"]


def test_all_components_count_as_open(new_store: NewStore) -> None:
    with new_store() as store:
        live = two_sites(store, most_open=3)
        live.do(together(1, 1))
        [answer] = live.do(together(1, 1))
        assert isinstance(answer, TooManyOpen)
        live.do(CancelCoAllocation(1))
        [(row, _)] = live.do(together(1, 1))
        assert row.coallocation.id == 2


def test_the_same_key_gets_the_same_coallocation_request(live: Live) -> None:
    request = together(2, 2, key="k", request_hash="h")
    [(first, new), (again, old)] = live.do(request, request)
    assert (first.coallocation.id, new, again.coallocation.id, old) == (1, True, 1, False)
    live.pass_time(100 * S)
    [(again, old)] = live.do(request)
    assert (again.coallocation.state, old) == ("completed", False)
    [answer] = live.do(guest(1, 60, key="k", request_hash="other"))
    assert isinstance(answer, IdempotencyConflict)


# Changes of mind, and losses


@BOTH
@pytest.mark.parametrize("how", [CancelCoAllocation(1), Cancel(2)])
def test_who_takes_it_back_takes_all_of_it_back(live: Live, claim: Claim, how: Command) -> None:
    live.do(together(4, 4, claim=claim))
    live.do(how)
    assert (states(live), coallocation(live).coallocation.state) == (["cancelled", "cancelled"], "cancelled")
    live.pass_time(10 * S)
    assert [one.machines.observe() for one in live.sites.values()] == [[], []]


def test_machines_that_fail_stop_the_others(live: Live) -> None:
    live.do(together(4, 4))
    live.do(seen(1, 1, Phase.FAILED))
    assert (states(live), coallocation(live).coallocation.state) == (["failed", "cancelled"], "failed")
    live.pass_time(10 * S)
    assert live.sites["b"].machines.observe() == []


def test_a_component_whose_machines_failed_has_another_lease(live: Live) -> None:
    live.do(together(4, 2, retries=1))
    live.do(seen(1, 1, Phase.FAILED))
    assert [(row.lease.id, row.lease.state) for row in live.store.components(1)] == [
        *((1, "failed"), (2, "running"), (3, "running"))
    ]


def test_a_command_that_does_not_wait_for_the_others_is_done_and_has_idled_till_then(live: Live) -> None:
    live.do(together(4, 4, margin_ms=40 * S, command=("sleep", "5")))
    live.pass_time(36 * S)
    assert (states(live), coallocation(live).coallocation.state) == (["completed", "completed"], "placed")
    live.pass_time(10 * S)
    assert (coallocation(live).coallocation.state, coallocation(live).coallocation.idle_vm_ms) == (
        "completed",
        8 * 5 * S,
    )


# Restarts


@BOTH
@pytest.mark.parametrize("after_s", [0, 5, 31, 41])
def test_after_a_restart_it_goes_on(live: Live, claim: Claim, after_s: int) -> None:
    live.do(together(4, 4, claim=claim, margin_ms=40 * S, ready_ms=BEGIN_MS + 1))
    live.pass_time(after_s * S)
    live.restart()
    live.pass_time(120 * S)
    assert (coallocation(live).coallocation.state, states(live)) == ("completed", ["completed", "completed"])
    assert coallocation(live).coallocation.idle_vm_ms == (80 * S if claim is Claim.INCREMENTAL else 0)
    assert [one.machines.observe() for one in live.sites.values()] == [[], []]


@BOTH
def test_after_a_long_absence_all_or_none_of_it_runs(live: Live, claim: Claim) -> None:
    live.do(together(4, 4, claim=claim, margin_ms=40 * S, ready_ms=BEGIN_MS + 20 * S))
    live.do(local(4, 300, site="b"))
    live.now_ms += 3_000 * S
    live.restart()
    live.pass_time(600 * S)
    assert coallocation(live).coallocation.end_ms >= 0
    assert not live.gateway.leases
    live.engine.check()


MOMENTS = st.lists(st.integers(0, 90), min_size=1, max_size=5)


def asked(live: Live) -> list[tuple[int, list[Command]]]:
    """A busy minute: two co-allocations, owners, guests, and a change of mind."""
    reserve = together(3, 2, claim=Claim.RESERVATION, asked_s=20, deadline_ms=live.now_ms + 400 * S)
    claim = together(4, 3, margin_ms=20 * S, asked_s=15, deadline_ms=live.now_ms + 300 * S, retries=1)
    return [
        (0, [local(2, 30, site="a"), claim]),
        (4, [guest(2, 20), reserve]),
        (9, [local(4, 10, site="b"), guest(3, 40)]),
        (16, [together(2, 2, asked_s=5), local(4, 6, site="a")]),
        (40, [CancelCoAllocation(3), Undrain("a", "operator")]),
    ]


def play(live: Live, interrupt: Callable[[Live, list[Command]], None], moments: set[int]) -> dict[str, Any]:
    """Ask for all of it; in these seconds something comes in between."""
    plan = dict(asked(live))
    for second in range(100):
        live.pass_time_until(BEGIN_MS + second * S - 1)
        live.now_ms = BEGIN_MS + second * S
        if second in moments:
            interrupt(live, plan.get(second, []))
        live.do(*plan.get(second, []))
    live.pass_time(500 * S)
    assert not live.gateway.leases
    assert not live.gateway.coallocations.open
    live.engine.check()
    return contents(live.store) | {"coallocations": [live.store.coallocation(number) for number in (1, 2, 3)]}


def _fail(live: Live, commands: list[Command]) -> None:
    with failing(live.store), pytest.raises(Unavailable):
        live.do(*commands, CancelCoAllocation(1), together(1, 1))


@settings(max_examples=examples(8), suppress_health_check=SHARED_STORES)
@given(moments=MOMENTS)
def test_a_batch_that_failed_might_as_well_never_have_come(new_store: NewStore, moments: list[int]) -> None:
    with new_store() as store, new_store() as other:
        disturbed = play(two_sites(store), _fail, set(moments))
        assert disturbed == play(two_sites(other), _fail, set())


@settings(max_examples=examples(8), suppress_health_check=SHARED_STORES)
@given(moments=MOMENTS)
def test_who_is_killed_at_any_moment_decides_as_if_nothing_had_been(new_store: NewStore, moments: list[int]) -> None:
    with new_store() as store, new_store() as other:
        restarted = play(two_sites(store), lambda live, _: live.restart(), set(moments))
        undisturbed = play(two_sites(other), _fail, set())
        assert restarted["coallocations"] == undisturbed["coallocations"]
        assert [row["state"] for row in restarted["leases"]] == []
