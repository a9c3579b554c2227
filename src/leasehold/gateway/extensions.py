"""Extensions: a lease lasts longer than it asked for, where its site has room and agreements allow it.

A site that decides for itself is asked. It is told for how long the lease is to last in all, so that an order which
comes twice is obeyed once; and what it answers becomes a decision here. Until then nothing else is asked of it for
that lease.
"""

from leasehold.gateway.quotas import QuotaEnforcer
from leasehold.gateway.site import with_longer_request
from leasehold.gateway.sites import SiteRegistry
from leasehold.gateway.state import InstantChanges
from leasehold.model.agreement import Breach
from leasehold.model.effect import Decision, ExtendLease
from leasehold.model.event import ExtensionAnswered
from leasehold.model.lease import UNPLANNED, Lease
from leasehold.model.reason import Outcome, Reason

EXTENSION = "extension"
"""The rule of what is decided here."""
ELSEWHERE = "elsewhere"
"""The rule of what a site has decided that decides for itself."""


class Extensions:
    """The extensions of one gateway's leases; each that is requested has one effect, a decision or an order."""

    def __init__(
        self, registry: SiteRegistry, quotas: QuotaEnforcer, changes: InstantChanges, reference_mips: int
    ) -> None:
        """Begin; what is decided is an effect among ``changes``."""
        self._registry = registry
        self._quotas = quotas
        self._changes = changes
        self._reference_mips = reference_mips

    def request(self, lease: Lease, duration_ms: int, now_ms: int) -> None:
        """Let an open lease last ``duration_ms`` in all, say why not, or ask its site."""
        more_work = (duration_ms - lease.request.duration_ms) * self._reference_mips
        if more_work <= 0:  # as a site that decides for itself is asked again for what it has granted
            self._decide(lease, None, lease.request.duration_ms, EXTENSION)
        elif lease.site in self._registry.remotes:
            self._ask(lease, more_work, duration_ms, now_ms)
        elif lease.held_since_ms < 0:
            self._decide(lease, Reason.NOT_RUNNING, duration_ms, EXTENSION)
        else:
            site = self._registry.touch(lease.site)
            breach = self._quotas.why_not_on(lease, more_work, site.settings.speed_mips, now_ms)
            refusal = site.extend(lease, more_work, now_ms) if breach is None else breach.reason
            if refusal is None:
                with_longer_request(lease, duration_ms)
            self._decide(lease, refusal, duration_ms, EXTENSION, breach)

    def _ask(self, lease: Lease, more_work: int, duration_ms: int, now_ms: int) -> None:
        """Ask a site that decides for itself, where agreements allow it; it knows whether there is room."""
        if lease.wanted_ms >= 0:
            self._decide(lease, Reason.EXTENSION_UNDER_WAY, duration_ms, EXTENSION)
            return
        breach = self._quotas.why_not_on(lease, more_work, self._registry.speed_of(lease.site), now_ms)
        if breach is not None:
            self._decide(lease, breach.reason, duration_ms, EXTENSION, breach)
            return
        lease.wanted_ms = duration_ms
        self._changes.effects.append(ExtendLease(lease, duration_ms))

    def answer(self, event: ExtensionAnswered) -> None:
        """Follow what a site that decides for itself says: for how long a lease lasts there is for it to say."""
        remote = self._registry.remotes.get(event.site)
        lease = None if remote is None else remote.leases.get(event.lease_id)
        if lease is None:
            return  # it is over, or has left that site
        if event.refusal is not None:
            if event.duration_ms == lease.wanted_ms:
                self._end(lease, event.refusal)
            return
        by_ms = event.duration_ms - lease.request.duration_ms
        if by_ms > 0:
            with_longer_request(lease, event.duration_ms)
            lease.work_left += by_ms * self._reference_mips
        was_asked = 0 <= lease.wanted_ms <= event.duration_ms
        if was_asked:
            lease.wanted_ms = UNPLANNED
        if by_ms > 0 or was_asked:
            self._decide(lease, None, lease.request.duration_ms, ELSEWHERE)

    def leaves(self, lease: Lease) -> None:
        """A lease leaves a site that decides for itself, which will answer nothing more about it."""
        if lease.wanted_ms >= 0:
            self._end(lease, Reason.NOT_RUNNING)

    def _end(self, lease: Lease, refusal: Reason) -> None:
        duration_ms, lease.wanted_ms = lease.wanted_ms, UNPLANNED
        self._decide(lease, refusal, duration_ms, ELSEWHERE)

    def _decide(
        self, lease: Lease, refusal: Reason | None, duration_ms: int, rule: str, breach: Breach | None = None
    ) -> None:
        outcome = Outcome.EXTEND if refusal is None else Outcome.DENY
        why = refusal or Reason.EXTENDED
        decision = Decision(lease, lease.site, outcome, why, rule, breach=breach, duration_ms=duration_ms)
        self._changes.effects.append(decision)
