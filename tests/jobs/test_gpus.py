"""Jobs that share GPUs: halves of one device, and no whole one of two halves."""

from dataclasses import dataclass, field, replace
from itertools import product

from hypothesis import given
from hypothesis import strategies as st
from tests.jobs.making import S, Told, seen, site, submitted

from leasehold.jobs.events import SeenNode
from leasehold.jobs.job import JobReason
from leasehold.jobs.nodes import Holder, SchedulableNodes
from leasehold.matching.devices import Devices, devices_of
from leasehold.matching.needs import Amounts
from leasehold.matching.nodes import Network

NAME = "a/1"


def with_gpus(gpus: int, shares: int, free: Devices | None = None, at_ms: int = 0) -> SeenNode:
    node = seen(NAME, cores=100, at_ms=at_ms).node
    total = replace(node.capabilities.total, gpus=devices_of(1_000 * gpus))
    able = replace(node.capabilities, total=total, gpu_model="a100", gpu_shares=shares)
    return SeenNode(
        replace(node, capabilities=able, free=replace(total, gpus=total.gpus if free is None else free)),
        is_host=False,
        runs=True,
    )


def test_two_halves_are_of_one_device_and_a_third_leaves_no_whole_one() -> None:
    told = Told(site(with_gpus(2, 2)))
    jobs = [submitted(job_id, gpu_milli=milli) for job_id, milli in enumerate([500, 500, 500, 1_000, 500], 1)]
    told.tell(S, *jobs[:3])
    assert [job for job, _, _ in told.started] == [1, 2, 3]
    told.tell(2 * S, *jobs[3:])
    assert [job for job, _, _ in told.started] == [5]
    assert (4, JobReason.TRIED_AGAIN_LATER.value, "gpus-in-use") in told.decided


def test_a_fraction_is_never_here_where_gpus_are_lent_whole() -> None:
    told = Told(site(with_gpus(2, 0)))
    told.tell(S, submitted(1, gpu_milli=500), submitted(2, gpu_milli=1_000))
    assert (1, JobReason.NEVER_HERE.value, "gpus-lent-whole") in told.decided
    assert [job for job, _, _ in told.started] == [2]


def test_half_a_gpu_is_too_much_where_there_is_none() -> None:
    told = Told(site(seen(NAME)))
    told.tell(S, submitted(1, gpu_milli=500))
    [(_, reason, what)] = told.decided
    assert (reason, what) == ("never-here", "too-few-gpus: asks for 0.5 GPU on each node, and none has any")


@dataclass
class Site:
    """Devices as they are: who has how many shares of which. It puts machines on any device that has room."""

    gpus: int
    shares: int
    held: dict[Holder, dict[int, int]] = field(default_factory=dict)

    def free(self) -> list[int]:
        return [self.shares - sum(parts.get(device, 0) for parts in self.held.values()) for device in range(self.gpus)]

    def start(self, holder: Holder, gpu_milli: int, last_first: bool) -> bool:  # noqa: FBT001
        needed, count = -(-min(gpu_milli, 1_000) * self.shares // 1_000), max(1, gpu_milli // 1_000)
        able = [device for device, free in enumerate(self.free()) if free >= needed]
        if len(able) < count:
            return False
        self.held[holder] = dict.fromkeys((able[::-1] if last_first else able)[:count], needed)
        return True

    def look(self) -> Devices:
        return tuple(sorted((1_000 * free // self.shares for free in self.free()), reverse=True))


def have_places(parts: list[int], gpus: int, shares: int) -> bool:
    """Try every device for every part, largest first."""
    levels = {(0,) * gpus}
    for part in sorted(parts, reverse=True):
        levels = {
            tuple(sorted((*level[:device], level[device] + part, *level[device + 1 :])))
            for level, device in product(levels, range(gpus))
            if level[device] + part <= shares
        }
    return bool(levels)


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["ask", "ask", "ask", "start", "end", "look"]),
        st.sampled_from([100, 250, 300, 500, 700, 1_000, 2_000]),
        st.integers(0, 5),
        st.booleans(),
    ),
    max_size=30,
)


@given(st.integers(1, 3), st.sampled_from([1, 2, 4]), STEPS)
def test_what_is_promised_of_gpus_is_there_whatever_is_seen_and_wherever_machines_are_put(
    gpus: int, shares: int, steps: list[tuple[str, int, int, bool]]
) -> None:
    floor, real, promised = SchedulableNodes(Network()), Site(gpus, shares), dict[Holder, int]()
    floor.see([with_gpus(gpus, shares)], 1)
    for now_ms, (what, gpu_milli, number, last_first) in enumerate(steps, 2):
        holders = sorted(promised)
        if what == "ask":
            amounts = Amounts(1, 1, 0, devices_of(gpu_milli))
            node = floor.node(NAME)
            assert node is not None
            if node.free.holds(amounts):
                promised[now_ms, 1] = gpu_milli
                floor.hold((now_ms, 1), [NAME], amounts)
        elif what == "start" and holders:
            holder = holders[number % len(holders)]
            if holder not in real.held and real.start(holder, promised[holder], last_first):
                floor.begins(holder, [NAME], now_ms)
        elif what == "end" and holders:
            holder = holders[number % len(holders)]
            del promised[holder]
            real.held.pop(holder, None)
            floor.release(holder, [NAME])
        else:
            floor.see([with_gpus(gpus, shares, real.look(), now_ms)], now_ms)
        parts = [-(-milli * shares // 1_000) for one in promised.values() for milli in devices_of(one)]
        assert have_places(parts, gpus, shares)
        assert floor.has_room_for_promises(NAME)
