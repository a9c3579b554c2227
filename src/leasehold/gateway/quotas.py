"""What agreements mean to a gateway: where a request may go, and what counts as used and as granted.

Every dispatch, resumption, relocation and extension of a guest is checked here. A site's own users are under no
agreement; what they use counts only for how busy their site is.
"""

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from random import Random

from leasehold.gateway.state import InstantChanges
from leasehold.model.agreement import Agreement, Breach
from leasehold.model.effect import PenaltyImposed, Used
from leasehold.model.event import Agreed
from leasehold.model.lease import Lease, LeaseState
from leasehold.model.reason import NEVER, Reason
from leasehold.model.request import LeaseType, Request
from leasehold.model.use import Holding, Segment
from leasehold.model.value_dict import ValueDict
from leasehold.routing.view import SiteFacts
from leasehold.sharing.broker import Broker, Room
from leasehold.sharing.enforcement import Sharing
from leasehold.sharing.ledger import UsageGrant
from leasehold.sharing.limits import windows_ms
from leasehold.sharing.rules import UsageRequest, amounts_of

AGREEMENT = "agreement"
"""The rule that holds back or refuses what an agreement does not allow."""


QueueKey = tuple[str, tuple[str, ...]]
"""A consumer (its path) and the sites that its requests wait for: they wait in one queue."""

_FOREVER_MS = 1 << 62


@dataclass(frozen=True, slots=True)
class QuotaBlock:
    """Why agreements leave a request no site, and until when; ``period`` identifies the agreements then in force."""

    breaches: tuple[Breach, ...]
    period: int

    @property
    def why(self) -> Breach:
        """The reason that may end first."""
        return min(self.breaches, key=_ends)

    def again_ms(self, sharing: Sharing, now_ms: int) -> int | None:
        """When time alone may open a site; None where only an event can."""
        moments = [one.until_ms or one.next_ms or _FOREVER_MS for one in self.breaches]
        again_ms = min(*moments, sharing.book.turns_at_ms(now_ms), _FOREVER_MS)
        return None if again_ms == _FOREVER_MS else again_ms

    def still_holds(self, sharing: Sharing, amounts: Mapping[str, int], now_ms: int) -> bool:
        """Whether certainly nothing has opened since, for a request of these ``amounts``."""
        if sharing.settings.threshold or sharing.book.period(now_ms) != self.period:
            return False
        return all(_still_holds(one, sharing, amounts, now_ms) for one in self.breaches)


def _still_holds(breach: Breach, sharing: Sharing, amounts: Mapping[str, int], now_ms: int) -> bool:
    if breach.reason is Reason.SHARE_EXHAUSTED:
        return now_ms < breach.until_ms
    if breach.reason is Reason.CONCURRENCY_LIMIT_REACHED:
        granted = sharing.grants.units((breach.consumer, breach.provider, breach.resource))
        return granted + amounts[breach.resource] > breach.limit
    return False


def _ends(breach: Breach) -> tuple[bool, int]:
    return (breach.reason in NEVER, _FOREVER_MS if breach.next_ms is None else breach.next_ms)


class QuotaEnforcer:
    """One gateway's agreements; ``sharing`` is None where nothing is agreed and nothing is accounted for."""

    def __init__(self, sharing: Sharing | None, reference_mips: int, changes: InstantChanges) -> None:
        """Begin; penalties and use are effects among ``changes``."""
        self.sharing = sharing
        self._reference_mips = reference_mips
        self._changes = changes
        self._since_ms: dict[int, int] = ValueDict()
        self._broker = _broker(sharing)

    def agree(self, event: Agreed, now_ms: int) -> None:
        """Put these agreements into force."""
        if self.sharing is not None:
            self.sharing.agree(event.agreements, now_ms, event.history, self._since_ms)

    # May it?

    def is_bound_elsewhere(self, request: Request, site: str) -> bool:
        """Whether a request is bound to another site, or to a domain that this site is not part of."""
        bound_to = request.domain
        if not bound_to or bound_to == site:
            return False
        return self.sharing is None or site not in self.sharing.providers.sites_of(bound_to)

    def narrow(
        self, lease: Lease, sites: Sequence[SiteFacts], now_ms: int
    ) -> tuple[Sequence[SiteFacts], QuotaBlock | None]:
        """Return those of these sites where agreements let a request run; if there are none, why not."""
        if self._asks_nothing(lease):
            return sites, None
        assert self.sharing is not None
        breaches = [self._why_not(lease, site, now_ms) for site in sites]
        open_ = [site for site, breach in zip(sites, breaches, strict=True) if breach is None]
        if open_ or not sites:
            return open_, None
        found = tuple(breach for breach in breaches if breach is not None)
        return (), QuotaBlock(found, self.sharing.book.period(now_ms))

    def again_ms(self, block: QuotaBlock, now_ms: int) -> int | None:
        """When time alone may open a site to a request that is blocked at all of them."""
        return None if self.sharing is None else block.again_ms(self.sharing, now_ms)

    def still_blocks(self, lease: Lease, block: QuotaBlock, now_ms: int) -> bool:
        """Whether a request certainly need not be routed again yet."""
        return self.sharing is not None and block.still_holds(self.sharing, amounts_of(lease.request), now_ms)

    def best(self, lease: Lease, sites: Sequence[SiteFacts], room: Room, now_ms: int) -> Sequence[SiteFacts]:
        """Return those of these sites whose domains the broker recommends."""
        if self._broker is None or not sites:
            return sites
        ask = self.ask(lease, self._reference_mips, now_ms)
        best = self._broker.recommend(ask, [site.name for site in sites], room, now_ms).sites
        return [site for site in sites if site.name in best]

    def queue_of(self, lease: Lease, sites: Sequence[SiteFacts], now_ms: int) -> QueueKey | None:
        """Name the queue in which a request would wait; None where no quota concerns it."""
        if self._asks_nothing(lease) or not lease.request.lease_type.is_best_effort:
            return None
        assert self.sharing is not None
        path = lease.request.path
        if self._limiting(path, sites, now_ms) is None:
            return None
        return path, tuple(site.name for site in sites)

    def behind_its_own(self, lease: Lease, sites: Sequence[SiteFacts], now_ms: int) -> Breach | None:
        """Return the agreement because of which a request waits behind others of its consumer."""
        agreement = self._limiting(lease.request.path, sites, now_ms)
        if agreement is None:
            return None
        account = (agreement.provider, agreement.consumer, agreement.resource)
        return Breach(agreement.name, *account, Reason.BEHIND_OWN_REQUEST, 0, 0, penalty=agreement.penalty)

    def _limiting(self, path: str, sites: Sequence[SiteFacts], now_ms: int) -> Agreement | None:
        """The first agreement that limits what a consumer gets at one of these sites."""
        assert self.sharing is not None
        applying = (one for site in sites for one in self.sharing.book.applying(path, site.name, now_ms))
        return next(filter(_is_limited, applying), None)

    def has_plenty(self, lease: Lease, sites: Sequence[SiteFacts], now_ms: int) -> bool:
        """Whether its consumer has enough left for several requests to wait at these sites."""
        if self.sharing is None:
            return True
        ask = self.ask(lease, self._reference_mips, now_ms)
        return all(self.sharing.stays_below(ask, site.name, now_ms) for site in sites)

    def peers_not_open(self, lease: Lease, peers: Iterable[str], now_ms: int) -> set[str]:
        """Return those of these peers that a request must not go to."""
        bound_to = lease.request.domain
        bound_elsewhere = {name for name in peers if bound_to and bound_to != name}
        sharing = self.sharing
        if sharing is None or self._asks_nothing(lease):
            return bound_elsewhere
        ask = self.ask(lease, self._reference_mips, now_ms)
        return bound_elsewhere | {name for name in peers if sharing.why_not(ask, name, now_ms) is not None}

    def why_not_there(self, lease: Lease, site: str, speed_mips: int, now_ms: int) -> Breach | None:
        """Say why a lease may not be moved to this site; None if it may."""
        if self.sharing is None or self._asks_nothing(lease):
            return None
        has = self.sharing.grants.take_back(lease.id)  # it is not asked for twice
        breach = self.sharing.why_not(self.ask(lease, speed_mips, now_ms), site, now_ms)
        if has is not None:
            self.sharing.grants.give(lease.id, has)
        return breach

    def why_not_on(self, lease: Lease, more_work: int, speed_mips: int, now_ms: int) -> Breach | None:
        """Return why a lease may not continue at its site, or for longer; None if it may."""
        if self.sharing is None or self._asks_nothing(lease):
            return None
        ask = self.ask(lease, speed_mips, now_ms, more_work)
        breach = self.sharing.why_not_without(ask, lease.site, now_ms) if more_work else None
        return breach or self.sharing.why_not_on(ask, lease.site, now_ms)

    def _asks_nothing(self, lease: Lease) -> bool:
        return self.sharing is None or lease.request.is_local or self.sharing.never_stops(lease.request)

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
        """Count a lease against its agreements: it was sent to the site or peer that it names."""
        if self.sharing is None:
            return
        ask = self.ask(lease, speed_mips, now_ms)
        if not self.sharing.is_silent:
            for penalty in self.sharing.punish(ask, lease.site, now_ms):
                self._changes.effects.append(PenaltyImposed(lease, penalty))
        self.sharing.grants.give(lease.id, UsageGrant(ask.at(lease.site), ask.is_reservation))

    def release(self, lease: Lease) -> None:
        """Count a lease no longer: it is over, or was not granted after all."""
        if self.sharing is not None:
            self.sharing.grants.take_back(lease.id)

    # What is used

    def began(self, lease: Lease, since_ms: int, now_ms: int) -> None:
        """Account for what a lease uses, from ``since_ms`` on."""
        if self.sharing is not None:
            self._since_ms[lease.id] = since_ms
            self.sharing.ledger.begin(lease.id, holding_of(lease, lease.site), now_ms)

    def ended(self, lease: Lease, now_ms: int) -> None:
        """Close the account of a lease that gave its machines back."""
        since_ms = self._since_ms.pop(lease.id, None)
        if self.sharing is None or since_ms is None:
            return
        site = self.sharing.ledger.holdings[lease.id].site
        self.sharing.ledger.end(lease.id, now_ms)
        if now_ms > since_ms:
            self._changes.effects.append(Used(lease, site, since_ms, now_ms))

    def all_since_ms(self) -> dict[int, int]:
        """Return since when each lease holds what it does."""
        return self._since_ms.copy()

    def followed(self, lease: Lease, now_ms: int) -> None:
        """Account for a lease by the report of a site that decides for itself."""
        if lease.state is LeaseState.RUNNING and lease.id not in self._since_ms:
            self.began(lease, now_ms, now_ms)
        elif lease.state is not LeaseState.RUNNING:
            self.ended(lease, now_ms)

    # A restart

    def take_up(self, leases: Iterable[Lease], in_use: Container[int], history: Iterable[Segment], now_ms: int) -> None:
        """Go on from a record: these leases are open, and this was used before.

        Those ``in_use`` hold machines of own sites. For leases that run elsewhere that time is not stored: they
        count from their first start, or, if they were preempted, moved or begun again since, from now.
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
    """Make the broker where it has to choose; its random numbers are its own, and the same in each run."""
    if sharing is None or sharing.settings.top_n is None:
        return None
    return Broker(sharing, Random(0))


def retry_ms(breach: Breach, default_ms: int) -> int:
    """When to try again: as soon as it can have changed; ``default_ms`` where that is not known."""
    return breach.until_ms or breach.next_ms or default_ms


def holding_of(lease: Lease, site: str) -> Holding:
    """Say what a lease holds at a site."""
    request = lease.request
    return Holding(request.path, site, amounts_of(request), request.is_local)


def _is_limited(agreement: Agreement) -> bool:
    """Whether requests of one consumer compete for it."""
    return agreement.lending_limit is not None or bool(windows_ms(agreement.limit))


def _was_booked_ahead(lease: Lease) -> bool:
    """Whether a lease was granted for a time that was then in the future."""
    return lease.request.lease_type is LeaseType.NON_PREEMPTABLE and lease.request.ready_ms > lease.dispatched_ms


def _runs_elsewhere_since_ms(lease: Lease, now_ms: int) -> int | None:
    if lease.held_since_ms >= 0 or lease.state is not LeaseState.RUNNING:
        return None
    is_first_time = not (lease.preemptions or lease.migrations or lease.restarts)
    return lease.first_start_ms if is_first_time else now_ms
