"""The gateway of a federation (the papers' IGG): joins routing and the sites' own decisions.

``handle`` is the one way in. The simulator and the service call it with all events of an instant, and
carry out the effects that it returns; it never asks what time it is and never waits.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from leasehold.gateway.budget import LOOKS_EACH_INSTANT, WorkBudget
from leasehold.gateway.coallocation.claims import Claims
from leasehold.gateway.coallocation.coordinator import CoAllocator
from leasehold.gateway.coallocation.crew import Crew
from leasehold.gateway.coallocation.planner import Planner
from leasehold.gateway.desk import GATEWAY, SILENT, Desk
from leasehold.gateway.extension import with_longer_request
from leasehold.gateway.knowledge import Knowledge
from leasehold.gateway.parking import Parking
from leasehold.gateway.quotas import QuotaEnforcer
from leasehold.gateway.settings import Routing, SiteSettings
from leasehold.gateway.site import Site
from leasehold.gateway.sites import RemoteSite, can_follow, follow
from leasehold.leasing.overhead import Measurement
from leasehold.model.agreement import Breach
from leasehold.model.effect import Decision, Effect, LeaseClosed, WakeAt
from leasehold.model.errors import InvalidField, UnknownName
from leasehold.model.event import (
    Agreed,
    CancelRequested,
    CoAllocationCancelled,
    CoAllocationSubmitted,
    Event,
    ExtendRequested,
    LeaseContinues,
    LeaseEnded,
    LeaseFailed,
    LeaseIsLate,
    LeaseNotStarted,
    LeaseSaved,
    LeaseStarted,
    LendingChanged,
    NativeQueueSeen,
    OverheadMeasured,
    PenaltyLifted,
    SiteAnswered,
    SiteFellSilent,
    SiteForgotten,
    SiteReported,
    Submitted,
    Tick,
)
from leasehold.model.lease import ON_THE_WAY, Lease, LeaseState
from leasehold.model.lifecycle import Step, advance
from leasehold.model.reason import Outcome, Reason
from leasehold.model.request import Request
from leasehold.sharing.enforcement import Sharing

__all__ = ["Gateway", "Routing"]

EXTENSION = "extension"


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
    ) -> None:
        """Make these sites, in this order; ``reference_mips`` is the speed that durations refer to.

        Without ``sharing`` nothing is agreed, and nobody accounts for what is used. Co-allocations may take
        ``most_looks`` in one instant. ``see_through`` wraps what the gateway knows, such as to let it be stale.
        """
        self.sites = {one.name: Site(one) for one in sites}
        if len(self.sites) < len(sites):
            raise InvalidField("sites", [site.name for site in sites], "a name of its own for each site")
        self.reference_mips = reference_mips
        self.leases: dict[int, Lease] = {}
        self.moved: dict[int, Lease] = {}
        self._effects: list[Effect] = []
        self._displaced: list[Lease] = []
        self._touched: dict[str, Site] = {}
        self._order = 0
        self.quotas = QuotaEnforcer(sharing, reference_mips, self._effects)
        self.desk = Desk(self.sites, routing, reference_mips, self.quotas, self._effects, self._touch, see_through)
        self.routing = routing
        self.registry, self.offers, self.peering = self.desk.lenders, self.desk.unanswered, self.desk.peering
        self.pending = self.desk
        self.knowledge = self.desk.knowledge
        budget = WorkBudget(most_looks)
        planner = Planner(self.sites, self.desk.lenders, self.quotas, reference_mips, budget)
        claims = Claims(self.sites, self.quotas, self.knowledge, self._effects, self._touch)
        crew = Crew(self._enrol, self._effects)
        self.coallocations = CoAllocator(self.sites, planner, claims, crew, self._effects)
        for site in self.sites.values():
            site.allocations.effects = self._effects
            site.allocations.displaced = self._displaced
            site.allocations.quotas = self.quotas
            site.allocations.parked = self.desk.parking.leases if self.desk.parking.opens else None
            site.locals.moved = self.moved
        self._note: dict[type, Callable[[Any, int], None]] = {
            Submitted: self._note_submission,
            LeaseStarted: self._note_started,
            LeaseNotStarted: self._note_not_started,
            LeaseIsLate: self._note_late,
            LeaseEnded: self._note_end,
            LeaseSaved: self._note_saved,
            LeaseContinues: self._note_continues,
            LeaseFailed: self._note_failure,
            CancelRequested: self._note_cancel,
            ExtendRequested: self._note_extension,
            LendingChanged: self._note_lending,
            NativeQueueSeen: self._note_native_queue,
            OverheadMeasured: self._note_overhead,
            SiteReported: self._note_report,
            SiteFellSilent: self._note_silence,
            SiteAnswered: self._note_answer,
            SiteForgotten: self._note_forgotten,
            Agreed: self._note_agreed,
            PenaltyLifted: self._note_lifted,
            CoAllocationSubmitted: self.coallocations.note_submission,
            CoAllocationCancelled: self.coallocations.note_cancel,
            Tick: self._note_tick,
        }

    def handle(self, events: Iterable[Event], now_ms: int) -> list[Effect]:
        """Take note of all events of an instant, then decide; returns what is to be done and known.

        Afterwards ``moved`` has the leases whose state, place or reservation changed without an effect.
        """
        self.moved.clear()
        self.coallocations.moved.clear()
        # 1. What happened, before anything is decided.
        for event in events:
            self._note[type(event)](event, now_ms)
        self.coallocations.mourn(now_ms)
        # 2. The owners first: local requests start, guests give way.
        for site in self._touched.values():
            site.serve_locals(now_ms)
        self.coallocations.serve(now_ms)
        # 3. Migratable guests that lost their place, or can wait no longer, go on, or wait, or have failed.
        if self.desk.parking.leases:
            self._displaced += self.desk.parking.in_a_hurry(now_ms)
        if self._displaced:
            self.desk.rescue.all(self._displaced, now_ms)
            self._displaced.clear()
        # 4. New and held requests are routed, seeing the sites as they are now.
        if self._touched:
            self.desk.stir()
        if self.desk.is_busy:
            self.desk.route_all(now_ms)
        # 5. Guests start in the room that is left, and each site says when it wants to be woken.
        for site in self._touched.values():
            if site.guests is not None:
                site.guests.serve(now_ms)
            self._set_alarm(site, now_ms)
        for name in sorted(self.desk.rebalance(now_ms)):
            self._touch(name).open_to_guests(now_ms).serve(now_ms)
            self._set_alarm(self.sites[name], now_ms)
        self.coallocations.follow(now_ms)
        return self._hand_over()

    def take_up(self, leases: Iterable[Lease]) -> None:
        """Go on from a record: these are the open leases, and the sites have their parts of them.

        The next call of `handle` looks at every site, whatever its events are.
        """
        for lease in leases:
            self.leases[lease.id] = lease
            self._order = max(self._order, lease.order)
            self.desk.peering.take_up(lease)
            if lease.site in self.desk.remotes:
                self.desk.remotes[lease.site].leases[lease.id] = lease
            elif not self.coallocations.take_up(lease) and lease.state is LeaseState.HELD:
                self.desk.take_up(lease)
        for name in self.sites:
            self._touch(name)
        self.desk.stir()
        self.knowledge.take_up(self.leases.values())

    def overheads_snapshot(self) -> dict[str, Any]:
        """Give what was measured at the sites, as plain data for `restore_overheads`."""
        return {name: site.allocations.experience.memory() for name, site in self.sites.items()}

    def restore_overheads(self, snapshot: Mapping[str, Any]) -> None:
        """Go on from what was measured; sites that have left are ignored."""
        for name, site in self.sites.items():
            site.allocations.restore(snapshot.get(name, {}))

    def snapshot(self) -> dict[str, Any]:
        """Give what the open leases do not show of requests and peers, as plain data for `restore`."""
        return self.desk.snapshot()

    def restore(self, snapshot: Mapping[str, Any]) -> None:
        """Go on from what `snapshot` gave."""
        self.desk.restore(snapshot)

    # From outside the events

    def join(self, remote: RemoteSite) -> None:
        """Add a site that decides for itself, or update one that was there before."""
        self.desk.join(remote)

    def fell_silent(self, name: str, now_ms: int) -> None:
        """Send no guests to a site whose machines do not answer; guests that wait there are routed again."""
        self.desk.fell_silent(name, now_ms)

    def retry_all(self) -> None:
        """Route every pending request again in the next instant: a site may have room for it now."""
        self.desk.look_again()

    def mark_dirty(self) -> None:
        """Ask the routing policy about held requests again in the next instant."""
        self.desk.stir()

    @property
    def has_pending_work(self) -> bool:
        """Whether the next instant has requests to route."""
        return self.desk.is_busy

    @property
    def suspended(self) -> Parking:
        """Guests that wait, suspended, for the routing policy."""
        return self.desk.parking

    # 1. What happened

    def _note_submission(self, event: Submitted, now_ms: int) -> None:
        request = event.request
        lease = self._lease_of(request)
        if request.site is None:
            self.desk.receive(lease, now_ms)
        elif request.site not in self.sites:
            raise UnknownName("site", request.site, self.sites)
        else:
            self._touch(request.site).submit(lease)
        self.leases[request.id] = lease
        if self.desk.routing.learns:
            self.knowledge.observe(request, now_ms)

    def _lease_of(self, request: Request) -> Lease:
        """Make a lease of a request, next in order."""
        self._order += 1
        work = request.duration_ms * self.reference_mips
        return Lease(request.id, request, request.vms, self._order, work)

    def _enrol(self, request: Request) -> Lease:
        """Take in a component of a co-allocation."""
        lease = self.leases[request.id] = self._lease_of(request)
        return lease

    def _find(self, lease_id: int, incarnation: int) -> Lease | None:
        """The lease that news speak of; None if they are of an earlier start or of a lease that is over."""
        lease = self.leases.get(lease_id)
        if lease is None or lease.incarnation != incarnation or lease.state.is_final:
            return None
        return lease

    def _note_end(self, event: LeaseEnded, now_ms: int) -> None:
        lease = self._find(event.lease_id, event.incarnation)
        if lease is not None and lease.held_since_ms >= 0:
            site = self._touch(lease.site)
            if not lease.request.is_local:
                self.knowledge.ended(lease, site.settings.speed_mips, now_ms)
            site.end(lease, now_ms, killed=event.killed)

    def _note_saved(self, event: LeaseSaved, now_ms: int) -> None:
        lease = self._find(event.lease_id, event.incarnation)
        if lease is None or lease.state is not LeaseState.SUSPENDING:
            return
        site = self._touch(lease.site)
        if event.ended:
            site.finish(lease, now_ms)
        else:
            advance(lease, Step.SAVED)
            self.moved[lease.id] = lease

    def _note_started(self, event: LeaseStarted, now_ms: int) -> None:
        lease = self._find(event.lease_id, event.incarnation)
        if lease is not None and lease.state is LeaseState.STARTING:
            coallocation = self.coallocations.crew.coallocation_of(lease.id)
            not_before_ms = 0 if coallocation is None else coallocation.start_ms
            self._touch(lease.site).begin(lease, _since_ms(lease, event, now_ms), not_before_ms, now_ms)
            self.moved[lease.id] = lease

    def _note_continues(self, event: LeaseContinues, now_ms: int) -> None:
        lease = self._find(event.lease_id, event.incarnation)
        if lease is not None and lease.state in (LeaseState.RESUMING, LeaseState.MIGRATING):
            site = self.sites[lease.site]
            if site.settings.confirms_starts:
                self._touch(lease.site)
            site.begin(lease, _since_ms(lease, event, now_ms), 0, now_ms)
            self.moved[lease.id] = lease

    def _note_late(self, event: LeaseIsLate, now_ms: int) -> None:
        lease = self._find(event.lease_id, event.incarnation)
        if lease is None or lease.state not in ON_THE_WAY:
            return
        site = self._touch(lease.site)
        self.moved[lease.id] = lease
        if not site.keep_room(lease, now_ms) and lease.state is LeaseState.STARTING:
            self._give_up_start(lease, now_ms, elsewhere=False)

    def _note_not_started(self, event: LeaseNotStarted, now_ms: int) -> None:
        lease = self._find(event.lease_id, event.incarnation)
        if lease is not None and lease.state in (LeaseState.STARTING, LeaseState.SUSPENDING):
            self._give_up_start(lease, now_ms, elsewhere=event.elsewhere)

    def _give_up_start(self, lease: Lease, now_ms: int, *, elsewhere: bool) -> None:
        """Machines did not start: a guest is tried at other sites, and who has none has failed."""
        site = self._touch(lease.site)
        is_part = self.coallocations.crew.coallocation_of(lease.id) is not None
        if lease.request.is_local or is_part or not elsewhere:
            site.fail(lease, now_ms, Reason.NEVER_STARTED)
        else:
            site.withdraw(lease, now_ms)
            self.desk.was_not_started(lease)

    def _note_cancel(self, event: CancelRequested, now_ms: int) -> None:
        lease = self.leases.get(event.lease_id)
        if lease is None or lease.state.is_final or self.coallocations.cancel_with(lease.id, now_ms):
            return
        if lease.site in self.desk.remotes:
            self.desk.recall(lease)
        elif lease.state in (LeaseState.SUBMITTED, LeaseState.HELD):
            self.desk.withdraw(lease)
        else:
            self._touch(lease.site).cancel(lease, now_ms)

    def _note_failure(self, event: LeaseFailed, now_ms: int) -> None:
        lease = self._find(event.lease_id, event.incarnation)
        if lease is not None and lease.incarnation > 0:
            self._touch(lease.site).fail(lease, now_ms)

    def _note_extension(self, event: ExtendRequested, now_ms: int) -> None:
        lease = self.leases.get(event.lease_id)
        if lease is None or lease.state.is_final:
            return
        is_remote = lease.site in self.desk.remotes
        refusal: Reason | None = Reason.MANAGED_ELSEWHERE if is_remote else Reason.NOT_RUNNING
        breach: Breach | None = None
        if lease.held_since_ms >= 0:
            more_work = event.by_ms * self.reference_mips
            site = self._touch(lease.site)
            breach = self.quotas.why_not_on(lease, more_work, site.settings.speed_mips, now_ms)
            refusal = site.extend(lease, more_work, now_ms) if breach is None else breach.reason
        if refusal is None:
            with_longer_request(lease, event.by_ms)
        outcome = Outcome.EXTEND if refusal is None else Outcome.DENY
        why = refusal or Reason.EXTENDED
        self._effects.append(Decision(lease, lease.site, outcome, why, EXTENSION, breach=breach))

    def _note_lending(self, event: LendingChanged, now_ms: int) -> None:
        if event.lends:
            self.desk.lends_again(event.site)
        else:
            self.desk.lends_no_more(event.site, now_ms)

    def _note_native_queue(self, event: NativeQueueSeen, now_ms: int) -> None:  # noqa: ARG002 - as other notes
        self._touch(event.site).see_native_queue(event)

    def _note_overhead(self, event: OverheadMeasured, now_ms: int) -> None:  # noqa: ARG002 - as other notes
        measured = Measurement(event.memory_mib, event.vms, event.took_ms)
        self.sites[event.site].allocations.learn(event.operation, measured)

    def _note_report(self, event: SiteReported, now_ms: int) -> None:
        remote = self.desk.remotes.get(event.site)
        lease = None if remote is None else remote.leases.get(event.lease_id)
        if remote is None or lease is None or not can_follow(lease, event):
            return  # of a lease that is over, or of one that was further already
        self.desk.unanswered.heard_of(lease)
        never_began = event.state is LeaseState.REFUSED or event.reason is Reason.NEVER_STARTED
        if never_began and event.state.is_final and lease.first_start_ms < 0:
            self.desk.was_refused(lease, remote, event.reason)
            return
        follow(lease, event)
        self.quotas.followed(lease, now_ms)
        self.moved[lease.id] = lease
        self.desk.stir()
        if lease.state.is_final:
            del remote.leases[lease.id]
            self.quotas.over(lease)
            self._effects.append(LeaseClosed(lease, event.reason))

    def _note_silence(self, event: SiteFellSilent, now_ms: int) -> None:
        remote = self.desk.remotes.get(event.site)
        if remote is not None:
            remote.silent = True
        elif event.site in self.sites:
            self._note_machines_silent(self._touch(event.site), now_ms)

    def _note_machines_silent(self, site: Site, now_ms: int) -> None:
        self.desk.fell_silent(site.name, now_ms)
        for lease in list(site.allocations.held.values()):
            if lease.state is LeaseState.STARTING and not lease.request.is_local:
                self._take_from_silent(site, lease, now_ms)

    def _take_from_silent(self, site: Site, lease: Lease, now_ms: int) -> None:
        """A guest was told to start where nobody answers: it is tried elsewhere, or here when they do."""
        if self.coallocations.crew.coallocation_of(lease.id) is None:
            site.withdraw(lease, now_ms)
            self.desk.take_back(lease, Reason.SITE_UNREACHABLE, SILENT)
        else:
            site.fail(lease, now_ms, Reason.NEVER_STARTED)

    def _note_answer(self, event: SiteAnswered, now_ms: int) -> None:
        site = self._touch(event.site)
        site.allocations.is_silent = False
        if site.guests is not None:
            site.guests.site_answers(now_ms)
        self.desk.look_again()

    def _note_forgotten(self, event: SiteForgotten, now_ms: int) -> None:
        for lease in self.desk.part_with(event.site):
            self.quotas.ended(lease, now_ms)
            lease.state = LeaseState.FAILED
            self._effects.append(LeaseClosed(lease, Reason.MACHINES_LOST))

    def _note_agreed(self, event: Agreed, now_ms: int) -> None:
        self.desk.turn_away(event.revoked)
        self.quotas.agree(event, now_ms)
        self.desk.look_again()

    def _note_lifted(self, event: PenaltyLifted, now_ms: int) -> None:  # noqa: ARG002 - all notes are alike
        if self.quotas.sharing is not None:
            self.quotas.sharing.penalties.lift(event.agreement, event.consumer)
        self.desk.look_again()

    def _note_tick(self, event: Tick, now_ms: int) -> None:
        if event.site == GATEWAY:
            self.desk.ring(now_ms)
            return
        due_ms = self.sites[event.site].wake_ms
        if due_ms is not None and due_ms <= now_ms:
            self._touch(event.site)

    def _touch(self, name: str) -> Site:
        site = self.sites[name]
        self._touched[name] = site
        return site

    # 5. Alarms, and the way out

    def _set_alarm(self, site: Site, now_ms: int) -> None:
        wake_ms = site.next_wake_ms()
        if wake_ms is not None and wake_ms != site.wake_ms:
            self._effects.append(WakeAt(site.name, max(wake_ms, now_ms + 1)))
        site.wake_ms = wake_ms

    def _hand_over(self) -> list[Effect]:
        """Give the effects away and forget the leases that they close."""
        effects = self._effects[:]
        self._effects.clear()
        self._touched.clear()
        for effect in effects:
            if type(effect) is LeaseClosed:
                self._forget(effect.lease)
            elif type(effect) is Decision and effect.outcome is Outcome.PREEMPT:
                self.knowledge.preempted(effect.site)
        return effects

    def _forget(self, lease: Lease) -> None:
        del self.leases[lease.id]
        self.desk.forget(lease)


def _since_ms(lease: Lease, seen: LeaseStarted | LeaseContinues, now_ms: int) -> int:
    """Since when the machines of a lease are there: not before they were ordered, nor from now on."""
    if seen.since_ms is None:
        return now_ms
    return min(now_ms, max(lease.held_since_ms, seen.since_ms))
