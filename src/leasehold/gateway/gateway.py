"""The gateway of a federation (the papers' IGG): joins routing and the sites' own decisions.

``handle`` is the one way in. The simulator and the service call it with all events of an instant, and carry out the
effects that it returns; it reads no clock and never waits.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, assert_never

from leasehold.gateway.alarm import GATEWAY
from leasehold.gateway.coallocation.co_allocator import CoAllocator
from leasehold.gateway.coallocation.component_leases import ComponentClaims, ComponentLeases
from leasehold.gateway.coallocation.participant import PreparedLeases
from leasehold.gateway.coallocation.planner import LOOKS_EACH_INSTANT, Planner, WorkBudget
from leasehold.gateway.dispatcher import Dispatcher, RetryLoop
from leasehold.gateway.extensions import Extensions
from leasehold.gateway.knowledge import Knowledge
from leasehold.gateway.peering import PEERS, PeerAgreed, Peering
from leasehold.gateway.pending import DRAINED, SILENT, PendingQueue
from leasehold.gateway.quotas import QuotaEnforcer
from leasehold.gateway.relocation import Relocator, SuspendedPool
from leasehold.gateway.replanning import change_outages
from leasehold.gateway.settings import Routing, SiteSettings
from leasehold.gateway.site import Site
from leasehold.gateway.sites import RemoteSite, RemoteTold, SiteRegistry, can_follow, follow
from leasehold.gateway.state import InstantChanges, LeaseTable
from leasehold.leasing.overhead import Measurement
from leasehold.model.effect import Decision, Effect, LeaseClosed, WakeAt
from leasehold.model.errors import InvalidField, UnknownName
from leasehold.model.event import (
    Agreed,
    CancelRequested,
    Carried,
    CoAllocationCancelled,
    CoAllocationSubmitted,
    Event,
    ExtendRequested,
    ExtensionAnswered,
    ExtensionAsked,
    LeaseCheckpointed,
    LeaseCommitted,
    LeaseContinues,
    LeaseEnded,
    LeaseFailed,
    LeaseIsLate,
    LeaseNotStarted,
    LeaseSaved,
    LeaseStarted,
    LendingChanged,
    NativeQueueSeen,
    OutagesChanged,
    OverheadMeasured,
    PenaltyLifted,
    SiteAnswered,
    SiteFellSilent,
    SiteForgotten,
    SiteReported,
    Submitted,
    Tick,
)
from leasehold.model.lease import ON_THE_WAY, UNPLANNED, Lease, LeaseState
from leasehold.model.lifecycle import Step, advance
from leasehold.model.reason import Outcome, Reason
from leasehold.sharing.enforcement import Sharing
from leasehold.sharing.parties import Provider

__all__ = ["Gateway", "Routing"]

_WITHOUT_MACHINES = frozenset({LeaseState.SUBMITTED, LeaseState.HELD, LeaseState.WAITING})
"""States in which a lease has neither machines nor saved memory that could be lost."""


@dataclass(frozen=True, slots=True)
class ProviderLeft:
    """A site that decides for itself, or a peer, has left: agreements count nothing of it any more."""

    name: str


Told = RemoteTold | PeerAgreed | ProviderLeft
"""What a gateway is told besides events; plain data."""


class Gateway:
    """Sites behind one gateway."""

    def __init__(
        self,
        sites: Sequence[SiteSettings],
        routing: Routing,
        reference_mips: int = 1,
        sharing: Sharing | None = None,
        most_looks: int = LOOKS_EACH_INSTANT,
        see_through: Callable[[Knowledge], Knowledge] | None = None,
        *,
        gateway_id: str = "",
    ) -> None:
        """Make these sites, in this order; ``reference_mips`` is the speed that durations refer to.

        Without ``sharing`` nothing is agreed, and use is not accounted for. Co-allocations may take
        ``most_looks`` in one instant. ``see_through`` wraps what the gateway knows, such as to let it be stale.
        ``gateway_id`` is the gateway's ID on the paths of requests that it sends to peers; without peers it needs none.
        """
        self.reference_mips = reference_mips
        self.routing = routing
        self._changes = changes = InstantChanges()
        self._table = table = LeaseTable(reference_mips)
        self.leases, self.moved = table.open, changes.moved
        # Each part gets what it needs from those before it.
        self.quotas = quotas = QuotaEnforcer(sharing, reference_mips, changes)
        self.suspended = pool = SuspendedPool(routing.policy.delays_resume)
        waiting = pool.leases if pool.is_used else None
        self.sites = {one.name: Site(one, changes, quotas, waiting) for one in sites}
        if len(self.sites) < len(sites):
            raise InvalidField("sites", [site.name for site in sites], "a name of its own for each site")
        self.registry = registry = SiteRegistry(self.sites, reference_mips, routing.told_locals or {})
        self.peering = peering = Peering(registry, gateway_id)
        known = Knowledge(registry, reference_mips, routing.told_external, peering.streams)
        self.knowledge = knowledge = known if see_through is None else see_through(known)
        self.extensions = Extensions(registry, quotas, changes, reference_mips)
        self.pending = pending = PendingQueue(routing, quotas, knowledge, changes)
        self._relocator = Relocator(
            pool=pool,
            registry=registry,
            pending=pending,
            quotas=quotas,
            knowledge=knowledge,
            routing=routing,
            reference_mips=reference_mips,
        )
        self.dispatcher = Dispatcher(
            registry=registry,
            pending=pending,
            peering=peering,
            quotas=quotas,
            knowledge=knowledge,
            routing=routing,
            changes=changes,
        )
        self._retries = RetryLoop(
            registry=registry,
            pending=pending,
            pool=pool,
            dispatcher=self.dispatcher,
            relocator=self._relocator,
            quotas=quotas,
            routing=routing,
        )
        self._may_sleep = not routing.use_free_room and see_through is None
        planner = Planner(registry, quotas, reference_mips, WorkBudget(most_looks))
        claims = ComponentClaims(registry, quotas, knowledge, changes)
        components = ComponentLeases(table, changes)
        self.prepared = PreparedLeases(registry, pending, changes)
        self.coallocations = CoAllocator(registry, planner, claims, components, changes)

    def handle(self, events: Iterable[Event], now_ms: int) -> list[Effect]:  # noqa: C901, PLR0912 - an instant, in order
        """Note all events of an instant, then decide; returns what is to be done and known.

        Afterwards ``moved`` has the leases whose state, place or reservation changed, also without an effect. Stages
        that have nothing to do are not entered.
        """
        changes, pending, coallocations = self._changes, self.pending, self.coallocations
        touched = self.registry.touched
        changes.moved.clear()
        coallocations.moved.clear()
        if pending.alarm.is_on:
            self._retries.wake(now_ms)
        # 1. What happened, before anything is decided.
        for event in events:
            self._note(event, now_ms)
        if self.prepared.leases:
            self.prepared.expire(now_ms)
        if coallocations.open:
            coallocations.handle_losses(now_ms)
            coallocations.keep_together(now_ms)
        # 2. The owners first: local requests start, guests give way.
        for site in touched.values():
            site.serve_locals(now_ms)
        if coallocations.open:
            coallocations.serve(now_ms)
        # 3. Migratable guests that lost their place, or can wait no longer, continue elsewhere, wait, or fail.
        if self.suspended.leases:
            changes.displaced += [(lease, Reason.ROOM_IN_USE) for lease in self.suspended.take_urgent(now_ms)]
        if changes.displaced:
            self._relocator.relocate(changes.displaced, now_ms)
            changes.displaced.clear()
        # 4. New and pending requests are routed, seeing the sites as they are now.
        if touched:
            pending.dirty = True
        if self._retries.has_work:
            self._retries.run(now_ms)
        # 5. Guests start in the room that is left, and each site says when it wants to be woken.
        for site in touched.values():
            if site.guests is not None:
                site.guests.serve(now_ms)
            self._set_alarm(site, now_ms)
        if self.routing.use_free_room:
            for name in sorted(self.dispatcher.rebalance(now_ms)):
                self.registry.touch(name).open_to_guests(now_ms).serve(now_ms)
                self._set_alarm(self.sites[name], now_ms)
        if coallocations.open:
            coallocations.settle(now_ms)
        if pending.alarm.is_on:
            pending.alarm.set(now_ms, may_sleep=self._may_sleep and not coallocations.open)
        # 6. Leases that have ended are forgotten.
        touched.clear()
        effects = changes.take_effects()
        for effect in effects:
            if type(effect) is LeaseClosed:
                self._forget(effect.lease)
            elif type(effect) is Decision and effect.outcome is Outcome.PREEMPT:
                self.knowledge.preempted(effect.site)
        return effects

    def _forget(self, lease: Lease) -> None:
        del self.leases[lease.id]
        lease.wanted_ms = UNPLANNED
        if lease.request.site is not None:
            return  # no part but its site knows of a local lease
        self.peering.forget(lease)
        self.prepared.leases.pop(lease.id, None)
        self.registry.offers.answered(lease)
        self.quotas.release(lease)
        self.pending.forget(lease.id)
        self._relocator.forget(lease.id)
        self.dispatcher.recalled.discard(lease.id)
        if lease.dispatched_ms >= 0:
            self.knowledge.gone(lease, lease.site)

    def _set_alarm(self, site: Site, now_ms: int) -> None:
        wake_ms = site.next_wake_ms()
        if wake_ms is not None and wake_ms != site.wake_ms:
            self._changes.effects.append(WakeAt(site.name, max(wake_ms, now_ms + 1)))
        site.wake_ms = wake_ms

    # From outside the events

    def join(self, remote: RemoteSite) -> None:
        """Add a site that decides for itself, or update one that was there before."""
        self.registry.join(remote)
        self.knowledge.update_sites()
        self.pending.retry_all()

    def hear(self, told: Told) -> None:
        """Take in what is no event: how sites elsewhere and peers are, and on which terms requests are exchanged.

        What follows from it is decided in the next instant.
        """
        match told:
            case RemoteTold():
                self._hear_of(told)
            case PeerAgreed():
                self.peering.agree(told.name, told.terms)
                self.peering.begin_to_count(told.name, told.at_ms)
                self.pending.retry_all()
            case ProviderLeft():
                if self.quotas.sharing is not None:
                    self.quotas.sharing.part_with(told.name)

    def _hear_of(self, told: RemoteTold) -> None:
        """A site or peer says how it is; leases that waited for that are routed in the next instant."""
        if self.quotas.sharing is not None:
            self.quotas.sharing.join(Provider(told.name, told.units))
        if told.gateway_id:
            self.peering.identify(told.name, told.gateway_id)
        remote = self.registry.remotes.get(told.name)
        if remote is None or not told.is_like(remote):
            self.join(told.remote())
        else:
            was_open, was_silent = remote.is_open, remote.silent
            remote.live, remote.lends, remote.silent, remote.beyond = told.live, told.lends, told.silent, told.beyond
            if was_silent or (remote.is_open and not was_open):
                self.pending.retry_all()
        self.pending.dirty = True

    def fell_silent(self, name: str, now_ms: int) -> None:
        """Send no guests to a site whose machines do not answer; guests that wait there are routed again."""
        self.sites[name].allocations.is_silent = True
        self._drain(name, Reason.SITE_UNREACHABLE, SILENT, now_ms)

    def _drain(self, name: str, reason: Reason, rule: str, now_ms: int) -> None:
        """Take back the guests that wait at a site and were promised nothing."""
        guests = self.registry.touch(name).guests
        for lease in () if guests is None else guests.drain(now_ms):
            self.pending.take_back(lease, reason, rule)

    def retry_all(self) -> None:
        """Route every pending request again in the next instant: a site may have room for it now."""
        self.pending.retry_all()

    def mark_dirty(self) -> None:
        """Ask the routing policy about held requests again in the next instant."""
        self.pending.dirty = True

    @property
    def has_pending_work(self) -> bool:
        """Whether the next instant has requests to route."""
        return self._retries.has_work

    # A restart

    def take_up(self, leases: Iterable[Lease]) -> None:
        """Go on from a record: these are the open leases, and the sites have their parts of them.

        The next call of `handle` looks at every site, whatever its events are.
        """
        for lease in leases:
            self._table.add(lease)
            self.peering.take_up(lease)
            is_component = self.coallocations.take_up(lease)
            if not is_component:
                self.prepared.take_in(lease)
            if lease.site in self.registry.remotes:
                self.registry.remotes[lease.site].leases[lease.id] = lease
            elif not is_component and lease.state is LeaseState.HELD:
                self.dispatcher.take_up(lease)
        for name in self.sites:
            self.registry.touch(name)
        self.pending.dirty = True
        self.knowledge.take_up(self.leases.values())

    def overheads_snapshot(self) -> dict[str, Any]:
        """Return what was measured at the sites, as plain data for `restore_overheads`."""
        return {name: site.allocations.experience.memory() for name, site in self.sites.items()}

    def restore_overheads(self, snapshot: Mapping[str, Any]) -> None:
        """Go on from what was measured; sites that have left are ignored."""
        for name, site in self.sites.items():
            site.allocations.restore(snapshot.get(name, {}))

    def snapshot(self) -> dict[str, Any]:
        """Return what the open leases do not show of requests and peers, as plain data for `restore`."""
        return {
            "refused_by": list(self.pending.refused_by.items()),
            "recalled": sorted(self.dispatcher.recalled),
            "peering": self.peering.snapshot(),
            "unanswered": self.registry.offers.snapshot(),
        }

    def restore(self, snapshot: Mapping[str, Any]) -> None:
        """Restore the state that `snapshot` returned."""
        self.pending.refused_by = {
            lease_id: {name: Reason(reason) for name, reason in refusals.items()}
            for lease_id, refusals in snapshot["refused_by"]
        }
        self.dispatcher.recalled = set(snapshot["recalled"])
        self.peering.restore(snapshot.get("peering", {}))
        self.registry.offers.restore(snapshot.get("unanswered", {}))

    # What happened

    def _note(self, event: Event, now_ms: int) -> None:  # noqa: PLR0912, PLR0915, C901 - a line for each kind
        match event:
            case Submitted():
                self._submit(event, now_ms)
            case LeaseEnded():
                self._note_end(event, now_ms)
            case Tick():
                self._note_tick(event, now_ms)
            case LeaseStarted():
                self._note_started(event, now_ms)
            case LeaseNotStarted():
                self._note_not_started(event, now_ms)
            case LeaseIsLate():
                self._note_late(event, now_ms)
            case LeaseSaved():
                self._note_saved(event, now_ms)
            case LeaseContinues():
                self._note_continues(event, now_ms)
            case LeaseFailed():
                self._note_failure(event, now_ms)
            case LeaseCheckpointed():
                self._note_checkpoint(event, now_ms)
            case CancelRequested():
                self._cancel(event.lease_id, now_ms)
            case ExtendRequested():
                self._extend(event.lease_id, event.by_ms, now_ms, more=True)
            case ExtensionAsked():
                self._extend(event.lease_id, event.duration_ms, now_ms, more=False)
            case ExtensionAnswered():
                self.extensions.answer(event)
            case LendingChanged():
                self._note_lending(event, now_ms)
            case OutagesChanged():
                self._note_outages(event, now_ms)
            case NativeQueueSeen():
                self.registry.touch(event.site).see_native_queue(event)
            case OverheadMeasured():
                measured = Measurement(event.memory_mib, event.vms, event.took_ms)
                self.sites[event.site].allocations.learn(event.operation, measured)
            case SiteReported():
                self._note_report(event, now_ms)
            case LeaseCommitted():
                self.prepared.commit(event)
            case SiteFellSilent():
                self._note_silence(event, now_ms)
            case SiteAnswered():
                self._note_answer(event, now_ms)
            case SiteForgotten():
                self._forget_site(event.site, now_ms)
            case Agreed():
                self._note_agreed(event, now_ms)
            case PenaltyLifted():
                if self.quotas.sharing is not None:
                    self.quotas.sharing.penalties.lift(event.agreement, event.consumer)
                self.pending.retry_all()
            case CoAllocationSubmitted():
                self.coallocations.note_submission(event, now_ms)
            case CoAllocationCancelled():
                self.coallocations.note_cancel(event, now_ms)
            case _:
                assert_never(event)

    def _submit(self, event: Submitted, now_ms: int) -> None:
        request = event.request
        lease = self._table.create(request)
        if event.carried is not None:
            _carry(lease, event.carried)
        if request.site is None:
            refusal = self.peering.receive(lease, now_ms)
            self.prepared.take_in(lease)
            if refusal is None:
                self.pending.arrivals[lease.id] = lease
            else:
                self.pending.refuse(lease, refusal, PEERS)
        elif request.site not in self.sites:
            raise UnknownName("site", request.site, self.sites)
        else:
            self.registry.touch(request.site).submit(lease)
        self._table.add(lease)
        if self.routing.learns:
            self.knowledge.observe(request, now_ms)

    def _find(self, lease_id: int, incarnation: int) -> Lease | None:
        """The lease that an event is about; None if it is about an earlier start, or the lease is over."""
        lease = self.leases.get(lease_id)
        if lease is None or lease.incarnation != incarnation or lease.state.is_final:
            return None
        return lease

    def _note_end(self, event: LeaseEnded, now_ms: int) -> None:
        lease = self._find(event.lease_id, event.incarnation)
        if lease is not None and lease.held_since_ms >= 0:
            site = self.registry.touch(lease.site)
            if not lease.request.is_local:
                self.knowledge.ended(lease, site.settings.speed_mips, now_ms)
            site.end(lease, now_ms, killed=event.killed)

    def _note_saved(self, event: LeaseSaved, now_ms: int) -> None:
        lease = self._find(event.lease_id, event.incarnation)
        if lease is None or lease.state is not LeaseState.SUSPENDING:
            return
        site = self.registry.touch(lease.site)
        if event.ended:
            site.finish(lease, now_ms)
        else:
            advance(lease, Step.SAVED)
            self.moved[lease.id] = lease
            if site.guests is not None and lease.id in site.guests.leaving:
                site.guests.hand_back(lease)

    def _note_started(self, event: LeaseStarted, now_ms: int) -> None:
        lease = self._find(event.lease_id, event.incarnation)
        if lease is not None and lease.state is LeaseState.STARTING:
            coallocation = self.coallocations.leases.coallocation_of(lease.id)
            not_before_ms = 0 if coallocation is None else coallocation.start_ms
            self.registry.touch(lease.site).begin(lease, _since_ms(lease, event, now_ms), not_before_ms, now_ms)
            self.moved[lease.id] = lease

    def _note_continues(self, event: LeaseContinues, now_ms: int) -> None:
        lease = self._find(event.lease_id, event.incarnation)
        if lease is not None and lease.state in (LeaseState.RESUMING, LeaseState.MIGRATING):
            site = self.sites[lease.site]
            if site.settings.confirms_starts:
                self.registry.touch(lease.site)
            site.begin(lease, _since_ms(lease, event, now_ms), 0, now_ms)
            self.moved[lease.id] = lease

    def _note_late(self, event: LeaseIsLate, now_ms: int) -> None:
        lease = self._find(event.lease_id, event.incarnation)
        if lease is None or lease.state not in ON_THE_WAY:
            return
        site = self.registry.touch(lease.site)
        self.moved[lease.id] = lease
        if self.coallocations.open:
            self.coallocations.look_again()
        if not site.keep_room(lease, now_ms) and lease.state is LeaseState.STARTING:
            self._give_up_start(lease, now_ms, elsewhere=False)

    def _note_not_started(self, event: LeaseNotStarted, now_ms: int) -> None:
        lease = self._find(event.lease_id, event.incarnation)
        if lease is not None and lease.state in (LeaseState.STARTING, LeaseState.SUSPENDING):
            self._give_up_start(lease, now_ms, elsewhere=event.elsewhere)

    def _give_up_start(self, lease: Lease, now_ms: int, *, elsewhere: bool) -> None:
        """Machines did not start: a guest is tried at other sites; any other lease has failed."""
        site = self.registry.touch(lease.site)
        is_part = self.coallocations.leases.coallocation_of(lease.id) is not None
        if lease.request.is_local or is_part or not elsewhere:
            site.fail(lease, now_ms, Reason.NEVER_STARTED)
        else:
            site.withdraw(lease, now_ms)
            self.pending.was_not_started(lease)

    def _cancel(self, lease_id: int, now_ms: int) -> None:
        lease = self.leases.get(lease_id)
        if lease is None or lease.state.is_final or self.coallocations.cancel_with(lease.id, now_ms):
            return
        if lease.site in self.registry.remotes:
            self.dispatcher.recall(lease)
        elif lease.state in (LeaseState.SUBMITTED, LeaseState.HELD):
            self.pending.withdraw(lease)
        else:
            self.registry.touch(lease.site).cancel(lease, now_ms)

    def _note_failure(self, event: LeaseFailed, now_ms: int) -> None:
        lease = self._find(event.lease_id, event.incarnation)
        if lease is not None and lease.state not in _WITHOUT_MACHINES:
            self._machines_lost(lease, now_ms)

    def _machines_lost(self, lease: Lease, now_ms: int) -> None:
        """A guest whose machines are lost begins again where there is room, as often as it may; others have failed."""
        site = self.registry.touch(lease.site)
        if self._may_restart(lease):
            site.withdraw(lease, now_ms)
            self.pending.restart(lease, lease.request.duration_ms * self.reference_mips)
        else:
            site.fail(lease, now_ms, Reason.RESTART_LIMIT_REACHED if lease.restarts else Reason.MACHINES_LOST)

    def _restart_elsewhere(self, lease: Lease, remote: RemoteSite, now_ms: int) -> None:
        """The machines of a guest are lost at a site that decides for itself: it begins again where there is room."""
        remote.leases.pop(lease.id, None)
        self.registry.offers.answered(lease)
        self.quotas.ended(lease, now_ms)
        self.pending.restart(lease, lease.request.duration_ms * self.reference_mips)

    def _note_handed_back(self, lease: Lease, remote: RemoteSite, event: SiteReported, now_ms: int) -> None:
        """A guest cannot continue in time at a site that decides for itself: it is moved, or has failed.

        Where its memory cannot go to another site, it begins again, as if that were lost.
        """
        del remote.leases[lease.id]
        lease.preemptions = max(lease.preemptions, event.preemptions)
        lease.overhead_vm_ms = max(lease.overhead_vm_ms, event.overhead_vm_ms)
        lease.migrations = max(lease.migrations, event.migrations)
        if lease.first_start_ms < 0:
            lease.first_start_ms = event.first_start_ms
        self.quotas.ended(lease, now_ms)
        work = lease.request.duration_ms * self.reference_mips
        has_run = event.first_start_ms >= 0 or bool(lease.memory_at)
        others = [name for name in (*self.sites, *self.registry.remotes) if name != remote.name]
        is_saved = has_run and remote.hands_over and any(self.registry.hands_over(name) for name in others)
        if has_run and not is_saved:
            if not self._may_restart(lease):
                lease.state = LeaseState.FAILED
                self.quotas.release(lease)
                self._changes.effects.append(LeaseClosed(lease, Reason.DEADLINE_LOST))
                return
            lease.restarts += 1
        elif has_run and 0 < event.work_left <= work:
            work = event.work_left
        self.pending.handed_back(lease, work, remote.name if is_saved else "")
        if lease.id in self.dispatcher.recalled:
            self.pending.withdraw(lease)

    def _may_restart(self, lease: Lease) -> bool:
        """Whether a lease that lost its machines begins again, unless its user has cancelled it."""
        request, most = lease.request, self.routing.max_restarts
        if request.is_local or lease.id in self.dispatcher.recalled:
            return False
        return lease.restarts < (most if request.max_restarts is None else min(request.max_restarts, most))

    def _note_checkpoint(self, event: LeaseCheckpointed, now_ms: int) -> None:
        """What a guest reports is believed as far as it can be true: of its present start, and not of the future."""
        lease = self._find(event.lease_id, event.incarnation)
        if lease is None or lease.state is not LeaseState.RUNNING:
            return
        at_ms = min(event.at_ms, now_ms)
        if at_ms > max(lease.checkpointed_ms, lease.held_since_ms):
            lease.checkpointed_ms = at_ms
            self.moved[lease.id] = lease

    def _extend(self, lease_id: int, duration_ms: int, now_ms: int, *, more: bool) -> None:
        """Let a lease last so long in all, or (``more``) so much longer."""
        lease = self.leases.get(lease_id)
        if lease is not None and not lease.state.is_final:
            self.extensions.request(lease, duration_ms + (lease.request.duration_ms if more else 0), now_ms)

    def _note_lending(self, event: LendingChanged, now_ms: int) -> None:
        not_lending = self.registry.not_lending
        if event.lends:
            not_lending.discard(event.site)
            self.pending.retry_all()
        elif event.site not in not_lending:
            not_lending.add(event.site)
            if event.site in self.sites:
                self._drain(event.site, Reason.SITE_DRAINED, DRAINED, now_ms)

    def _note_outages(self, event: OutagesChanged, now_ms: int) -> None:
        change_outages(self.registry.touch(event.site), event.outages, now_ms)
        if self.coallocations.open:
            self.coallocations.look_again()
        self.pending.retry_all()

    def _note_report(self, event: SiteReported, now_ms: int) -> None:
        remote = self.registry.remotes.get(event.site)
        lease = None if remote is None else remote.leases.get(event.lease_id)
        if remote is None or lease is None or not can_follow(lease, event):
            return  # of a lease that is over, or of one that was further already
        self.registry.offers.answered(lease)
        if event.state.is_final:
            self.extensions.leaves(lease)
        if self.coallocations.note_report(lease, event, now_ms):
            self.pending.dirty = True
            return
        never_began = event.state is LeaseState.REFUSED or event.reason is Reason.NEVER_STARTED
        if never_began and event.state.is_final and event.first_start_ms < 0:
            self.dispatcher.was_refused(lease, remote, event.reason)
            return
        if event.state is LeaseState.CANCELLED and event.reason is Reason.HANDED_BACK:
            self._note_handed_back(lease, remote, event, now_ms)
            return
        if event.state is LeaseState.FAILED and event.reason is Reason.MACHINES_LOST and self._may_restart(lease):
            self._restart_elsewhere(lease, remote, now_ms)
            return
        follow(lease, event)
        self.quotas.followed(lease, now_ms)
        self.moved[lease.id] = lease
        self.pending.dirty = True
        if lease.state.is_final:
            del remote.leases[lease.id]
            self.quotas.release(lease)
            self._changes.effects.append(LeaseClosed(lease, event.reason))

    def _note_silence(self, event: SiteFellSilent, now_ms: int) -> None:
        remote = self.registry.remotes.get(event.site)
        if remote is not None:
            remote.silent = True
        elif event.site in self.sites:
            self._note_machines_silent(self.registry.touch(event.site), now_ms)

    def _note_machines_silent(self, site: Site, now_ms: int) -> None:
        self.fell_silent(site.name, now_ms)
        for lease in list(site.allocations.held.values()):
            if lease.state is LeaseState.STARTING and not lease.request.is_local:
                self._take_from_silent(site, lease, now_ms)

    def _take_from_silent(self, site: Site, lease: Lease, now_ms: int) -> None:
        """A guest was to start where machines do not answer: it is tried elsewhere, or here once they do."""
        if self.coallocations.leases.coallocation_of(lease.id) is None:
            site.withdraw(lease, now_ms)
            self.pending.take_back(lease, Reason.SITE_UNREACHABLE, SILENT)
        else:
            site.fail(lease, now_ms, Reason.NEVER_STARTED)

    def _note_answer(self, event: SiteAnswered, now_ms: int) -> None:
        site = self.registry.touch(event.site)
        site.allocations.is_silent = False
        if site.guests is not None:
            site.guests.site_answers(now_ms)
        self.pending.retry_all()

    def _forget_site(self, name: str, now_ms: int) -> None:
        remote = self.registry.remove(name)
        self.peering.remove(name)
        self.knowledge.update_sites()
        self.pending.retry_all()
        if remote is None:
            return
        for lease in list(remote.leases.values()):
            self.extensions.leaves(lease)
            if not remote.is_peer and self._may_restart(lease):
                self._restart_elsewhere(lease, remote, now_ms)
                continue
            self.quotas.ended(lease, now_ms)
            lease.state = LeaseState.FAILED
            # A peer may still be at work on it: nobody on the path begins it again.
            why = Reason.PEER_REMOVED if remote.is_peer else Reason.MACHINES_LOST
            self._changes.effects.append(LeaseClosed(lease, why))

    def _note_agreed(self, event: Agreed, now_ms: int) -> None:
        self.pending.refuse_revoked(event.revoked)
        self.quotas.agree(event, now_ms)
        self.pending.retry_all()

    def _note_tick(self, event: Tick, now_ms: int) -> None:
        if event.site == GATEWAY:
            return  # every instant sees by itself whether a tick of the gateway is due
        due_ms = self.sites[event.site].wake_ms
        if due_ms is not None and due_ms <= now_ms:
            self.registry.touch(event.site)


def _carry(lease: Lease, carried: Carried) -> None:
    """Let a new lease be what it was at another site."""
    lease.memory_at, lease.work_left = carried.memory_at, carried.work_left
    lease.preemptions, lease.migrations = carried.preemptions, carried.migrations
    lease.overhead_vm_ms = carried.overhead_vm_ms


def _since_ms(lease: Lease, seen: LeaseStarted | LeaseContinues, now_ms: int) -> int:
    """Since when the machines of a lease are there: not before they were ordered, nor from now on."""
    if seen.since_ms is None:
        return now_ms
    return min(now_ms, max(lease.held_since_ms, seen.since_ms))
