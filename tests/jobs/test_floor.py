"""The floor knows which nodes are down without looking at each."""

from hypothesis import given
from hypothesis import strategies as st
from tests.jobs.making import seen

from leasehold.jobs.floor import Floor
from leasehold.jobs.job import Fault
from leasehold.matching.network import Network

NAMES = [f"{site}/{number}" for site in "ab" for number in range(3)]
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["seen", "down", "fault", "fall", "doubt", "forget", "recall"]),
        st.sampled_from(NAMES),
    ),
    max_size=20,
)


def played(steps: list[tuple[str, str]]) -> Floor:
    floor = Floor(Network())
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
            floor.recall({name: {"out": Fault.NETWORK_FAILED.value, "since_ms": now_ms}})
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
