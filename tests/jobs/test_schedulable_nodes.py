"""The floor knows which nodes are down, and which lie as they should, without looking at each."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from hypothesis import given
from hypothesis import strategies as st
from tests.jobs.making import seen

from leasehold.jobs.events import RoomLeft, RoomTaken, SeenNode
from leasehold.jobs.job import NOT_YET, Fault
from leasehold.jobs.nodes import SchedulableNodes
from leasehold.matching.needs import Amounts
from leasehold.matching.nodes import Network, Node

NAMES = [f"{site}/{number}" for site in "ab" for number in range(3)]
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["seen", "down", "fault", "fall", "doubt", "forget", "recall"]),
        st.sampled_from(NAMES),
    ),
    max_size=20,
)


def played(steps: list[tuple[str, str]]) -> SchedulableNodes:
    floor = SchedulableNodes(Network())
    for now_ms, (what, name) in enumerate(steps, 1):
        if what in {"seen", "down", "fault"}:
            problem = "" if what == "seen" else "is down"
            fault = Fault.NODE_DIED if what == "fault" else None
            floor.see([seen(name, at_ms=now_ms, problem=problem, fault=fault)], now_ms)
        elif what == "fall":
            floor.fall(name, Fault.NODE_DIED, now_ms)
        elif what == "doubt":
            floor.doubt(name, now_ms)
        elif what == "forget":
            floor.forget(name)
        else:
            floor.restore({name: {"out": Fault.NETWORK_FAILED.value, "since_ms": now_ms}})
    return floor


@given(STEPS)
def test_those_that_are_down_are_all_that_are_known_and_cannot_be_used(steps: list[tuple[str, str]]) -> None:
    floor = played(steps)
    known = [node.name for node in floor.nodes()]
    assert list(floor.down()) == sorted(name for name in known if not floor.is_usable(name))


@given(STEPS)
def test_a_site_with_those_that_are_down_has_all_nodes_that_are_known(steps: list[tuple[str, str]]) -> None:
    floor = played(steps)
    for site in "ab":
        there = {node.name: node for node in floor.with_down(site).index.nodes()}
        assert there == {name: floor.node(name) for name in floor.names(site)}


SITE_STEPS = st.lists(
    st.tuples(
        st.sampled_from(["see", "see", "take", "take", "leave", "hold", "fall", "forget", "ask"]),
        st.sampled_from(NAMES),
        st.integers(0, 3),
        st.integers(-2, 3),
    ),
    max_size=40,
)


@given(SITE_STEPS)
def test_whatever_happens_each_node_lies_with_what_can_be_promised_there(
    steps: list[tuple[str, str, int, int]],
) -> None:
    floor, each = SchedulableNodes(Network()), Amounts(1, 100, 0)
    for now_ms, (what, name, number, ago_ms) in enumerate(steps, 3):
        since_ms = now_ms - ago_ms if ago_ms >= 0 else NOT_YET
        if what == "see":
            floor.see([seen(name, at_ms=now_ms - number // 2)], now_ms)
        elif what == "take":
            nodes = (name,) if ago_ms % 2 else ()
            floor.take(RoomTaken(number, name[0], 2, each, nodes, since_ms))
        elif what == "leave":
            floor.leave(RoomLeft(number, now_ms))
        elif what == "hold":
            floor.hold((now_ms, 1), [name], each)
        elif what == "fall":
            floor.fall(name, Fault.NODE_DIED, now_ms)
        elif what == "forget":
            floor.forget(name)
        else:
            assert lies(floor) == there(floor)
    assert lies(floor) == there(floor)


def lies(floor: SchedulableNodes) -> dict[str, Node]:
    """All nodes as they lie where they are looked for."""
    whole = {node.name: node for node in floor.whole.index.nodes()}
    by_site = {node.name: node for ground in floor.sites.values() for node in ground.index.nodes()}
    assert whole == by_site
    return whole


def there(floor: SchedulableNodes) -> dict[str, Node]:
    """All nodes that can be used, each worked out by itself."""
    names = [name for site in "ab" for name in floor.names(site) if floor.is_usable(name)]
    return {name: node for name in names if (node := floor.node(name)) is not None}


class Counted(SchedulableNodes):
    """Counts the nodes that are judged."""

    judged = 0

    def _as_it_is(self, seen: SeenNode) -> SeenNode:
        self.judged += 1
        return super()._as_it_is(seen)

    def judged_by(self, step: Callable[[], object]) -> int:
        before = self.judged
        step()
        return self.judged - before


class TestALargeSite:
    """Whether nodes lie as they should is known without judging each of them."""

    NODES = 50

    def told(self, at_ms: int) -> Counted:
        """A site of many nodes on some of which leases were found that are not known to be on any."""
        floor = Counted(Network())
        for number in range(20):
            floor.take(RoomTaken(number, "a", 1, Amounts(1, 100, 0), (), 50))
        self.look(floor, at_ms)
        return floor

    def look(self, floor: SchedulableNodes, at_ms: int) -> None:
        floor.see([seen(f"a/{number}", at_ms=at_ms) for number in range(self.NODES)], at_ms)

    def test_after_a_start_nothing_is_laid_twice(self) -> None:
        floor = self.told(100)
        assert floor.judged == self.NODES
        assert floor.judged_by(lambda: floor.whole) == 0

    def test_as_it_becomes_known_where_leases_are_that_were_seen_only_their_nodes_are(self) -> None:
        floor = self.told(100)
        for number in range(20):
            taken = RoomTaken(number, "a", 1, Amounts(1, 100, 0), (f"a/{number}",), 50)
            assert floor.judged_by(partial(floor.take, taken)) == 0
        assert floor.judged_by(lambda: floor.whole) == 20
        assert floor.judged_by(lambda: floor.whole) == 0
        assert lies(floor) == there(floor)

    def test_the_nodes_of_a_lease_that_is_better_known_are_judged_once_and_when_they_are_needed(self) -> None:
        floor = self.told(100)
        taken = RoomTaken(99, "a", 2, Amounts(1, 100, 0), ("a/7", "a/8"))
        floor.take(taken)
        assert floor.judged_by(lambda: floor.take(replace(taken, since_ms=120))) == 0
        assert floor.judged_by(lambda: floor.sites) == 2
        assert lies(floor) == there(floor)

    def test_of_a_lease_that_is_found_before_anybody_asks_its_node_alone_is_judged(self) -> None:
        floor = self.told(100)
        begun = RoomTaken(99, "a", 1, Amounts(1, 100, 0))
        floor.take(begun)
        floor.take(replace(begun, nodes=("a/7",), since_ms=120))
        assert floor.judged_by(lambda: floor.whole) == 1
        assert lies(floor) == there(floor)

    def test_nodes_that_are_seen_anew_are_not_judged_again_for_what_was_taken_before(self) -> None:
        floor = self.told(100)
        floor.take(RoomTaken(99, "a", 2, Amounts(1, 100, 0), ("a/7", "a/8")))
        self.look(floor, 130)
        assert floor.judged_by(lambda: floor.whole) == 0
        assert lies(floor) == there(floor)

    def test_nodes_that_were_updated_meanwhile_are_not_judged_when_they_are_needed(self) -> None:
        floor = self.told(100)
        floor.take(RoomTaken(99, "a", 2, Amounts(1, 100, 0), ("a/7", "a/8")))
        assert floor.judged_by(floor.update_stale) == 2
        assert floor.judged_by(lambda: floor.whole) == 0
        assert lies(floor) == there(floor)

    def test_a_node_that_is_down_is_known_with_what_was_taken_since(self) -> None:
        floor = self.told(100)
        floor.fall("a/7", Fault.NODE_DIED, 110)
        before = floor.down()["a/7"].node, floor.with_down("a").index.node("a/7")
        floor.take(RoomTaken(99, "a", 1, Amounts(1, 100, 0), ("a/7",), 120))
        now = floor.node("a/7")
        assert before != (now, now)
        assert (floor.down()["a/7"].node, floor.with_down("a").index.node("a/7")) == (now, now)

    def test_but_of_one_that_may_be_anywhere_all_have_to_know(self) -> None:
        floor = self.told(100)
        floor.take(RoomTaken(99, "a", 1, Amounts(1, 100, 0)))
        assert floor.judged_by(lambda: floor.whole) == self.NODES
        assert floor.judged_by(lambda: floor.sites) == 0

    def test_what_was_laid_meanwhile_with_more_is_laid_anew_and_nothing_else(self) -> None:
        floor = self.told(100)
        floor.take(RoomTaken(99, "a", 1, Amounts(1, 100, 0)))
        floor.hold((1, 1), ["a/7"], Amounts(1, 100, 0))
        floor.leave(RoomLeft(99, 110))
        assert floor.judged_by(lambda: floor.whole) == 1
        assert lies(floor) == there(floor)

    def test_of_one_that_leaves_unfound_those_alone_have_to_know_that_had_not_seen_it(self) -> None:
        floor = self.told(100)
        floor.take(RoomTaken(99, "a", 1, Amounts(1, 100, 0), (), 150))
        assert floor.judged_by(lambda: floor.whole) == self.NODES
        floor.see([seen("a/7", at_ms=200)], 200)
        floor.leave(RoomLeft(99, 210))
        assert floor.judged_by(lambda: floor.whole) == self.NODES - 1
        assert lies(floor) == there(floor)
