"""The gateway's desk: requests that no site has yet, and where they are sent.

A request lies here while the routing policy holds it, or while nobody lends who could take it (`stranded`).
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from leasehold.gateway.knowledge import Knowledge
from leasehold.gateway.remote import RemoteSite
from leasehold.gateway.settings import SiteSettings
from leasehold.gateway.site import Site
from leasehold.model.effect import Decision, Effect, LeaseClosed, OfferLease, RecallLease, WakeAt
from leasehold.model.errors import UnknownName
from leasehold.model.lease import UNPLANNED, Lease, LeaseState
from leasehold.model.lifecycle import Step, advance
from leasehold.model.reason import Outcome, Reason
from leasehold.model.request import LeaseType, Request
from leasehold.routing.facts import Federation, SiteFacts
from leasehold.routing.moments import StreamMoments
from leasehold.routing.policy import Dispatch, Hold, Refuse, RoutingPolicy
from leasehold.routing.view import RoutingView

GATEWAY = ""
DRAINED = "drained"


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


class Desk:
    """Asks the routing policy, and sends requests to sites: its own, and those that decide for themselves.

    ``not_lending``  sites whose owners take no new guests
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
        self.not_lending: set[str] = set()
        self.remotes: dict[str, RemoteSite] = {}
        self._sites = sites
        self._reference_mips = reference_mips
        self._effects = effects
        self._touch = touch
        self._new: dict[int, Lease] = {}
        self._wake_ms: int | None = None
        self._is_stirred = False
        self._refused_by: dict[int, dict[str, Reason]] = {}
        self._recalled: set[int] = set()
        told = routing.told_locals or {}
        self.federation = Federation(
            SiteFacts(s.name, s.settings.slots, s.settings.speed_mips, reference_mips, told.get(s.name))
            for s in sites.values()
        )
        self.knowledge = Knowledge(
            self.federation, sites, self.remotes, reference_mips, routing.told_external
        )
        self._served_everywhere = self._what_all_serve()

    def _what_all_serve(self) -> set[LeaseType]:
        places: list[SiteSettings | RemoteSite] = [site.settings for site in self._sites.values()]
        places += self.remotes.values()
        return {kind for kind in LeaseType if all(place.can_serve(kind) for place in places)}

    # Who is there

    def join(self, remote: RemoteSite) -> None:
        """Let a site take part that decides for itself; one that was there before may have changed."""
        before = self.remotes.get(remote.name)
        if before is not None:
            remote.leases = before.leases
        self.remotes[remote.name] = remote
        others = [facts for facts in self.federation.sites if facts.name != remote.name]
        facts = SiteFacts(remote.name, remote.slots, remote.speed_mips, self._reference_mips)
        self.federation = Federation([*others, facts])
        self.knowledge.join(self.federation)
        self._served_everywhere = self._what_all_serve()
        self.look_again()

    def part_with(self, name: str) -> list[Lease]:
        """A site that decides for itself will not come back; returns what was there."""
        remote = self.remotes.pop(name)
        self.not_lending.discard(name)
        self.federation = Federation(facts for facts in self.federation.sites if facts.name != name)
        self.knowledge.join(self.federation)
        self._served_everywhere = self._what_all_serve()
        self.look_again()
        return list(remote.leases.values())

    def lending(self) -> list[Site]:
        """Give the gateway's own sites that take guests now."""
        return [site for site in self._sites.values() if site.name not in self.not_lending]

    def lends_again(self, name: str) -> None:
        """A site takes guests from now on."""
        self.not_lending.discard(name)
        self.look_again()

    def lends_no_more(self, name: str, now_ms: int) -> None:
        """A site takes no new guests; those that wait there and were promised nothing are routed anew."""
        if name in self.not_lending:
            return
        self.not_lending.add(name)
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

    def receive(self, lease: Lease) -> None:
        """Take in a request that nobody has seen yet."""
        self._new[lease.id] = lease

    def take_up(self, lease: Lease) -> None:
        """Go on from a record: this request lies here, and has been told why."""
        able = self._able(lease, self.federation.wide_enough(lease.vms))
        is_stranded = bool(able) and not self._open(able)
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
        """A site that decides for itself does not want a request that was offered to it."""
        del remote.leases[lease.id]
        lease.state, lease.reserved_ms = LeaseState.WAITING, UNPLANNED  # whatever it was, it never began
        rule = self.routing.policy.name
        self._effects.append(Decision(lease, remote.name, Outcome.REFUSE, reason, rule))
        self._refused_by.setdefault(lease.id, {})[remote.name] = reason
        if lease.id in self._recalled:
            self.withdraw(lease)  # it was refused while its user was taking it back
        elif self.routing.try_elsewhere:
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
        """Ask the policy about one request until it is dispatched, held or refused."""
        wide_enough = self.federation.wide_enough(lease.vms)
        able = self._able(lease, wide_enough)
        sites = self._open(able)
        if able and not sites:
            self._strand(lease)
            return
        refusal = self._why_nobody(lease) if wide_enough else Reason.WIDER_THAN_ANY_SITE
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

    def _able(self, lease: Lease, sites: Sequence[SiteFacts]) -> Sequence[SiteFacts]:
        """Of these sites, those that can take the lease at all: nearly always every one of them."""
        lease_type = lease.request.lease_type
        refused_by = self._refused_by.get(lease.id, ())
        if lease_type in self._served_everywhere and not refused_by:
            return sites
        return [s for s in sites if s.name not in refused_by and self._can_serve(s.name, lease_type)]

    def _why_nobody(self, lease: Lease) -> Reason:
        """Say why no site can take it that is large enough: what the last one said that refused it."""
        return next(reversed(self._refused_by.get(lease.id, {}).values()), Reason.NO_SITE_CAN)

    def _can_serve(self, name: str, lease_type: LeaseType) -> bool:
        place = self.remotes.get(name) or self._sites[name].settings
        return place.can_serve(lease_type)

    def _open(self, sites: Sequence[SiteFacts]) -> Sequence[SiteFacts]:
        """Of these sites, those that take guests now."""
        closed = self.not_lending | {name for name, remote in self.remotes.items() if not remote.is_open}
        return [site for site in sites if site.name not in closed] if closed else sites

    def _ask(self, request: Request, sites: Sequence[SiteFacts], now_ms: int) -> Dispatch | Hold | Refuse:
        policy = self.routing.policy
        view = RoutingView(self.federation, sites, self.knowledge, policy.information, now_ms)
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
        self._let_go(lease)
        lease.dispatched_ms = now_ms
        self.knowledge.sent(lease)
        self._effects.append(Decision(lease, name, Outcome.DISPATCH, Reason.ROUTED, rule))
        return None

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

    def _refuse(self, lease: Lease, reason: Reason) -> None:
        self._let_go(lease)
        rule = self.routing.policy.name
        self._effects.append(Decision(lease, GATEWAY, Outcome.REFUSE, reason, rule))
        advance(lease, Step.REFUSE)
        self._effects.append(LeaseClosed(lease, reason))

    # What outlives a restart

    def memory(self) -> dict[str, Any]:
        """Give what cannot be seen in the open leases, as plain data for `remember`."""
        return {"refused_by": list(self._refused_by.items()), "recalled": sorted(self._recalled)}

    def remember(self, memory: Mapping[str, Any]) -> None:
        """Know again who has refused what, and what was asked back."""
        self._refused_by = {
            lease_id: {name: Reason(reason) for name, reason in refusals.items()}
            for lease_id, refusals in memory["refused_by"]
        }
        self._recalled = set(memory["recalled"])

    def forget(self, lease: Lease) -> None:
        """A lease is over."""
        self._refused_by.pop(lease.id, None)
        self._recalled.discard(lease.id)
        if lease.dispatched_ms >= 0:
            self.knowledge.gone(lease, lease.site)
