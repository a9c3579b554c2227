"""What agreements mean to a gateway: where a request may go, and what counts as used and as granted.

Every way to machines leads through here: to a site, to a peer, back from a saved memory, to another site, and
on for longer. The site's own users are nobody's guests: no agreement is asked about them, and what they use
counts only for how busy their site is.
"""

from collections.abc import Container, Iterable, Sequence
from random import Random

from leasehold.gateway.barred import Barred
from leasehold.gateway.lines import LineKey
from leasehold.model.agreement import Agreement, Breach
from leasehold.model.effect import Effect, PenaltyImposed, Used
from leasehold.model.event import Agreed
from leasehold.model.lease import Lease, LeaseState
from leasehold.model.reason import Reason
from leasehold.model.request import LeaseType, Request
from leasehold.model.use import Holding, Segment
from leasehold.routing.view import SiteFacts
from leasehold.sharing.broker import Broker, Room
from leasehold.sharing.enforcement import Sharing
from leasehold.sharing.ledger import UsageGrant
from leasehold.sharing.limits import windows_ms
from leasehold.sharing.rules import UsageRequest, amounts_of

AGREEMENT = "agreement"
"""The rule that holds back or refuses what an agreement does not allow."""


class QuotaEnforcer:
    """One gateway's agreements; ``sharing`` is None where nothing is agreed and nothing is accounted for."""

    def __init__(self, sharing: Sharing | None, reference_mips: int, effects: list[Effect]) -> None:
        """Begin; ``effects`` is the gateway's list."""
        self.sharing = sharing
        self._reference_mips = reference_mips
        self._effects = effects
        self._since_ms: dict[int, int] = {}
        self._broker = _broker(sharing)

    def agree(self, event: Agreed, now_ms: int) -> None:
        """Let these agreements hold from now on."""
        if self.sharing is not None:
            self.sharing.agree(event.agreements, now_ms, event.history, self._since_ms)

    # May it?

    def is_bound_elsewhere(self, request: Request, site: str) -> bool:
        """Whether a request is bound to a domain or site that this one is not, or not of."""
        bound_to = request.domain
        if not bound_to or bound_to == site:
            return False
        return self.sharing is None or site not in self.sharing.providers.sites_of(bound_to)

    def narrow(
        self, lease: Lease, sites: Sequence[SiteFacts], now_ms: int
    ) -> tuple[Sequence[SiteFacts], Barred | None]:
        """Give those of these sites where agreements let a request run; if there is none, why not."""
        if self._asks_nothing(lease):
            return sites, None
        assert self.sharing is not None
        breaches = [self._why_not(lease, site, now_ms) for site in sites]
        open_ = [site for site, breach in zip(sites, breaches, strict=True) if breach is None]
        if open_ or not sites:
            return open_, None
        found = tuple(breach for breach in breaches if breach is not None)
        return (), Barred(found, self.sharing.book.period(now_ms))

    def again_ms(self, barred: Barred, now_ms: int) -> int | None:
        """When time alone may open a site to a request that is barred from all."""
        return None if self.sharing is None else barred.again_ms(self.sharing, now_ms)

    def is_still_barred(self, lease: Lease, barred: Barred, now_ms: int) -> bool:
        """Whether it is certain at a glance that a request need not be asked about."""
        return self.sharing is not None and barred.still_holds(self.sharing, amounts_of(lease.request), now_ms)

    def best(self, lease: Lease, sites: Sequence[SiteFacts], room: Room, now_ms: int) -> Sequence[SiteFacts]:
        """Of sites that are open to a request, give those of the domains that the broker recommends."""
        if self._broker is None or not sites:
            return sites
        ask = self.ask(lease, self._reference_mips, now_ms)
        best = self._broker.recommend(ask, [site.name for site in sites], room, now_ms).sites
        return [site for site in sites if site.name in best]

    def line_of(self, lease: Lease, sites: Sequence[SiteFacts], now_ms: int) -> LineKey | None:
        """Name the line in which a request would wait; None where nothing that is shared out concerns it."""
        if self._asks_nothing(lease) or not lease.request.lease_type.is_best_effort:
            return None
        assert self.sharing is not None
        path = lease.request.path
        if self._shared_out(path, sites, now_ms) is None:
            return None
        return path, tuple(site.name for site in sites)

    def behind_its_own(self, lease: Lease, sites: Sequence[SiteFacts], now_ms: int) -> Breach | None:
        """Name the agreement for which a request waits behind others of its consumer."""
        agreement = self._shared_out(lease.request.path, sites, now_ms)
        if agreement is None:
            return None
        account = (agreement.provider, agreement.consumer, agreement.resource)
        return Breach(agreement.name, *account, Reason.BEHIND_OWN_REQUEST, 0, 0, penalty=agreement.penalty)

    def _shared_out(self, path: str, sites: Sequence[SiteFacts], now_ms: int) -> Agreement | None:
        """The first agreement that gives a consumer at one of these sites only so much."""
        assert self.sharing is not None
        applying = (one for site in sites for one in self.sharing.book.applying(path, site.name, now_ms))
        return next(filter(_is_shared_out, applying), None)

    def has_plenty(self, lease: Lease, sites: Sequence[SiteFacts], now_ms: int) -> bool:
        """Whether its consumer has so much left that it may let several requests wait at these sites."""
        if self.sharing is None:
            return True
        ask = self.ask(lease, self._reference_mips, now_ms)
        return all(self.sharing.stays_below(ask, site.name, now_ms) for site in sites)

    def peers_not_open(self, lease: Lease, peers: Iterable[str], now_ms: int) -> set[str]:
        """Of these peers, those to which a request must not go."""
        bound_to = lease.request.domain
        bound_elsewhere = {name for name in peers if bound_to and bound_to != name}
        sharing = self.sharing
        if sharing is None or self._asks_nothing(lease):
            return bound_elsewhere
        ask = self.ask(lease, self._reference_mips, now_ms)
        return bound_elsewhere | {name for name in peers if sharing.why_not(ask, name, now_ms) is not None}

    def why_not_there(self, lease: Lease, site: str, speed_mips: int, now_ms: int) -> Breach | None:
        """Say why a lease that is somewhere else may not be moved to this site; None if it may."""
        if self.sharing is None or self._asks_nothing(lease):
            return None
        has = self.sharing.grants.take_back(lease.id)  # it is not asked for twice
        breach = self.sharing.why_not(self.ask(lease, speed_mips, now_ms), site, now_ms)
        if has is not None:
            self.sharing.grants.give(lease.id, has)
        return breach

    def why_not_on(self, lease: Lease, more_work: int, speed_mips: int, now_ms: int) -> Breach | None:
        """Say why a lease may not go on where it is, or for longer; None if it may."""
        if self.sharing is None or self._asks_nothing(lease):
            return None
        ask = self.ask(lease, speed_mips, now_ms, more_work)
        breach = self.sharing.why_not_without(ask, lease.site, now_ms) if more_work else None
        return breach or self.sharing.why_not_on(ask, lease.site, now_ms)

    def _asks_nothing(self, lease: Lease) -> bool:
        if self.sharing is None or lease.request.is_local:
            return True
        return self.sharing.is_silent and not lease.request.claims

    def _why_not(self, lease: Lease, site: SiteFacts, now_ms: int) -> Breach | None:
        assert self.sharing is not None
        return self.sharing.why_not(self.ask(lease, site.speed_mips, now_ms), site.name, now_ms)

    def ask(self, lease: Lease, speed_mips: int, now_ms: int, more_work: int = 0) -> UsageRequest:
        """Say what a lease asks of agreements, on machines of this speed, with so much work added to it."""
        request = lease.request
        start_ms = max(now_ms, request.ready_ms)
        work = request.duration_ms * self._reference_mips + more_work
        is_reservation = start_ms > now_ms and request.lease_type is LeaseType.NON_PREEMPTABLE
        return UsageRequest(
            request.path,
            amounts_of(request),
            -(-work // speed_mips),
            start_ms,
            is_reservation,
            may_be_preempted=request.lease_type is not LeaseType.NON_PREEMPTABLE,
            is_foreign=request.is_foreign,
        )

    # What is granted

    def granted(self, lease: Lease, speed_mips: int, now_ms: int) -> None:
        """A lease was sent to the site or peer that it names."""
        if self.sharing is None:
            return
        ask = self.ask(lease, speed_mips, now_ms)
        if not self.sharing.is_silent:
            for penalty in self.sharing.punish(ask, lease.site, now_ms):
                self._effects.append(PenaltyImposed(lease, penalty))
        self.sharing.grants.give(lease.id, UsageGrant(ask.at(lease.site), ask.is_reservation))

    def over(self, lease: Lease) -> None:
        """A lease is over, or was not granted after all."""
        if self.sharing is not None:
            self.sharing.grants.take_back(lease.id)

    # What is used

    def began(self, lease: Lease, since_ms: int, now_ms: int) -> None:
        """A lease has machines of the site that it names since then."""
        if self.sharing is not None:
            self._since_ms[lease.id] = since_ms
            self.sharing.ledger.begin(lease.id, holding_of(lease, lease.site), now_ms)

    def ended(self, lease: Lease, now_ms: int) -> None:
        """A lease holds no machines any more."""
        since_ms = self._since_ms.pop(lease.id, None)
        if self.sharing is None or since_ms is None:
            return
        site = self.sharing.ledger.holdings[lease.id].site
        self.sharing.ledger.end(lease.id, now_ms)
        if now_ms > since_ms:
            self._effects.append(Used(lease, site, since_ms, now_ms))

    def all_since_ms(self) -> dict[int, int]:
        """Give since when each lease holds what it does."""
        return self._since_ms.copy()

    def followed(self, lease: Lease, now_ms: int) -> None:
        """A site that decides for itself has reported what has become of a lease."""
        if lease.state is LeaseState.RUNNING and lease.id not in self._since_ms:
            self.began(lease, now_ms, now_ms)
        elif lease.state is not LeaseState.RUNNING:
            self.ended(lease, now_ms)

    # A restart

    def take_up(self, leases: Iterable[Lease], in_use: Container[int], history: Iterable[Segment], now_ms: int) -> None:
        """Go on from a record: these leases are open, and this was used before.

        Those ``in_use`` have machines of own sites, since they hold them. Of what runs elsewhere it is not
        kept since when; it counts from its first start, or where it was preempted since, from now.
        """
        if self.sharing is None:
            return
        for lease in leases:
            if lease.site and not lease.request.is_local:
                grant = UsageGrant(holding_of(lease, lease.site), _was_booked_ahead(lease))
                self.sharing.grants.give(lease.id, grant)
            since_ms = lease.held_since_ms if lease.id in in_use else _runs_elsewhere_since_ms(lease, now_ms)
            if since_ms is not None:
                self._since_ms[lease.id] = since_ms
                self.sharing.ledger.holdings[lease.id] = holding_of(lease, lease.site)
        self.sharing.learn(history, self._since_ms, now_ms)


def _broker(sharing: Sharing | None) -> Broker | None:
    """Make the broker where it has to choose; its chances are its own, and the same in each run."""
    if sharing is None or sharing.settings.top_n is None:
        return None
    return Broker(sharing, Random(0))


def ask_again_ms(breach: Breach, usual_ms: int) -> int:
    """When to ask again: as soon as it can have changed; ``usual_ms`` where nobody knows when that is."""
    return breach.until_ms or breach.next_ms or usual_ms


def holding_of(lease: Lease, site: str) -> Holding:
    """Say what a lease holds at a site."""
    request = lease.request
    return Holding(request.path, site, amounts_of(request), request.is_local)


def _is_shared_out(agreement: Agreement) -> bool:
    """Whether what one request of a consumer takes is not there for its next one."""
    return agreement.lending_limit is not None or bool(windows_ms(agreement.limit))


def _was_booked_ahead(lease: Lease) -> bool:
    """Whether a lease was granted for a time that was then in the future."""
    return lease.request.lease_type is LeaseType.NON_PREEMPTABLE and lease.request.ready_ms > lease.dispatched_ms


def _runs_elsewhere_since_ms(lease: Lease, now_ms: int) -> int | None:
    if lease.held_since_ms >= 0 or lease.state is not LeaseState.RUNNING:
        return None
    return now_ms if lease.preemptions else lease.first_start_ms
