"""Planning by nodes, against the plan of slots, against brute force, and by example."""

from dataclasses import replace
from heapq import heappush

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.searching import examples

from leasehold.leasing.backfill import Backfiller
from leasehold.leasing.kernel import Profile
from leasehold.leasing.vectors import NodePlan, VectorBackfiller, VectorProfile, _Want
from leasehold.model.lease import Lease
from leasehold.model.request import NEVER_MS, LeaseType, Request
from leasehold.model.resources import MachineShape, NodeResources

SLOTS = 8


def lease_of(number: int, vms: int, span_ms: int, ready_ms: int, *, local: bool = True, **shape: object) -> Lease:
    request = Request(
        number,
        LeaseType.NON_PREEMPTABLE if local else LeaseType.SUSPENDABLE,
        vms,
        span_ms,
        0,
        ready_ms,
        site="a" if local else None,
        **shape,  # type: ignore[arg-type]
    )
    return Lease(number, request, vms, number, span_ms, span_ms=span_ms, earliest_ms=ready_ms)


ACTIONS = st.lists(
    st.tuples(
        st.sampled_from(["submit", "submit", "submit", "pass", "release", "withdraw", "replan", "lengthen"]),
        st.integers(1, SLOTS),
        st.integers(1, 40),
        st.integers(0, 30),
        st.integers(0, 15),
    ),
    max_size=40,
)


@given(actions=ACTIONS, depth=st.sampled_from([0, 1, 3, None]))
def test_one_node_of_nothing_but_cores_is_planned_as_slots_are(  # noqa: C901 - a script of all that can happen
    actions: list[tuple[str, int, int, int, int]], depth: int | None
) -> None:
    flat, nodes = (
        Backfiller(Profile(SLOTS), depth),
        VectorBackfiller(VectorProfile([NodeResources("n1", SLOTS)]), depth),
    )
    twins: list[Backfiller | VectorBackfiller] = [flat, nodes]
    seen: list[list[object]] = [[], []]
    held: list[dict[int, Lease]] = [{}, {}]
    now_ms, number = 0, 0
    for action, vms, span_ms, ready_ms, after_ms in actions:
        if action == "submit":
            number += 1
        else:
            now_ms += after_ms
        for side, queue in enumerate(twins):
            if action == "submit":
                queue.submit(lease_of(number, vms, span_ms, now_ms + ready_ms))
            elif action == "pass":
                _pass(queue, held[side], seen[side], now_ms)
            elif action == "release" and held[side]:
                _pass(queue, held[side], seen[side], now_ms)
                if held[side]:
                    queue.release(held[side].pop(min(held[side])), now_ms)
                _pass(queue, held[side], seen[side], now_ms)
            elif action == "withdraw" and len(queue):
                queue.withdraw(queue.waiting()[vms % len(queue)], now_ms)
            elif action == "replan":
                queue.plan.trim(now_ms)
                seen[side].append([one.id for one in queue.replan(now_ms, all_of_them=vms > 4)])
            elif action == "lengthen" and held[side]:
                _pass(queue, held[side], seen[side], now_ms)
                if held[side]:
                    lease = held[side][max(held[side])]
                    queue.lengthen(lease, lease.end_ms, lease.end_ms + span_ms)
                    lease.span_ms += span_ms
                    seen[side].append([one.id for one in queue.replan(now_ms)])
            seen[side].append([(one.id, one.reserved_ms, one.place) for one in queue.waiting()])
            seen[side].append(queue.next_pass_ms())
        assert seen[0] == seen[1]


def _pass(queue: Backfiller | VectorBackfiller, held: dict[int, Lease], seen: list[object], now_ms: int) -> None:
    for lease_id in [one for one, lease in held.items() if lease.end_ms <= now_ms]:
        queue.release(held.pop(lease_id), now_ms)
    for lease, why in queue.step(now_ms):
        held[lease.id] = lease
        seen.append((lease.id, lease.reserved_ms, why))


NODES = st.lists(
    st.builds(
        NodeResources,
        name=st.just("n"),
        cores=st.integers(1, 8),
        memory_mib=st.integers(0, 6),
        gpu_model=st.sampled_from(["a100", "t4"]),
        gpus=st.integers(0, 3),
        gpu_shares=st.sampled_from([0, 1, 2, 4]),
    ),
    min_size=1,
    max_size=3,
).map(lambda found: [_named(node, index) for index, node in enumerate(found)])


def _named(node: NodeResources, index: int) -> NodeResources:
    return NodeResources(f"n{index}", node.cores, node.memory_mib, node.gpu_model, node.gpus, node.gpu_shares)


SHAPES = st.builds(
    MachineShape,
    cores=st.integers(1, 4),
    memory_mib=st.integers(1, 4),
    gpu_model=st.sampled_from(["", "a100"]),
    gpu_milli=st.sampled_from([0, 250, 500, 1_000, 2_000]),
    nodes=st.sampled_from([(), (), ("n0",), ("n1",), ("n0", "n2")]),
).map(lambda one: one if one.gpu_milli else MachineShape(one.cores, one.memory_mib, nodes=one.nodes))

ASKED = st.lists(st.tuples(SHAPES, st.integers(1, 3), st.integers(0, 12), st.integers(1, 9)), min_size=1, max_size=9)


@given(nodes=NODES, asked=ASKED)
def test_starts_are_the_earliest_and_no_device_is_given_twice(
    nodes: list[NodeResources], asked: list[tuple[MachineShape, int, int, int]]
) -> None:
    """The oracle counts, in each unit of time, what is taken of each core, MiB and share, and tries every start."""
    profile = VectorProfile(nodes)
    taken: dict[tuple[str, str, int], int] = {}
    for shape, vms, from_ms, span_ms in asked:
        if profile.machines(shape) < vms:
            assert _count(nodes, shape, {}, range(1)) < vms
            continue
        start_ms = profile.earliest(shape, vms, from_ms, span_ms)
        oracle_ms = next(
            at_ms for at_ms in range(from_ms, 500) if _count(nodes, shape, taken, range(at_ms, at_ms + span_ms)) >= vms
        )
        assert start_ms == oracle_ms
        placed = profile.place(shape, vms, start_ms, start_ms + span_ms)
        assert placed is not None
        assert sum(machines for _, machines, _ in placed) == vms
        profile.take(start_ms, start_ms + span_ms, profile.room_of(shape, placed))
        for name, machines, devices in placed:
            node = next(one for one in nodes if one.name == name)
            for at_ms in range(start_ms, start_ms + span_ms):
                _add(taken, name, "cores", at_ms, machines * shape.cores)
                _add(taken, name, "memory", at_ms, machines * shape.memory_mib)
                for device in devices:
                    _add(
                        taken,
                        name,
                        f"gpu{device}",
                        at_ms,
                        max(1, node.gpu_shares) if shape.gpu_milli >= 1_000 else node.shares_for(shape.gpu_milli),
                    )
            if shape.gpu_milli >= 1_000:
                assert len(set(devices)) == len(devices) == machines * shape.gpu_milli // 1_000
            assert shape.gpu_model in ("", node.gpu_model)
            if shape.nodes:
                assert (name in shape.nodes, machines) == (True, 1)
    for (name, what, _), amount in taken.items():
        node = next(one for one in nodes if one.name == name)
        limits = {"cores": node.cores, "memory": node.memory_mib or 1 << 60}
        assert amount <= limits.get(what, max(1, node.gpu_shares))


def _add(taken: dict[tuple[str, str, int], int], name: str, what: str, at_ms: int, amount: int) -> None:
    taken[name, what, at_ms] = taken.get((name, what, at_ms), 0) + amount


def _count(
    nodes: list[NodeResources], shape: MachineShape, taken: dict[tuple[str, str, int], int], times: range
) -> int:
    """How many machines fit, put one after another on any node, tried exhaustively for each device."""
    total = 0
    for node in nodes:
        if shape.gpu_milli and (not node.gpus or shape.gpu_model not in ("", node.gpu_model)):
            continue
        if 0 < shape.gpu_milli < 1_000 and not node.gpu_shares:
            continue
        shares = max(1, node.gpu_shares)

        def free(what: str, capacity: int, node: NodeResources = node) -> int:
            return capacity - max(taken.get((node.name, what, at_ms), 0) for at_ms in times)

        most = free("cores", node.cores) // shape.cores
        if node.memory_mib:
            most = min(most, free("memory", node.memory_mib) // shape.memory_mib)
        if shape.gpu_milli:
            each = [free(f"gpu{i}", shares) for i in range(node.gpus)]
            if shape.gpu_milli >= 1_000:
                most = min(most, each.count(shares) // (shape.gpu_milli // 1_000))
            else:
                part = -(-shape.gpu_milli * shares // 1_000)
                most = min(most, sum(one // part for one in each))
        if shape.nodes:
            most = min(most, shape.nodes.count(node.name))
        total += max(0, most)
    return total


class Thorough(VectorBackfiller):
    """Looks everywhere for an earlier start for each reservation, whatever was given back."""

    def _compress(self, now_ms: int) -> None:
        plan = self.plan
        plan.freed.clear()
        for lease in list(self._reserved.values()):
            booked_ms, end_ms, room, placed = lease.reserved_ms, lease.end_ms, self.room_of(lease), lease.placed
            plan.give(booked_ms, end_ms, room)
            start_ms = self.earliest(lease, now_ms)
            if start_ms < booked_ms:
                self.book(start_ms, lease)
                heappush(self._due, (start_ms, lease.order, lease.id))
            else:
                plan.take(booked_ms, end_ms, room)
                lease.placed = placed
        plan.was_freed = False


ALIKE = [NodeResources(f"n{i}", 4, gpu_model="a100", gpus=2, gpu_shares=2) for i in range(3)]
USUAL = [MachineShape(1, 1), MachineShape(4, 1), *(MachineShape(1, 1, "a100", gpus) for gpus in (500, 1_000, 2_000))]


@settings(max_examples=examples(600))
@given(
    asked=st.lists(
        st.tuples(
            st.sampled_from(USUAL),
            st.integers(1, 3),
            st.integers(1, 30),
            st.sampled_from(["", "end", "end", "withdraw"]),
            st.integers(0, 3),
        ),
        min_size=6,
        max_size=25,
    ),
    depth=st.sampled_from([3, None]),
)
def test_an_earlier_start_is_missed_nowhere(
    asked: list[tuple[MachineShape, int, int, str, int]], depth: int | None
) -> None:
    """Only what room given back may help is looked at; whoever looks everywhere decides the same."""
    twins = [VectorBackfiller(VectorProfile(ALIKE), depth), Thorough(VectorProfile(ALIKE), depth)]
    seen: list[list[object]] = [[], []]
    held: list[dict[int, Lease]] = [{}, {}]
    now_ms = 0
    for number, (shape, vms, span_ms, also, after_ms) in enumerate(asked):
        now_ms += after_ms
        for side, queue in enumerate(twins):
            lease = lease_of(number, vms, span_ms, now_ms)
            cores, model, milli = shape.cores, shape.gpu_model, shape.gpu_milli
            lease.request = replace(lease.request, cores=cores, gpu_model=model, gpu_milli=milli)
            queue.submit(lease)
            if also == "end" and held[side]:
                queue.release(held[side].pop(min(held[side])), now_ms)
            elif also == "withdraw" and len(queue):
                queue.withdraw(queue.waiting()[number % len(queue)], now_ms)
            _pass(queue, held[side], seen[side], now_ms)
            seen[side].append([(one.id, one.reserved_ms, one.placed) for one in queue.waiting()])
        assert seen[0] == seen[1]


def test_what_fits_no_node_waits_although_there_is_enough_of_everything() -> None:
    profile = VectorProfile([NodeResources("cpu", 32), NodeResources("gpu", 8, gpu_model="a100", gpus=4)])
    queue = VectorBackfiller(profile, None)
    queue.submit(lease_of(1, 1, 100, 0, cores=8))  # goes where there is no GPU
    queue.submit(lease_of(2, 4, 100, 0, cores=2, gpu_milli=500, gpu_model="a100"))
    queue.submit(lease_of(3, 1, 100, 0, cores=1, gpu_milli=1_000))
    assert [(lease.id, lease.placed) for lease, _ in queue.step(0)] == [
        (1, (("cpu", 1, ()),)),
        (2, (("gpu", 4, (0, 1, 2, 3)),)),
    ]
    (waits,) = queue.waiting()
    assert (waits.id, waits.reserved_ms, waits.placed) == (3, 100, (("gpu", 1, (0,)),))


def test_two_halves_of_different_gpus_are_no_whole_one() -> None:
    profile = VectorProfile([NodeResources("n", 8, gpu_model="a100", gpus=2, gpu_shares=2)])
    half = MachineShape(1, 1, "a100", 500)
    profile.take(0, 10, profile.room_of(half, (("n", 2, (0, 1)),)))
    assert profile.earliest(MachineShape(1, 1, "a100", 1_000), 1, 0, 5) == 10
    assert profile.earliest(half, 2, 0, 5) == 0
    assert profile.place(half, 2, 0, 5) == (("n", 2, (0, 1)),)


def test_fractions_share_a_device_before_they_break_another() -> None:
    profile = VectorProfile([NodeResources("n", 8, gpu_model="a100", gpus=2, gpu_shares=7)])
    assert profile.place(MachineShape(1, 1, "", 400), 2, 0, 5) == (("n", 2, (0, 0)),)
    assert profile.place(MachineShape(1, 1, "", 600), 2, 0, 5) == (("n", 2, (0, 1)),)


STEPS = st.lists(
    st.tuples(st.integers(0, 40), st.integers(1, 15), st.integers(0, 3), st.integers(1, 3)),
    max_size=9,
)


@given(
    bookings=STEPS,
    wanted=st.tuples(st.integers(1, 2), st.integers(0, 3), st.integers(0, 2), st.integers(1, 2), st.integers(1, 6)),
    from_ms=st.integers(0, 45),
    span_ms=st.integers(1, 20),
    before_ms=st.integers(0, 60),
)
def test_a_node_is_searched_as_if_every_start_were_tried(
    bookings: list[tuple[int, int, int, int]],
    wanted: tuple[int, int, int, int, int],
    from_ms: int,
    span_ms: int,
    before_ms: int,
) -> None:
    """``counts`` and ``earliest`` move a window over the steps of a node; here each start is looked at by itself."""
    devices, shares = wanted[2:4]
    plan = NodePlan([6, 8, 2, 2], 0)
    want = _Want(*wanted, is_by_steps=devices == 0 or (devices, shares) == (2, 2))
    for start_ms, length_ms, position, amount in bookings:
        plan.change(start_ms, start_ms + length_ms, [(position, amount)], -1)
    fit = {start_ms: want.fits(plan.low(start_ms, start_ms + span_ms)) for start_ms in range(from_ms, 120)}
    changes = dict(plan.counts(plan.starts(from_ms, span_ms, want, NEVER_MS), from_ms, span_ms, want))
    known = 0
    for start_ms, count in fit.items():
        known = changes.get(start_ms, known)
        assert known == count, f"at {start_ms}"
        room = plan.room(start_ms, start_ms + span_ms, want)
        assert (0 if room is None else room[1]) == count
        assert room is None or room[0] == plan.low(start_ms, start_ms + span_ms)
    first_ms = next((start_ms for start_ms, count in fit.items() if count and start_ms < before_ms), NEVER_MS)
    assert plan.earliest(from_ms, span_ms, want, before_ms) == first_ms


def test_nothing_is_kept_of_shapes_that_name_their_nodes() -> None:
    """Each is of one request: a gateway that kept them would grow with every job."""
    profile = VectorProfile(ALIKE)
    assert [profile.machines(MachineShape(1, 1, nodes=names)) for names in (("n0",), ("n1", "n2"))] == [1, 2]
    assert not profile._machines
    assert not profile._wants
