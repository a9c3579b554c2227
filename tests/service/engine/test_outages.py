"""Nodes that are down: no plan counts on them, and what runs is left alone."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.searching import examples
from tests.service.engine.conftest import NewStore
from tests.service.engine.examples import guest, local
from tests.service.engine.job_worlds import S, Shop, facts

from leasehold.model.event import Outage
from leasehold.service.commands import Cancel, Command, JobNodesSeen, JobSiteSilent, Submit
from leasehold.service.drivers.facts import NodeFacts
from leasehold.service.drivers.protocol import Phase
from leasehold.service.engine.outages import LEAST_MS
from leasehold.service.store.store import Store

UP = [facts("n1", cores=2, free_cores=2), facts("n2", cores=2, free_cores=2)]
"""The nodes of site a, which has 4 slots."""
DRAINED, DEAD = {"problem": "is drained"}, {"problem": "does not answer", "fault": "node-died"}
UP_AT_B = JobNodesSeen("b", (facts("m1"),))


@pytest.fixture
def shop(sqlite_store: Store) -> Shop:
    """Sites a and b of 4 VMs each; every guest goes to a if that has room, and a has two nodes of 2 cores."""
    opened = Shop(sqlite_store)
    opened.do(JobNodesSeen("a", tuple(UP)), UP_AT_B)
    return opened


def seen(*there: NodeFacts) -> JobNodesSeen:
    return JobNodesSeen("a", there)


def with_first(**said: Any) -> JobNodesSeen:
    return seen(replace(UP[0], **said), UP[1])


def outages(shop: Shop) -> Sequence[Outage]:
    return shop.engine.gateway.sites["a"].allocations.outages


def submitted(shop: Shop, *requests: Submit) -> list[int]:
    return [row.lease.id for row, _ in shop.do(*requests)]


def state(shop: Shop, lease_id: int) -> str:
    return shop.lease(lease_id).lease.state


def runs(shop: Shop, lease_id: int, *nodes: str) -> None:
    shop.do(shop.seen(lease_id, Phase.RUNNING, nodes=nodes))


@pytest.mark.parametrize("said", [DRAINED, DEAD])
def test_nothing_is_planned_on_a_node_that_is_down(shop: Shop, said: dict[str, str]) -> None:
    shop.do(with_first(**said))
    assert outages(shop) == (Outage(2, shop.now_ms + LEAST_MS),)
    [small, wide] = submitted(shop, local(2, 60), local(3, 60))
    assert (state(shop, small), state(shop, wide)) == ("starting", "waiting")
    assert shop.lease(wide).lease.reserved_ms == shop.now_ms + LEAST_MS

    shop.do(seen(*UP))
    assert outages(shop) == ()
    shop.runs(small)
    shop.pass_time(60 * S)
    assert state(shop, wide) == "starting"


def test_it_is_expected_to_be_down_for_as_long_again(shop: Shop) -> None:
    """Ten minutes at least; and if it is still down then, as long again as it was."""
    began_ms = shop.now_ms
    shop.do(with_first(**DEAD))
    expected_s = []
    for _ in range(4):
        [outage] = outages(shop)
        expected_s.append((outage.until_ms - began_ms) // S)
        shop.pass_time(outage.until_ms - shop.now_ms)
    assert expected_s == [600, 1200, 2400, 4800]


def test_what_runs_on_a_drained_node_runs_on_and_its_room_is_lost_when_it_has_ended(shop: Shop) -> None:
    [there, other] = submitted(shop, local(2, 600), local(2, 600))
    runs(shop, there, "n1", "n1")
    runs(shop, other, "n2", "n2")
    shop.do(seen(replace(UP[0], free_cores=0, problem="is drained"), replace(UP[1], free_cores=0)))
    assert outages(shop) == ()
    assert (state(shop, there), state(shop, other)) == ("running", "running")

    [waiting] = submitted(shop, local(2, 60))
    shop.do(shop.seen(there, Phase.ENDED, exit_status=0, nodes=("n1", "n1")))
    assert [outage.vms for outage in outages(shop)] == [2]
    assert state(shop, waiting) == "waiting"
    shop.do(Cancel(other))
    assert state(shop, waiting) == "starting"


def test_a_look_before_the_news_of_its_leases_costs_no_other_lease_its_place(shop: Shop) -> None:
    """A node has died; that its machines are lost is heard only later. Guests elsewhere are not preempted."""
    [lost, other] = submitted(shop, guest(2, 600), guest(2, 600))
    runs(shop, lost, "n1", "n1")
    runs(shop, other, "n2", "n2")
    shop.do(with_first(**DEAD))
    assert (state(shop, lost), state(shop, other)) == ("running", "running")
    assert outages(shop) == ()  # what is lost is held still

    [waiting] = submitted(shop, guest(2, 60))
    shop.fails(lost, "the node died")
    assert (state(shop, lost), state(shop, other), state(shop, waiting)) == ("failed", "running", "waiting")
    assert [outage.vms for outage in outages(shop)] == [2]


def test_nobody_gives_way_because_a_site_is_silent(shop: Shop) -> None:
    """Its nodes may all be up: its owner gets those that were free, and not the room of a guest."""
    [there] = submitted(shop, guest(2, 600))
    runs(shop, there, "n1", "n1")
    shop.do(JobSiteSilent("a", "no answer for 120 s"))
    assert outages(shop) == ()
    [owners] = submitted(shop, local(2, 60))
    assert (state(shop, there), state(shop, owners)) == ("running", "starting")

    shop.restart()
    shop.do()
    assert outages(shop) == ()


def test_nodes_that_are_down_stay_so_while_their_site_is_silent(shop: Shop) -> None:
    shop.do(with_first(**DEAD))
    shop.do(JobSiteSilent("a", "no answer for 120 s"))
    shop.restart()
    shop.do()
    assert [outage.vms for outage in outages(shop)] == [2]


def test_a_node_that_is_powered_up_when_it_is_needed_is_counted_on(shop: Shop) -> None:
    shop.do(seen(replace(UP[0], problem="is powered down", comes_up=True), UP[1]))
    assert outages(shop) == ()


def test_more_cores_than_slots_make_up_for_a_node(shop: Shop) -> None:
    spare = facts("n3", cores=1, free_cores=1)
    shop.do(seen(replace(UP[0], problem="is drained"), UP[1], spare))
    assert [outage.vms for outage in outages(shop)] == [1]


def test_a_vm_may_have_several_cores(shop: Shop) -> None:
    large = [replace(one, cores=8, free_cores=8, vm_cores=4) for one in UP]
    shop.do(seen(replace(large[0], problem="is drained"), large[1]))
    assert [outage.vms for outage in outages(shop)] == [2]


def test_a_node_that_is_not_listed_is_down_until_it_is_given_up(shop: Shop) -> None:
    shop.do(seen(UP[0]))
    assert [outage.vms for outage in outages(shop)] == [2]
    shop.pass_time(3_600 * S)
    shop.do(seen(UP[0]))
    assert outages(shop) == ()


def test_it_is_known_after_a_restart_without_looking(shop: Shop) -> None:
    shop.do(with_first(**DEAD))
    [wide] = submitted(shop, local(3, 60))
    shop.restart()
    shop.do()
    assert [outage.vms for outage in outages(shop)] == [2]
    assert state(shop, wide) == "waiting"


def test_also_after_a_long_sleep(shop: Shop) -> None:
    shop.do(with_first(**DEAD))
    shop.now_ms += 7_200 * S
    [wide] = submitted(shop, local(3, 60))
    assert [outage.vms for outage in outages(shop)] == [2]
    assert state(shop, wide) == "waiting"


NODES = st.tuples(*(st.sampled_from([{}, DRAINED, DEAD]) for _ in UP))
STEPS = st.one_of(
    NODES.map(lambda said: seen(*(replace(one, **words) for one, words in zip(UP, said, strict=True)))),
    st.integers(1, 4).map(lambda vms: local(vms, 60)),
    st.integers(1, 4).map(lambda vms: guest(vms, 120)),
    st.integers(1, 6).map(Cancel),
    st.integers(1, 1_500).map(lambda for_s: for_s * S),
)


@settings(
    max_examples=examples(30),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
@given(steps=st.lists(STEPS, max_size=20))
def test_whatever_happens_every_promise_is_kept(new_store: NewStore, steps: list[Command | int]) -> None:
    with new_store() as store:
        shop = Shop(store)
        shop.do(seen(*UP), UP_AT_B)
        for step in steps:
            if isinstance(step, int):
                shop.pass_time(step)
            else:
                shop.ask(step)
            for lease in list(shop.engine.gateway.leases.values()):
                if lease.state == "starting":
                    shop.runs(lease.id)
            shop.engine.check()
            site = shop.engine.gateway.sites["a"]
            assert site.free_vms >= 0
