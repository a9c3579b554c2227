"""The nodes of emulated sites: unlike ones as configured, who comes to which, and how much is free there."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.service.drivers.sites import changes, machines, seen, told

from leasehold.model.errors import InvalidField, UnknownName
from leasehold.service.drivers.emulated.machines import EmulatedMachines
from leasehold.service.drivers.emulated.options import NODES, EmulatedNode, read_options
from leasehold.service.drivers.protocol import Order, Phase, PlacementConstraints, Verb
from leasehold.testing.driver_rig import MEMORY_MIB, order
from leasehold.testing.drivers import start_on

SMALL = EmulatedNode("small", cores=1, memory_mib=100, software=frozenset({("gcc", "12.2")}))
BIG = EmulatedNode("big", cores=8, memory_mib=1_000)


def start(lease_id: int, *nodes: str, cores: int = 0, memory_mib: int = MEMORY_MIB) -> Order:
    constraints = PlacementConstraints(nodes, cores=cores)
    verb = Verb.START
    return Order(f"{lease_id}.1.start", verb, lease_id, 1, len(nodes) or 1, memory_mib, constraints=constraints)


def free(site: EmulatedMachines, now_ms: int = 0) -> dict[str, tuple[int, int]]:
    return {node.name: (node.free_cores, node.free_memory_mib) for node in site.nodes(now_ms)}


def refusal(site: EmulatedMachines, one: Order) -> tuple[str, bool]:
    """The words in which an order is refused, and whether it may be told again."""
    problem = site.carry_out([one], 0)[one.id]
    return problem.text, problem.again


class TestWhatTheConfigurationSays:
    def test_nodes_may_be_unlike(self) -> None:
        tables = [
            {"count": 2, "cores": 8, "memory_mib": 32_000, "software": ["GCC 12.2", "avx2"]},
            {"name": "gpu", "cpu_mhz": 3_000},
            {"name": "old", "count": 2, "disk_mib": 0},
        ]
        nodes = read_options({"nodes": tables}).nodes
        assert [node.name for node in nodes] == ["n1", "n2", "gpu", "old1", "old2"]
        assert nodes[1] == EmulatedNode("n2", 8, 32_000, software=frozenset({("gcc", "12.2"), ("avx2", "")}))
        assert read_options({"nodes": NODES.write(nodes)}).nodes == nodes

    def test_without_a_word_there_is_one_for_each_vm(self) -> None:
        assert read_options({}).nodes == ()
        assert list(free(machines(slots=3))) == ["n1", "n2", "n3"]

    @pytest.mark.parametrize(
        ("tables", "field"),
        [
            ([{"cores": 0}], "nodes[0].cores"),
            ([{"name": "a"}, {"name": "a"}], "nodes[1].name"),
            ([{"name": "a/b"}], "nodes[0].name"),
            ([{"software": ["gcc twelve"]}], "nodes[0].software"),
        ],
    )
    def test_what_makes_no_sense_is_named(self, tables: list[dict[str, object]], field: str) -> None:
        with pytest.raises(InvalidField) as caught:
            read_options({"nodes": tables})
        assert caught.value.field == field

    def test_a_typo_is_answered_with_the_nearest(self) -> None:
        with pytest.raises(UnknownName, match="memory_mib"):
            read_options({"nodes": [{"memory_mb": 1}]})


class TestWhoComesWhere:
    def test_whoever_names_a_node_comes_there(self) -> None:
        site = machines(nodes=(SMALL, BIG))
        told(site, 0, start(1, "big", cores=3, memory_mib=400))
        assert free(site) == {"small": (1, 100), "big": (5, 600)}
        told(site, 0, order(Verb.STOP))
        assert free(site) == {"small": (1, 100), "big": (8, 1_000)}

    @pytest.mark.parametrize(
        ("one", "text"),
        [
            (start(1, "none"), "there is no node none here"),
            (start(1, "small", cores=2), "node small has 1 cores and 100 MiB, and no 2 and 64"),
            (start(1, "small", memory_mib=101), "node small has 1 cores and 100 MiB, and no 1 and 101"),
        ],
    )
    def test_what_no_node_of_that_name_can_do_is_refused_for_good(self, one: Order, text: str) -> None:
        assert refusal(machines(nodes=(SMALL, BIG)), one) == (text, False)

    def test_what_is_taken_now_is_only_refused_for_now(self) -> None:
        site = machines(nodes=(SMALL, BIG))
        told(site, 0, start(1, "small"))
        assert refusal(site, start(2, "small")) == ("node small has 0 cores and 36 MiB free now", True)

    def test_no_image_is_here(self) -> None:
        constraints = start_on(PlacementConstraints(image="numpy"))
        assert refusal(machines(), constraints) == ("there is no image numpy here", False)

    def test_whoever_names_none_comes_where_there_is_a_core(self) -> None:
        site = machines(slots=9, nodes=(SMALL, BIG))
        told(site, 0, *(start(lease_id) for lease_id in range(1, 10)))
        assert {name: cores for name, (cores, _) in free(site).items()} == {"small": 0, "big": 0}

    def test_saved_machines_leave_their_cores_to_others_and_want_the_same_back(self) -> None:
        site = machines(nodes=(SMALL, BIG))
        told(site, 0, start(1, "small"), order(Verb.SUSPEND, 1))
        changes(site, 99)
        told(site, 99, start(2, "small"))
        resume = order(Verb.RESUME, 1, 2)
        assert site.carry_out([resume], 99)[resume.id].again
        told(site, 99, order(Verb.STOP, 2), resume)
        here = seen(site)
        assert here is not None
        assert here.phase is Phase.RESUMING
        assert free(site, 99)["small"] == (0, 36)


ORDERS = st.lists(
    st.one_of(
        st.builds(
            lambda lease_id, nodes, cores: start(lease_id, *nodes, cores=cores),
            st.integers(1, 9),
            st.lists(st.sampled_from(["small", "big"]), min_size=1, unique=True),
            st.integers(0, 9),
        ),
        st.builds(lambda lease_id: order(Verb.STOP, lease_id), st.integers(1, 9)),
        st.builds(lambda lease_id: order(Verb.SUSPEND, lease_id), st.integers(1, 9)),
    ),
    max_size=30,
)


@given(ORDERS)
def test_nobody_is_let_onto_a_node_that_has_no_room_for_him(orders: list[Order]) -> None:
    site = machines(slots=99, nodes=(SMALL, BIG))
    up: dict[int, Order] = {}
    for one in orders:
        is_taken_on = not site.carry_out([one], 0)
        here = seen(site, one.lease_id)
        if here is None or here.phase is not Phase.RUNNING:
            up.pop(one.lease_id, None)
        elif is_taken_on and one.verb is Verb.START:
            up.setdefault(one.lease_id, one)
        for node in (SMALL, BIG):
            named = [other for other in up.values() if node.name in other.constraints.nodes]
            assert sum(other.constraints.cores or 1 for other in named) <= node.cores
            assert sum(other.memory_mib for other in named) <= node.memory_mib
    told(site, 0, *(order(Verb.STOP, lease_id, 9) for lease_id in range(1, 10)))
    assert free(site) == {"small": (1, 100), "big": (8, 1_000)}
