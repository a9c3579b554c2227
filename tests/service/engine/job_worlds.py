"""What the examples of jobs are told with: an engine, what machines would say, and what is in the store."""

from collections.abc import Callable, Sequence
from typing import Any

from tests.service.engine.examples import gateway_of_two

from leasehold.gateway.gateway import Gateway
from leasehold.jobs.settings import JobSettings
from leasehold.matching.needs import Amounts, Needs
from leasehold.matching.software import software
from leasehold.service.commands import (
    Command,
    JobNodesSeen,
    JobOutput,
    Observed,
    SubmitJob,
)
from leasehold.service.drivers.facts import NodeFacts, Output
from leasehold.service.drivers.protocol import Observation, Order, Phase
from leasehold.service.engine.context import DecisionCore
from leasehold.service.engine.engine import Done, Engine
from leasehold.service.engine.jobs import JobSetup
from leasehold.service.engine.outages import NodeOutages
from leasehold.service.engine.tasks import BackgroundTasks
from leasehold.service.engine.timers import TimerQueue
from leasehold.service.metrics import Metrics
from leasehold.service.store.rows import AttemptRow, JobRow, JournalRow, LeaseRow
from leasehold.service.store.store import Store
from leasehold.testing.live import BEGIN_MS

S = 1_000
NUMPY = frozenset({("python3-numpy", "1.24.2")})
SETTINGS = JobSettings(sites=frozenset("ab"))


class Shop:
    """An engine with sites a and b of 4 VMs each, whose machines say what a test lets them say.

    ``orders``   what machines were told, by site, newest last
    ``errands``  what is to be done outside
    """

    def __init__(
        self,
        store: Store,
        setup: JobSetup | None = None,
        make_gateway: Callable[[], Gateway] = gateway_of_two,
        most_open: int | None = None,
    ) -> None:
        self.store = store
        self.now_ms = BEGIN_MS
        self.orders: dict[str, list[Order]] = {"a": [], "b": []}
        self.errands = BackgroundTasks()
        self._setup = setup or JobSetup(SETTINGS)
        self._make_gateway = make_gateway
        self._most_open = most_open
        self.restart()

    def restart(self) -> None:
        """Forget everything that is not in the store, and go on from there."""
        self.errands = BackgroundTasks()
        self.metrics = Metrics()
        self.engine = Engine(self.store, self._make_gateway, self.metrics, self.now_ms, self._most_open, self._setup)
        self._next_ms: int | None = self.now_ms

    def do(self, *commands: Command) -> list[Any]:
        """Ask for these now."""
        done = self._step(commands)
        self.engine.jobs.scheduler.check()
        for answer in done.answers:
            if isinstance(answer, Exception):
                raise answer
        return done.answers

    def ask(self, command: Command) -> Any:
        """Ask for one thing, and give its answer, be it an error."""
        [answer] = self._step([command]).answers
        return answer

    def pass_time(self, for_ms: int) -> None:
        """Let everything happen that happens by itself."""
        until_ms = self.now_ms + for_ms
        while self._next_ms is not None and self._next_ms <= until_ms:
            self.now_ms = max(self.now_ms, self._next_ms)
            self._step([])
        self.now_ms = until_ms

    def _step(self, commands: Sequence[Command]) -> Done:
        done = self.engine.step(commands, self.now_ms)
        self._next_ms = done.next_alarm_ms
        self.errands = BackgroundTasks.together((self.errands, done.tasks))
        for row in done.orders:
            self.orders[row.site].append(row.order)
        return done

    # What machines say

    def see(self, lease_id: int, phase: Phase, detail: str = "", **said: Any) -> None:
        """The machines of a lease are seen so, at the site where it is or was."""
        self.do(self.seen(lease_id, phase, detail, **said))

    def seen(self, lease_id: int, phase: Phase, detail: str = "", **said: Any) -> Observed:
        row = self.lease(lease_id)
        seen = Observation(lease_id, row.lease.incarnation, phase, self.now_ms, detail, **said)
        return Observed(row.lease.site, (seen,))

    def runs(self, lease_id: int = 1, detail: str = "") -> None:
        self.see(lease_id, Phase.RUNNING, detail)

    def ends(self, lease_id: int = 1, exit_status: int = 0, detail: str = "", fault: str = "") -> None:
        self.see(lease_id, Phase.ENDED, detail, exit_status=exit_status, fault=fault)

    def fails(self, lease_id: int = 1, detail: str = "", fault: str = "") -> None:
        self.see(lease_id, Phase.FAILED, detail, fault=fault)

    def fetched(self, lease_id: int = 1, text: str = "42\n", problem: str = "") -> None:
        """What the command of a lease wrote was fetched."""
        self.do(JobOutput(lease_id, Output(text), problem))

    # What is in the store

    def job(self, job_id: int = 1) -> JobRow:
        row = self.store.job(job_id)
        assert row is not None
        return row

    def state(self, job_id: int = 1) -> tuple[str, str]:
        return self.job(job_id).record.state, self.job(job_id).record.reason

    def attempts(self, job_id: int = 1) -> list[AttemptRow]:
        return self.store.attempts([job_id])

    def tried(self, job_id: int = 1) -> list[tuple[str, str, str]]:
        """Where a job was tried, how each stands, and which fault it was."""
        return [
            (", ".join(row.attempt.nodes), row.attempt.state, row.attempt.fault or "") for row in self.attempts(job_id)
        ]

    def lease(self, lease_id: int) -> LeaseRow:
        row = self.store.lease(lease_id)
        assert row is not None
        return row

    def story(self, job_id: int = 1) -> list[str]:
        """What was decided about a job."""
        return [line.reason for line in self.lines(job_id) if line.what == "job"]

    def lines(self, job_id: int = 1) -> list[JournalRow]:
        return [line for line in self.store.journal(0, 10_000) if line.job_id == job_id]

    def told(self, site: str = "a") -> list[str]:
        """The verbs of the orders to a site."""
        return [order.verb.value for order in self.orders[site]]


def no_outages() -> NodeOutages:
    """Outages of which no gateway is told."""
    core = DecisionCore(gateway_of_two)
    core.begin()
    return NodeOutages(core, TimerQueue())


def facts(name: str = "n1", **said: Any) -> NodeFacts:
    """A node of 4 cores and 4 GiB that nobody uses."""
    usual: dict[str, Any] = {
        "cores": 4,
        "memory_mib": 4096,
        "disk_mib": 10_000,
        "free_cores": 4,
        "free_memory_mib": 4096,
        "free_disk_mib": 10_000,
        "software": NUMPY,
    }
    return NodeFacts(name=name, **(usual | said))


def nodes(*there: NodeFacts, site: str = "a") -> JobNodesSeen:
    """A site has these nodes."""
    return JobNodesSeen(site, there)


def job(
    *needed: str, cores: int = 1, memory_mib: int = 1024, runs_s: float = 60, count: int = 1, **said: Any
) -> SubmitJob:
    """A job of `physics` that needs this software."""
    needs = Needs(
        amounts=Amounts(cores, memory_mib, 0),
        execution_ms=round(runs_s * S),
        nodes=count,
        software=tuple(software(one) for one in needed),
    )
    usual: dict[str, Any] = {"consumer": "physics", "command": ("simulate", "--all"), "needs": needs}
    return SubmitJob(**(usual | said))


def open_shop(store: Store, **said: Any) -> Shop:
    """A shop that has seen a node at each site."""
    shop = Shop(store, **said)
    shop.do(nodes(facts()), nodes(facts("m1"), site="b"))
    return shop
