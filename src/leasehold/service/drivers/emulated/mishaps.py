"""What goes wrong in the machines of an emulated site: by chance, and on demand.

Chance here has no memory: each question is answered by a random stream of its own, named by the seed and by
what is asked about. So the same orders at the same times meet the same fate, whether or not the process was
killed in between, and nothing of it has to be kept.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from math import ceil
from random import Random

from leasehold.jobs.job import Fault
from leasehold.service.drivers.emulated.fates import next_fate_ms
from leasehold.service.drivers.emulated.faults import Faults
from leasehold.service.drivers.endings import NOT_FOUND
from leasehold.service.drivers.protocol import Order, Problem, Verb

_MS_PER_HOUR = 3_600_000
_NEVER_REFUSED = frozenset({Verb.SEND, Verb.STOP})


@dataclass(slots=True)
class _Planned:
    """An order that is to fail: of this verb and lease, or of any."""

    problem: Problem
    times: int
    verb: Verb | None
    lease_id: int | None

    def meets(self, order: Order) -> bool:
        fits = self.verb in {None, order.verb} and self.lease_id in {None, order.lease_id}
        return fits and self.times > 0


class Mishaps:
    """What will go wrong. The rates in ``faults`` may be changed at any time."""

    def __init__(self, faults: Faults, site: str = "") -> None:
        """Begin with rates alone; sites of different names have different luck."""
        self.faults = faults
        self._site = site
        self._planned: list[_Planned] = []
        self._crashes_ms: dict[int, int] = {}
        self._losing_memory: set[int] = set()
        self._failing: dict[int, int] = {}

    # on demand

    def fail_next(
        self, problem: Problem, times: int = 1, verb: Verb | None = None, lease_id: int | None = None
    ) -> None:
        """Let the next orders (of this verb, of this lease) have this problem, so many times."""
        self._planned = [plan for plan in self._planned if plan.times > 0]
        self._planned.append(_Planned(problem, times, verb, lease_id))

    def crash_after(self, lease_id: int, running_ms: int) -> None:
        """Let the machines of a lease crash that long after they come up the next time."""
        self._crashes_ms[lease_id] = running_ms

    def fail_saving(self, lease_id: int) -> None:
        """Let the next saving of this lease's memory fail, so that its machines are lost."""
        self._losing_memory.add(lease_id)

    def fail_job(self, lease_id: int, exit_status: int = 1) -> None:
        """Let the command of this lease fail from the next time on that it comes up; 127: it is not found."""
        self._failing[lease_id] = exit_status

    # what the machines ask

    def problem_of(self, order: Order, now_ms: int) -> Problem | None:
        """Say whether an order is not taken on, and why."""
        for plan in self._planned:
            if plan.meets(order):
                plan.times -= 1
                return plan.problem
        if order.verb not in _NEVER_REFUSED and self._happens(self.faults.refuse_orders, "refuse", order.id):
            return Problem(f"emulated fault: {order.verb} is refused", again=False)
        if self._happens(self.faults.fail_orders, "fail", order.id, now_ms):
            return Problem(f"emulated fault: {order.verb} has failed this time")
        return None

    def takes_ms(self, usual_ms: int) -> int:
        """How long something takes here that usually takes so long."""
        return ceil(usual_ms * self.faults.slow_factor) + self.faults.delay_ms

    def crashes_after_ms(self, lease_id: int, incarnation: int) -> int | None:
        """How long the machines run until they crash; None: they do not."""
        if lease_id in self._crashes_ms:
            return self._crashes_ms.pop(lease_id)
        if not self.faults.crash_per_hour:
            return None
        hours = self._luck("crash", lease_id, incarnation).expovariate(self.faults.crash_per_hour)
        return ceil(hours * _MS_PER_HOUR)

    def loses_memory(self, lease_id: int, incarnation: int) -> bool:
        """Whether saving the memory of these machines fails."""
        if lease_id in self._losing_memory:
            self._losing_memory.discard(lease_id)
            return True
        return self._happens(self.faults.lose_memory, "memory", lease_id, incarnation)

    def exit_status_of(self, lease_id: int) -> int:
        """With which status a mishap lets a lease's command end, however often it is resumed; 0: none."""
        if lease_id in self._failing:
            return self._failing[lease_id]
        if self._happens(self.faults.software_gone, "software", lease_id):
            return NOT_FOUND
        return int(self._happens(self.faults.fail_jobs, "job", lease_id))

    def part_of_the_work(self, lease_id: int) -> float:
        """How much of its work a command has done when it fails on its way."""
        return self._luck("part", lease_id).random()

    def next_fates(self, nodes: Iterable[str], after_ms: int) -> list[tuple[int, str, Fault]]:
        """Say of each node when what befalls it by chance does so next: the time, the node, and what."""
        rates = [(fault, rate) for fault, rate in self._rates().items() if rate]
        return [
            (next_fate_ms(self._luck, rate, (fault.value, node), after_ms), node, fault)
            for fault, rate in rates
            for node in nodes
        ]

    def _rates(self) -> dict[Fault, float]:
        return {
            Fault.NODE_DIED: self.faults.node_death_per_hour,
            Fault.SERVICE_STOPPED: self.faults.service_stop_per_hour,
            Fault.NETWORK_FAILED: self.faults.network_cut_per_hour,
        }

    def _happens(self, probability: float, *about: object) -> bool:
        return probability > 0 and self._luck(*about).random() < probability

    def _luck(self, *about: object) -> Random:
        return Random(repr((self.faults.seed, self._site, *about)))
