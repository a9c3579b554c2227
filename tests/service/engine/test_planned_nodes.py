"""A live site that is planned by nodes: what the plan says is what its machines are ordered to be."""

from collections.abc import Sequence
from random import Random
from typing import Any

import pytest
from tests.gateway.random_worlds import QUICK, to_the_first

from leasehold.gateway.gateway import Gateway, Routing
from leasehold.gateway.invariants import Invariants
from leasehold.gateway.settings import SiteSettings
from leasehold.leasing.victims.registry import victim_policy
from leasehold.model.agreement import CPUS
from leasehold.model.errors import UnknownName
from leasehold.model.lease import LeaseState
from leasehold.model.request import LeaseType
from leasehold.model.resources import NodeResources
from leasehold.service.accounting import account
from leasehold.service.api.views import show_lease
from leasehold.service.commands import NativeJobsSeen, Submit
from leasehold.service.drivers.emulated.fault_injection import FaultInjector, Faults
from leasehold.service.drivers.emulated.machines import EmulatedMachines
from leasehold.service.drivers.emulated.options import Hardware, planned_nodes
from leasehold.service.drivers.protocol import NativeJob, Order, PlacementConstraints, Problem, Verb
from leasehold.service.engine.sites import gpus_in_use
from leasehold.service.store.filters import EVERYTHING, LeaseFilter, UsageFilter
from leasehold.service.store.store import Store
from leasehold.sharing.enforcement import Sharing, SharingSettings
from leasehold.sharing.parties import Provider
from leasehold.sharing.rules import gpus_had
from leasehold.testing.live import Live
from leasehold.testing.rows import submit

S = 1_000
NODES = (
    NodeResources("n1", 8, 16_384, "a100", 2, 4),
    NodeResources("n2", 8, 16_384, "a100", 2, 4),
    NodeResources("big", 16, 16_384),
)


def machines(nodes: tuple[NodeResources, ...] = NODES) -> EmulatedMachines:
    cores = sum(node.cores for node in nodes)
    return EmulatedMachines(Hardware(cores, 1, 1, QUICK, nodes=planned_nodes(nodes)), FaultInjector(Faults(), "a"))


def gateway() -> Gateway:
    site = SiteSettings("a", 1, victim_policy("mov"), overhead=QUICK, confirms_starts=True, nodes=NODES)
    return Gateway([site], Routing(to_the_first()))


@pytest.fixture
def live(sqlite_store: Store) -> Live:
    return Live(sqlite_store, gateway, {"a": machines()})


def guest(vms: int, seconds: int, **values: Any) -> Submit:
    command = ("sleep", str(seconds))
    return submit("physics", LeaseType.SUSPENDABLE, vms, seconds * S, command=command, **values)


def own(vms: int, seconds: int, **values: Any) -> Submit:
    command = ("sleep", str(seconds))
    return submit("home", LeaseType.NON_PREEMPTABLE, vms, seconds * S, command=command, site="a", **values)


def places(live: Live) -> dict[int, tuple[str, ...]]:
    """On which nodes the machines of each lease are, as the machines themselves say."""
    return {one.lease_id: tuple(sorted(one.nodes)) for one in live.sites["a"].machines.all() if not one.is_over}


def test_machines_are_where_the_plan_puts_them_and_owners_get_what_is_missing(live: Live) -> None:
    live.do(guest(2, 100, gpu_model="a100", gpu_milli=1_000, cores=2), guest(1, 100, cores=4))
    live.pass_time(1 * S)
    assert places(live) == {1: ("n2", "n2"), 2: ("big",)}
    row = live.store.lease(1)
    assert row is not None
    shown = show_lease(row)
    assert (shown.cores, shown.gpus, shown.nodes) == (2, "a100:1", ("n2*2[0,1]",))
    # Three GPUs for the owner: two are free, and the guest that holds the others gives way.
    live.do(own(3, 50, gpu_milli=1_000))
    live.pass_time(10 * S)
    row = live.store.lease(1)
    assert row is not None
    assert row.lease.state is LeaseState.SUSPENDED
    assert row.lease.preemptions == 1
    row = live.store.lease(2)
    assert row is not None
    assert row.lease.state is LeaseState.RUNNING  # it holds no GPU
    live.pass_time(300 * S)
    assert not live.gateway.leases


def test_gpus_in_use_are_counted_by_use(live: Live) -> None:
    live.do(guest(3, 100, gpu_milli=500), own(1, 100, gpu_milli=2_000))
    live.pass_time(1 * S)
    assert gpus_in_use(live.gateway.sites["a"]) == {"local": 2_000, "guest": 1_500, "free": 500}


def test_a_guest_resumes_on_other_nodes_than_it_left(live: Live) -> None:
    live.do(guest(1, 100, gpu_milli=2_000))
    live.pass_time(1 * S)
    assert places(live) == {1: ("n2",)}  # the owner's machines fill the nodes from the other end
    live.do(own(1, 1_000, gpu_milli=2_000), own(1, 20, gpu_milli=2_000))
    live.pass_time(20 * S)
    live.pass_time(30 * S)
    row = live.store.lease(1)
    assert row is not None
    assert row.lease.state is LeaseState.RUNNING
    assert [name for name, _, _ in row.lease.placed] == list(places(live)[1])


def test_a_model_that_no_site_has_is_refused_with_the_nearest_name(live: Live) -> None:
    (answer,) = live.do(guest(1, 10, gpu_model="a1000", gpu_milli=1_000))
    assert isinstance(answer, UnknownName)
    assert "did you mean 'a100'" in str(answer)


@pytest.mark.parametrize(
    ("asked", "reason"),
    [
        ({"gpu_milli": 3_000}, "no-node-fits"),
        ({"cores": 17}, "no-node-fits"),
        ({"gpu_model": "a100", "gpu_milli": 2_000, "vms": 3}, "wider-than-any-site"),
    ],
)
def test_what_no_empty_node_has_room_for_is_never_here(live: Live, asked: dict[str, Any], reason: str) -> None:
    asked = {"vms": 1} | asked
    live.do(guest(int(str(asked.pop("vms"))), 10, **asked))
    row = live.store.lease(1)
    assert row is not None
    assert (row.lease.state, row.metadata.reason) == (LeaseState.REFUSED, reason)


@pytest.mark.parametrize("seed", range(6))
def test_machines_never_refuse_what_was_planned_also_across_restarts(
    sqlite_store: Store, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The emulated machines count cores, memory and devices by themselves, and would say that something is in use."""
    random, here, problems = Random(seed), machines(), dict[str, Problem]()
    carry_out = here.carry_out

    def noting(orders: Sequence[Order], now_ms: int) -> dict[str, Problem]:
        found = carry_out(orders, now_ms)
        problems.update(found)
        return found

    monkeypatch.setattr(here, "carry_out", noting)
    live = Live(sqlite_store, gateway, {"a": here})
    for _ in range(60):
        make = random.choice((guest, guest, own))
        milli = random.choice((0, 250, 500, 1_000, 2_000))
        model = "a100" if milli and random.random() < 0.5 else ""
        live.do(
            make(
                random.randint(1, 3),
                random.randint(5, 60),
                cores=random.randint(1, 4),
                memory_mib=random.choice((512, 4_096)),
                gpu_milli=milli,
                gpu_model=model,
            )
        )
        Invariants(live.gateway).check((), live.now_ms)
        live.pass_time(random.randint(1, 15) * S)
        if random.random() < 0.1:
            live.restart()
    live.pass_time(10_000 * S)
    assert not live.gateway.leases
    assert problems == {}
    done = [sqlite_store.lease(number) for number in range(1, 61)]
    assert all(row is not None and row.lease.state in (LeaseState.COMPLETED, LeaseState.REFUSED) for row in done)
    assert sum(row.lease.preemptions for row in done if row is not None) > 0


def test_emulated_machines_give_no_device_twice() -> None:
    here = machines()

    def start(number: int, milli: int, placed: tuple[tuple[str, int, tuple[int, ...]], ...]) -> Order:
        constraints = PlacementConstraints(cores=1, gpu_model="a100", gpu_milli=milli, placed=placed)
        return Order(f"{number}-1-start", Verb.START, number, 1, 1, 1_024, (), constraints=constraints)

    assert here.carry_out([start(1, 500, (("n1", 1, (0,)),)), start(2, 500, (("n1", 1, (0,)),))], 0) == {}
    problems = here.carry_out([start(3, 250, (("n1", 1, (0,)),)), start(4, 1_000, (("n1", 1, (2,)),))], 0)
    assert problems["3-1-start"].text == "GPU 0 of node n1 is in use now"
    assert problems["4-1-start"].text == "node n1 has no such GPU: a100"
    assert not problems["4-1-start"].again


def test_gpu_hours_are_accounted_for_also_after_a_restart(sqlite_store: Store) -> None:
    sharing = [Provider("a", {CPUS: 32, **gpus_had(NODES)})]

    def agreed() -> Gateway:
        site = SiteSettings("a", 1, victim_policy("mov"), overhead=QUICK, confirms_starts=True, nodes=NODES)
        return Gateway([site], Routing(to_the_first()), sharing=Sharing(sharing, SharingSettings()))

    live = Live(sqlite_store, agreed, {"a": machines()})
    live.do(guest(2, 100, gpu_model="a100", gpu_milli=500, cores=3, memory_mib=2_048), guest(1, 50, gpu_milli=2_000))
    live.pass_time(20 * S)
    live.restart()
    ledger = live.gateway.quotas.sharing
    assert ledger is not None
    assert ledger.ledger.holdings[1].amounts == {
        "cpus": 6,
        "memory_mib": 4_096,
        "gpu_milli": 1_000,
        "gpu_milli:a100": 1_000,
    }
    live.pass_time(200 * S)
    rows = sqlite_store.usage(UsageFilter(EVERYTHING, 0, 1 << 50))
    (use,) = account(rows, [(0, 1 << 50)])
    assert use.gpu_milli_ms == 1_000 * 100 * S + 2_000 * 50 * S
    assert use.vm_ms == 6 * 100 * S + 50 * S
    assert dict(rows[0].claims)["memory_mib"] == 4_096


# Native jobs, whose scheduler chooses the nodes


def native(name: str, *nodes: tuple[str, int], gpus: int = 0, running: bool = True, vms: int = 1) -> NativeJob:
    model = "a100" if gpus and running else ""
    return NativeJob(name, "astro", vms, 1_024, 600 * S, running, 1, model, gpus * 1_000, nodes)


def seen(live: Live, *jobs: NativeJob) -> dict[str, tuple[str, tuple[tuple[str, int, tuple[int, ...]], ...]]]:
    """Let the jobs be seen twice; returns the state and the place of the lease that stands for each of them now."""
    for _ in range(2):
        live.pass_time(1 * S)
        live.do(NativeJobsSeen("a", jobs))
    rows = live.store.leases(LeaseFilter(EVERYTHING), 100)
    standing = {row.metadata.native_job: row.lease for row in reversed(rows)}
    return {job.name: (standing[job.name].state.value, standing[job.name].placed) for job in jobs}


def test_a_native_job_is_booked_on_the_nodes_on_which_it_runs(live: Live) -> None:
    there = seen(live, native("7", ("n2", 1), gpus=1), native("8", ("big", 2), ("n2", 1), vms=3))
    assert there["7"] == ("running", (("n2", 1, (0,)),))
    assert there["8"] == ("running", (("big", 2, ()), ("n2", 1, ())))
    live.do(guest(1, 100, gpu_model="a100", gpu_milli=2_000))
    live.pass_time(1 * S)
    assert places(live)[live.engine.leases.last_id] == ("n1",)


def test_the_plan_follows_a_native_job_that_was_started_on_other_nodes_than_planned(live: Live) -> None:
    waits = native("7", gpus=2, running=False)
    assert seen(live, waits)["7"] == ("starting", (("n1", 1, (0, 1)),))
    assert seen(live, native("7", ("n2", 1), gpus=2))["7"] == ("running", (("n2", 1, (0, 1)),))
    live.do(guest(1, 100, gpu_model="a100", gpu_milli=2_000))
    live.pass_time(1 * S)
    assert places(live)[live.engine.leases.last_id] == ("n1",)


def test_a_guest_gives_way_to_a_native_job_that_waits_for_its_gpus(live: Live) -> None:
    live.do(guest(2, 1_000, gpu_model="a100", gpu_milli=2_000), guest(1, 1_000, cores=4))
    live.pass_time(1 * S)
    waits = native("7", gpus=1, running=False)
    seen(live, waits)
    live.pass_time(30 * S)
    live.look()
    assert [row.lease.state for row in (live.store.lease(1), live.store.lease(2)) if row] == ["suspended", "running"]
