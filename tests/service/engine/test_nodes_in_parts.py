"""A large site tells of its nodes in parts: what comes of it is what comes of telling of all at once."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.gateway.random_worlds import QUICK, to_the_first
from tests.service.engine.job_worlds import S, Shop, facts, job, no_outages, nodes

from leasehold.gateway.gateway import Gateway, Routing
from leasehold.jobs.events import NodesSeen, SeenNode
from leasehold.jobs.job import JobState
from leasehold.jobs.nodes import SchedulableNodes
from leasehold.model.request import LeaseType
from leasehold.service.commands import JobNodesSeen, SiteObserved
from leasehold.service.drivers.facts import NodeFacts
from leasehold.service.drivers.protocol import Observation, Phase
from leasehold.service.engine import nodes as engine_nodes
from leasehold.service.engine.jobs import MAX_PENDING_NEWS
from leasehold.service.engine.nodes import NodeRepository
from leasehold.service.engine.unit_of_work import UnitOfWork
from leasehold.service.job_plans import plan_job
from leasehold.service.store.filters import EVERYTHING, JobFilter
from leasehold.service.store.store import Store
from leasehold.testing.rows import submit
from leasehold.testing.worlds import live_site

DEAD = facts(problem="it does not answer", fault="node-died")
NAMES = [f"n{number}" for number in range(6)]


def in_parts(there: list[NodeFacts], size: int, at_ms: int) -> list[JobNodesSeen]:
    names = frozenset(one.name for one in there)
    cuts = range(0, max(1, len(there)), size)
    return [JobNodesSeen("a", tuple(there[first : first + size]), at_ms, names) for first in cuts]


def told(book: NodeRepository, command: JobNodesSeen, now_ms: int) -> NodesSeen:
    (seen,) = (event for event in book.see(command, (), now_ms) if isinstance(event, NodesSeen))
    return seen


SITES = st.lists(
    st.builds(
        lambda name, free, is_dead: replace(DEAD if is_dead else facts(), name=name, free_cores=free),
        st.sampled_from(NAMES),
        st.integers(0, 4),
        st.booleans(),
    ),
    unique_by=lambda one: one.name,
)


def node_repository() -> NodeRepository:
    return NodeRepository([], UnitOfWork(), no_outages(), {"a"}, 20 * S, 0)


@given(st.lists(SITES, min_size=1, max_size=6), st.integers(1, 4))
def test_parts_come_to_the_same_as_the_whole(looks: list[list[NodeFacts]], size: int) -> None:
    whole, parts = node_repository(), node_repository()
    for number, there in enumerate(looks):
        now_ms = number * 7 * S
        at_once = told(whole, JobNodesSeen("a", tuple(there), now_ms), now_ms)
        bit_by_bit = [told(parts, one, now_ms) for one in in_parts(there, size, now_ms)]
        assert parts.rows == whole.rows
        assert bit_by_bit[-1].names == at_once.names
        assert {seen.node.name: seen for one in bit_by_bit for seen in one.nodes} == {
            seen.node.name: seen for seen in at_once.nodes
        }
        known = {name for name, row in whole.rows.items() if not whole.is_gone(row, now_ms)}
        assert set(at_once.names or ()) == known


def test_no_question_after_a_start_has_all_nodes_judged(sqlite_store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """In parts is how all that is told of a large site is worked off, also where its leases are."""
    judged: list[str] = []
    as_it_is = SchedulableNodes._as_it_is

    def counted(floor: SchedulableNodes, seen: SeenNode) -> SeenNode:
        judged.append(seen.node.name)
        return as_it_is(floor, seen)

    def gateway() -> Gateway:
        sites = [live_site(name, slots, overhead=QUICK) for name, slots in (("a", 2 * MAX_PENDING_NEWS), ("b", 4))]
        return Gateway(sites, Routing(to_the_first()))

    shop = Shop(sqlite_store, make_gateway=gateway)
    there = [facts(f"n{number}", free_cores=3) for number in range(2 * MAX_PENDING_NEWS)]
    guests = range(1, MAX_PENDING_NEWS + 1)

    def look_at_machines() -> None:
        seen = [Observation(one, 1, Phase.RUNNING, shop.now_ms, nodes=(f"n{one}",)) for one in guests]
        shop.do(SiteObserved("a", tuple(seen), shop.now_ms))

    shop.do(*(submit("climate", LeaseType.SUSPENDABLE, 1, 600 * S) for _ in guests))
    look_at_machines()
    shop.pass_time(1)
    for part in in_parts(there, 100, shop.now_ms):
        shop.do(part)
    shop.restart()
    shop.pass_time(1)
    for part in in_parts(there, 100, shop.now_ms):
        shop.do(part)
    look_at_machines()

    monkeypatch.setattr(SchedulableNodes, "_as_it_is", counted)
    assert plan_job(shop.engine, job()).outcome.state is JobState.RUNNING
    assert len(judged) < 10
    shop.do(job())
    assert len(judged) < 20


def test_no_job_is_refused_for_want_of_nodes_that_are_told_of_next(store: Store) -> None:
    shop = Shop(store)
    first, last = in_parts([facts("n1"), replace(facts("n2"), cores=16, free_cores=16)], 1, shop.now_ms)
    shop.do(nodes(facts("m1"), site="b"), first)
    shop.do(job(cores=16))
    assert [row.record.state for row in store.jobs(JobFilter(EVERYTHING), 9)] == ["waiting"]
    shop.do(last)
    assert [row.record.state for row in store.jobs(JobFilter(EVERYTHING), 9)] == ["starting"]


def test_nor_after_a_restart_in_between(store: Store) -> None:
    shop = Shop(store)
    there = [facts("n1"), replace(facts("n2"), cores=16, free_cores=16)]
    shop.do(nodes(facts("m1"), site="b"), in_parts(there, 1, shop.now_ms)[0])
    shop.restart()
    shop.do(job(cores=16))
    assert shop.state()[0] == "waiting"
    for part in in_parts(there, 1, shop.now_ms):
        shop.do(part)
    assert shop.state()[0] == "starting"
    assert [row.name for row in store.nodes()] == ["a/n1", "a/n2", "b/m1"]


@pytest.mark.parametrize("part", [0, 1])
def test_what_no_part_names_is_missed_with_the_first_that_is_told(store: Store, part: int) -> None:
    shop = Shop(store)
    shop.do(nodes(facts("n1"), facts("n2"), facts("n3")))
    shop.do(in_parts([facts("n1"), facts("n3")], 1, shop.now_ms)[part])
    assert {row.name: row.fault for row in store.nodes()} == {
        "a/n1": "",
        "a/n2": "node-died",
        "a/n3": "",
    }


def test_a_node_that_is_gone_is_not_the_largest_one() -> None:
    book = node_repository()
    small, large = facts("small"), replace(facts("large"), memory_mib=64 * 1024)
    too_much_mib = small.memory_mib + 1
    book.see(JobNodesSeen("a", (small, large)), (), 0)
    book.see(JobNodesSeen("a", (small,)), (), 1 * S)
    assert book.too_small(too_much_mib, {"a"}, 20 * S) is None  # it may come back
    largest = book.too_small(too_much_mib, {"a"}, 21 * S)
    assert largest is not None
    assert largest.name == "a/small"


def test_after_a_restart_the_nodes_of_a_large_site_are_recalled_in_parts(
    sqlite_store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine_nodes, "NODE_BATCH", 2)
    shop = Shop(sqlite_store)
    there = [facts(f"n{number}") for number in range(5)]
    shop.do(nodes(*there[:4], replace(there[4], cores=16, free_cores=16)), nodes(facts("m1"), site="b"))
    shop.restart()
    known: list[int] = []
    shop.do(job(cores=16))  # its node comes last: no job is refused for want of it
    while shop.engine.jobs.has_unrecalled:
        known.append(len(shop.engine.jobs.scheduler._state.inventory.names("a")))
        assert shop.state()[0] == "waiting"
        shop.do()
    assert known == [0, 2, 4]
    assert shop.state()[0] == "starting"
    assert shop.engine.jobs.scheduler._state.inventory.complete == {"a", "b"}
