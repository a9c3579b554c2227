"""A simulated federation whose every decision is also carried out on emulated machines, to compare them."""

from collections import defaultdict
from collections.abc import Iterable, Mapping

from tests.gateway.random_worlds import QUICK, REFERENCE_MIPS, SLOTS, SPEEDS, Case, three_sites

from leasehold.gateway.gateway import Gateway, Routing
from leasehold.model.effect import (
    Effect,
    LeaseClosed,
    MigrateLease,
    ResumeLease,
    StartLease,
    StopLease,
    SuspendLease,
)
from leasehold.model.event import Event, LeaseContinues, LeaseEnded, LeaseSaved
from leasehold.model.lease import Lease, LeaseState
from leasehold.routing.policy import RoutingPolicy
from leasehold.service.drivers.emulated.fault_injection import FaultInjector, Faults
from leasehold.service.drivers.emulated.machines import EmulatedMachines
from leasehold.service.drivers.emulated.options import Hardware
from leasehold.service.drivers.protocol import Order, Phase, Verb, order_id

Line = tuple[int, str, int, int, Phase]
"""Something that happened: when, at which site, to which lease and incarnation, and the phase it came to."""

_NEWS = LeaseEnded | LeaseSaved | LeaseContinues
_SPEAKS_OF = {
    LeaseEnded: ({LeaseState.RUNNING}, Phase.ENDED),
    LeaseSaved: ({LeaseState.SUSPENDING}, Phase.SAVED),
    LeaseContinues: ({LeaseState.RESUMING, LeaseState.MIGRATING}, Phase.RUNNING),
}
_FREES_ROOM = (Verb.SUSPEND, Verb.SEND, Verb.STOP)


class Shadow:
    """The machines of the three sites. They are told what is decided, and nothing of what happens.

    ``simulated`` is what happened in the simulated world, ``emulated`` what happened to these machines.
    """

    def __init__(self, case: Case) -> None:
        self._needed_ms = {number: job.actual_ms for number, job in enumerate(case.jobs, 1)}
        self._machines = {
            name: EmulatedMachines(Hardware(SLOTS[name], SPEEDS[name], REFERENCE_MIPS, QUICK), FaultInjector(Faults()))
            for name in SLOTS
        }
        self.simulated: list[Line] = []
        self.emulated: list[Line] = []

    def compare(self, events: Iterable[Event], leases: Mapping[int, Lease], now_ms: int) -> None:
        """Note what both tell of this instant, without what is out of date or only ends requested time."""
        for event in events:
            lease = leases.get(event.lease_id) if isinstance(event, _NEWS) else None
            if isinstance(event, _NEWS) and lease is not None and lease.incarnation == event.incarnation:
                states, phase = _SPEAKS_OF[type(event)]
                killed = isinstance(event, LeaseEnded) and event.killed
                if lease.state in states and not killed:
                    self.simulated.append((now_ms, lease.site, lease.id, lease.incarnation, phase))
        for name, machines in self._machines.items():
            for one in machines.pass_time(now_ms):
                self.emulated.append((one.since_ms, name, one.lease_id, one.incarnation, one.phase))

    def carry_out(self, effects: Iterable[Effect], now_ms: int) -> None:
        """Tell the machines what was decided; what that changes at once is no news."""
        orders: dict[str, list[Order]] = defaultdict(list)
        for effect in effects:
            for site, order in self._orders(effect):
                orders[site].append(order)
        for site, batch in orders.items():
            batch.sort(key=lambda order: order.verb not in _FREES_ROOM)
            assert self._machines[site].carry_out(batch, now_ms) == {}
            self._machines[site].pass_time(now_ms)

    def _orders(self, effect: Effect) -> list[tuple[str, Order]]:
        match effect:
            case StartLease(lease):
                return [(lease.site, self._order(Verb.START, lease))]
            case SuspendLease(lease):
                return [(lease.site, self._order(Verb.SUSPEND, lease))]
            case ResumeLease(lease):
                return [(lease.site, self._order(Verb.RESUME, lease))]
            case MigrateLease(lease, source):
                send, receive = self._order(Verb.SEND, lease), self._order(Verb.RECEIVE, lease)
                return [(source, send), (lease.site, receive)]
            case StopLease(lease) | LeaseClosed(lease) if lease.site:
                return [(lease.site, self._order(Verb.STOP, lease))]
            case _:
                return []

    def _order(self, verb: Verb, lease: Lease) -> Order:
        needed_ms, request = self._needed_ms[lease.id], lease.request
        return Order(
            id=order_id(lease.id, lease.incarnation, verb),
            verb=verb,
            lease_id=lease.id,
            incarnation=lease.incarnation,
            vms=lease.vms,
            memory_mib=request.memory_mib,
            command=("sleep", f"{needed_ms // 1000}.{needed_ms % 1000:03d}"),
            work_done=request.duration_ms * REFERENCE_MIPS - lease.work_left,
        )


class Shadowed(Gateway):
    """A gateway with a shadow."""

    def __init__(self, case: Case, policy: RoutingPolicy) -> None:
        super().__init__(three_sites(), Routing(policy), REFERENCE_MIPS)
        self.shadow = Shadow(case)

    def handle(self, events: Iterable[Event], now_ms: int) -> list[Effect]:
        events = list(events)
        self.shadow.compare(events, self.leases, now_ms)
        effects = super().handle(events, now_ms)
        self.shadow.carry_out(effects, now_ms)
        return effects
