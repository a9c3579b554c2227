"""Where a request goes from the desk: agreements, the routing policy and peers are asked in their turn."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING

from leasehold.gateway.barred import Barred
from leasehold.gateway.guests import Guests
from leasehold.gateway.knowledge import starts_now
from leasehold.gateway.lines import LineKey
from leasehold.gateway.peering import PEERS, Ask
from leasehold.gateway.quotas import AGREEMENT, QuotaEnforcer
from leasehold.gateway.site import Site
from leasehold.gateway.sites import RemoteSite
from leasehold.model.effect import Decision, OfferLease
from leasehold.model.errors import UnknownName
from leasehold.model.lease import Lease
from leasehold.model.lifecycle import Step, advance
from leasehold.model.reason import NEVER, Outcome, Reason
from leasehold.routing.policy import Dispatch, Hold, Refuse
from leasehold.routing.view import RoutingView, SiteFacts

if TYPE_CHECKING:
    from leasehold.gateway.desk import Desk

_ITS_OWN_AFFAIR = frozenset({Reason.OUTSIDE_AGREED_HOURS, Reason.RESOURCE_IN_USE})
"""Reasons to wait that keep nobody else of the same consumer from running."""

_TIME_CURES = frozenset({Reason.NO_ROOM_AT_READY_TIME, Reason.NON_PREEMPTABLE_SHARE_EXHAUSTED})
"""Why sites refuse what must start at its ready time, and what a request can wait for instead."""

QUEUEING, REBALANCING = "queueing", "rebalancing"
MOST_LOOKED_AT = 1_000
"""So many who wait at a site are looked at in an instant, to see whether they could start elsewhere."""


class Dispatcher:
    """Sends requests from the desk to sites: own ones, those that decide for themselves, and peers."""

    def __init__(self, desk: "Desk", sites: Mapping[str, Site], quotas: QuotaEnforcer) -> None:
        """Begin; ``sites`` are the gateway's own."""
        self._desk = desk
        self._sites = sites
        self._quotas = quotas
        self._looked_at: dict[str, int] = {}

    def route(self, lease: Lease, now_ms: int) -> None:
        """Ask until it is clear what becomes of a request: sent, kept here, or refused."""
        desk = self._desk
        if desk.peering.is_full_for(lease):
            desk.await_room(lease, Reason.PEER_QUOTA_REACHED, PEERS)
            return
        wide_enough = desk.lenders.federation.wide_enough(lease.vms)
        able = desk.able(lease, wide_enough)
        sites = desk.lenders.open(able)
        line = self._quotas.line_of(lease, sites, now_ms)
        if line is not None and self._waits_its_turn(lease, line, sites, now_ms):
            return
        sites, barred = self._quotas.narrow(lease, sites, now_ms)
        sites = self._quotas.best(lease, sites, lambda name: self._room(name, now_ms), now_ms)
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
        routing, refusals, asked = self._desk.routing, set[Reason](), sites
        while sites:
            verdict = self._ask(lease, sites, now_ms)
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
            refusals.add(refused)
            others = [site for site in sites if site.name != verdict.site]
            # A policy that insists on a site which has refused is not asked for ever.
            insists = len(others) == len(sites)
            sites = others if routing.try_elsewhere and not insists else ()
        if lease.request.wait and refusals & _TIME_CURES:
            return self._queue(lease, asked, refusal, now_ms)
        return refusal

    # Waiting

    def _queue(self, lease: Lease, sites: Sequence[SiteFacts], refusal: Reason, now_ms: int) -> Reason | None:
        """Let a request that no site can start at its ready time wait; returns why not, None if it does.

        It waits at the site where it would end first by the present plans. Where none of them is in time, or
        as much is lent for good as may be, it waits at the gateway, until it is certain that it is too late.
        """
        places = [self._sites[site.name].open_to_guests(now_ms) for site in sites if site.name in self._sites]
        for guests in sorted(places, key=lambda one: one.earliest_ms(lease, now_ms) + one.span_ms(lease)):
            refused = guests.admit_later(lease, now_ms)
            if refused is None:
                self._desk.touch(guests.allocations.name)
                self._was_sent(lease, guests.allocations.name, Reason.ROUTED, QUEUEING, now_ms)
                return None
            if refused in _TIME_CURES:
                refusal = refused
        if refusal not in _TIME_CURES:
            return refusal
        latest_ms = [at_ms for one in places if (at_ms := one.latest_ms(lease)) is not None]
        if latest_ms and max(latest_ms) < max(now_ms, lease.request.ready_ms):
            return Reason.DEADLINE_TOO_TIGHT
        waits_for = Reason.ROOM_IN_USE if refusal is Reason.NO_ROOM_AT_READY_TIME else refusal
        self._desk.await_room(lease, waits_for, QUEUEING)
        if latest_ms:
            self._desk.ask_again_at(max(latest_ms) + 1, now_ms)
        return None

    def rebalance(self, now_ms: int) -> set[str]:
        """Send who has never started on to where it can start now; returns the sites that this concerns.

        Only own sites: what waits at a site that decides for itself is that site's.
        """
        concerned: set[str] = set()
        for name, site in self._sites.items():
            if site.guests is None or not len(site.guests.queue):
                continue
            for lease in self._worth_looking_at(name, site.guests, now_ms):
                there = self._where_it_starts_now(lease, now_ms)
                if there is not None:
                    self._send_on(lease, site.guests, there, now_ms)
                    concerned |= {name, there.allocations.name}
        return concerned

    def _worth_looking_at(self, name: str, guests: Guests, now_ms: int) -> list[Lease]:
        """Give those of a site who would fit elsewhere, so many at a time; others have their turn later."""
        free = [place.free_vms for place in self._desk.lenders.own() if place.name != name and place.free_vms > 0]
        if not free:
            return []
        most_vms, first = max(free), self._looked_at.pop(name, 0)
        looked_at = list(islice(guests.never_started(), first, first + MOST_LOOKED_AT))
        if len(looked_at) == MOST_LOOKED_AT:
            self._looked_at[name] = first + MOST_LOOKED_AT
        if first or name in self._looked_at:
            self._desk.ask_again_at(now_ms + self._desk.routing.tick_ms, now_ms)
        return [one for one in looked_at if one.vms <= most_vms and one.earliest_ms <= now_ms]

    def _where_it_starts_now(self, lease: Lease, now_ms: int) -> Guests | None:
        """Find the other own site that could start a waiting guest now, and would be done with it first."""
        refused_by = self._desk.refused_by.get(lease.id, ())
        best: Guests | None = None
        for site in self._desk.lenders.own():
            if site.name == lease.site or site.free_vms < lease.vms or site.name in refused_by:
                continue
            guests = site.open_to_guests(now_ms)
            if best is not None and guests.span_ms(lease) >= best.span_ms(lease):
                continue
            if self._may_start_at(lease, site, guests, now_ms):
                best = guests
        return best

    def _may_start_at(self, lease: Lease, site: Site, guests: Guests, now_ms: int) -> bool:
        latest_ms, speed_mips = guests.latest_ms(lease), site.settings.speed_mips
        return (
            site.settings.can_serve(lease.request.lease_type)
            and (latest_ms is None or now_ms <= latest_ms)
            and guests.has_room_now(lease, now_ms)
            and not self._quotas.is_bound_elsewhere(lease.request, site.name)
            and self._quotas.why_not_there(lease, site.name, speed_mips, now_ms) is None
        )

    def _send_on(self, lease: Lease, here: Guests, there: Guests, now_ms: int) -> None:
        here.part_with(lease, now_ms)
        self._desk.knowledge.gone(lease, lease.site)
        self._quotas.over(lease)
        advance(lease, Step.HOLD)
        lease.site = ""
        refusal = there.admit(lease, now_ms)
        assert refusal is None, f"{there.allocations.name} has room for lease {lease.id}, and refuses it: {refusal}"
        self._was_sent(lease, there.allocations.name, Reason.ROOM_ELSEWHERE, REBALANCING, now_ms)
        there.serve(now_ms)

    def _why_nobody(self, lease: Lease, wide_enough: Sequence[SiteFacts]) -> Reason:
        """Say why nobody can take it: what the last one said that refused it, or that none is able to."""
        bound = [
            site
            for site in self._desk.lenders.federation.sites
            if not self._quotas.is_bound_elsewhere(lease.request, site.name)
        ]
        by_itself = Reason.NO_CAPABLE_SITE if wide_enough else Reason.WIDER_THAN_ANY_SITE
        if wide_enough and bound and not any(site in wide_enough for site in bound):
            by_itself = Reason.WIDER_THAN_DOMAIN
        return next(reversed(self._desk.refused_by.get(lease.id, {}).values()), by_itself)

    # Agreements

    def _waits_its_turn(self, lease: Lease, line: LineKey, sites: Sequence[SiteFacts], now_ms: int) -> bool:
        """Let a request stand in line if others of its consumer are before it, or have its turn."""
        behind = self._desk.lines.is_behind(lease, line)
        if not behind and self._desk.lines.has_one_out(line):
            starts_now = any(self._starts_now(lease, site.name, now_ms) for site in sites)
            behind = not (starts_now or self._quotas.has_plenty(lease, sites, now_ms))
        if behind:
            breach = self._quotas.behind_its_own(lease, sites, now_ms)
            self._desk.stand_in_line(lease, line, Reason.BEHIND_OWN_REQUEST, breach)
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
        again_ms = self._quotas.again_ms(barred, now_ms)
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

    def _has_room_now(self, lease: Lease, name: str, now_ms: int) -> bool:
        """Whether a site's plan has room for a request now; of a site elsewhere, as far as that is known."""
        if name in self._sites:
            return self._sites[name].open_to_guests(now_ms).has_room_now(lease, now_ms)
        return self._starts_now(lease, name, now_ms)

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
        closed |= self._quotas.peers_not_open(lease, self._desk.peering.terms, now_ms)
        peer = self._desk.peering.choose(lease, when, closed)
        if peer is None:
            return False
        # Who could also wait here asks for room now, and not for a place in a queue.
        self._offer(lease, peer, wait=lease.request.wait and when is Ask.NONE_CAN)
        self._desk.peering.offered(lease, now_ms)
        self._was_sent(lease, peer.name, Reason.SENT_TO_PEER, PEERS, now_ms)
        return True

    # The policy

    def _ask(self, lease: Lease, sites: Sequence[SiteFacts], now_ms: int) -> Dispatch | Hold | Refuse:
        request = lease.request
        policy = self._desk.routing.policy
        if self._desk.routing.use_free_room and request.ready_ms <= now_ms:
            sites = [site for site in sites if self._has_room_now(lease, site.name, now_ms)] or sites
        view = RoutingView(self._desk.lenders.federation, sites, self._desk.knowledge, policy.information, now_ms)
        return policy.route(request, view, now_ms)

    def _dispatch(self, lease: Lease, verdict: Dispatch, now_ms: int) -> Reason | None:
        """Send a request to a site; returns why the site refused it, None if it did not."""
        name, rule = verdict.site, verdict.rule or self._desk.routing.policy.name
        if name in self._desk.remotes:
            self._offer(lease, self._desk.remotes[name], wait=lease.request.wait)
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
        self._quotas.granted(lease, self._desk.lenders.speed_of(name), now_ms)
        self._desk.effects.append(Decision(lease, name, Outcome.DISPATCH, reason, rule))

    def _offer(self, lease: Lease, remote: RemoteSite, *, wait: bool) -> None:
        """Offer a request to a site that decides for itself; whether it takes it, it will report."""
        lease.site = remote.name
        advance(lease, Step.PLAN)
        remote.leases[lease.id] = lease
        self._desk.unanswered.offered(lease)
        self._desk.effects.append(OfferLease(lease, wait))
