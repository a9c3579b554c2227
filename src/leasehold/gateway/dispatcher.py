"""Where a pending request goes: quotas, the routing policy, sites and peers are asked in their turn."""

from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Any

from leasehold.gateway.alarm import GATEWAY
from leasehold.gateway.guests import Guests
from leasehold.gateway.knowledge import Knowledge, starts_now
from leasehold.gateway.peering import PEERS, AskWhen, Peering
from leasehold.gateway.pending import PendingQueue
from leasehold.gateway.quotas import AGREEMENT, QueueKey, QuotaBlock, QuotaEnforcer
from leasehold.gateway.relocation import Relocator, SuspendedPool
from leasehold.gateway.settings import Routing
from leasehold.gateway.site import Site
from leasehold.gateway.sites import RemoteSite, SiteRegistry
from leasehold.gateway.state import InstantChanges
from leasehold.model.effect import Decision, OfferLease, RecallLease, SiteRefusal
from leasehold.model.errors import UnknownName
from leasehold.model.lease import UNPLANNED, Lease, LeaseState
from leasehold.model.lifecycle import Step, advance
from leasehold.model.reason import NEVER, Outcome, Reason
from leasehold.model.request import Request
from leasehold.routing.policy import Dispatch, Hold, Refuse, Selection, Waiting
from leasehold.routing.view import RoutingView, SiteFacts

_ONLY_ITS_OWN = frozenset({Reason.OUTSIDE_AGREED_HOURS, Reason.RESOURCE_IN_USE})
"""Reasons to wait that keep no other request of the same consumer from running."""

_TIME_CURES = frozenset({Reason.NO_ROOM_AT_READY_TIME, Reason.NON_PREEMPTABLE_SHARE_EXHAUSTED})
"""Why sites refuse what must start at its ready time, and what a request can wait for instead."""

_ABOUT_NO_SITE = frozenset({Reason.HELD_AT_GATEWAY, Reason.BEHIND_OWN_REQUEST, Reason.PEER_QUOTA_REACHED})
"""Reasons to wait that no site has."""

MOST_SITES_TOLD = 100
"""Of how many sites it is said why they do not take a request."""

QUEUEING, REBALANCING = "queueing", "rebalancing"
MOST_LOOKED_AT = 1_000
"""How many of those that wait at a site are looked at in an instant, to see whether they could start elsewhere."""


class Dispatcher:
    """Sends requests to sites: the gateway's own, those that decide for themselves, and peers."""

    def __init__(
        self,
        *,
        registry: SiteRegistry,
        pending: PendingQueue,
        peering: Peering,
        quotas: QuotaEnforcer,
        knowledge: Knowledge,
        routing: Routing,
        changes: InstantChanges,
    ) -> None:
        """Begin with nothing dispatched."""
        self._registry = registry
        self._pending = pending
        self._peering = peering
        self._quotas = quotas
        self._knowledge = knowledge
        self._routing = routing
        self._changes = changes
        self._looked_at: dict[str, int] = {}
        self._views: dict[int, RoutingView] = {}
        self._memo: dict[object, Any] = {}
        self.recalled: set[int] = set()
        """Leases at sites that decide for themselves, which their users want back."""

    def route(self, lease: Lease, now_ms: int) -> None:
        """Settle what becomes of a request, and say why no site takes one that is refused or kept."""
        effects = self._changes.effects
        before = len(effects)
        self._settle(lease, now_ms)
        for place in range(before, len(effects)):
            one = effects[place]
            if type(one) is Decision and one.site == GATEWAY and one.reason not in _ABOUT_NO_SITE:
                one.sites = self._why_not_each(lease, now_ms)

    def _why_not_each(self, lease: Lease, now_ms: int) -> tuple[SiteRefusal, ...]:
        """Say of each site to which a request is not bound elsewhere why it does not take it, as far as one can say."""
        refused_by = self._pending.refused_by.get(lease.id, {})
        found: list[SiteRefusal] = []
        for site in self._registry.federation.sites[:MOST_SITES_TOLD]:
            name, breach = site.name, None
            if self._quotas.is_bound_elsewhere(lease.request, name):
                continue
            reason = refused_by.get(name) or self._registry.why_not(lease, site)
            if reason is None:
                breach = self._quotas.why_not_there(lease, name, site.speed_mips, now_ms)
                reason = None if breach is None else breach.reason
            if reason is not None:
                found.append(SiteRefusal(name, reason, breach))
        return tuple(found)

    def _settle(self, lease: Lease, now_ms: int) -> None:
        if self._peering.is_over_limit(lease):
            self._pending.await_room(lease, Reason.PEER_QUOTA_REACHED, PEERS)
            return
        wide_enough = self._registry.federation.wide_enough(lease.request.slots)
        able = self.able(lease, wide_enough)
        sites = self._registry.open(able)
        key: QueueKey | None = None
        block: QuotaBlock | None = None
        if self._quotas.sharing is not None:
            key = self._quotas.queue_of(lease, sites, now_ms)
            if key is not None and self._waits_its_turn(lease, key, sites, now_ms):
                return
            sites, block = self._quotas.narrow(lease, sites, now_ms)
            sites = self._quotas.best(lease, sites, lambda name: self._room(name, now_ms), now_ms)
        if self._peering.terms and self._goes_to_peer_at_once(lease, sites, now_ms):
            return
        if block is not None:
            self._wait_for_agreement(lease, key, block, now_ms)
        elif not sites and (able or self.waits_for_peers(lease)):
            self._pending.hold_unschedulable(lease)
        else:
            refusal = self._try_sites(lease, sites, key, now_ms) if sites else self._why_none(lease, wide_enough)
            if refusal is not None and not self._goes_to_peer_after_all(lease, now_ms):
                self._pending.refuse(lease, refusal)
        if key is not None and lease.site:
            self._pending.queues.dispatched(lease, key)

    def _try_sites(self, lease: Lease, sites: Sequence[SiteFacts], key: QueueKey | None, now_ms: int) -> Reason | None:
        """Follow the policy from site to site; returns why no site took a request, None if that is settled."""
        routing, refusals, asked, refusal = self._routing, set[Reason](), sites, Reason.NO_CAPABLE_SITE
        while sites:
            verdict = self._ask(lease, sites, now_ms)
            if isinstance(verdict, Hold):
                self._pending.hold(lease, verdict, key, now_ms)
                return None
            if isinstance(verdict, Refuse):
                self._pending.refuse(lease, verdict.reason)
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

    def able(self, lease: Lease, sites: Sequence[SiteFacts]) -> Sequence[SiteFacts]:
        """Return those of these sites that can take a lease at all."""
        if lease.request.domain:
            sites = [site for site in sites if not self._quotas.is_bound_elsewhere(lease.request, site.name)]
        if lease.request.prepared_until_ms is not None:  # a promise of others could not be taken back in time
            sites = [site for site in sites if site.name in self._registry.own]
        if lease.memory_at:
            sites = [site for site in sites if self._registry.hands_over(site.name)]
        return self._registry.able(lease.request, sites, self._pending.refused_by.get(lease.id, ()))

    def without_site(self, leases: Iterable[Lease]) -> list[Lease]:
        """List those that no site could take which takes guests now: about them no policy can decide.

        Only where there are peers such ones come in: elsewhere thousands of leases would be looked at for nothing.
        """
        if not self._peering.terms:
            return []
        federation = self._registry.federation
        takes_guests = {site.name for site in self._registry.open(federation.sites)}
        return [
            lease
            for lease in leases
            if not any(
                site.name in takes_guests for site in self.able(lease, federation.wide_enough(lease.request.slots))
            )
        ]

    def waits_for_peers(self, lease: Lease) -> bool:
        """Whether only peers could take it, and no site or peer that was asked has refused it yet."""
        return lease.id not in self._pending.refused_by and self._peering.might_take(lease)

    def take_up(self, lease: Lease) -> None:
        """Go on from a record: this request is pending, and its user knows why."""
        able = self.able(lease, self._registry.federation.wide_enough(lease.request.slots))
        is_unschedulable = not self._registry.open(able) and (bool(able) or self.waits_for_peers(lease))
        (self._pending.unschedulable if is_unschedulable else self._pending.held)[lease.id] = lease
        if lease.request.wait and not (is_unschedulable or lease.request.lease_type.is_best_effort):
            self._pending.awaits_room.add(lease.id)

    # Leases at sites that decide for themselves

    def recall(self, lease: Lease) -> None:
        """Ask a site that decides for itself, once, to give up a lease that its user cancels."""
        if lease.id not in self.recalled:
            self.recalled.add(lease.id)
            self._changes.effects.append(RecallLease(lease))

    def was_refused(self, lease: Lease, remote: RemoteSite, reason: Reason) -> None:
        """A site that decides for itself refuses a request that was offered to it.

        One that a peer refuses is routed again in any case: own sites may have held it back.
        """
        del remote.leases[lease.id]
        self._peering.refused_by(remote.name)
        lease.state, lease.reserved_ms = LeaseState.WAITING, UNPLANNED  # whatever it was, it never began
        rule = self._routing.policy.name
        self._changes.effects.append(Decision(lease, remote.name, Outcome.REFUSE, reason, rule))
        self._pending.refused_by.setdefault(lease.id, {})[remote.name] = reason
        if lease.id in self.recalled:
            self._pending.withdraw(lease)  # it was refused while its user was cancelling it
        elif self._routing.try_elsewhere or remote.is_peer or reason is Reason.NEVER_STARTED:
            self._pending.take_back(lease, reason, rule)
            if remote.is_peer:
                self._pending.route_now(lease)
        else:
            self._pending.refuse(lease, reason)

    # Waiting

    def _queue(self, lease: Lease, sites: Sequence[SiteFacts], refusal: Reason, now_ms: int) -> Reason | None:
        """Let a request that no site can start at its ready time wait; returns why not, None if it does.

        It waits at the site where it would end first by the present plans. Where none of them is in time, or
        the Non-preemptable share is used up, it waits at the gateway, until it is certainly too late.
        """
        places = [
            self._registry.own[site.name].open_to_guests(now_ms) for site in sites if site.name in self._registry.own
        ]
        for guests in sorted(places, key=lambda one: one.earliest_ms(lease, now_ms) + one.span_ms(lease)):
            refused = guests.admit_later(lease, now_ms)
            if refused is None:
                self._registry.touch(guests.allocations.name)
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
        self._pending.await_room(lease, waits_for, QUEUEING)
        if latest_ms:
            self._pending.alarm.look_again(max(latest_ms) + 1, now_ms)
        return None

    def rebalance(self, now_ms: int) -> set[str]:
        """Move requests that have never started to where they can start now; returns the sites that this concerns.

        Only own sites: what waits at a site that decides for itself is that site's.
        """
        concerned: set[str] = set()
        for name, site in self._registry.own.items():
            if site.guests is None or not len(site.guests.queue):
                continue
            for lease in self._worth_looking_at(name, site.guests, now_ms):
                there = self._where_it_starts_now(lease, now_ms)
                if there is not None:
                    self._move_to(lease, site.guests, there, now_ms)
                    concerned |= {name, there.allocations.name}
        return concerned

    def _worth_looking_at(self, name: str, guests: Guests, now_ms: int) -> list[Lease]:
        """List those of a site that would fit elsewhere, so many at a time; others have their turn later."""
        free = [place.free_vms for place in self._registry.own_open() if place.name != name and place.free_vms > 0]
        if not free:
            return []
        most_vms, first = max(free), self._looked_at.pop(name, 0)
        looked_at = list(islice(guests.never_started(), first, first + MOST_LOOKED_AT))
        if len(looked_at) == MOST_LOOKED_AT:
            self._looked_at[name] = first + MOST_LOOKED_AT
        if first or name in self._looked_at:
            self._pending.alarm.look_again(now_ms + self._routing.tick_ms, now_ms)
        return [one for one in looked_at if one.vms <= most_vms and one.earliest_ms <= now_ms]

    def _where_it_starts_now(self, lease: Lease, now_ms: int) -> Guests | None:
        """Find the other own site that could start a waiting guest now, and would be done with it first."""
        refused_by = self._pending.refused_by.get(lease.id, ())
        best: Guests | None = None
        for site in self._registry.own_open():
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
            and site.settings.lacks(lease.request) is None
            and (site.settings.hands_over or not lease.memory_at)
            and (latest_ms is None or now_ms <= latest_ms)
            and guests.has_room_now(lease, now_ms)
            and not self._quotas.is_bound_elsewhere(lease.request, site.name)
            and self._quotas.why_not_there(lease, site.name, speed_mips, now_ms) is None
        )

    def _move_to(self, lease: Lease, here: Guests, there: Guests, now_ms: int) -> None:
        here.remove(lease, now_ms)
        self._knowledge.gone(lease, lease.site)
        self._quotas.release(lease)
        advance(lease, Step.HOLD)
        lease.site = ""
        refusal = there.admit(lease, now_ms)
        assert refusal is None, f"{there.allocations.name} has room for lease {lease.id}, and refuses it: {refusal}"
        self._was_sent(lease, there.allocations.name, Reason.ROOM_ELSEWHERE, REBALANCING, now_ms)
        there.serve(now_ms)

    def _why_none(self, lease: Lease, wide_enough: Sequence[SiteFacts]) -> Reason:
        """Say why no site can take it: the last refusal, or that none is able to."""
        if lease.id not in self._pending.refused_by and self._peering.lacks_hops(lease):
            return Reason.HOP_LIMIT_REACHED
        bound = [
            site
            for site in self._registry.federation.sites
            if not self._quotas.is_bound_elsewhere(lease.request, site.name)
        ]
        by_itself = Reason.NO_CAPABLE_SITE if wide_enough else Reason.WIDER_THAN_ANY_SITE
        lacking = self._registry.lacking(lease.request, bound)
        if lacking is not None:
            return next(reversed(self._pending.refused_by.get(lease.id, {}).values()), lacking)
        if wide_enough and bound and not any(site in wide_enough for site in bound):
            by_itself = Reason.WIDER_THAN_DOMAIN
        return next(reversed(self._pending.refused_by.get(lease.id, {}).values()), by_itself)

    # Agreements

    def _waits_its_turn(self, lease: Lease, key: QueueKey, sites: Sequence[SiteFacts], now_ms: int) -> bool:
        """Queue a request if others of its consumer are before it, or have their turn."""
        behind = self._pending.queues.is_behind(lease, key)
        if not behind and self._pending.queues.has_dispatched(key):
            starts_now = any(self._starts_now(lease, site.name, now_ms) for site in sites)
            behind = not (starts_now or self._quotas.has_plenty(lease, sites, now_ms))
        if behind:
            breach = self._quotas.behind_its_own(lease, sites, now_ms)
            self._pending.enqueue(lease, key, Reason.BEHIND_OWN_REQUEST, breach)
        return behind

    def _wait_for_agreement(self, lease: Lease, key: QueueKey | None, block: QuotaBlock, now_ms: int) -> None:
        """Refuse what agreements never allow, or what cannot wait; let the rest wait until there is room."""
        breach = block.why
        if breach.reason in NEVER or not lease.request.lease_type.is_best_effort:
            self._pending.refuse(lease, breach.reason, AGREEMENT, breach)
            return
        if key is None or breach.reason in _ONLY_ITS_OWN:
            self._pending.keep(lease, self._pending.held)
            self._pending.explain(lease, breach.reason, breach)
        else:
            self._pending.enqueue(lease, key, breach.reason, breach)
            self._pending.queues.block(key, block)
        again_ms = self._quotas.again_ms(block, now_ms)
        if again_ms is not None:
            self._pending.alarm.look_again(again_ms, now_ms)

    # Peers

    def _goes_to_peer_at_once(self, lease: Lease, sites: Sequence[SiteFacts], now_ms: int) -> bool:
        """Send a request to a peer that these sites, all that are able and lend, cannot start now."""
        if not sites:
            return self._send_to_peer(lease, AskWhen.NONE_CAN, now_ms)
        if not self._peering.asks_early or lease.request.ready_ms > now_ms:
            return False
        if any(self._starts_now(lease, site.name, now_ms) for site in sites):
            return False
        return self._send_to_peer(lease, AskWhen.NONE_CAN_NOW, now_ms)

    def _goes_to_peer_after_all(self, lease: Lease, now_ms: int) -> bool:
        """Send a request to a peer that all own sites have refused, where elsewhere is tried at all."""
        return self._routing.try_elsewhere and self._send_to_peer(lease, AskWhen.NONE_CAN, now_ms)

    def _room(self, name: str, now_ms: int) -> int:
        """The VMs that are free at a site and that no lease waits for there."""
        return self._knowledge.live(name, now_ms).unclaimed_vms

    def _has_room_now(self, lease: Lease, name: str, now_ms: int) -> bool:
        """Whether a site's plan has room for a request now; of a site elsewhere, as far as that is known."""
        if name in self._registry.own:
            return self._registry.own[name].open_to_guests(now_ms).has_room_now(lease, now_ms)
        return self._starts_now(lease, name, now_ms)

    def _starts_now(self, lease: Lease, name: str, now_ms: int) -> bool:
        """Whether a site would start a guest at once, beside those that were sent there in this instant."""
        live = self._knowledge.live(name, now_ms)
        is_room_left = live.unclaimed_vms >= lease.request.slots
        return is_room_left and starts_now(live, lease.request, now_ms)

    def _send_to_peer(self, lease: Lease, when: AskWhen, now_ms: int) -> bool:
        """Offer a request to the peer that is best for it; returns whether there is one."""
        if not self._peering.terms:
            return False
        closed = {*self._pending.refused_by.get(lease.id, ()), *self._registry.not_lending}
        closed |= self._quotas.peers_not_open(lease, self._peering.terms, now_ms)
        peer = self._peering.choose(lease, when, closed)
        if peer is None:
            return False
        # A request that could also wait here asks for room now, not for a place in a queue.
        self._offer(lease, peer, wait=lease.request.wait and when is AskWhen.NONE_CAN)
        self._peering.offered(lease, now_ms)
        self._was_sent(lease, peer.name, Reason.SENT_TO_PEER, PEERS, now_ms)
        return True

    # The policy

    def _ask(self, lease: Lease, sites: Sequence[SiteFacts], now_ms: int) -> Dispatch | Hold | Refuse:
        request = lease.request
        policy = self._routing.policy
        if self._routing.use_free_room and request.ready_ms <= now_ms:
            sites = [site for site in sites if self._has_room_now(lease, site.name, now_ms)] or sites
        return policy.route(request, self.view(sites, now_ms), now_ms)

    def view(self, sites: Sequence[SiteFacts], now_ms: int) -> RoutingView:
        """Show these sites to the policy; the same view for the same sites, until `look_anew`."""
        known = self._views.get(id(sites))
        if known is None:
            information = self._routing.policy.information
            federation = self._registry.federation
            known = RoutingView(
                federation, sites, self._knowledge, information, now_ms, self._memo, goes_to_all=self._goes_to_all
            )
            self._views[id(sites)] = known  # it holds the sites, so that no others have this id meanwhile
        return known

    def _goes_to_all(self, request: Request) -> bool:
        """Whether the policy is shown all sites that lend for a held request, and it alone decides."""
        lease = self._pending.held.get(request.id)
        if lease is None or self._quotas.sharing is not None or self._routing.use_free_room:
            return False
        if self._peering.terms or request.from_peer:
            return False
        federation = self._registry.federation
        return self.able(lease, federation.wide_enough(request.slots)) is federation.sites

    def look_anew(self, changed: str = "") -> None:
        """Forget the views that were shown: time has passed, or only this site has changed since."""
        if self._views or self._memo:
            self._views.clear()
            kept: dict[object, Any] = {}
            if changed:
                kept = {site: of for site, of in self._memo.items() if type(site) is SiteFacts and site.name != changed}
            self._memo.clear()  # what is in it refers to the views that refer to it
            self._memo = kept

    def look_at_each(self, times: range) -> None:
        """Learn what the policy would have, had it been shown all sites that lend at each of these times."""
        self._knowledge.look_at_each(self._registry.open(self._registry.federation.sites), times)

    def _dispatch(self, lease: Lease, verdict: Dispatch, now_ms: int) -> Reason | None:
        """Send a request to a site; returns why the site refused it, None if it did not."""
        name, rule = verdict.site, verdict.rule or self._routing.policy.name
        if name in self._registry.remotes:
            self._offer(lease, self._registry.remotes[name], wait=lease.request.wait)
        elif name not in self._registry.own:
            known: Iterable[str] = [*self._registry.own, *self._registry.remotes]
            raise UnknownName(f"routing policy {self._routing.policy.name}: site", name, known)
        else:
            refusal = self._registry.touch(name).open_to_guests(now_ms).admit(lease, now_ms)
            if refusal is not None:
                self._changes.effects.append(Decision(lease, name, Outcome.REFUSE, refusal, rule))
                return refusal
        self._was_sent(lease, name, Reason.ROUTED, rule, now_ms)
        return None

    def _was_sent(self, lease: Lease, name: str, reason: Reason, rule: str, now_ms: int) -> None:
        """Note that a request is where it was sent, or on its way."""
        self.look_anew(name if rule != REBALANCING else "")
        self._pending.remove(lease)
        lease.dispatched_ms = now_ms
        self._knowledge.sent(lease)
        self._quotas.granted(lease, self._registry.speed_of(name), now_ms)
        self._changes.effects.append(Decision(lease, name, Outcome.DISPATCH, reason, rule))

    def _offer(self, lease: Lease, remote: RemoteSite, *, wait: bool) -> None:
        """Offer a request to a site that decides for itself, which will report whether it accepts."""
        lease.site = remote.name
        advance(lease, Step.PLAN)
        remote.leases[lease.id] = lease
        self._registry.offers.add(lease)
        self._changes.effects.append(OfferLease(lease, wait))


LONGEST_SLEEP_MS = 43_200_000
"""What is pending is looked at twice a day, whatever the policy says."""


class RetryLoop:
    """Routes what is pending: new requests, heads of consumer queues, and those that the policy picks to be retried.

    It also asks the policy about guests in the pool of suspended ones. Where the policy says until when nothing can
    change by itself, it is not asked before that, unless something happens.
    """

    def __init__(
        self,
        *,
        registry: SiteRegistry,
        pending: PendingQueue,
        pool: SuspendedPool,
        dispatcher: Dispatcher,
        relocator: Relocator,
        quotas: QuotaEnforcer,
        routing: Routing,
    ) -> None:
        """Begin."""
        self._registry = registry
        self._looks_again_ms = self._rests_ms = 0
        self._is_looking = False
        self._pending = pending
        self._pool = pool
        self._dispatcher = dispatcher
        self._relocator = relocator
        self._quotas = quotas
        self._routing = routing

    def wake(self, now_ms: int) -> None:
        """Begin an instant: catch up with the looks that were left out, and see whether a tick is due."""
        alarm = self._pending.alarm
        left_out = alarm.wake(now_ms)
        if left_out and self._is_looking:
            looks = range(alarm.tick_from(self._looks_again_ms, left_out.start), left_out.stop, self._look_every_ms())
            if looks:
                self._dispatcher.look_at_each(looks)
                self._looks_again_ms = looks[-1] + self._rests_ms
        if alarm.rings(now_ms):
            self._pending.dirty = True

    @property
    def has_work(self) -> bool:
        """Whether there is anything to route now; held requests are retried only when something happened."""
        pending = self._pending
        if pending.arrivals:
            return True
        return pending.dirty and bool(pending.held or pending.queues.key_of or self._pool.leases)

    def run(self, now_ms: int) -> None:
        """Route everything that has its turn."""
        pending = self._pending
        arrivals, pending.arrivals = pending.arrivals, {}
        pending.dirty = False
        if pending.queues.key_of:
            pending.queues.route_heads(
                lambda lease: self._dispatcher.route(lease, now_ms),
                lambda lease, block: self._quotas.still_blocks(lease, block, now_ms),
            )
        again_ms = self._retry(now_ms) if pending.held or self._pool.leases else None
        for lease in arrivals.values():
            self._dispatcher.route(lease, now_ms)
        if again_ms is not None and self._only_policy_decides(arrivals):
            self._sleep(again_ms, now_ms)
        self._dispatcher.look_anew()

    def _only_policy_decides(self, arrivals: Iterable[int]) -> bool:
        """Whether all that is pending, if anything, was there when the policy was asked, and waits for nothing else."""
        pending = self._pending
        if not (pending.held or self._pool.leases) or pending.awaits_room or pending.queues.key_of:
            return False
        return not any(lease_id in pending.held for lease_id in arrivals)

    def _retry(self, now_ms: int) -> int | None:
        """Retry what awaits room and what the policy picks; all are looked at again when the alarm rings.

        Returns until when nothing changes by itself for the policy; None if it does not say.
        """
        pending = self._pending
        waits = pending.awaits_room
        for_room = [lease for lease in pending.held.values() if lease.id in waits] if waits else []
        picked, again_ms = self._picked(now_ms)
        for lease in for_room:
            if lease.id in pending.held:
                self._dispatcher.route(lease, now_ms)
        for one in picked:
            if one.home:
                self._ask_to_resume(one, now_ms)
            elif one.request.id in pending.held:
                self._dispatcher.route(pending.held[one.request.id], now_ms)
        if pending.held or self._pool.leases:
            pending.alarm.look_again(now_ms + self._routing.tick_ms, now_ms)
        return again_ms

    def _picked(self, now_ms: int) -> tuple[Sequence[Waiting], int | None]:
        """Ask the policy what is to be decided on now, suspended guests first, unless it wants to rest.

        It is not asked about those that no site can take now: they come first. Returns until when nothing changes by
        itself for it, too.
        """
        pending = self._pending
        if now_ms < self._looks_again_ms:
            return (), self._looks_again_ms
        at_gateway = [lease for lease in pending.held.values() if lease.id not in pending.awaits_room]
        without_site = dict.fromkeys(lease.id for lease in self._dispatcher.without_site(at_gateway))
        homeless = [pending.describe(pending.held[lease_id]) for lease_id in without_site]
        held = [pending.describe(lease) for lease in at_gateway if lease.id not in without_site]
        if self._pool.leases:
            held = [*self._relocator.candidates(now_ms), *held]
        self._is_looking = bool(held)
        if not held:
            return homeless, now_ms + LONGEST_SLEEP_MS
        sites = self._registry.open(self._registry.federation.sites)
        self._dispatcher.look_anew()  # how long a selection holds follows from what was asked for it alone
        selection = self._routing.policy.select(held, self._dispatcher.view(sites, now_ms), now_ms)
        if not isinstance(selection, Selection):
            return [*homeless, *selection], None
        self._rests_ms = selection.rests_ms
        self._looks_again_ms = now_ms + selection.rests_ms
        return [*homeless, *selection.ripe], min(selection.again_ms, now_ms + LONGEST_SLEEP_MS)

    def _sleep(self, again_ms: int, now_ms: int) -> None:
        """Leave out the ticks before the first look that can change something, or before a guest is urgent."""
        alarm = self._pending.alarm
        if alarm.next_ms is None:
            return
        until_ms = first_ms = alarm.tick_from(self._looks_again_ms, alarm.next_ms)
        if again_ms > first_ms:
            until_ms += self._look_every_ms() * -(-(again_ms - first_ms) // self._look_every_ms())
        by_itself_ms = self._pool.changes_ms(now_ms)
        if by_itself_ms is not None:
            until_ms = min(until_ms, alarm.tick_from(by_itself_ms, alarm.next_ms))
        alarm.sleep(until_ms)

    def _look_every_ms(self) -> int:
        """How far apart looks are while nothing happens: at ticks, and not while the policy rests."""
        tick_ms = self._routing.tick_ms
        return tick_ms * max(1, -(-self._rests_ms // tick_ms))

    def _ask_to_resume(self, saved: Waiting, now_ms: int) -> None:
        """Ask the policy whether a suspended guest resumes, here or at another site, and let it."""
        lease = self._pool.leases[saved.request.id]
        others = [] if saved.move_ms is None else self._relocator.could_take(lease, now_ms)
        federation = self._registry.federation
        sites = [federation[lease.site], *(federation[guests.allocations.name] for guests in others)]
        verdict = self._routing.policy.resume(saved, self._dispatcher.view(sites, now_ms), now_ms)
        if not isinstance(verdict, Dispatch):
            if isinstance(verdict, Hold) and verdict.until_ms is not None:
                self._pending.alarm.look_again(verdict.until_ms, now_ms)
            return
        rule = verdict.rule or self._routing.policy.name
        self._dispatcher.look_anew()
        if verdict.site == lease.site:
            self._relocator.resume(lease, Reason.LOW_PREEMPTION_RISK, rule, now_ms)
            return
        for there in others:
            if there.allocations.name == verdict.site:
                self._relocator.move(lease, there, Reason.LOW_PREEMPTION_RISK, rule, now_ms)
                self._registry.touch(there.allocations.name)
