"""A hundred jobs on emulated machines, each of which meets a fault: every result comes, and comes once.

Engine, store, gateway, desk and machines are those of a live gateway; only the clock is moved by hand.
"""

from collections import Counter

import pytest
from tests.gateway.random_worlds import to_the_first
from tests.service.drivers.sites import QUICK, machines

from leasehold.gateway.gateway import Gateway, Routing
from leasehold.jobs.job import Backup, Fault
from leasehold.jobs.settings import JobSettings
from leasehold.matching.choice import Retrying
from leasehold.matching.needs import Amounts, Needs
from leasehold.matching.software import software
from leasehold.service.commands import JobNodesSeen, JobOutput, SubmitJob
from leasehold.service.drivers.emulated.options import EmulatedNode
from leasehold.service.drivers.facts import Output
from leasehold.service.engine.jobs import JobSetup
from leasehold.service.engine.tasks import BackgroundTasks
from leasehold.service.store.rows import JobRow
from leasehold.service.store.store import Store
from leasehold.testing.live import Live
from leasehold.testing.worlds import live_site

TIMES = 100
MINUTE_MS = 60_000
HALF_MS = 30_000
GCC = frozenset({("gcc", "12.2")})
WORK = ("sh", "-c", "sleep 60; echo done")
ROOM = 2 * TIMES

pytestmark = pytest.mark.storm


def gateway() -> Gateway:
    return Gateway([live_site(name, ROOM, overhead=QUICK) for name in "ab"], Routing(to_the_first()))


class Grid(Live):
    """Two sites with a node for every job and more; their nodes are looked at as often as a test says."""

    def __init__(self, store: Store) -> None:
        setup = JobSetup(JobSettings(sites=frozenset("ab"), retrying=Retrying(limit_ms=60 * MINUTE_MS)))
        nodes = tuple(EmulatedNode(f"n{number}", cores=1, software=GCC) for number in range(ROOM))
        super().__init__(store, gateway, {name: machines(ROOM, nodes=nodes) for name in "ab"}, setup=setup)

    def look_at_nodes(self) -> None:
        """Tell of all nodes, and give what was fetched."""
        self.look()
        self.do(*(JobNodesSeen(name, tuple(one.machines.nodes(self.now_ms))) for name, one in self.sites.items()))
        while self.tasks.fetches:
            fetches, self.tasks = self.tasks.fetches, BackgroundTasks()
            self.do(*(self._output(one.lease_id, one.site) for one in fetches))

    def _output(self, lease_id: int, name: str) -> JobOutput:
        return JobOutput(lease_id, self.sites[name].machines.output(lease_id) or Output(""))

    def live_on(self, for_ms: int) -> None:
        """Let time pass, and look every ten seconds."""
        until_ms = self.now_ms + for_ms
        while self.now_ms < until_ms:
            self.pass_time(10_000)
            self.look_at_nodes()


@pytest.fixture
def grid(sqlite_store: Store) -> Grid:
    grid = Grid(sqlite_store)
    grid.look_at_nodes()
    return grid


def submit(grid: Grid, backup: Backup = Backup.NONE) -> None:
    """Ask for a hundred jobs of a minute each, and let half of it pass."""
    needs = Needs(amounts=Amounts(1, 256, 0), execution_ms=MINUTE_MS, software=(software("gcc"),))
    grid.do(*[SubmitJob(consumer="physics", command=WORK, needs=needs, backup=backup)] * TIMES)
    grid.pass_time(HALF_MS)


def strike(grid: Grid, fault: Fault, for_ms: int) -> None:
    """Let a fault befall the node of every first attempt, in the midst of its work."""
    for number in range(1, TIMES + 1):
        first = grid.store.attempts([number])[0]
        name, _, node = first.attempt.nodes[0].partition("/")
        grid.sites[name].machines.inject(node, fault, grid.now_ms, for_ms)


def job(grid: Grid, number: int) -> JobRow:
    """A job as it stands."""
    row = grid.store.job(number)
    assert row is not None
    return row


def told(grid: Grid) -> Counter[tuple[str, str]]:
    """How the jobs ended, and how often."""
    rows = [job(grid, number) for number in range(1, TIMES + 1)]
    return Counter((row.record.state, row.record.reason) for row in rows)


def delivered(grid: Grid) -> Counter[int]:
    """How often the journal says of each job that it is over."""
    lines = grid.store.journal(0, 100_000)
    return Counter(line.job_id or 0 for line in lines if line.what == "job" and line.reason == "completed")


@pytest.mark.parametrize("backup", [Backup.NONE, Backup.COLD])
@pytest.mark.parametrize("fault", [Fault.NODE_DIED, Fault.SERVICE_STOPPED, Fault.NETWORK_FAILED])
def test_a_fault_of_its_node_costs_a_job_an_attempt_and_nothing_else(grid: Grid, fault: Fault, backup: Backup) -> None:
    submit(grid, backup)
    strike(grid, fault, 10 * MINUTE_MS)
    grid.live_on(20 * MINUTE_MS)
    assert told(grid) == {("completed", "completed"): TIMES}
    assert delivered(grid) == dict.fromkeys(range(1, TIMES + 1), 1)
    for number in range(1, TIMES + 1):
        first, second = grid.store.attempts([number])
        assert (first.attempt.state, first.attempt.fault) == ("fenced", fault)
        assert (second.attempt.state, job(grid, number).record.delivered) == ("succeeded", 2)


def test_who_comes_back_from_the_dead_delivers_nothing(grid: Grid) -> None:
    """The network is cut for long enough to be given up, and comes back after the second result."""
    submit(grid)
    strike(grid, Fault.NETWORK_FAILED, 5 * MINUTE_MS)
    grid.live_on(3 * MINUTE_MS)
    grid.restart()
    grid.live_on(10 * MINUTE_MS)
    assert delivered(grid) == dict.fromkeys(range(1, TIMES + 1), 1)
    assert not grid.sites["a"].machines.observe()
    assert not grid.sites["b"].machines.observe()


def test_an_error_in_its_own_code_is_told_and_not_tried_again(grid: Grid) -> None:
    for one in grid.sites.values():
        for lease_id in range(1, TIMES + 1):
            one.machines.injector.fail_job(lease_id, exit_status=3)
    submit(grid)
    grid.live_on(5 * MINUTE_MS)
    assert told(grid) == {("failed", "job-error"): TIMES}
    assert all(len(grid.store.attempts([number])) == 1 for number in range(1, TIMES + 1))
    assert {job(grid, number).exit_status for number in range(1, TIMES + 1)} == {3}
