"""The gateway of a federation (the papers' IGG): joins routing and the sites' own decisions.

``handle`` is the one way in. The simulator and the service call it with all events of an instant, and
carry out the effects that it returns; it never asks what time it is and never waits.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from leasehold.gateway.displaced import give_up, keep_for_later, soonest_elsewhere, take_over
from leasehold.gateway.knowledge import Knowledge
from leasehold.gateway.site import Site
from leasehold.model.effect import Decision, Effect, LeaseClosed, WakeAt
from leasehold.model.errors import UnknownName
from leasehold.model.event import (
    CancelRequested,
    Event,
    LeaseContinues,
    LeaseEnded,
    LeaseSaved,
    Submitted,
    Tick,
)
from leasehold.model.lease import Lease, LeaseState
from leasehold.model.lifecycle import Step, advance
from leasehold.model.reason import Outcome, Reason
from leasehold.model.request import Request
from leasehold.routing.facts import Federation, SiteFacts
from leasehold.routing.moments import StreamMoments
from leasehold.routing.policy import Dispatch, Hold, Refuse, RoutingPolicy
from leasehold.routing.view import RoutingView

GATEWAY = ""


@dataclass(slots=True)
class Routing:
    """How a gateway routes.

    ``told_external, told_locals``  streams that an operator states; the others are learnt
    ``try_elsewhere``               ask the policy again, without the site that refused
    ``tick_ms``                     how often held requests are asked about again at the latest
    ``learns``                      whether streams that nobody told are learnt; for nothing where no
                                    guest can come, and not free
    """

    policy: RoutingPolicy
    told_external: StreamMoments | None = None
    told_locals: dict[str, StreamMoments] | None = None
    try_elsewhere: bool = False
    tick_ms: int = 10_000
    learns: bool = True


class Gateway:
    """Sites behind one gateway."""

    def __init__(self, sites: Sequence[Site], routing: Routing, reference_mips: int = 1) -> None:
        """Begin with these sites in this order; ``reference_mips`` is the speed that durations refer to."""
        self.sites = {site.name: site for site in sites}
        self.routing = routing
        self.reference_mips = reference_mips
        self.leases: dict[int, Lease] = {}
        self.held: dict[int, Lease] = {}
        told = routing.told_locals or {}
        facts = [
            SiteFacts(s.name, s.settings.slots, s.settings.speed_mips, reference_mips, told.get(s.name))
            for s in sites
        ]
        self.federation = Federation(facts)
        self.knowledge = Knowledge(self.federation, self.sites, reference_mips, routing.told_external)
        self._effects: list[Effect] = []
        self._displaced: list[Lease] = []
        for site in sites:
            site.floor.effects = self._effects
            site.floor.displaced = self._displaced
        self._touched: dict[str, Site] = {}
        self._to_route: list[Lease] = []
        self._order = 0
        self._wake_ms: int | None = None
        self._note: dict[type, Callable[[Any, int], None]] = {
            Submitted: self._note_submission,
            LeaseEnded: self._note_end,
            LeaseSaved: self._note_saved,
            LeaseContinues: self._note_continues,
            CancelRequested: self._note_cancel,
            Tick: self._note_tick,
        }

    def handle(self, events: Iterable[Event], now_ms: int) -> list[Effect]:
        """Take note of all events of an instant, then decide; returns what is to be done and known."""
        # 1. What happened, before anything is decided.
        for event in events:
            self._note[type(event)](event, now_ms)
        # 2. The owners first: local requests start, guests give way.
        for site in self._touched.values():
            site.serve_locals(now_ms)
        # 3. Migratable guests that lost their place go on elsewhere, or wait, or have failed.
        if self._displaced:
            self._rescue_all(now_ms)
        # 4. New and held requests are routed, seeing the sites as they are now.
        if self._to_route or self.held:
            self._route_all(now_ms)
        # 5. Guests start in the room that is left, and each site says when it wants to be woken.
        for site in self._touched.values():
            if site.guests is not None:
                site.guests.serve(now_ms)
            self._set_alarm(site, now_ms)
        return self._hand_over()

    # 1. What happened

    def _note_submission(self, event: Submitted, now_ms: int) -> None:
        request = event.request
        self._order += 1
        work = request.duration_ms * self.reference_mips
        lease = Lease(request.id, request, request.vms, self._order, work)
        if request.site is None:
            self._to_route.append(lease)
        elif request.site not in self.sites:
            raise UnknownName("site", request.site, self.sites)
        else:
            self._touch(request.site).submit(lease)
        self.leases[request.id] = lease
        if self.routing.learns:
            self.knowledge.observe(request, now_ms)

    def _find(self, lease_id: int, incarnation: int) -> Lease | None:
        """The lease that news speak of; None if they are of an earlier start or of a lease that is over."""
        lease = self.leases.get(lease_id)
        return lease if lease is not None and lease.incarnation == incarnation else None

    def _note_end(self, event: LeaseEnded, now_ms: int) -> None:
        lease = self._find(event.lease_id, event.incarnation)
        if lease is not None and lease.held_since_ms >= 0:
            self._touch(lease.site).end(lease, now_ms, killed=event.killed)

    def _note_saved(self, event: LeaseSaved, now_ms: int) -> None:  # noqa: ARG002 - all notes are alike
        lease = self._find(event.lease_id, event.incarnation)
        if lease is not None and lease.state is LeaseState.SUSPENDING:
            advance(lease, Step.SAVED)
            self._touch(lease.site)

    def _note_continues(self, event: LeaseContinues, now_ms: int) -> None:  # noqa: ARG002 - all notes are alike
        lease = self._find(event.lease_id, event.incarnation)
        if lease is not None and lease.state in (LeaseState.RESUMING, LeaseState.MIGRATING):
            advance(lease, Step.CONTINUE)

    def _note_cancel(self, event: CancelRequested, now_ms: int) -> None:
        lease = self.leases.get(event.lease_id)
        if lease is None or lease.state.is_final:
            return
        if lease.state in (LeaseState.SUBMITTED, LeaseState.HELD):
            self.held.pop(lease.id, None)
            self._to_route = [other for other in self._to_route if other is not lease]
            advance(lease, Step.CANCEL)
            self._effects.append(LeaseClosed(lease, Reason.CANCELLED_BY_USER))
        else:
            self._touch(lease.site).cancel(lease, now_ms)

    def _note_tick(self, event: Tick, now_ms: int) -> None:
        if event.site == GATEWAY:
            # An alarm that an earlier one has overtaken wakes nobody, or alarms would multiply.
            if self._wake_ms is not None and self._wake_ms <= now_ms:
                self._wake_ms = None
            return
        due_ms = self.sites[event.site].wake_ms
        if due_ms is not None and due_ms <= now_ms:
            self._touch(event.site)

    def _touch(self, name: str) -> Site:
        site = self.sites[name]
        self._touched[name] = site
        return site

    # 3. Migratable guests

    def _rescue_all(self, now_ms: int) -> None:
        for lease in self._displaced:
            home = self.sites[lease.site].open_to_guests(now_ms)
            elsewhere = soonest_elsewhere(lease, self.sites.values(), now_ms)
            if elsewhere is not None:
                self.knowledge.gone(lease, lease.site)
                take_over(elsewhere, lease, now_ms)
                self.knowledge.sent(lease)
                self._touch(lease.site)
            elif not keep_for_later(home, lease, now_ms):
                give_up(home, lease)
        self._displaced.clear()

    # 4. Routing

    def _route_all(self, now_ms: int) -> None:
        waiting = [*self.held.values(), *self._to_route]
        self._to_route = []
        for lease in waiting:
            self._route(lease, now_ms)

    def _route(self, lease: Lease, now_ms: int) -> None:
        """Ask the policy about one request until it is dispatched, held or refused."""
        sites: Sequence[SiteFacts] = self.federation.wide_enough(lease.vms)
        refusal = Reason.WIDER_THAN_ANY_SITE
        while sites:
            verdict = self._ask(lease.request, sites, now_ms)
            if isinstance(verdict, Hold):
                self._hold(lease, verdict, now_ms)
                return
            if isinstance(verdict, Refuse):
                self._refuse(lease, verdict.reason)
                return
            refused = self._dispatch(lease, verdict, now_ms)
            if refused is None:
                return
            refusal = refused
            others = [site for site in sites if site.name != verdict.site]
            # A policy that insists on a site which has refused is not asked for ever.
            insists = len(others) == len(sites)
            sites = others if self.routing.try_elsewhere and not insists else ()
        self._refuse(lease, refusal)

    def _ask(self, request: Request, sites: Sequence[SiteFacts], now_ms: int) -> Dispatch | Hold | Refuse:
        policy = self.routing.policy
        view = RoutingView(self.federation, sites, self.knowledge, policy.information, now_ms)
        return policy.route(request, view, now_ms)

    def _dispatch(self, lease: Lease, verdict: Dispatch, now_ms: int) -> Reason | None:
        """Send a request to a site; returns why the site refused it, None if it did not."""
        if verdict.site not in self.sites:
            raise UnknownName(f"routing policy {self.routing.policy.name}: site", verdict.site, self.sites)
        site = self._touch(verdict.site)
        rule = verdict.rule or self.routing.policy.name
        refusal = site.open_to_guests(now_ms).admit(lease, now_ms)
        if refusal is not None:
            self._effects.append(Decision(lease, site.name, Outcome.REFUSE, refusal, rule))
            return refusal
        self.held.pop(lease.id, None)
        lease.dispatched_ms = now_ms
        self.knowledge.sent(lease)
        self._effects.append(Decision(lease, site.name, Outcome.DISPATCH, Reason.ROUTED, rule))
        return None

    def _hold(self, lease: Lease, verdict: Hold, now_ms: int) -> None:
        if lease.state is LeaseState.SUBMITTED:
            advance(lease, Step.HOLD)
            self.held[lease.id] = lease
            rule = self.routing.policy.name
            self._effects.append(
                Decision(lease, GATEWAY, Outcome.HOLD, Reason.HELD_AT_GATEWAY, rule, verdict.until_ms)
            )
        again_ms = now_ms + self.routing.tick_ms
        if verdict.until_ms is not None:
            again_ms = min(again_ms, max(verdict.until_ms, now_ms + 1))
        if self._wake_ms is None or again_ms < self._wake_ms:
            self._wake_ms = again_ms
            self._effects.append(WakeAt(GATEWAY, again_ms))

    def _refuse(self, lease: Lease, reason: Reason) -> None:
        self.held.pop(lease.id, None)
        rule = self.routing.policy.name
        self._effects.append(Decision(lease, GATEWAY, Outcome.REFUSE, reason, rule))
        advance(lease, Step.REFUSE)
        self._effects.append(LeaseClosed(lease, reason))

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
        if lease.dispatched_ms >= 0:
            self.knowledge.gone(lease, lease.site)
