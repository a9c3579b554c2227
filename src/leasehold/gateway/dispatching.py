"""Where a request goes from the desk: agreements, the routing policy and peers are asked in their turn."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from leasehold.gateway.agreed import AGREEMENT, UnderAgreement
from leasehold.gateway.barred import Barred
from leasehold.gateway.knowledge import starts_now
from leasehold.gateway.lines import LineKey
from leasehold.gateway.peering import PEERS, Ask
from leasehold.gateway.remote import RemoteSite
from leasehold.gateway.site import Site
from leasehold.model.effect import Decision, OfferLease
from leasehold.model.errors import UnknownName
from leasehold.model.lease import Lease
from leasehold.model.lifecycle import Step, advance
from leasehold.model.reason import NEVER, Outcome, Reason
from leasehold.model.request import Request
from leasehold.routing.facts import SiteFacts
from leasehold.routing.policy import Dispatch, Hold, Refuse
from leasehold.routing.view import RoutingView

if TYPE_CHECKING:
    from leasehold.gateway.desk import Desk

_ITS_OWN_AFFAIR = frozenset({Reason.OUTSIDE_AGREED_HOURS, Reason.RESOURCE_IN_USE})
"""Reasons to wait that keep nobody else of the same consumer from running."""


class Dispatcher:
    """Sends requests from the desk to sites: own ones, those that decide for themselves, and peers."""

    def __init__(self, desk: "Desk", sites: Mapping[str, Site], agreed: UnderAgreement) -> None:
        """Begin; ``sites`` are the gateway's own."""
        self._desk = desk
        self._sites = sites
        self._agreed = agreed

    def route(self, lease: Lease, now_ms: int) -> None:
        """Ask until it is clear what becomes of a request: sent, kept here, or refused."""
        desk = self._desk
        wide_enough = desk.lenders.federation.wide_enough(lease.vms)
        able = desk.able(lease, wide_enough)
        sites = desk.lenders.open(able)
        line = self._agreed.line_of(lease, sites, now_ms)
        if line is not None and self._waits_its_turn(lease, line, sites, now_ms):
            return
        sites, barred = self._agreed.narrow(lease, sites, now_ms)
        sites = self._agreed.best(lease, sites, lambda name: self._room(name, now_ms), now_ms)
        if self._goes_to_a_peer_at_once(lease, sites, now_ms):
            return
        if barred is not None:
            self._wait_for_agreement(lease, line, barred, now_ms)
        elif not sites and (able or desk.waits_for_peers(lease)):
            desk.strand(lease)
        else:
            nobody = self._why_nobody(lease, wide_enough)
            refusal = self._offer_around(lease, sites, line, nobody, now_ms)
            if refusal is not None and not self._goes_to_a_peer_after_all(lease, now_ms):
                desk.refuse(lease, refusal)
        if line is not None and lease.site:
            desk.lines.went_out(lease, line)

    def _offer_around(
        self, lease: Lease, sites: Sequence[SiteFacts], line: LineKey | None, refusal: Reason, now_ms: int
    ) -> Reason | None:
        """Follow the policy from site to site; returns why nobody took a request, None if that is settled."""
        routing = self._desk.routing
        while sites:
            verdict = self._ask(lease.request, sites, now_ms)
            if isinstance(verdict, Hold):
                self._desk.hold(lease, verdict, line, now_ms)
                return None
            if isinstance(verdict, Refuse):
                self._desk.refuse(lease, verdict.reason)
                return None
            refused = self._dispatch(lease, verdict, now_ms)
            if refused is None:
                return None
            refusal = refused
            others = [site for site in sites if site.name != verdict.site]
            # A policy that insists on a site which has refused is not asked for ever.
            insists = len(others) == len(sites)
            sites = others if routing.try_elsewhere and not insists else ()
        return refusal

    def _why_nobody(self, lease: Lease, wide_enough: Sequence[SiteFacts]) -> Reason:
        """Say why nobody can take it: what the last one said that refused it, or that none is able to."""
        by_itself = Reason.NO_SITE_CAN if wide_enough else Reason.WIDER_THAN_ANY_SITE
        return next(reversed(self._desk.refused_by.get(lease.id, {}).values()), by_itself)

    # Agreements

    def _waits_its_turn(self, lease: Lease, line: LineKey, sites: Sequence[SiteFacts], now_ms: int) -> bool:
        """Let a request stand in line if others of its consumer are before it, or have its turn."""
        behind = self._desk.lines.is_behind(lease, line)
        if not behind and self._desk.lines.has_one_out(line):
            starts_now = any(self._starts_now(lease, site.name, now_ms) for site in sites)
            behind = not (starts_now or self._agreed.has_plenty(lease, sites, now_ms))
        if behind:
            breach = self._agreed.behind_its_own(lease, sites, now_ms)
            self._desk.stand_in_line(lease, line, Reason.BEHIND_ITS_OWN, breach)
        return behind

    def _wait_for_agreement(self, lease: Lease, line: LineKey | None, barred: Barred, now_ms: int) -> None:
        """Refuse what agreements never allow, or what cannot wait; let the rest wait until there is room."""
        desk, breach = self._desk, barred.why
        if breach.reason in NEVER or not lease.request.lease_type.is_best_effort:
            desk.refuse(lease, breach.reason, AGREEMENT, breach)
            return
        if line is None or breach.reason in _ITS_OWN_AFFAIR:
            desk.keep(lease, desk.held)
            desk.tell_why(lease, breach.reason, breach)
        else:
            desk.stand_in_line(lease, line, breach.reason, breach)
            desk.lines.rest(line, barred)
        again_ms = self._agreed.again_ms(barred, now_ms)
        if again_ms is not None:
            desk.ask_again_at(again_ms, now_ms)

    # Peers

    def _goes_to_a_peer_at_once(self, lease: Lease, sites: Sequence[SiteFacts], now_ms: int) -> bool:
        """Send a request to a peer that these sites, all that are able and lend, cannot start now."""
        if not sites:
            return self._send_to_a_peer(lease, Ask.NONE_CAN, now_ms)
        if not self._desk.peering.asks_early or lease.request.ready_ms > now_ms:
            return False
        if any(self._starts_now(lease, site.name, now_ms) for site in sites):
            return False
        return self._send_to_a_peer(lease, Ask.NONE_CAN_NOW, now_ms)

    def _goes_to_a_peer_after_all(self, lease: Lease, now_ms: int) -> bool:
        """Send a request to a peer that all own sites have refused, where elsewhere is tried at all."""
        return self._desk.routing.try_elsewhere and self._send_to_a_peer(lease, Ask.NONE_CAN, now_ms)

    def _room(self, name: str, now_ms: int) -> int:
        """How many VMs are free at a site, and nobody waits for them there."""
        return self._desk.knowledge.live(name, now_ms).unclaimed_vms

    def _starts_now(self, lease: Lease, name: str, now_ms: int) -> bool:
        """Whether a site would start a guest at once, beside those that were sent there in this instant."""
        live = self._desk.knowledge.live(name, now_ms)
        is_room_left = live.unclaimed_vms >= lease.vms
        return is_room_left and starts_now(live, lease.request, now_ms)

    def _send_to_a_peer(self, lease: Lease, when: Ask, now_ms: int) -> bool:
        """Offer a request to the peer that is best for it; returns whether there is one."""
        if not self._desk.peering.terms:
            return False
        closed = {*self._desk.refused_by.get(lease.id, ()), *self._desk.lenders.not_lending}
        closed |= self._agreed.peers_not_open(lease, self._desk.peering.terms, now_ms)
        peer = self._desk.peering.choose(lease, when, closed)
        if peer is None:
            return False
        self._offer(lease, peer)
        self._desk.peering.offered(lease, now_ms)
        self._was_sent(lease, peer.name, Reason.SENT_TO_PEER, PEERS, now_ms)
        return True

    # The policy

    def _ask(self, request: Request, sites: Sequence[SiteFacts], now_ms: int) -> Dispatch | Hold | Refuse:
        policy = self._desk.routing.policy
        view = RoutingView(
            self._desk.lenders.federation, sites, self._desk.knowledge, policy.information, now_ms
        )
        return policy.route(request, view, now_ms)

    def _dispatch(self, lease: Lease, verdict: Dispatch, now_ms: int) -> Reason | None:
        """Send a request to a site; returns why the site refused it, None if it did not."""
        name, rule = verdict.site, verdict.rule or self._desk.routing.policy.name
        if name in self._desk.remotes:
            self._offer(lease, self._desk.remotes[name])
        elif name not in self._sites:
            known: Iterable[str] = [*self._sites, *self._desk.remotes]
            raise UnknownName(f"routing policy {self._desk.routing.policy.name}: site", name, known)
        else:
            refusal = self._desk.touch(name).open_to_guests(now_ms).admit(lease, now_ms)
            if refusal is not None:
                self._desk.effects.append(Decision(lease, name, Outcome.REFUSE, refusal, rule))
                return refusal
        self._was_sent(lease, name, Reason.ROUTED, rule, now_ms)
        return None

    def _was_sent(self, lease: Lease, name: str, reason: Reason, rule: str, now_ms: int) -> None:
        """A request is where it was sent, or on its way."""
        self._desk.let_go(lease)
        lease.dispatched_ms = now_ms
        self._desk.knowledge.sent(lease)
        self._agreed.granted(lease, self._desk.lenders.speed_of(name), now_ms)
        self._desk.effects.append(Decision(lease, name, Outcome.DISPATCH, reason, rule))

    def _offer(self, lease: Lease, remote: RemoteSite) -> None:
        """Offer a request to a site that decides for itself; whether it takes it, it will report."""
        lease.site = remote.name
        advance(lease, Step.PLAN)
        remote.leases[lease.id] = lease
        self._desk.unanswered.offered(lease)
        self._desk.effects.append(OfferLease(lease))
