"""A world that carries the gateway's effects out: it owns the clock, and a queue of what is going to happen.

The gateway is the same object that a service runs. The world alone knows how long a lease really takes; the gateway
learns it when the lease ends. The simulator adds streams of jobs to it (`leasehold.simulation.kernel`), a forecast the
leases that a live gateway has now (`leasehold.forecasting.futures`).
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from heapq import heappop, heappush
from typing import Any, Protocol, get_args

from leasehold.gateway.gateway import Gateway
from leasehold.gateway.invariants import Invariants
from leasehold.model.effect import (
    AlarmCalledOff,
    Decision,
    Effect,
    LeaseClosed,
    MigrateLease,
    ResumeLease,
    StartLease,
    SuspendLease,
    WakeAt,
)
from leasehold.model.event import Event, LeaseContinues, LeaseEnded, LeaseSaved, LeaseStarted, Tick
from leasehold.model.lease import Lease, LeaseState
from leasehold.model.reason import Outcome
from leasehold.model.request import NEVER_MS

_OUT_OF_DATE = -1
"""No start of a lease: an event about it is ignored."""

Handler = Callable[[Any, int], None]


class Follower(Protocol):
    """Follows effects.

    ``handlers`` maps a kind of effect to its handler, called with the time; other kinds are ignored. That of
    `LeaseStarted` and `LeaseContinues` is called with the lease where machines were seen at a site that confirms it.
    """

    handlers: Mapping[type, Handler]


class World:
    """A gateway, and a queue of what is going to happen.

    ``followers`` are told of each effect before it is carried out. With ``may_extend`` a lease that was to be ended at
    its requested time goes on where it is extended meanwhile.
    """

    def __init__(
        self,
        gateway: Gateway,
        followers: Sequence[Follower],
        invariants: Invariants | None = None,
        carried_out: Mapping[type, Handler] | None = None,
        *,
        may_extend: bool,
    ) -> None:
        """Take over a gateway; ``invariants`` are checked after each instant, ``carried_out`` adds kinds of effects."""
        self.gateway = gateway
        self.now_ms = 0
        self._invariants = invariants
        self._event_queue: list[tuple[int, int, Event]] = []
        self._sequence = 0
        self._actual_work: dict[int, int] = {}
        self._confirms = any(site.settings.confirms_starts for site in gateway.sites.values())
        self._may_extend = may_extend
        self._kills: dict[int, LeaseEnded] = {}
        self._called_off: set[int] = set()
        own: dict[type, Handler] = {
            StartLease: self._start,
            ResumeLease: self._resume,
            MigrateLease: self._migrate,
            SuspendLease: self._suspend,
            LeaseClosed: self._close,
            WakeAt: self.wake,
            AlarmCalledOff: self._call_off,
            **(carried_out or {}),
        }
        if may_extend:
            own[Decision] = self._decided
        every = (*(one.handlers for one in followers), own)
        self._handlers = {
            kind: tuple(one[kind] for one in every if kind in one)
            for kind in (*get_args(Effect), LeaseStarted, LeaseContinues)
        }

    # Instant by instant

    @property
    def due_ms(self) -> int:
        """When something happens here next, of itself."""
        return self._event_queue[0][0] if self._event_queue else NEVER_MS

    def step(self, now_ms: int, events: list[Event]) -> None:
        """Let an instant pass in which these events come besides those that are due."""
        queue = self._event_queue
        self._called_off.discard(now_ms)
        due: list[Event] = []
        while queue and queue[0][0] <= now_ms:
            due.append(heappop(queue)[2])
        due += events
        effects = self.gateway.handle(due, now_ms)
        if self._confirms:
            self._begin(due, now_ms)
        self._apply(effects, now_ms)

    def expect(self, lease_id: int, actual_ms: int) -> None:
        """Know how long a request takes that comes from elsewhere."""
        self._actual_work[lease_id] = actual_ms * self.gateway.reference_mips

    def _apply(self, effects: list[Effect], now_ms: int) -> None:
        handlers = self._handlers
        for effect in effects:
            for handler in handlers[type(effect)]:
                handler(effect, now_ms)
        if self._invariants is not None:
            self._invariants.check(effects, now_ms)

    def _at(self, at_ms: int, event: Event) -> None:
        self._sequence += 1
        heappush(self._event_queue, (at_ms, self._sequence, event))

    def _start(self, effect: StartLease, now_ms: int) -> None:
        if not (self._confirms and self.gateway.sites[effect.lease.site].settings.confirms_starts):
            self._schedule_end(effect.lease, now_ms + effect.lease.overhead_ms)

    def _begin(self, events: Iterable[Event], now_ms: int) -> None:
        """Machines were seen where that is confirmed: the work of their leases goes on."""
        for event in events:
            if isinstance(event, LeaseStarted | LeaseContinues):
                lease = self.gateway.leases.get(event.lease_id)
                is_running = lease is not None and lease.state is LeaseState.RUNNING
                if lease is None or not is_running or lease.incarnation != event.incarnation:
                    continue
                if self.gateway.sites[lease.site].settings.confirms_starts:
                    self._schedule_end(lease, lease.held_since_ms + lease.overhead_ms)
                    for handler in self._handlers[type(event)]:
                        handler(lease, now_ms)

    def _resume(self, effect: ResumeLease, now_ms: int) -> None:
        self._continue_after(effect.lease, effect.resume_ms, now_ms)

    def _migrate(self, effect: MigrateLease, now_ms: int) -> None:
        self._continue_after(effect.lease, effect.transfer_ms, now_ms)

    def _continue_after(self, lease: Lease, overhead_ms: int, now_ms: int) -> None:
        self._at(now_ms + overhead_ms, LeaseContinues(lease.id, lease.incarnation))
        if not (self._confirms and self.gateway.sites[lease.site].settings.confirms_starts):
            self._schedule_end(lease, now_ms + overhead_ms)

    def _schedule_end(self, lease: Lease, start_ms: int) -> None:
        """The work ends when all of it is done, or when the requested time is over."""
        request = lease.request
        done = request.duration_ms * self.gateway.reference_mips - lease.work_left
        actual_left = self._actual_work[lease.id] - done
        killed = actual_left > lease.work_left
        span_ms = self.gateway.sites[lease.site].allocations.wall_ms(min(actual_left, lease.work_left))
        if self._confirms and lease.end_ms < start_ms + span_ms:
            span_ms, killed = lease.end_ms - start_ms, True  # the time of a guest whose machines were late was cut
        end = LeaseEnded(lease.id, lease.incarnation, killed)
        if killed and self._may_extend:
            self._kills[lease.id] = end
        self._at(start_ms + span_ms, end)

    def _decided(self, effect: Decision, now_ms: int) -> None:  # noqa: ARG002 - all are carried out alike
        """A lease that was to be ended at its requested time goes on, if it was extended."""
        kill = self._kills.pop(effect.lease.id, None) if effect.outcome is Outcome.EXTEND else None
        if kill is not None:
            kill.incarnation = _OUT_OF_DATE
            self._schedule_end(effect.lease, effect.lease.held_since_ms + effect.lease.overhead_ms)

    def _suspend(self, effect: SuspendLease, now_ms: int) -> None:
        lease = effect.lease
        self._at(now_ms + effect.save_ms, LeaseSaved(lease.id, lease.incarnation))

    def _close(self, effect: LeaseClosed, now_ms: int) -> None:  # noqa: ARG002 - all are carried out alike
        del self._actual_work[effect.lease.id]
        if self._kills:
            self._kills.pop(effect.lease.id, None)

    def wake(self, effect: WakeAt, now_ms: int) -> None:
        """Send the gateway a tick at the time that it asks for."""
        at_ms = max(effect.at_ms, now_ms + 1)
        if not effect.site and at_ms in self._called_off:
            self._called_off.remove(at_ms)  # it is still in the queue
        else:
            self._at(at_ms, Tick(effect.site))

    def _call_off(self, effect: AlarmCalledOff, now_ms: int) -> None:  # noqa: ARG002 - all are carried out alike
        self._called_off.add(effect.at_ms)

    def _is_called_off(self, at_ms: int, _sequence: int, event: Event) -> bool:
        return at_ms in self._called_off and type(event) is Tick and not event.site
