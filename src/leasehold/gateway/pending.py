"""Requests that no site has yet: held by the routing policy, unschedulable, or waiting for what agreements give."""

from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable
from dataclasses import replace
from heapq import heapify, heappop, heappush
from operator import attrgetter

from leasehold.gateway.alarm import GATEWAY, Alarm
from leasehold.gateway.knowledge import Knowledge
from leasehold.gateway.quotas import AGREEMENT, QueueKey, QuotaBlock, QuotaEnforcer
from leasehold.gateway.settings import Routing
from leasehold.gateway.state import InstantChanges
from leasehold.model.agreement import Breach
from leasehold.model.effect import Decision, LeaseClosed
from leasehold.model.lease import UNPLANNED, Lease, LeaseState
from leasehold.model.lifecycle import Step, advance
from leasehold.model.reason import Outcome, Reason
from leasehold.model.value_dict import ValueDict
from leasehold.routing.policy import Hold, Waiting, newcomer

DRAINED = "drained"
SILENT = "silent"
UNSTARTED = "unstarted"
RESTART = "restart"
RELOCATION = "relocation"
_HELD_BY_POLICY = (Reason.HELD_AT_GATEWAY, "")


class ConsumerQueues:
    """The queues in which consumers wait for what their agreements give: in each, first come, first served.

    A queue is of one consumer, for the same sites. Only its head is routed: what the consumer has used keeps the
    others from running just as well. So that no consumer hoards turns in a site's queue, at most one request of a
    queue waits at a site once those that were granted could use the share up; the next one is dispatched when that
    has started, or where it would start at once.
    """

    def __init__(self) -> None:
        """Begin without queues."""
        self.key_of: dict[int, QueueKey] = {}
        self._queues: dict[QueueKey, OrderedDict[int, Lease]] = {}
        self._dispatched: dict[QueueKey, Lease] = {}
        self._blocks: dict[QueueKey, QuotaBlock] = {}

    def waiting(self) -> Iterable[Lease]:
        """Iterate over the requests in all queues."""
        return (lease for queue in self._queues.values() for lease in queue.values())

    def is_behind(self, lease: Lease, key: QueueKey) -> bool:
        """Whether another request is before this one in a queue."""
        queue = self._queues.get(key)
        return queue is not None and next(iter(queue)) != lease.id

    def add(self, lease: Lease, key: QueueKey) -> None:
        """Put a request in a queue, behind those that came before it."""
        if self.key_of.get(lease.id) == key:
            return
        self.remove(lease.id)
        queue = self._queues.setdefault(key, OrderedDict())
        is_last = not queue or queue[next(reversed(queue))].order < lease.order
        queue[lease.id] = lease
        self.key_of[lease.id] = key
        if not is_last:
            self._queues[key] = OrderedDict(sorted(queue.items(), key=lambda item: item[1].order))

    def remove(self, lease_id: int) -> None:
        """Take a request out of its queue, if it is in one."""
        key = self.key_of.pop(lease_id, None)
        if key is None:
            return
        queue = self._queues[key]
        del queue[lease_id]
        self._blocks.pop(key, None)  # there is another head now, or may be
        if not queue:
            del self._queues[key]

    def take_all(self) -> list[Lease]:
        """Empty all queues; returns their requests in the order in which they came."""
        leases = sorted(self.waiting(), key=attrgetter("order"))
        self._queues.clear()
        self.key_of.clear()
        self._blocks.clear()
        return leases

    def dispatched(self, lease: Lease, key: QueueKey) -> None:
        """A request of this queue was sent to a site."""
        self._dispatched[key] = lease

    def has_dispatched(self, key: QueueKey) -> bool:
        """Whether a request of this queue waits at a site."""
        lease = self._dispatched.get(key)
        if lease is None:
            return False
        if lease.state in {LeaseState.WAITING, LeaseState.HELD} and lease.site:
            return True
        del self._dispatched[key]
        return False

    def block(self, key: QueueKey, block: QuotaBlock) -> None:
        """Keep what blocks the head of a queue: as long as that holds, it need not be routed."""
        self._blocks[key] = block

    def route_heads(self, route: Callable[[Lease], None], still_blocks: Callable[[Lease, QuotaBlock], bool]) -> None:
        """Route the head of each queue, oldest first; where that leaves its queue, the next one has its turn."""
        turns = [
            (self._head(queue).order, key)
            for key, queue in self._queues.items()
            if key not in self._blocks or not still_blocks(self._head(queue), self._blocks[key])
        ]
        heapify(turns)
        while turns:
            _, key = heappop(turns)
            head = self._head(self._queues[key])
            route(head)
            if head.id not in self.key_of and key in self._queues:
                heappush(turns, (self._head(self._queues[key]).order, key))

    def _head(self, queue: OrderedDict[int, Lease]) -> Lease:
        return next(iter(queue.values()))


class PendingQueue:
    """Requests at the gateway, and why they are here.

    ``arrivals``       to be routed in this instant
    ``held``           the routing policy waits for a better moment; those in ``awaits_room`` wait for room
    ``unschedulable``  only sites that take no guests now could take them
    ``queues``         for what agreements give their consumer
    ``refused_by``     the sites and peers that have refused a request, and why
    ``dirty``          something happened that the routing policy may want to see
    ``alarm``          when all of them are looked at again though nothing happened
    """

    def __init__(self, routing: Routing, quotas: QuotaEnforcer, knowledge: Knowledge, changes: InstantChanges) -> None:
        """Begin empty."""
        self.arrivals: dict[int, Lease] = {}
        self.held: dict[int, Lease] = ValueDict()
        self.awaits_room: set[int] = set()
        self.unschedulable: dict[int, Lease] = ValueDict()
        self.queues = ConsumerQueues()
        self.refused_by: dict[int, dict[str, Reason]] = {}
        self.dirty = False
        self._routing = routing
        self._quotas = quotas
        self._knowledge = knowledge
        self._changes = changes
        self._explained: dict[int, tuple[Reason, str]] = {}
        self._descriptions: dict[int, Waiting] = {}
        self.alarm = Alarm(routing.tick_ms, changes)

    # What comes and goes

    def retry_all(self) -> None:
        """Route everything again, unschedulable requests included: a site may have room for them now."""
        self.dirty = True
        queued = {lease.id: lease for lease in self.queues.take_all()}
        self.arrivals = {**self.unschedulable, **queued, **self.arrivals}

    def refuse_revoked(self, revoked: Collection[str]) -> None:
        """Refuse requests that wait under revoked agreements: that their limit is gone lets none of them start.

        A consumer that asks again is treated as any other without such an agreement.
        """
        for lease in [*self.queues.waiting(), *self.held.values()] if revoked else ():
            if self._explained.get(lease.id, ("", ""))[1] in revoked:
                self.refuse(lease, Reason.AGREEMENT_REVOKED, AGREEMENT)

    def withdraw(self, lease: Lease, reason: Reason = Reason.CANCELLED_BY_USER) -> None:
        """Cancel a request."""
        self.remove(lease)
        self.arrivals.pop(lease.id, None)
        advance(lease, Step.CANCEL)
        self._changes.effects.append(LeaseClosed(lease, reason))

    def was_not_started(self, lease: Lease) -> None:
        """The machines of a guest did not start at its site: try it at others, and not there again."""
        self.refused_by.setdefault(lease.id, {})[lease.site] = Reason.NEVER_STARTED
        self.take_back(lease, Reason.NEVER_STARTED, UNSTARTED)

    def take_back(self, lease: Lease, reason: Reason, rule: str) -> None:
        """Take a guest back that its site releases and that never started: it is routed again."""
        self._take_back(lease, Step.HOLD, reason, rule)

    def route_now(self, lease: Lease) -> None:
        """Route a held request in this instant: the policy may wait for own sites, and none need be able to take it."""
        self.arrivals[lease.id] = self.held.pop(lease.id)

    def _take_back(self, lease: Lease, step: Step, reason: Reason, rule: str) -> None:
        self._knowledge.gone(lease, lease.site)
        self._quotas.release(lease)
        advance(lease, step)
        self._changes.effects.append(Decision(lease, lease.site, Outcome.HOLD, reason, rule))
        lease.site, lease.dispatched_ms = "", UNPLANNED
        self.held[lease.id] = lease
        self.dirty = True

    def restart(self, lease: Lease, work: int) -> None:
        """Route a guest again whose machines are lost, with all of its ``work``: from now on it may wait for room.

        Sites that had refused it are asked again, but for those where its machines never started.
        """
        lease.restarts += 1
        refused_by = self.refused_by.pop(lease.id, {})
        unstarted: dict[str, Reason] = {name: why for name, why in refused_by.items() if why is Reason.NEVER_STARTED}
        if unstarted:
            self.refused_by[lease.id] = unstarted
        self._place_again(lease, work, "")
        self._take_back(lease, Step.RESTART, Reason.MACHINES_LOST_RESTARTED, RESTART)

    def handed_back(self, lease: Lease, work: int, memory_at: str) -> None:
        """Route a guest to another site that one which decides for itself hands back, with the rest of its ``work``.

        It continues from the memory that was saved there, if that can go to others: else ``memory_at`` is "".
        """
        lease.handed_back += 1
        self.refused_by[lease.id] = {lease.site: Reason.HANDED_BACK}
        self._place_again(lease, work, memory_at)
        self._take_back(lease, Step.RESTART, Reason.HANDED_BACK, RELOCATION)

    def _place_again(self, lease: Lease, work: int, memory_at: str) -> None:
        lease.request = replace(lease.request, wait=True)
        lease.work_left, lease.memory_at = work, memory_at
        lease.reserved_ms, lease.latest_ms = UNPLANNED, None

    def remove(self, lease: Lease) -> None:
        """Drop a request: it was sent to a site, or is over."""
        self.held.pop(lease.id, None)
        self.unschedulable.pop(lease.id, None)
        self.queues.remove(lease.id)
        self._explained.pop(lease.id, None)
        self.awaits_room.discard(lease.id)
        self._descriptions.pop(lease.id, None)

    def forget(self, lease_id: int) -> None:
        """A lease is over."""
        self._explained.pop(lease_id, None)
        self.refused_by.pop(lease_id, None)

    def describe(self, lease: Lease) -> Waiting:
        """Describe a held request to the routing policy."""
        known = self._descriptions.get(lease.id)
        if known is None:
            known = self._descriptions[lease.id] = newcomer(lease.request)
        return known

    # What can become of a request that is routed, and stays

    def enqueue(self, lease: Lease, key: QueueKey, reason: Reason, breach: Breach | None) -> None:
        """Let a request wait in the queue of its consumer for what agreements give."""
        self._put_in_queue(lease, key)
        self.explain(lease, reason, breach)

    def _put_in_queue(self, lease: Lease, key: QueueKey) -> None:
        self.held.pop(lease.id, None)
        self.unschedulable.pop(lease.id, None)
        if lease.state is LeaseState.SUBMITTED:
            advance(lease, Step.HOLD)
        self.queues.add(lease, key)

    def explain(self, lease: Lease, reason: Reason, breach: Breach | None, rule: str = AGREEMENT) -> None:
        """Record why a request waits, once for each reason."""
        why = (reason, "" if breach is None else breach.agreement)
        if self._explained.get(lease.id) != why:
            self._explained[lease.id] = why
            next_ms = None if breach is None else breach.next_ms
            held = Decision(lease, GATEWAY, Outcome.HOLD, reason, rule, next_ms, breach=breach)
            self._changes.effects.append(held)

    def await_room(self, lease: Lease, reason: Reason, rule: str) -> None:
        """Keep a request that no policy holds back: it is routed again whenever there may be room."""
        self.keep(lease, self.held)
        self.awaits_room.add(lease.id)
        self.explain(lease, reason, None, rule)

    def hold(self, lease: Lease, verdict: Hold, key: QueueKey | None, now_ms: int) -> None:
        """Keep a request for which the policy waits for a better moment; it keeps its place in its queue."""
        was_held = lease.id in self.held or self._explained.get(lease.id) == _HELD_BY_POLICY
        if key is None:
            self.keep(lease, self.held)
        else:
            self._put_in_queue(lease, key)
            self._explained[lease.id] = _HELD_BY_POLICY
        if not was_held:
            rule, reason = self._routing.policy.name, Reason.HELD_AT_GATEWAY
            self._changes.effects.append(Decision(lease, GATEWAY, Outcome.HOLD, reason, rule, verdict.until_ms))
        again_ms = now_ms + self._routing.tick_ms
        self.alarm.look_again(again_ms if verdict.until_ms is None else min(again_ms, verdict.until_ms), now_ms)

    def hold_unschedulable(self, lease: Lease) -> None:
        """Keep a request that only sites could take which take no guests now, until one of them does."""
        if lease.id in self.unschedulable:
            return
        self.keep(lease, self.unschedulable)
        self._changes.effects.append(Decision(lease, GATEWAY, Outcome.HOLD, Reason.NO_SITE_AVAILABLE, DRAINED))

    def keep(self, lease: Lease, where: dict[int, Lease]) -> None:
        """Keep a request in one place only."""
        if lease.id not in where:
            self.remove(lease)
        if lease.state is LeaseState.SUBMITTED:
            advance(lease, Step.HOLD)
        where[lease.id] = lease

    def refuse(self, lease: Lease, reason: Reason, rule: str = "", breach: Breach | None = None) -> None:
        """Close a request that no site takes."""
        self.remove(lease)
        rule = rule or self._routing.policy.name
        effects = self._changes.effects
        if lease.handed_back or lease.restarts:
            effects.append(Decision(lease, GATEWAY, Outcome.REFUSE, reason, rule, breach=breach))
            if lease.state is LeaseState.WAITING:  # it was on offer to a site elsewhere
                advance(lease, Step.HOLD)
            if lease.request.goes_back:
                advance(lease, Step.CANCEL)
                effects.append(LeaseClosed(lease, Reason.HANDED_BACK))
                return
            advance(lease, Step.FAIL)  # it was accepted, and may have run
            too_late = reason is Reason.DEADLINE_TOO_TIGHT
            lost = Reason.RESTART_TOO_LATE if too_late else Reason.MACHINES_LOST
            effects.append(LeaseClosed(lease, Reason.DEADLINE_LOST if lease.handed_back else lost))
            return
        if Reason.NEVER_STARTED in self.refused_by.get(lease.id, {}).values():
            if lease.state is LeaseState.WAITING:  # it was on offer to a site elsewhere
                advance(lease, Step.HOLD)
            advance(lease, Step.FAIL)  # it was accepted, and promised room
            effects.append(LeaseClosed(lease, Reason.NEVER_STARTED))
            return
        effects.append(Decision(lease, GATEWAY, Outcome.REFUSE, reason, rule, breach=breach))
        advance(lease, Step.REFUSE)
        effects.append(LeaseClosed(lease, reason))
