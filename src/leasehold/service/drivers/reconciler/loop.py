"""The reconciler: a thread that observes machines, and some that take the steps that are needed.

Each round observes all machines, compares them with the desired state, writes what has changed, and begins the next
step of each instance that needs one and has none under way. A round follows every order and every step, and there is
one now and then.
"""

import time
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from threading import Event, Lock, RLock, Thread

from leasehold.service.drivers.facts import Access, ImageFacts, NodeFacts, Output
from leasehold.service.drivers.protocol import Clock, Observation, Order, Phase, Problem
from leasehold.service.drivers.reconciler.desired import Desired, DesiredState
from leasehold.service.drivers.reconciler.instances import BRINGS_UP, Key
from leasehold.service.drivers.reconciler.order_rules import Action, no_such_image
from leasehold.service.drivers.reconciler.provider import (
    Machine,
    MachineInstance,
    MachineState,
    PermanentError,
    Provider,
    Step,
    TransientError,
    Unfinished,
    have_booted,
    nodes_of,
)
from leasehold.service.drivers.reconciler.store import InstanceStore

_FIRST_S = 0.5
_LONGEST_S = 60.0
_SITE = "the whole site"


class Backoff:
    """The pauses after errors, by whatever has to pause, and for the whole site; ``clock`` counts seconds.

    Each pause is twice as long as the one before, up to a minute.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._pauses_s: dict[Hashable, float] = {}
        self._not_before_s: dict[Hashable, float] = {}
        self._why = ""

    def succeeded(self, key: Hashable) -> None:
        """End the pauses of this one, and of the site."""
        self.forget(key)
        self.forget(_SITE)

    def forget(self, key: Hashable) -> None:
        """End the pause of this one."""
        self._pauses_s.pop(key, None)
        self._not_before_s.pop(key, None)

    def failed(self, key: Hashable) -> None:
        """Begin a pause, twice as long as the one before."""
        pause_s = min(_LONGEST_S, 2 * self._pauses_s.get(key, _FIRST_S / 2))
        self._pauses_s[key] = pause_s
        self.rest(key, pause_s)

    def site_failed(self, why: str) -> None:
        """Begin a pause of the whole site."""
        self._why = why
        self.failed(_SITE)

    def rest(self, key: Hashable, pause_s: float) -> None:
        """Begin a pause though nothing went wrong."""
        self._not_before_s[key] = self._clock() + pause_s

    def may_try(self, key: Hashable) -> bool:
        """Whether the pause is over."""
        return self._clock() >= self._not_before_s.get(key, 0)

    def site_problem(self) -> str:
        """Why the whole site pauses now; empty where it does not."""
        return "" if self.may_try(_SITE) else self._why

    def wait_s(self, key: Hashable) -> float:
        """How long until this one's pause is over."""
        return max(0.0, self._not_before_s.get(key, 0) - self._clock())

    def until_next_s(self, at_most_s: float) -> float:
        """How long until the next pause is over."""
        waits_s = (at_s - self._clock() for at_s in self._not_before_s.values())
        return min([at_most_s, *(wait_s for wait_s in waits_s if wait_s > 0)])


_NEEDS_ROOM = frozenset({Step.CREATE, Step.RESUME})

Observed = Mapping[Key, Sequence[Machine]]
Job = tuple[Step, MachineInstance, Sequence[Machine]]


@dataclass(frozen=True, slots=True)
class ReconcilerSettings:
    """How machines are looked after.

    ``poll_s``          how long to wait between rounds while there are no orders
    ``boot_within_ms``  how long machines may take to come up until they have failed
    ``parallel``        how many instances are worked on at a time
    """

    poll_s: float = 1.0
    boot_within_ms: int = 300_000
    parallel: int = 4


class Reconciler:
    """Looks after the machines of one site; each method may be called from any thread."""

    def __init__(
        self,
        instances: DesiredState[MachineInstance],
        store: InstanceStore[MachineInstance],
        provider: Provider,
        clock: Clock,
        on_news: Callable[[Iterable[Observation]], None],
        settings: ReconcilerSettings,
    ) -> None:
        self._instances = instances
        self._store = store
        self._provider = provider
        self._clock = clock
        self._on_news = on_news
        self._settings = settings
        self._lock = RLock()
        self._observing = Lock()
        self._under_way: set[Key] = set()
        self._last_step: dict[Key, Step] = {}
        self._backoff = Backoff(time.monotonic)
        self._wake = Event()
        self._is_closed = False
        self._pool = ThreadPoolExecutor(settings.parallel, thread_name_prefix="machines")
        self._thread = Thread(target=self._run, name="reconciler", daemon=True)

    # what is asked of it

    def start(self) -> None:
        """Begin with rounds by itself; before that there is one for each `observe`."""
        self._thread.start()

    def carry_out(self, orders: Sequence[Order]) -> dict[str, Problem]:
        """Take on orders, in their sequence; those taken on are on the disk when this returns."""
        with self._lock:
            problem = self._backoff.site_problem()
            answers = [(order.id, self._follow(order, problem)) for order in orders]
            self._write()
        self._wake.set()
        return {name: problem for name, problem in answers if problem is not None}

    def observe(self) -> list[Observation]:
        """Observe now; raises ConnectionError where machines cannot be observed."""
        self._round()
        with self._lock:
            return self._instances.observe()

    def console(self, lease_id: int) -> str:
        """Return what the machines of a lease have written; empty where there are none."""
        instance = self._copy_of(lease_id)
        return "" if instance is None else self._provider.console(instance)

    def output(self, lease_id: int) -> Output | None:
        """Return what the command of a lease has written; None where no machines of it are here."""
        instance = self._copy_of(lease_id)
        return None if instance is None else self._provider.output(instance)

    def access(self, lease_id: int) -> list[Access]:
        """Say where the user of a lease can log in; empty where nobody is let in, or nothing can be reached now."""
        instance = self._copy_of(lease_id)
        return [] if instance is None or not instance.ssh_key else self._provider.access(instance)

    def _copy_of(self, lease_id: int) -> MachineInstance | None:
        with self._lock:
            current = self._instances.current(lease_id)
            return None if current is None else replace(current)

    def images(self) -> list[ImageFacts]:
        """Describe the images of which it is known what software is in them."""
        return self._provider.images()

    def nodes(self) -> list[NodeFacts]:
        """Describe the nodes of the site; raises ConnectionError where they cannot be observed."""
        with self._lock:
            instances = [replace(one) for one in self._instances.all()]
            free_slots = self._instances.slots - self._instances.used_vms
        try:
            return self._provider.nodes(instances, free_slots)
        except Exception as error:
            raise ConnectionError(f"nodes cannot be observed: {error}") from error

    def close(self) -> None:
        """Stop; steps under way are finished."""
        self._is_closed = True
        self._wake.set()
        self._thread.join()
        self._pool.shutdown()
        self._store.close()
        self._provider.close()

    def _follow(self, order: Order, site_problem: str) -> Problem | None:
        if site_problem and order.verb in BRINGS_UP:
            return Problem(site_problem)
        cores = order.constraints.cores
        return self._instances.follow(order, self._clock(), lambda action: self._refuse(action, order), cores=cores)

    def _refuse(self, action: Action, order: Order) -> Problem | None:
        """Say what is asked for that machines cannot have."""
        lacking = None
        if action is not Action.RESUME:
            lacking = no_such_image(order, self._provider.capabilities) or self._provider.refuse(
                order, self._instances.all()
            )
        return lacking or self._instances.no_room_for(order)

    def _write(self) -> None:
        self._instances.flush(self._store.write)
        self._on_news(self._instances.take_news())

    # rounds

    def _run(self) -> None:
        while not self._is_closed:
            try:
                self._round()
            except Exception:  # noqa: BLE001 - `observe` reports it; orders are on file
                self._wake.wait(self._settings.poll_s)
            else:
                self._wake.wait(self._backoff.until_next_s(self._settings.poll_s))
            self._wake.clear()

    def _round(self) -> None:
        with self._observing:
            with self._lock:
                instances = [replace(one) for one in self._instances.all()]
                under_way = set(self._under_way)
            machines = self._observe(instances)
            with self._lock:
                self._compare(_by_key(machines), under_way | self._under_way)

    def _observe(self, instances: Sequence[MachineInstance]) -> list[Machine]:
        try:
            return self._provider.observe(instances)
        except TransientError as error:
            self._backoff.site_failed(str(error))
            raise ConnectionError(str(error)) from error
        except Exception as error:
            raise ConnectionError(f"machines cannot be observed: {error}") from error

    def _compare(self, observed: Observed, under_way: set[Key]) -> None:
        """Compare; what was observed of instances with a step under way is not believed."""
        for key in observed:
            if self._instances.find(key) is None:  # left by a crash, or the file is lost
                self._add_unknown(key, observed[key])
        for instance in self._instances.all():
            if instance.key not in under_way:
                self._update(instance, observed.get(instance.key, ()))
        jobs = self._jobs(observed, under_way)
        self._write()
        for job in jobs:
            self._pool.submit(self._act, *job)

    def _add_unknown(self, key: Key, machines: Sequence[Machine]) -> None:
        """Take in machines without an instance: to be removed if they are out of date, else as they are.

        What is not wanted is stopped by the service, which knows.
        """
        lease_id, generation = key
        is_saved = all(machine.state is MachineState.SAVED for machine in machines)
        desired = Desired.SAVED if is_saved else Desired.UP
        if generation <= self._instances.tombstone(lease_id) or self._instances.current(lease_id) is not None:
            desired = Desired.GONE
        unknown = MachineInstance(
            lease_id=lease_id,
            generation=generation,
            incarnation=generation,
            vms=len(machines),
            memory_mib=0,
            command=(),
            phase=Phase.SAVED if is_saved else Phase.STARTING,
            since_ms=self._clock(),
            desired=desired,
            created=True,
        )
        self._instances.add(unknown)
        if not unknown.is_leaving:
            self._instances.report(unknown)

    def _update(self, instance: MachineInstance, machines: Sequence[Machine]) -> None:
        if instance.is_leaving:
            if not machines and self._provider.next_step(instance, machines) is None:
                self._forget(instance)
            return
        now_ms, status = self._clock(), self._provider.status_of(instance, machines)
        phase, detail, fault = status.phase, status.detail, status.fault
        # Files take as long as they take.
        is_late = now_ms - instance.since_ms > self._settings.boot_within_ms
        if phase is Phase.STARTING and is_late and not (instance.files.inputs and have_booted(instance, machines)):
            phase, detail = Phase.FAILED, detail or f"not up within {self._settings.boot_within_ms // 1000} s"
        instance.came_up |= phase in {Phase.RUNNING, Phase.ENDED}
        before, instance.nodes = instance.nodes, nodes_of(instance, machines)
        if (phase, detail, instance.nodes) != (instance.phase, instance.detail, before):
            self._instances.become(instance, phase, now_ms, detail, exit_status=status.exit_status, fault=fault)

    def _forget(self, instance: MachineInstance) -> None:
        self._instances.drop(instance)
        self._backoff.forget(instance.key)
        self._last_step.pop(instance.key, None)

    # steps

    def _jobs(self, observed: Observed, under_way: set[Key]) -> list[Job]:
        if self._backoff.site_problem():
            return []
        jobs: list[Job] = []
        room_vms = self._instances.slots - sum(
            _taken(instance, observed, is_under_way=instance.key in under_way)
            for instance in self._instances.all()
            if instance.desired is not Desired.AWAY  # the other site may take them late, and room is needed now
        )
        for instance in sorted(self._instances.all(), key=_leaving_first):
            machines = observed.get(instance.key, ())
            step = None if instance.key in under_way else self._provider.next_step(instance, machines)
            if step is None or not self._backoff.may_try(instance.key):
                continue
            if step in _NEEDS_ROOM and not instance.is_leaving:
                more_vms = instance.vms - _taken(instance, observed, is_under_way=False)
                if more_vms > room_vms:
                    continue
                room_vms -= more_vms
            jobs.append(self._begin(step, instance, machines))
        return jobs

    def _begin(self, step: Step, instance: MachineInstance, machines: Sequence[Machine]) -> Job:
        """Write what may be so from now on, before the step: a crash may leave it half done."""
        created = instance.created or step is Step.CREATE
        came_up = instance.came_up or step is Step.SEND
        if (created, came_up) != (instance.created, instance.came_up):
            instance.created, instance.came_up = created, came_up
            self._instances.touch(instance)
        self._under_way.add(instance.key)
        return step, replace(instance), machines

    def _act(self, step: Step, instance: MachineInstance, machines: Sequence[Machine]) -> None:
        error: Exception | None = None
        try:
            self._provider.act(step, instance, machines)
        except Exception as raised:  # noqa: BLE001 - a step may fail in any way, and is retried
            error = raised
        with self._lock:
            if isinstance(error, Unfinished):
                self._backoff.succeeded(instance.key)
            else:
                self._conclude(step, instance.key, error)
            self._write()
            self._under_way.discard(instance.key)
        self._wake.set()

    def _conclude(self, step: Step, key: Key, error: Exception | None) -> None:
        self._plan_retry(step, key, error)
        instance = self._instances.find(key)
        if instance is None:
            return
        if error is None:
            instance.command_started |= step is Step.RUN
            self._instances.touch(instance)
        elif isinstance(error, PermanentError):
            self._give_up(instance, str(error))
        else:
            self._note(instance, instance.phase, str(error))

    def _plan_retry(self, step: Step, key: Key, error: Exception | None) -> None:
        """A step that is needed twice has not shown yet, or waits for something: it is not urgent."""
        if error is None:
            self._backoff.succeeded(key)
            if self._last_step.get(key) is step:
                self._backoff.rest(key, self._settings.poll_s)
            self._last_step[key] = step
        elif isinstance(error, TransientError):
            self._backoff.site_failed(str(error))
        else:
            self._backoff.failed(key)

    def _give_up(self, instance: MachineInstance, why: str) -> None:
        if instance.desired is Desired.AWAY:
            instance.desired = Desired.GONE
        phase = instance.phase if instance.is_leaving else Phase.FAILED
        self._note(instance, phase, why)

    def _note(self, instance: MachineInstance, phase: Phase, detail: str) -> None:
        now_ms, status, fault = self._clock(), instance.exit_status, instance.fault
        self._instances.become(instance, phase, now_ms, detail, exit_status=status, fault=fault)


def _by_key(machines: Iterable[Machine]) -> Observed:
    observed: dict[Key, list[Machine]] = defaultdict(list)
    for machine in machines:
        observed[machine.key].append(machine)
    return dict(observed)


def _leaving_first(instance: MachineInstance) -> tuple[bool, int, int]:
    return instance.desired is Desired.UP, instance.since_ms, instance.lease_id


def _taken(instance: MachineInstance, observed: Observed, *, is_under_way: bool) -> int:
    """How many machines take room; those that are being brought up count before they are observed."""
    there = observed.get(instance.key, ())
    taking = sum(machine.takes_room and machine.state is not MachineState.SAVED for machine in there)
    return max(taking, instance.vms) if is_under_way and instance.desired is Desired.UP else taking
