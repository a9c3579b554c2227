"""Jobs beside other leases on emulated machines: what the gateway gave away itself is never given away twice.

Engine, store, gateway, desk and machines are those of a live gateway; only the clock is moved by hand.
"""

from collections.abc import Callable

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.gateway.random_worlds import to_the_first
from tests.searching import examples
from tests.service.drivers.sites import QUICK, machines
from tests.service.engine.conftest import NewStore

from leasehold.gateway.gateway import Gateway, Routing
from leasehold.jobs.settings import JobSettings
from leasehold.matching.choice import Retrying
from leasehold.matching.needs import Amounts, Needs
from leasehold.model.request import LeaseType
from leasehold.service.commands import Cancel, JobNodesSeen, JobOutput, Submit, SubmitJob
from leasehold.service.drivers.emulated.options import EmulatedNode
from leasehold.service.drivers.facts import Output
from leasehold.service.drivers.protocol import Order, PlacementConstraints, Verb
from leasehold.service.engine.jobs import JobSetup
from leasehold.service.engine.tasks import BackgroundTasks
from leasehold.service.store.store import Store
from leasehold.testing.live import Live
from leasehold.testing.rows import submit
from leasehold.testing.worlds import site

MINUTE_MS = 60_000
SLOTS = 8


def gateway() -> Gateway:
    return Gateway([site("a", SLOTS, overhead=QUICK)], Routing(to_the_first()))


class House(Live):
    """One site of eight nodes, which are looked at when a test says so, and when the engine asks for it."""

    def __init__(self, store: Store, cores: int = 4) -> None:
        retrying = Retrying(limit_ms=10**12)
        setup = JobSetup(JobSettings(sites=frozenset("a"), retrying=retrying))
        nodes = tuple(EmulatedNode(f"n{number}", cores=cores) for number in range(1, SLOTS + 1))
        super().__init__(store, gateway, {"a": machines(SLOTS, nodes=nodes)}, setup=setup)
        self.look_at_nodes()

    def look_at_nodes(self) -> None:
        there = self.sites["a"].machines.nodes(self.now_ms)
        self.do(JobNodesSeen("a", tuple(there), self.now_ms))

    def run_errands(self) -> None:
        errands, self.tasks = self.tasks, BackgroundTasks()
        for one in errands.fetches:
            wrote = self.sites["a"].machines.output(one.lease_id) or Output("")
            self.do(JobOutput(one.lease_id, wrote))
        if errands.looks:
            self.pass_time(1)
            self.look_at_nodes()

    def live_on(self, for_ms: int) -> None:
        until_ms = self.now_ms + for_ms
        while self.now_ms < until_ms:
            self.pass_time(min(20_000, until_ms - self.now_ms))
            self.run_errands()

    def stories(self) -> dict[int, list[str]]:
        """What was decided about each job."""
        told: dict[int, list[str]] = {}
        for line in self.store.journal(0, 100_000):
            if line.what == "job" and line.job_id is not None:
                told.setdefault(line.job_id, []).append(line.reason)
        return told


def lease(vms: int, lasts_ms: int = 3 * MINUTE_MS) -> Submit:
    return submit("climate", LeaseType.SUSPENDABLE, vms, lasts_ms)


def job(cores: int = 1, count: int = 1) -> SubmitJob:
    needs = Needs(amounts=Amounts(cores, 256, 0), execution_ms=MINUTE_MS, nodes=count)
    return SubmitJob(consumer="physics", command=("sleep", "30"), needs=needs, restarts=0)


def test_a_job_runs_at_once_beside_a_lease_that_came_after_the_last_look(sqlite_store: Store) -> None:
    """Six nodes are free all the time; the emulated site puts machines that name no node on the first."""
    house = House(sqlite_store)
    house.do(lease(5))
    house.do(job())
    house.live_on(MINUTE_MS)

    row = house.store.job(1)
    assert row is not None
    assert (row.record.state, row.record.restarts) == ("completed", 0)
    assert [one.attempt.nodes for one in house.store.attempts([1])] == [("a/n2",)]
    assert all(node.failures == 0 for node in house.store.nodes())


def test_also_if_both_come_in_the_same_moment(sqlite_store: Store) -> None:
    house = House(sqlite_store)
    house.do(lease(4), job(cores=4))
    house.live_on(MINUTE_MS)

    [attempt] = house.store.attempts([1])
    assert (attempt.attempt.state, attempt.attempt.nodes) == ("succeeded", ("a/n2",))


def test_a_node_that_somebody_else_has_filled_costs_nothing(sqlite_store: Store) -> None:
    """The view is as old as the last look, and it is not the gateway that filled the node since."""
    house = House(sqlite_store)
    filled = PlacementConstraints(nodes=("n1",), cores=4)
    stranger = Order("999.1.start", Verb.START, 999, 1, vms=1, memory_mib=256, constraints=filled)
    assert house.sites["a"].machines.carry_out([stranger], house.now_ms) == {}
    house.do(job())
    house.live_on(MINUTE_MS)

    row = house.store.job(1)
    assert row is not None
    assert (row.record.state, row.record.restarts) == ("completed", 0)
    tries = [(one.attempt.nodes, one.attempt.state, one.attempt.fault) for one in house.store.attempts([1])]
    assert tries == [(("a/n1",), "fenced", None), (("a/n2",), "succeeded", None)]
    assert house.stories()[1][:3] == ["runs-on-nodes", "node-full", "runs-on-nodes"]
    assert all(node.failures == 0 for node in house.store.nodes())


def test_a_job_waits_as_long_as_its_lease_waits_and_says_so(sqlite_store: Store) -> None:
    house = House(sqlite_store)
    house.do(submit("climate", LeaseType.NON_PREEMPTABLE, SLOTS, MINUTE_MS))
    house.do(job())
    row = house.store.job(1)
    assert row is not None
    assert row.record.state == "waiting"
    house.live_on(3 * MINUTE_MS)

    row = house.store.job(1)
    assert row is not None
    assert (row.record.state, row.record.restarts) == ("completed", 0)


WORLDS = st.lists(
    st.one_of(
        st.tuples(st.just("lease"), st.integers(1, 6)),
        st.tuples(st.just("job"), st.integers(1, 4)),
        st.tuples(st.just("wide job"), st.integers(1, 2)),
        st.tuples(st.just("both"), st.integers(1, 4)),
        st.tuples(st.just("cancel"), st.integers(1, 20)),
        st.tuples(st.just("look"), st.just(0)),
        st.tuples(st.just("restart"), st.just(0)),
        st.tuples(st.just("pass"), st.integers(1, 90_000)),
    ),
    max_size=12,
)


def play(house: House, what: str, number: int, cores: int) -> None:
    """Do one thing in a world."""
    wants = job(min(number, cores), count=2 if what == "wide job" else 1)
    steps: dict[str, Callable[[], object]] = {
        "lease": lambda: house.do(lease(number)),
        "job": lambda: house.do(wants),
        "wide job": lambda: house.do(wants),
        "both": lambda: house.do(lease(number), wants, lease(1)),
        "cancel": lambda: house.store.lease(number) and house.do(Cancel(number)),
        "look": house.look_at_nodes,
        "restart": house.restart,
        "pass": lambda: house.live_on(number),
    }
    steps[what]()


@given(world=WORLDS, cores=st.integers(1, 4))
@settings(
    max_examples=examples(12),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
def test_no_attempt_is_ever_sent_to_a_full_node(new_store: NewStore, world: list[tuple[str, int]], cores: int) -> None:
    with new_store() as store:
        house = House(store, cores)
        for what, number in world:
            play(house, what, number, cores)
        for _ in range(15):
            house.live_on(MINUTE_MS)
            house.look_at_nodes()

        for number, story in house.stories().items():
            row = store.job(number)
            assert row is not None
            assert "node-full" not in story, (number, story)
            assert row.record.restarts == 0
        assert all(node.failures == 0 for node in store.nodes())
