"""Machines that take time to start, or do not start at all.

A gateway whose sites confirm starts learns of each start when its machines are seen, measures how long that took, and
gives a lease more room when its planned time is over before that. How long the machines of a lease take is drawn from
a random stream of its own, so that what happens to others does not change it.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from leasehold.forecasting.world import Handler
from leasehold.gateway.gateway import Gateway
from leasehold.model.effect import StartLease
from leasehold.model.event import Event, LeaseIsLate, LeaseNotStarted, LeaseStarted, Operation, OverheadMeasured
from leasehold.model.lease import Lease, LeaseState
from leasehold.model.request import NEVER_MS, Request
from leasehold.simulation.scenario.events import StartTimes
from leasehold.simulation.workload.job import WorkloadJob
from leasehold.simulation.workload.streams import random_stream


@dataclass(slots=True)
class _Starting:
    """The machines of a lease that were ordered, when they are there, and whether they fail instead."""

    lease: Lease
    incarnation: int
    ordered_ms: int
    there_ms: int
    fails: bool

    @property
    def is_awaited(self) -> bool:
        """Whether the gateway still waits for them."""
        return self.lease.incarnation == self.incarnation and self.lease.state is LeaseState.STARTING


class MachineStarts:
    """The starts at all clusters whose machines take time; ``counts`` says how many were late or failed."""

    def __init__(self, gateway: Gateway, times: Mapping[str, StartTimes], seed: int) -> None:
        """Begin with nothing ordered; ``times`` are those of clusters, by name."""
        self.counts = Counter[str]()
        self._gateway = gateway
        self._times = times
        self._seed = seed
        self._starting: dict[int, _Starting] = {}
        self.handlers: Mapping[type, Handler] = {StartLease: self._ordered}

    is_busy = False

    def submitted(self, request: Request, job: WorkloadJob) -> None:
        """Machines start as they do, whatever is asked for."""

    def next_ms(self, *, idle: bool) -> int:  # noqa: ARG002 - there is an end to them
        """When machines are there next, or are late."""
        self._starting = {number: one for number, one in self._starting.items() if one.is_awaited}
        moments = (min(one.there_ms, one.lease.end_ms) for one in self._starting.values())
        return min(moments, default=NEVER_MS)

    def events(self, now_ms: int) -> list[Event]:
        """Say what is seen of the machines in this instant."""
        found: list[Event] = []
        for number, one in list(self._starting.items()):
            if not one.is_awaited:
                continue
            if one.there_ms <= now_ms:
                found += self._arrived(one)
                del self._starting[number]
            elif one.lease.end_ms <= now_ms:
                self.counts["late-start"] += 1
                found.append(LeaseIsLate(number, one.incarnation))
        return found

    def _arrived(self, one: _Starting) -> list[Event]:
        lease = one.lease
        if one.fails:
            self.counts["failed-start"] += 1
            return [LeaseNotStarted(lease.id, one.incarnation)]
        took_ms, memory_mib = one.there_ms - one.ordered_ms, lease.request.memory_mib
        return [
            LeaseStarted(lease.id, one.incarnation, one.there_ms),
            OverheadMeasured(lease.site, Operation.START, memory_mib, lease.vms, took_ms),
        ]

    def _ordered(self, effect: StartLease, now_ms: int) -> None:
        lease = effect.lease
        times = self._times.get(lease.site)
        if times is not None:
            draws = random_stream(self._seed, "starts", lease.site, str(lease.id), str(lease.incarnation))
            took_ms = max(1, round(draws.expovariate(1.0) * (times.mean_ms - times.least_ms)) + times.least_ms)
            fails = draws.random() < times.fail_share
            self._starting[lease.id] = _Starting(lease, lease.incarnation, now_ms, now_ms + took_ms, fails)
