"""The gateway's desk: requests that no site has yet, and where they are sent.

A request lies here while the routing policy holds it (``held``), while nobody lends who could take it
(``unschedulable``), or in the line of its consumer while agreements hold it back (``lines``).
What no own site can take may go to a peer gateway (`leasehold.gateway.peering`).
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from leasehold.gateway.asking import Asking
from leasehold.gateway.dispatching import Dispatcher
from leasehold.gateway.knowledge import Knowledge
from leasehold.gateway.lines import LineKey, Lines
from leasehold.gateway.parking import Parking
from leasehold.gateway.peering import PEERS, Peering
from leasehold.gateway.quotas import AGREEMENT, QuotaEnforcer
from leasehold.gateway.rescue import Rescue
from leasehold.gateway.settings import Routing
from leasehold.gateway.site import Site
from leasehold.gateway.sites import OpenOffers, RemoteSite, SiteRegistry
from leasehold.model.agreement import Breach
from leasehold.model.effect import Decision, Effect, LeaseClosed, RecallLease, WakeAt
from leasehold.model.lease import UNPLANNED, Lease, LeaseState
from leasehold.model.lifecycle import Step, advance
from leasehold.model.reason import Outcome, Reason
from leasehold.routing.policy import Hold
from leasehold.routing.view import SiteFacts

GATEWAY = ""
DRAINED = "drained"
SILENT = "silent"
UNSTARTED = "unstarted"
_HELD_BY_POLICY = (Reason.HELD_AT_GATEWAY, "")


class Desk:
    """Asks the routing policy, and sends requests to sites: its own, and those that decide for themselves.

    ``lenders``  the sites that there are
    ``remotes``  those among them that decide for themselves, and the peers
    """

    def __init__(  # noqa: PLR0917
        self,
        sites: dict[str, Site],
        routing: Routing,
        reference_mips: int,
        quotas: QuotaEnforcer,
        effects: list[Effect],
        touch: Callable[[str], Site],
        see_through: Callable[[Knowledge], Knowledge] | None = None,
    ) -> None:
        """Begin empty; ``effects`` is the gateway's list, ``touch`` marks a site to be served."""
        self.routing = routing
        self.held: dict[int, Lease] = {}
        self.unschedulable: dict[int, Lease] = {}
        self.awaits_room: set[int] = set()
        self.lines = Lines()
        self.lenders = SiteRegistry(sites, reference_mips, routing.told_locals or {})
        self.remotes = self.lenders.remotes
        self.unanswered = OpenOffers()
        self.peering = Peering(self.remotes, self.unanswered)
        self.parking = Parking(self, sites, reference_mips)
        self._quotas = quotas
        self.rescue = Rescue(self, sites, quotas)
        self.asking = Asking(self, self.rescue)
        self._dispatcher = Dispatcher(self, sites, quotas)
        self._sites = sites
        self.effects = effects
        self.touch = touch
        self._new: dict[int, Lease] = {}
        self._wake_ms: int | None = None
        self._is_stirred = False
        self.refused_by: dict[int, dict[str, Reason]] = {}
        self._recalled: set[int] = set()
        self._told: dict[int, tuple[Reason, str]] = {}
        knowledge = Knowledge(
            self.lenders.federation,
            sites,
            self.remotes,
            self.unanswered,
            reference_mips,
            told_external=routing.told_external,
            peers=self.peering.streams,
        )
        self.knowledge = knowledge if see_through is None else see_through(knowledge)

    # Who is there

    def join(self, remote: RemoteSite) -> None:
        """Let a site take part that decides for itself; one that was there before may have changed."""
        self.lenders.join(remote)
        if remote.is_peer:
            self.knowledge.meet(remote.name)
        self.knowledge.join(self.lenders.federation)
        self.look_again()

    def part_with(self, name: str) -> list[Lease]:
        """Somebody who decides for itself will not come back; returns what was there."""
        remote = self.lenders.part_with(name)
        self.peering.part_with(name)
        self.unanswered.part_with(name)
        self.knowledge.join(self.lenders.federation)
        self.look_again()
        return [] if remote is None else list(remote.leases.values())

    def lends_again(self, name: str) -> None:
        """A site takes guests from now on."""
        self.lenders.not_lending.discard(name)
        self.look_again()

    def lends_no_more(self, name: str, now_ms: int) -> None:
        """A site takes no new guests; those that wait there and were promised nothing are routed anew."""
        if name in self.lenders.not_lending:
            return
        self.lenders.not_lending.add(name)
        if name in self._sites:
            self._empty_queue(name, Reason.SITE_DRAINED, DRAINED, now_ms)

    def fell_silent(self, name: str, now_ms: int) -> None:
        """The machines of an own site do not answer: it gets no guests; who waits there is routed anew."""
        self._sites[name].allocations.is_silent = True
        self._empty_queue(name, Reason.SITE_UNREACHABLE, SILENT, now_ms)

    def _empty_queue(self, name: str, reason: Reason, rule: str, now_ms: int) -> None:
        guests = self.touch(name).guests
        for lease in () if guests is None else guests.give_back(now_ms):
            self.take_back(lease, reason, rule)

    def look_again(self) -> None:
        """Ask about everybody again, the unschedulable included: somebody may have room for them now."""
        self.stir()
        in_line = {lease.id: lease for lease in self.lines.dissolve()}
        self._new = {**self.unschedulable, **in_line, **self._new}

    def turn_away(self, revoked: Collection[str]) -> None:
        """Refuse who waits under agreements that were revoked: that their limit is gone lets nobody start.

        Whoever asks again is judged as anybody without such an agreement.
        """
        for lease in [*self.lines.waiting(), *self.held.values()] if revoked else ():
            if self._told.get(lease.id, ("", ""))[1] in revoked:
                self.refuse(lease, Reason.AGREEMENT_REVOKED, AGREEMENT)

    # What comes and goes

    @property
    def is_busy(self) -> bool:
        """Whether there is anybody to be asked about now; about whom is held only when something happened."""
        return bool(self._new or (self._is_stirred and (self.held or self.lines or self.parking.leases)))

    def stir(self) -> None:
        """Something happened that a routing policy may want to see."""
        self._is_stirred = True

    def receive(self, lease: Lease, now_ms: int) -> None:
        """Take in a request that nobody has seen yet; one too many of a peer is refused."""
        refusal = self.peering.receive(lease, now_ms)
        if refusal is None:
            self._new[lease.id] = lease
        else:
            self.refuse(lease, refusal, PEERS)

    def take_up(self, lease: Lease) -> None:
        """Go on from a record: this request lies here, and has been told why."""
        able = self.able(lease, self.lenders.federation.wide_enough(lease.vms))
        is_unschedulable = not self.lenders.open(able) and (bool(able) or self.waits_for_peers(lease))
        (self.unschedulable if is_unschedulable else self.held)[lease.id] = lease
        if lease.request.wait and not (is_unschedulable or lease.request.lease_type.is_best_effort):
            self.awaits_room.add(lease.id)

    def withdraw(self, lease: Lease) -> None:
        """Its user takes a request back."""
        self.let_go(lease)
        self._new.pop(lease.id, None)
        advance(lease, Step.CANCEL)
        self.effects.append(LeaseClosed(lease, Reason.CANCELLED_BY_USER))

    def recall(self, lease: Lease) -> None:
        """Its user wants a lease back that is at a site which decides for itself: ask for it, once."""
        if lease.id not in self._recalled:
            self._recalled.add(lease.id)
            self.effects.append(RecallLease(lease))

    def was_refused(self, lease: Lease, remote: RemoteSite, reason: Reason) -> None:
        """A site that decides for itself does not want a request that was offered to it.

        One that a peer does not want is asked about again in any case: own sites may have held it back.
        """
        del remote.leases[lease.id]
        self.peering.refused_by(remote.name)
        lease.state, lease.reserved_ms = LeaseState.WAITING, UNPLANNED  # whatever it was, it never began
        rule = self.routing.policy.name
        self.effects.append(Decision(lease, remote.name, Outcome.REFUSE, reason, rule))
        self.refused_by.setdefault(lease.id, {})[remote.name] = reason
        if lease.id in self._recalled:
            self.withdraw(lease)  # it was refused while its user was taking it back
        elif self.routing.try_elsewhere or remote.is_peer or reason is Reason.NEVER_STARTED:
            self.take_back(lease, reason, rule)
        else:
            self.refuse(lease, reason)

    def was_not_started(self, lease: Lease) -> None:
        """The machines of a guest did not start at its site: it is tried at others, and there no more."""
        self.refused_by.setdefault(lease.id, {})[lease.site] = Reason.NEVER_STARTED
        self.take_back(lease, Reason.NEVER_STARTED, UNSTARTED)

    def take_back(self, lease: Lease, reason: Reason, rule: str) -> None:
        """A site parts with a guest that never started: it is the gateway's again, and is routed anew."""
        self.knowledge.gone(lease, lease.site)
        self._quotas.over(lease)
        advance(lease, Step.HOLD)
        self.effects.append(Decision(lease, lease.site, Outcome.HOLD, reason, rule))
        lease.site, lease.dispatched_ms = "", UNPLANNED
        self.held[lease.id] = lease
        self.stir()

    def let_go(self, lease: Lease) -> None:
        """The gateway does not keep this lease itself any more."""
        self.held.pop(lease.id, None)
        self.unschedulable.pop(lease.id, None)
        self.lines.leave(lease.id)
        self._told.pop(lease.id, None)
        self.awaits_room.discard(lease.id)
        self.asking.forget(lease.id)

    def ring(self, now_ms: int) -> None:
        """The time has come for which the desk asked; an alarm that an earlier one has overtaken is none."""
        if self._wake_ms is not None and self._wake_ms <= now_ms:
            self._wake_ms = None
            self.stir()

    # Routing

    def route_all(self, now_ms: int) -> None:
        """Ask about everybody who is here; of those who wait in a line, about the first."""
        new, self._new = self._new, {}
        self._is_stirred = False
        if self.lines:
            self.lines.take_turns(
                lambda lease: self._dispatcher.route(lease, now_ms),
                lambda lease, barred: self._quotas.is_still_barred(lease, barred, now_ms),
            )
        self._ask_again(now_ms)
        for lease in new.values():
            self._dispatcher.route(lease, now_ms)

    def _ask_again(self, now_ms: int) -> None:
        """Ask about those of whom the policy says that it is worth it; all are asked about again in time."""
        if not self.held and not self.parking.leases:
            return
        for one in self.asking.ripe(now_ms):
            if one.home:
                self.asking.go_on(one, now_ms)
            elif one.request.id in self.held:
                self._dispatcher.route(self.held[one.request.id], now_ms)
        if self.held or self.parking.leases:
            self.ask_again_at(now_ms + self.routing.tick_ms, now_ms)

    def rebalance(self, now_ms: int) -> set[str]:
        """Send who waits at a site on to where it can start now; returns the sites that this concerns."""
        return self._dispatcher.rebalance(now_ms) if self.routing.use_free_room else set()

    # What can become of a request

    def able(self, lease: Lease, sites: Sequence[SiteFacts]) -> Sequence[SiteFacts]:
        """Of these sites, those that can take the lease at all."""
        if lease.request.domain:
            sites = [site for site in sites if not self._quotas.is_bound_elsewhere(lease.request, site.name)]
        return self.lenders.able(lease.request.lease_type, sites, self.refused_by.get(lease.id, ()))

    def stand_in_line(self, lease: Lease, line: LineKey, reason: Reason, breach: Breach | None) -> None:
        """Let a request wait in the line of its consumer for what agreements give."""
        self._line_up(lease, line)
        self.tell_why(lease, reason, breach)

    def _line_up(self, lease: Lease, line: LineKey) -> None:
        self.held.pop(lease.id, None)
        self.unschedulable.pop(lease.id, None)
        if lease.state is LeaseState.SUBMITTED:
            advance(lease, Step.HOLD)
        self.lines.join(lease, line)

    def tell_why(self, lease: Lease, reason: Reason, breach: Breach | None, rule: str = AGREEMENT) -> None:
        """Write down why a request waits, once for each reason."""
        why = (reason, "" if breach is None else breach.agreement)
        if self._told.get(lease.id) != why:
            self._told[lease.id] = why
            next_ms = None if breach is None else breach.next_ms
            self.effects.append(Decision(lease, GATEWAY, Outcome.HOLD, reason, rule, next_ms, breach=breach))

    def await_room(self, lease: Lease, reason: Reason, rule: str) -> None:
        """Keep a request that no policy holds back: it is asked about whenever there may be room."""
        self.keep(lease, self.held)
        self.awaits_room.add(lease.id)
        self.tell_why(lease, reason, None, rule)

    def waits_for_peers(self, lease: Lease) -> bool:
        """Whether only peers could take it, and nobody who was asked has refused it yet."""
        return lease.id not in self.refused_by and self.peering.might_take(lease)

    def hold(self, lease: Lease, verdict: Hold, line: LineKey | None, now_ms: int) -> None:
        """Keep a request for which the policy waits for a better moment; it keeps its place in line."""
        was_held = lease.id in self.held or self._told.get(lease.id) == _HELD_BY_POLICY
        if line is None:
            self.keep(lease, self.held)
        else:
            self._line_up(lease, line)
            self._told[lease.id] = _HELD_BY_POLICY
        if not was_held:
            rule, reason = self.routing.policy.name, Reason.HELD_AT_GATEWAY
            self.effects.append(Decision(lease, GATEWAY, Outcome.HOLD, reason, rule, verdict.until_ms))
        again_ms = now_ms + self.routing.tick_ms
        self.ask_again_at(again_ms if verdict.until_ms is None else min(again_ms, verdict.until_ms), now_ms)

    def ask_again_at(self, again_ms: int, now_ms: int) -> None:
        """Set an alarm for all who lie here."""
        again_ms = max(again_ms, now_ms + 1)
        if self._wake_ms is None or again_ms < self._wake_ms:
            self._wake_ms = again_ms
            self.effects.append(WakeAt(GATEWAY, again_ms))

    def strand(self, lease: Lease) -> None:
        """Keep a request that only sites could take which do not lend now, until one of them does."""
        if lease.id in self.unschedulable:
            return
        self.keep(lease, self.unschedulable)
        self.effects.append(Decision(lease, GATEWAY, Outcome.HOLD, Reason.NO_SITE_AVAILABLE, DRAINED))

    def keep(self, lease: Lease, where: dict[int, Lease]) -> None:
        """Let a request lie here, in one place only."""
        if lease.id not in where:
            self.let_go(lease)
        if lease.state is LeaseState.SUBMITTED:
            advance(lease, Step.HOLD)
        where[lease.id] = lease

    def refuse(self, lease: Lease, reason: Reason, rule: str = "", breach: Breach | None = None) -> None:
        """Close a request that nobody takes."""
        self.let_go(lease)
        rule = rule or self.routing.policy.name
        if Reason.NEVER_STARTED in self.refused_by.get(lease.id, {}).values():
            if lease.state is LeaseState.WAITING:  # it was on offer to a site elsewhere
                advance(lease, Step.HOLD)
            advance(lease, Step.FAIL)  # it was taken in, and promised room
            self.effects.append(LeaseClosed(lease, Reason.NEVER_STARTED))
            return
        self.effects.append(Decision(lease, GATEWAY, Outcome.REFUSE, reason, rule, breach=breach))
        advance(lease, Step.REFUSE)
        self.effects.append(LeaseClosed(lease, reason))

    # What outlives a restart

    def snapshot(self) -> dict[str, Any]:
        """Give what cannot be seen in the open leases, as plain data for `restore`."""
        return {
            "refused_by": list(self.refused_by.items()),
            "recalled": sorted(self._recalled),
            "peering": self.peering.snapshot(),
            "unanswered": self.unanswered.snapshot(),
        }

    def restore(self, snapshot: Mapping[str, Any]) -> None:
        """Know again who has refused what, what was asked back, and what has not been answered."""
        self.refused_by = {
            lease_id: {name: Reason(reason) for name, reason in refusals.items()}
            for lease_id, refusals in snapshot["refused_by"]
        }
        self._recalled = set(snapshot["recalled"])
        self.peering.restore(snapshot.get("peering", {}))
        self.unanswered.restore(snapshot.get("unanswered", {}))

    def forget(self, lease: Lease) -> None:
        """A lease is over."""
        self.peering.forget(lease)
        self.unanswered.heard_of(lease)
        self._quotas.over(lease)
        self._told.pop(lease.id, None)
        self.parking.forget(lease.id)
        self.refused_by.pop(lease.id, None)
        self._recalled.discard(lease.id)
        if lease.dispatched_ms >= 0:
            self.knowledge.gone(lease, lease.site)
