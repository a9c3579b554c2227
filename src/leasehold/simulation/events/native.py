"""Clusters whose own users ask another scheduler, which starts their jobs in an order of its own.

The gateway plans the jobs of such a cluster as always, and makes room for them before they start; but which of them
starts, its scheduler decides, and the gateway follows what it sees of that. The scheduler here starts, in its order,
whatever fits beside what runs and beside the guests that have not given way.
"""

from collections import Counter
from collections.abc import Callable, Mapping

from leasehold.forecasting.world import Handler
from leasehold.gateway.gateway import Gateway
from leasehold.gateway.site import Site
from leasehold.model.effect import LeaseClosed, StartLease, WithdrawLease
from leasehold.model.event import Event, LeaseIsLate, LeaseStarted, NativeQueueSeen
from leasehold.model.lease import Lease, LeaseState
from leasehold.model.request import NEVER_MS, Request
from leasehold.simulation.scenario.events import LOOKS_AGAIN_MS
from leasehold.simulation.workload.job import WorkloadJob

_ORDERS: Mapping[str, Callable[[Lease], tuple[int, ...]]] = {
    "fifo": lambda lease: (lease.id,),
    "shortest": lambda lease: (lease.request.duration_ms, lease.id),
    "narrowest": lambda lease: (lease.vms, lease.id),
    "widest": lambda lease: (-lease.vms, lease.id),
}


class NativeSchedulers:
    """The schedulers of all clusters that have one; ``counts`` says how often one did not start what was planned."""

    def __init__(self, gateway: Gateway, orders: Mapping[str, str]) -> None:
        """Begin with empty queues; ``orders`` are those of clusters, by name."""
        self.counts = Counter[str]()
        self._gateway = gateway
        self._orders = orders
        self._looks_ms: dict[str, int] = {}
        self._running: dict[str, set[int]] = {name: set() for name in orders}
        self._to_confirm: dict[int, tuple[Lease, int]] = {}
        self.handlers: Mapping[type, Handler] = {
            StartLease: self._ordered,
            LeaseClosed: self._changed,
            WithdrawLease: self._changed,
        }

    is_busy = False

    def submitted(self, request: Request, job: WorkloadJob) -> None:  # noqa: ARG002 - one signature for all
        """A job comes to one of the schedulers."""
        if request.site in self._orders:
            self._look_at(str(request.site), request.submit_ms + 1)
            self._look_at(str(request.site), request.ready_ms + 1)

    def next_ms(self, *, idle: bool) -> int:  # noqa: ARG002 - there is an end to them
        """When one of them looks at its queue next, or a machine is late."""
        late = (lease.end_ms for name in self._orders for lease in self._starting(name))
        return min([*self._looks_ms.values(), *late], default=NEVER_MS)

    def events(self, now_ms: int) -> list[Event]:
        """Say what they start in this instant."""
        found: list[Event] = []
        for name in self._orders:
            if self._looks_ms.get(name, NEVER_MS) <= now_ms:
                del self._looks_ms[name]
                found += self._look(self._gateway.sites[name], now_ms)
            started = {event.lease_id for event in found if isinstance(event, LeaseStarted)}
            found += [
                LeaseIsLate(lease.id, lease.incarnation)
                for lease in self._starting(name)
                if lease.end_ms <= now_ms and lease.id not in started
            ]
        return found

    def _look(self, site: Site, now_ms: int) -> list[Event]:
        name, held = site.name, site.allocations.held
        found: list[Event] = []
        for lease, incarnation in self._to_confirm.values():
            if lease.site == name:
                found.append(LeaseStarted(lease.id, incarnation))
        self._to_confirm = {number: one for number, one in self._to_confirm.items() if one[0].site != name}
        running = self._running[name]
        waiting = [*site.locals.waiting(), *(lease for lease in self._starting(name) if lease.request.is_local)]
        free_vms = site.settings.slots - site.allocations.down_vms - site.allocations.guest_vms
        free_vms -= sum(held[number].vms for number in running)
        begun: list[Lease] = []
        for lease in sorted(waiting, key=_ORDERS[self._orders[name]]):
            if lease.vms <= free_vms and lease.request.ready_ms <= now_ms:
                free_vms -= lease.vms
                begun.append(lease)
        surprises = [lease for lease in begun if lease.state is not LeaseState.STARTING]
        for lease in begun:
            if lease not in surprises:
                running.add(lease.id)
                found.append(LeaseStarted(lease.id, lease.incarnation))
        if surprises:
            self.counts["native-order"] += len(surprises)
            begun_ids = {lease.id for lease in begun}
            rest = [lease for lease in waiting if lease.id not in begun_ids]
            in_order = [lease.id for lease in sorted(rest, key=_ORDERS[self._orders[name]])]
            found.append(NativeQueueSeen(name, (*running, *(lease.id for lease in surprises)), tuple(in_order)))
            self._look_at(name, now_ms + LOOKS_AGAIN_MS)  # what does not fit the plans yet is seen again
        return found

    def _starting(self, name: str) -> list[Lease]:
        held = self._gateway.sites[name].allocations.held.values()
        return [lease for lease in held if lease.state is LeaseState.STARTING]

    def _look_at(self, name: str, at_ms: int) -> None:
        self._looks_ms[name] = min(at_ms, self._looks_ms.get(name, NEVER_MS))

    def _ordered(self, effect: StartLease, now_ms: int) -> None:
        lease = effect.lease
        if lease.site in self._orders:
            if not lease.request.is_local:
                self._to_confirm[lease.id] = (lease, lease.incarnation)
            self._look_at(lease.site, now_ms + 1)

    def _changed(self, effect: LeaseClosed | WithdrawLease, now_ms: int) -> None:
        lease = effect.lease
        self._to_confirm.pop(lease.id, None)
        name = lease.site or (lease.request.site or "")
        if name in self._orders:
            self._running[name].discard(lease.id)
            self._look_at(name, now_ms + 1)
