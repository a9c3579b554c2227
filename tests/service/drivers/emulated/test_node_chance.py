"""Whatever is ordered, and whatever befalls nodes: what is seen hangs together, also after a crash."""

from dataclasses import dataclass, replace
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st
from tests.service.drivers.programs import programs
from tests.service.drivers.sites import machines

from leasehold.jobs.job import Fault
from leasehold.service.drivers.emulated.fault_injection import NODE_FAULTS
from leasehold.service.drivers.emulated.machines import EmulatedMachines
from leasehold.service.drivers.emulated.options import EmulatedNode
from leasehold.service.drivers.emulated.record import EmulatedInstance, Saved
from leasehold.service.drivers.protocol import Observation, Order, Phase, PlacementConstraints, Verb
from leasehold.service.drivers.reconciler.instances import OVER, Key
from leasehold.service.drivers.reconciler.store import from_text, to_text
from leasehold.testing.driver_rig import order

NODES = tuple(EmulatedNode(f"n{number}", cores=2, memory_mib=200) for number in (1, 2, 3))
NAMES = [node.name for node in NODES]


@dataclass(frozen=True)
class Blow:
    """What befalls a node, after so many batches of orders."""

    after: int
    node: str
    fault: Fault
    for_ms: int


BLOWS = st.lists(
    st.builds(Blow, st.integers(0, 19), st.sampled_from(NAMES), st.sampled_from(NODE_FAULTS), st.integers(1, 40)),
    max_size=6,
)
NAMED = st.lists(st.sampled_from([(), ("n1",), ("n2",)]), min_size=4, max_size=4)


class Site:
    """Machines that are killed and opened again after each step, from what they would have written."""

    def __init__(self, *, is_killed: bool) -> None:
        self._is_killed = is_killed
        self._instances: dict[Key, str] = {}
        self._tombstones: dict[int, int] = {}
        self._node_faults = ""
        self.machines = self._opened()

    def _opened(self) -> EmulatedMachines:
        instances = [from_text(EmulatedInstance, text) for text in self._instances.values()]
        saved = Saved(instances, self._tombstones, self._node_faults)
        return machines(slots=5, nodes=NODES, saved=saved)

    def step(self, now_ms: int) -> list[Observation]:
        """Let time pass, and perhaps be killed; returns what there is to be seen."""
        self.machines.pass_time(now_ms)
        unwritten = self.machines.take_unwritten()
        for key, instance in unwritten.changes.instances.items():
            if instance is None:
                self._instances.pop(key, None)
            else:
                self._instances[key] = to_text(EmulatedInstance, instance)
        self._tombstones |= unwritten.changes.tombstones
        self._node_faults = unwritten.node_faults or self._node_faults
        if self._is_killed:
            self.machines = self._opened()
            self.machines.pass_time(now_ms)
        return self.machines.observe()


def constrained(one: Order, named: list[tuple[str, ...]]) -> Order:
    nodes = named[one.lease_id]
    return replace(one, constraints=PlacementConstraints(nodes), vms=1) if nodes else one


def seen_in(
    program: list[tuple[int, list[Order]]],
    blows: list[Blow],
    named: list[tuple[str, ...]],
    *,
    is_killed: bool,
) -> list[list[Observation]]:
    """What can be seen after each batch."""
    site, now_ms, seen = Site(is_killed=is_killed), 0, []
    for number, (gap_ms, batch) in enumerate([*program, (100, [])]):
        now_ms += gap_ms
        site.machines.carry_out([constrained(one, named) for one in batch], now_ms)
        for blow in blows:
            if blow.after == number:
                site.machines.inject(blow.node, blow.fault, now_ms, blow.for_ms)
        seen.append(site.step(now_ms))
        for node in site.machines.nodes(now_ms):
            assert 0 <= node.free_cores <= node.cores
            assert node.fault in {"", *(fault.value for fault in NODE_FAULTS)}
    now_ms += 100  # whatever was wrong is over
    site.step(now_ms)
    site.machines.carry_out([order(Verb.STOP, lease_id, 99) for lease_id in range(1, 4)], now_ms)
    assert site.step(now_ms) == []
    assert all(node.free_cores == node.cores for node in site.machines.nodes(now_ms))
    return seen


@given(programs(), BLOWS, NAMED)
def test_what_is_seen_hangs_together_whether_or_not_the_driver_is_killed_at_every_step(
    program: list[tuple[int, list[Order]]], blows: list[Blow], named: list[tuple[str, ...]]
) -> None:
    looks = seen_in(program, blows, named, is_killed=False)
    assert seen_in(program, blows, named, is_killed=True) == looks
    for before, after in pairwise(looks):
        what_is_over_stays_so(before, after)
        failed = [one for one in after if one.phase is Phase.FAILED]
        assert all(one.fault and one.exit_status is None for one in failed)


def what_is_over_stays_so(before: list[Observation], after: list[Observation]) -> None:
    """Until it goes, or is told to go on as another incarnation."""
    later = {(one.lease_id, one.incarnation): one for one in after}
    for one in before:
        if one.phase in OVER:
            assert later.get((one.lease_id, one.incarnation), one) == one
