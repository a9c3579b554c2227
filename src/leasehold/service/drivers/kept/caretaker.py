"""Who looks after machines: a thread that looks, and some that do what has to be done.

Every round looks at all machines, compares them with the goals, writes down what has changed, and begins the
next piece of work for each lease that needs one and has none under way. A round comes after every order,
after every piece of work, and now and then.
"""

import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from threading import Event, Lock, RLock, Thread

from leasehold.service.drivers.kept.comparing import meaning, next_work, nodes_of
from leasehold.service.drivers.kept.floor import Floor
from leasehold.service.drivers.kept.holding import Goal, Holding, Key
from leasehold.service.drivers.kept.ledger import Ledger
from leasehold.service.drivers.kept.machine import HeldUp, Hopeless, Machine, State, Work, World
from leasehold.service.drivers.kept.patience import Patience
from leasehold.service.drivers.protocol import Observation, Order, Phase, Problem, Verb

_BRINGS_UP = frozenset({Verb.START, Verb.RESUME, Verb.RECEIVE})
_NEEDS_ROOM = frozenset({Work.CREATE, Work.RESUME})
_UP = frozenset({State.UP, State.ENDED})

Seen = Mapping[Key, Sequence[Machine]]
Job = tuple[Work, Holding, Sequence[Machine]]


@dataclass(frozen=True, slots=True)
class Habits:
    """How machines are looked after.

    ``poll_s``          how long to wait between rounds while nobody orders anything
    ``boot_within_ms``  how long machines may take to come up until they have failed
    ``at_once``         how many leases are worked on side by side
    """

    poll_s: float = 1.0
    boot_within_ms: int = 300_000
    at_once: int = 4


class Caretaker:
    """Looks after the machines of one site; each method may be called from any thread."""

    def __init__(
        self,
        floor: Floor,
        ledger: Ledger,
        world: World,
        clock: Callable[[], int],
        on_news: Callable[[Mapping[int, Observation]], None],
        habits: Habits,
    ) -> None:
        self._floor = floor
        self._ledger = ledger
        self._world = world
        self._clock = clock
        self._on_news = on_news
        self._poll_s = habits.poll_s
        self._boot_within_ms = habits.boot_within_ms
        self._lock = RLock()
        self._looking = Lock()
        self._busy: dict[Key, Work] = {}
        self._done_last: dict[Key, Work] = {}
        self._patience = Patience(time.monotonic)
        self._wake = Event()
        self._over = False
        self._pool = ThreadPoolExecutor(habits.at_once, thread_name_prefix="machines")
        self._thread = Thread(target=self._go_round, name="caretaker", daemon=True)
        self._thread.start()

    # what is asked of it

    def take_on(self, orders: Sequence[Order]) -> dict[str, Problem]:
        """Take on orders, in their sequence; those taken on are on the disk when this returns."""
        with self._lock:
            held_up = self._patience.held_up()
            answers = [(order.id, self._follow(order, held_up)) for order in orders]
            self._write()
        self._wake.set()
        return {name: problem for name, problem in answers if problem is not None}

    def observe(self) -> list[Observation]:
        """Look now; raises ConnectionError where machines cannot be looked at."""
        self._round()
        with self._lock:
            return self._floor.observe()

    def console(self, lease_id: int) -> str:
        """Give what the machines of a lease have written; empty where there are none."""
        with self._lock:
            here = self._floor.here(lease_id)
            holding = None if here is None else replace(here)
        return "" if holding is None else self._world.console(holding)

    def close(self) -> None:
        """Stop looking; what is being done is done to its end."""
        self._over = True
        self._wake.set()
        self._thread.join()
        self._pool.shutdown()
        self._ledger.close()
        self._world.close()

    # orders

    def _follow(self, order: Order, held_up: str) -> Problem | None:
        if held_up and order.verb in _BRINGS_UP:
            return Problem(held_up)
        return self._floor.follow(order, self._clock())

    def _write(self) -> None:
        holdings, gone = self._floor.take_unwritten()
        if holdings or gone:
            try:
                self._ledger.write(holdings, gone)
            except BaseException:
                self._floor.is_unwritten(holdings, gone)
                raise
        self._on_news(self._floor.take_news())

    # rounds

    def _go_round(self) -> None:
        while not self._over:
            try:
                self._round()
            except Exception:  # noqa: BLE001 - whoever observes is told; what is ordered waits on file
                self._wake.wait(self._poll_s)
            else:
                self._wake.wait(self._patience.until_next(self._poll_s))
            self._wake.clear()

    def _round(self) -> None:
        with self._looking:
            with self._lock:
                holdings = [replace(one) for one in self._floor.all()]
                busy_before = set(self._busy)
            machines = self._look(holdings)
            with self._lock:
                self._compare(_by_key(machines), busy_before | set(self._busy))

    def _look(self, holdings: Sequence[Holding]) -> list[Machine]:
        try:
            return self._world.look(holdings)
        except HeldUp as error:
            self._patience.hold_up(str(error))
            raise ConnectionError(str(error)) from error
        except Exception as error:
            raise ConnectionError(f"machines cannot be looked at: {error}") from error

    def _compare(self, seen: Seen, busy: "set[Key]") -> None:
        """Judge what was seen; nothing is believed of leases that were worked on meanwhile."""
        self._take_notice(seen)
        for holding in self._floor.all():
            if holding.key not in busy:
                self._judge(holding, seen.get(holding.key, ()))
        jobs = self._jobs(seen, busy)
        self._write()
        for job in jobs:
            self._pool.submit(self._do, *job)

    def _take_notice(self, seen: Seen) -> None:
        """Machines that are on no file were left by a crash, or the file is lost: end them, or adopt them."""
        for key in seen:
            if self._floor.find(key) is None:
                self._floor.enter_unknown(key, seen[key], self._clock())

    def _judge(self, holding: Holding, machines: Sequence[Machine]) -> None:
        if holding.is_leaving:
            if next_work(holding, machines) is None and not machines:
                self._forget(holding)
            return
        now_ms = self._clock()
        phase, detail = meaning(holding, machines)
        if phase is Phase.STARTING and now_ms - holding.since_ms > self._boot_within_ms:
            phase, detail = Phase.FAILED, detail or f"not up within {self._boot_within_ms // 1000} s"
        holding.came_up |= phase in {Phase.RUNNING, Phase.ENDED}
        before, holding.nodes = holding.nodes, nodes_of(holding, machines)
        if (phase, detail, holding.nodes) != (holding.phase, holding.detail, before):
            self._floor.become(holding, phase, now_ms, detail)

    def _forget(self, holding: Holding) -> None:
        self._floor.drop(holding)
        self._patience.forget(holding.key)
        self._done_last.pop(holding.key, None)

    # work

    def _jobs(self, seen: Seen, busy: "set[Key]") -> list[Job]:
        if self._patience.held_up():
            return []
        jobs: list[Job] = []
        room_vms = self._floor.slots - sum(
            _taken(holding, seen, holding.key in busy)
            for holding in self._floor.all()
            if holding.goal is not Goal.AWAY  # the other site may be slow to take them, and room is needed now
        )
        for holding in sorted(self._floor.all(), key=_who_leaves_first):
            machines = seen.get(holding.key, ())
            work = None if holding.key in busy else next_work(holding, machines)
            if work is None or not self._patience.may_try(holding.key):
                continue
            if work in _NEEDS_ROOM and not holding.is_leaving:
                more_vms = holding.vms - _taken(holding, seen, is_busy=False)
                if more_vms > room_vms:
                    continue
                room_vms -= more_vms
            jobs.append(self._begin(work, holding, machines))
        return jobs

    def _begin(self, work: Work, holding: Holding, machines: Sequence[Machine]) -> Job:
        """Write down what may be so from now on, whether or not we live to see it."""
        begun = holding.begun or work is Work.CREATE
        came_up = holding.came_up or work is Work.SEND
        if (begun, came_up) != (holding.begun, holding.came_up):
            holding.begun, holding.came_up = begun, came_up
            self._floor.touch(holding)
        self._busy[holding.key] = work
        return work, replace(holding), machines

    def _do(self, work: Work, holding: Holding, machines: Sequence[Machine]) -> None:
        problem: Exception | None = None
        try:
            self._world.do(work, holding, machines)
        except Exception as error:  # noqa: BLE001 - machines may fail in any way, and are tried again
            problem = error
        with self._lock:
            self._conclude(work, holding.key, problem)
            self._write()
            del self._busy[holding.key]
        self._wake.set()

    def _conclude(self, work: Work, key: Key, problem: Exception | None) -> None:
        self._remember(work, key, problem)
        holding = self._floor.find(key)
        if holding is None:
            return
        if problem is None:
            holding.commanded |= work is Work.RUN
            self._floor.touch(holding)
        elif isinstance(problem, Hopeless):
            self._give_up(holding, str(problem))
        else:
            self._floor.become(holding, holding.phase, self._clock(), str(problem))

    def _remember(self, work: Work, key: Key, problem: Exception | None) -> None:
        """What has to be done twice has not shown yet, or waits for something: it need not be hurried."""
        if problem is None:
            self._patience.went_well(key)
            if self._done_last.get(key) is work:
                self._patience.rest(key, self._poll_s)
            self._done_last[key] = work
        elif isinstance(problem, HeldUp):
            self._patience.hold_up(str(problem))
        else:
            self._patience.went_wrong(key)

    def _give_up(self, holding: Holding, why: str) -> None:
        if holding.goal is Goal.AWAY:
            holding.goal = Goal.GONE
        phase = holding.phase if holding.is_leaving else Phase.FAILED
        self._floor.become(holding, phase, self._clock(), why)


def _by_key(machines: Iterable[Machine]) -> Seen:
    seen: dict[Key, list[Machine]] = defaultdict(list)
    for machine in machines:
        seen[machine.key].append(machine)
    return dict(seen)


def _who_leaves_first(holding: Holding) -> tuple[bool, int, int]:
    return holding.goal is Goal.UP, holding.since_ms, holding.lease_id


def _taken(holding: Holding, seen: Seen, is_busy: bool) -> int:  # noqa: FBT001
    """How many machines take room; those that are being brought up are counted before they are seen."""
    there = sum(machine.takes_room and machine.state is not State.SAVED for machine in seen.get(holding.key, ()))
    return max(there, holding.vms) if is_busy and holding.goal is Goal.UP else there
