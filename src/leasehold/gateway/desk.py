"""The gateway's desk: requests that no site has yet, and where they are sent.

A request lies here while the routing policy holds it, or while nobody lends who could take it (`stranded`).
What no own site can take may go to a peer gateway (`leasehold.gateway.peering`).
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from leasehold.gateway.knowledge import Knowledge, starts_now
from leasehold.gateway.lenders import Lenders
from leasehold.gateway.peering import PEERS, Ask, Peering
from leasehold.gateway.remote import RemoteSite
from leasehold.gateway.rules import Routing
from leasehold.gateway.site import Site
from leasehold.model.effect import Decision, Effect, LeaseClosed, OfferLease, RecallLease, WakeAt
from leasehold.model.errors import UnknownName
from leasehold.model.lease import UNPLANNED, Lease, LeaseState
from leasehold.model.lifecycle import Step, advance
from leasehold.model.reason import Outcome, Reason
from leasehold.model.request import Request
from leasehold.routing.facts import SiteFacts
from leasehold.routing.policy import Dispatch, Hold, Refuse
from leasehold.routing.view import RoutingView

GATEWAY = ""
DRAINED = "drained"


class Desk:
    """Asks the routing policy, and sends requests to sites: its own, and those that decide for themselves.

    ``lenders``  the sites that there are
    ``remotes``  those among them that decide for themselves, and the peers
    """

    def __init__(
        self,
        sites: dict[str, Site],
        routing: Routing,
        reference_mips: int,
        effects: list[Effect],
        touch: Callable[[str], Site],
    ) -> None:
        """Begin empty; ``effects`` is the gateway's list, ``touch`` marks a site to be served."""
        self.routing = routing
        self.held: dict[int, Lease] = {}
        self.stranded: dict[int, Lease] = {}
        self.lenders = Lenders(sites, reference_mips, routing.told_locals or {})
        self.remotes = self.lenders.remotes
        self.peering = Peering(self.remotes)
        self._sites = sites
        self._effects = effects
        self._touch = touch
        self._new: dict[int, Lease] = {}
        self._wake_ms: int | None = None
        self._is_stirred = False
        self._refused_by: dict[int, dict[str, Reason]] = {}
        self._recalled: set[int] = set()
        self.knowledge = Knowledge(
            self.lenders.federation,
            sites,
            self.remotes,
            reference_mips,
            routing.told_external,
            self.peering.streams,
        )

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
            guests = self._touch(name).guests
            for lease in () if guests is None else guests.give_back(now_ms):
                self._take_back(lease, Reason.SITE_DRAINED, DRAINED)

    def look_again(self) -> None:
        """Ask about everybody again, the stranded included: somebody may have room for them now."""
        self.stir()
        self._new = {**self.stranded, **self._new}

    # What comes and goes

    @property
    def is_busy(self) -> bool:
        """Whether there is anybody to be asked about now; about whom is held only when something happened."""
        return bool(self._new or (self.held and self._is_stirred))

    def stir(self) -> None:
        """Something happened that a routing policy may want to see."""
        self._is_stirred = True

    def receive(self, lease: Lease, now_ms: int) -> None:
        """Take in a request that nobody has seen yet; one too many of a peer is refused."""
        refusal = self.peering.receive(lease, now_ms)
        if refusal is None:
            self._new[lease.id] = lease
        else:
            self._refuse(lease, refusal, PEERS)

    def take_up(self, lease: Lease) -> None:
        """Go on from a record: this request lies here, and has been told why."""
        able = self._able(lease, self.lenders.federation.wide_enough(lease.vms))
        is_stranded = not self.lenders.open(able) and (bool(able) or self._waits_for_peers(lease))
        (self.stranded if is_stranded else self.held)[lease.id] = lease

    def withdraw(self, lease: Lease) -> None:
        """Its user takes a request back."""
        self._let_go(lease)
        self._new.pop(lease.id, None)
        advance(lease, Step.CANCEL)
        self._effects.append(LeaseClosed(lease, Reason.CANCELLED_BY_USER))

    def recall(self, lease: Lease) -> None:
        """Its user wants a lease back that is at a site which decides for itself: ask for it, once."""
        if lease.id not in self._recalled:
            self._recalled.add(lease.id)
            self._effects.append(RecallLease(lease))

    def was_refused(self, lease: Lease, remote: RemoteSite, reason: Reason) -> None:
        """A site that decides for itself does not want a request that was offered to it.

        One that a peer does not want is asked about again in any case: own sites may have held it back.
        """
        del remote.leases[lease.id]
        self.peering.refused_by(remote.name)
        lease.state, lease.reserved_ms = LeaseState.WAITING, UNPLANNED  # whatever it was, it never began
        rule = self.routing.policy.name
        self._effects.append(Decision(lease, remote.name, Outcome.REFUSE, reason, rule))
        self._refused_by.setdefault(lease.id, {})[remote.name] = reason
        if lease.id in self._recalled:
            self.withdraw(lease)  # it was refused while its user was taking it back
        elif self.routing.try_elsewhere or remote.is_peer:
            self._take_back(lease, reason, rule)
        else:
            self._refuse(lease, reason)

    def _take_back(self, lease: Lease, reason: Reason, rule: str) -> None:
        """A site parts with a guest that never started: it is the gateway's again, and is routed anew."""
        self.knowledge.gone(lease, lease.site)
        advance(lease, Step.HOLD)
        self._effects.append(Decision(lease, lease.site, Outcome.HOLD, reason, rule))
        lease.site, lease.dispatched_ms = "", UNPLANNED
        self.held[lease.id] = lease
        self.stir()

    def _let_go(self, lease: Lease) -> None:
        """The gateway does not keep this lease itself any more."""
        self.held.pop(lease.id, None)
        self.stranded.pop(lease.id, None)

    def ring(self, now_ms: int) -> None:
        """The time has come for which the desk asked; an alarm that an earlier one has overtaken is none."""
        if self._wake_ms is not None and self._wake_ms <= now_ms:
            self._wake_ms = None
            self.stir()

    # Routing

    def route_all(self, now_ms: int) -> None:
        """Ask about everybody who is here."""
        waiting = [*self.held.values(), *self._new.values()]
        self._new = {}
        self._is_stirred = False
        for lease in waiting:
            self._route(lease, now_ms)

    def _route(self, lease: Lease, now_ms: int) -> None:
        """Ask the policy, and in their turn peers, until a request is dispatched, held or refused."""
        wide_enough = self.lenders.federation.wide_enough(lease.vms)
        able = self._able(lease, wide_enough)
        sites = self.lenders.open(able)
        if self._goes_to_a_peer_at_once(lease, sites, now_ms):
            return
        if not sites and (able or self._waits_for_peers(lease)):
            self._strand(lease)
            return
        refusal = self._why_nobody(lease, wide_enough)
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
        if not (self.routing.try_elsewhere and self._send_to_a_peer(lease, Ask.NONE_CAN, now_ms)):
            self._refuse(lease, refusal)

    def _able(self, lease: Lease, sites: Sequence[SiteFacts]) -> Sequence[SiteFacts]:
        """Of these sites, those that can take the lease at all."""
        return self.lenders.able(lease.request.lease_type, sites, self._refused_by.get(lease.id, ()))

    def _why_nobody(self, lease: Lease, wide_enough: Sequence[SiteFacts]) -> Reason:
        """Say why nobody can take it: what the last one said that refused it, or that none is able to."""
        by_itself = Reason.NO_SITE_CAN if wide_enough else Reason.WIDER_THAN_ANY_SITE
        return next(reversed(self._refused_by.get(lease.id, {}).values()), by_itself)

    # Peers

    def _goes_to_a_peer_at_once(self, lease: Lease, sites: Sequence[SiteFacts], now_ms: int) -> bool:
        """Send a request to a peer that these sites, all that are able and lend, cannot start now."""
        if not sites:
            return self._send_to_a_peer(lease, Ask.NONE_CAN, now_ms)
        if not self.peering.asks_early or lease.request.ready_ms > now_ms:
            return False
        if any(starts_now(self.knowledge.live(site.name, now_ms), lease.request, now_ms) for site in sites):
            return False
        return self._send_to_a_peer(lease, Ask.NONE_CAN_NOW, now_ms)

    def _send_to_a_peer(self, lease: Lease, when: Ask, now_ms: int) -> bool:
        """Offer a request to the peer that is best for it; returns whether there is one."""
        closed = {*self._refused_by.get(lease.id, ()), *self.lenders.not_lending}
        peer = self.peering.choose(lease, when, closed)
        if peer is None:
            return False
        self._offer(lease, peer)
        self.peering.offered(lease, now_ms)
        self._was_sent(lease, peer.name, Reason.SENT_TO_PEER, PEERS, now_ms)
        return True

    def _waits_for_peers(self, lease: Lease) -> bool:
        """Whether only peers could take it, and nobody who was asked has refused it yet."""
        return lease.id not in self._refused_by and self.peering.might_take(lease)

    # The policy

    def _ask(self, request: Request, sites: Sequence[SiteFacts], now_ms: int) -> Dispatch | Hold | Refuse:
        policy = self.routing.policy
        view = RoutingView(self.lenders.federation, sites, self.knowledge, policy.information, now_ms)
        return policy.route(request, view, now_ms)

    def _dispatch(self, lease: Lease, verdict: Dispatch, now_ms: int) -> Reason | None:
        """Send a request to a site; returns why the site refused it, None if it did not."""
        name, rule = verdict.site, verdict.rule or self.routing.policy.name
        if name in self.remotes:
            self._offer(lease, self.remotes[name])
        elif name not in self._sites:
            known: Iterable[str] = [*self._sites, *self.remotes]
            raise UnknownName(f"routing policy {self.routing.policy.name}: site", name, known)
        else:
            refusal = self._touch(name).open_to_guests(now_ms).admit(lease, now_ms)
            if refusal is not None:
                self._effects.append(Decision(lease, name, Outcome.REFUSE, refusal, rule))
                return refusal
        self._was_sent(lease, name, Reason.ROUTED, rule, now_ms)
        return None

    def _was_sent(self, lease: Lease, name: str, reason: Reason, rule: str, now_ms: int) -> None:
        """A request is where it was sent, or on its way."""
        self._let_go(lease)
        lease.dispatched_ms = now_ms
        self.knowledge.sent(lease)
        self._effects.append(Decision(lease, name, Outcome.DISPATCH, reason, rule))

    def _offer(self, lease: Lease, remote: RemoteSite) -> None:
        """Offer a request to a site that decides for itself; whether it takes it, it will report."""
        lease.site = remote.name
        advance(lease, Step.PLAN)
        remote.leases[lease.id] = lease
        self._effects.append(OfferLease(lease))

    def _hold(self, lease: Lease, verdict: Hold, now_ms: int) -> None:
        if lease.id not in self.held:
            self.stranded.pop(lease.id, None)
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

    def _strand(self, lease: Lease) -> None:
        """Keep a request that only sites could take which do not lend now, until one of them does."""
        self.held.pop(lease.id, None)
        if lease.id in self.stranded:
            return
        self.stranded[lease.id] = lease
        if lease.state is LeaseState.SUBMITTED:
            advance(lease, Step.HOLD)
        self._effects.append(Decision(lease, GATEWAY, Outcome.HOLD, Reason.NO_SITE_LENDS, DRAINED))

    def _refuse(self, lease: Lease, reason: Reason, rule: str = "") -> None:
        self._let_go(lease)
        rule = rule or self.routing.policy.name
        self._effects.append(Decision(lease, GATEWAY, Outcome.REFUSE, reason, rule))
        advance(lease, Step.REFUSE)
        self._effects.append(LeaseClosed(lease, reason))

    # What outlives a restart

    def memory(self) -> dict[str, Any]:
        """Give what cannot be seen in the open leases, as plain data for `remember`."""
        return {
            "refused_by": list(self._refused_by.items()),
            "recalled": sorted(self._recalled),
            "peering": self.peering.memory(),
        }

    def remember(self, memory: Mapping[str, Any]) -> None:
        """Know again who has refused what, and what was asked back."""
        self._refused_by = {
            lease_id: {name: Reason(reason) for name, reason in refusals.items()}
            for lease_id, refusals in memory["refused_by"]
        }
        self._recalled = set(memory["recalled"])
        self.peering.remember(memory.get("peering", {}))

    def forget(self, lease: Lease) -> None:
        """A lease is over."""
        self.peering.forget(lease)
        self._refused_by.pop(lease.id, None)
        self._recalled.discard(lease.id)
        if lease.dispatched_ms >= 0:
            self.knowledge.gone(lease, lease.site)
