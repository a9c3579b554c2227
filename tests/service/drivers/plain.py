"""An oracle for emulated machines: the same promises kept millisecond by millisecond, without any agenda.

It knows nothing of faults, and keeps every order that it ever saw.
"""

from dataclasses import dataclass
from fractions import Fraction

from tests.service.drivers.sites import LOAD_MS, MOVE_MS, REFERENCE_MIPS, SAVE_MS

from leasehold.service.drivers.protocol import Observation, Order, Phase, Verb

UP = {Phase.STARTING, Phase.RUNNING, Phase.RESUMING, Phase.RECEIVING}


@dataclass
class PlainLease:
    """What a lease has at the site; ``rest_ms`` is how long its phase lasts, None: by itself for ever."""

    incarnation: int
    vms: int
    needed: Fraction | None
    done: Fraction
    phase: Phase = Phase.STARTING
    since_ms: int = 0
    rest_ms: int | None = None


class PlainSite:
    """A site that is looked at in every single millisecond."""

    def __init__(self, slots: int, speed_mips: int, boot_ms: int) -> None:
        self._slots = slots
        self._speed_mips = speed_mips
        self._takes_ms = {Verb.START: boot_ms, Verb.RESUME: LOAD_MS, Verb.RECEIVE: MOVE_MS}
        self._leases: dict[int, PlainLease] = {}
        self._highest: dict[int, int] = {}
        self._stopped: dict[int, int] = {}

    def observe(self) -> list[Observation]:
        """What is there."""
        return [
            Observation(
                lease_id,
                lease.incarnation,
                lease.phase,
                lease.since_ms,
                exit_status=0 if lease.phase is Phase.ENDED else None,
            )
            for lease_id, lease in sorted(self._leases.items())
        ]

    def tick(self, now_ms: int) -> None:
        """One more millisecond is over."""
        for lease in self._leases.values():
            if lease.phase is Phase.RUNNING:
                lease.done += self._speed_mips
            elif lease.rest_ms is not None:
                lease.rest_ms -= 1
            self._what_is_due(lease, now_ms)

    def tell(self, order: Order, now_ms: int) -> bool:
        """Give one order; whether it was taken on."""
        lease = self._leases.get(order.lease_id)
        if order.verb in {Verb.STOP, Verb.SEND}:
            if lease is None or order.incarnation >= lease.incarnation:
                self._leases.pop(order.lease_id, None)
                self._highest[order.lease_id] = max(order.incarnation, self._highest.get(order.lease_id, 0))
                self._stopped[order.lease_id] = max(order.incarnation, self._stopped.get(order.lease_id, 0))
            return True
        if order.verb is Verb.SUSPEND:
            return self._suspend(order, lease, now_ms)
        if order.incarnation <= self._highest.get(order.lease_id, 0):
            return lease is not None or order.incarnation > self._stopped.get(order.lease_id, 0)
        taken_on = self._bring_up(order, lease, now_ms)
        if taken_on:
            self._highest[order.lease_id] = order.incarnation
        return taken_on

    def _suspend(self, order: Order, lease: PlainLease | None, now_ms: int) -> bool:
        if order.incarnation <= self._stopped.get(order.lease_id, 0):
            return True
        if lease is None or order.incarnation > lease.incarnation:
            return False
        if order.incarnation == lease.incarnation and lease.phase in UP:
            self._begin(lease, Phase.SAVING, SAVE_MS, now_ms)
        return True

    def _bring_up(self, order: Order, lease: PlainLease | None, now_ms: int) -> bool:
        resumes = order.verb is Verb.RESUME
        if resumes and lease is not None and lease.phase is Phase.ENDED:
            lease.incarnation = order.incarnation
            self._begin(lease, Phase.ENDED, None, now_ms)
            return True
        if resumes != (lease is not None and lease.phase is Phase.SAVED) or (not resumes and lease is not None):
            return False
        vms = lease.vms if lease is not None else order.vms
        if sum(one.vms for one in self._leases.values() if one.phase in UP) + vms > self._slots:
            return False
        if lease is None:
            lease = PlainLease(0, order.vms, _needed(order.command), Fraction(order.work_done))
            self._leases[order.lease_id] = lease
        lease.incarnation = order.incarnation
        meanwhile = {Verb.START: Phase.STARTING, Verb.RESUME: Phase.RESUMING, Verb.RECEIVE: Phase.RECEIVING}
        self._begin(lease, meanwhile[order.verb], self._takes_ms[order.verb], now_ms)
        return True

    def _begin(self, lease: PlainLease, phase: Phase, rest_ms: int | None, now_ms: int) -> None:
        lease.phase, lease.since_ms, lease.rest_ms = phase, now_ms, rest_ms
        self._what_is_due(lease, now_ms)

    def _what_is_due(self, lease: PlainLease, now_ms: int) -> None:
        if lease.rest_ms == 0:
            self._begin(lease, Phase.SAVED if lease.phase is Phase.SAVING else Phase.RUNNING, None, now_ms)
        elif lease.phase is Phase.RUNNING and lease.needed is not None and lease.done >= lease.needed:
            self._begin(lease, Phase.ENDED, None, now_ms)


def _needed(command: tuple[str, ...]) -> Fraction | None:
    return Fraction(command[1]) * 1000 * REFERENCE_MIPS if command else None
