"""The leases of components, and the room that they are given at sites. Nothing else of co-allocation touches a site."""

from collections.abc import Iterable, Iterator
from dataclasses import replace

from leasehold.gateway.knowledge import Knowledge
from leasehold.gateway.quotas import AGREEMENT, QuotaEnforcer
from leasehold.gateway.sites import RemoteSite, SiteRegistry, follow
from leasehold.gateway.state import InstantChanges, LeaseTable
from leasehold.model.coallocation import CoAllocation, Promise
from leasehold.model.effect import CommitLease, Decision, LeaseClosed, OfferLease, PartLeased, RecallLease
from leasehold.model.event import SiteReported
from leasehold.model.lease import UNPLANNED, Lease, LeaseState
from leasehold.model.lifecycle import Step, advance
from leasehold.model.reason import Outcome, Reason
from leasehold.model.request import with_promise_until

CO_ALLOCATION = "co-allocation"
"""The rule that holds components until all of them have room."""


class ComponentLeases:
    """All leases of the co-allocations that are open, those that are over included."""

    def __init__(self, table: LeaseTable, changes: InstantChanges) -> None:
        """Begin with none."""
        self._table = table
        self._changes = changes
        self._coallocations: dict[int, CoAllocation] = {}
        self._leases: dict[int, Lease] = {}

    def create(self, coallocation: CoAllocation, index: int) -> None:
        """Create the lease of a component for its turn; it waits at the gateway."""
        part = coallocation.parts[index]
        part.lease_id, part.site, part.promise = coallocation.request.lease_id(index, part.turn), "", Promise.NONE
        lease = self._table.create(coallocation.request.request(index, part.turn))
        self._table.add(lease)
        self.add(coallocation, lease)
        advance(lease, Step.HOLD)
        self._changes.effects.append(PartLeased(lease, coallocation, index))
        self._changes.effects.append(Decision(lease, "", Outcome.HOLD, Reason.WAITING_FOR_COMPONENTS, CO_ALLOCATION))

    def replace(self, coallocation: CoAllocation, index: int) -> None:
        """Create another lease for a component, in place of one that is over."""
        coallocation.parts[index].turn += 1
        coallocation.parts[index].has_ended = False
        self.create(coallocation, index)

    def add(self, coallocation: CoAllocation, lease: Lease) -> None:
        """Add a lease of this co-allocation."""
        self._coallocations[lease.id] = coallocation
        self._leases[lease.id] = lease

    def remove(self, coallocation: CoAllocation) -> None:
        """A co-allocation is over, and all of its leases are."""
        for lease_id in coallocation.request.lease_ids:
            self._coallocations.pop(lease_id, None)
            self._leases.pop(lease_id, None)

    def coallocation_of(self, lease_id: int) -> CoAllocation | None:
        """Find the open co-allocation of a lease; None for an ordinary lease."""
        return self._coallocations.get(lease_id)

    def lease(self, coallocation: CoAllocation, index: int) -> Lease | None:
        """Give a component's present lease; None if it was over before a restart."""
        return self._leases.get(coallocation.parts[index].lease_id)

    def open_leases(self, coallocation: CoAllocation) -> Iterator[tuple[int, Lease]]:
        """Give the components' present leases that are not over, with their indices."""
        for index in range(len(coallocation.parts)):
            lease = self.lease(coallocation, index)
            if lease is not None and not lease.state.is_final:
                yield index, lease

    def held(self) -> Iterable[int]:
        """Name the leases that wait here, at no site."""
        return (lease.id for lease in self._leases.values() if lease.state is LeaseState.HELD)


class ComponentClaims:
    """Claims and releases; ``freed`` names the sites that got room back since it was last emptied."""

    def __init__(
        self,
        registry: SiteRegistry,
        quotas: QuotaEnforcer,
        knowledge: Knowledge,
        changes: InstantChanges,
    ) -> None:
        """Begin with no room freed."""
        self.freed: set[str] = set()
        self._registry = registry
        self._quotas = quotas
        self._knowledge = knowledge
        self._changes = changes

    def promise(self, lease: Lease, name: str, start_ms: int, now_ms: int) -> Reason | None:
        """Have a site promise a component its room from ``start_ms`` on; returns why it does not."""
        ready_ms = lease.request.ready_ms
        lease.request = replace(lease.request, ready_ms=start_ms)
        refusal = self._take(lease, name, now_ms, 0)
        if refusal is not None:
            lease.request = replace(lease.request, ready_ms=ready_ms)
        return refusal

    def claim(self, lease: Lease, name: str, idle_ms: int, now_ms: int) -> Reason | None:
        """Have a site give a component its machines now, idle for so long; returns why it does not."""
        return self._take(lease, name, now_ms, idle_ms)

    def _take(self, lease: Lease, name: str, now_ms: int, idle_ms: int) -> Reason | None:
        speed_mips = self._registry.own[name].settings.speed_mips
        breach = self._quotas.why_not_there(lease, name, speed_mips, now_ms)
        if breach is not None:
            refused = Decision(lease, name, Outcome.REFUSE, breach.reason, AGREEMENT, breach.next_ms, breach=breach)
            self._changes.effects.append(refused)
            return breach.reason
        refusal = self._registry.touch(name).open_to_guests(now_ms).admit(lease, now_ms, idle_ms)
        if refusal is not None:
            self._changes.effects.append(Decision(lease, name, Outcome.REFUSE, refusal, CO_ALLOCATION))
            return refusal
        lease.dispatched_ms = now_ms
        self._knowledge.sent(lease)
        self._quotas.granted(lease, speed_mips, now_ms)
        self._changes.effects.append(Decision(lease, name, Outcome.DISPATCH, Reason.COALLOCATED, CO_ALLOCATION))
        return None

    # At sites with managers of their own, whose promises come later, are committed, and can be taken back until then

    def is_remote(self, name: str) -> bool:
        """Whether a site has a manager of its own."""
        return name in self._registry.remotes

    def prepare(self, lease: Lease, name: str, start_ms: int, until_ms: int, now_ms: int) -> Reason | None:
        """Intend to have such a site promise a component its room; returns why agreements do not allow it."""
        remote, ready_ms = self._registry.remotes[name], lease.request.ready_ms
        lease.request = replace(lease.request, ready_ms=start_ms)
        breach = self._quotas.why_not_there(lease, name, remote.speed_mips, now_ms)
        if breach is not None:
            lease.request = replace(lease.request, ready_ms=ready_ms)
            refused = Decision(lease, name, Outcome.REFUSE, breach.reason, AGREEMENT, breach.next_ms, breach=breach)
            self._changes.effects.append(refused)
            return breach.reason
        lease.request = with_promise_until(lease.request, until_ms)
        lease.site, lease.reserved_ms, lease.dispatched_ms = name, start_ms, now_ms
        lease.span_ms = -(-lease.work_left // remote.speed_mips)
        advance(lease, Step.PLAN)
        remote.leases[lease.id] = lease
        self._knowledge.sent(lease)
        self._quotas.granted(lease, remote.speed_mips, now_ms)
        self._changes.effects.append(
            Decision(lease, name, Outcome.DISPATCH, Reason.COALLOCATED, CO_ALLOCATION, start_ms)
        )
        return None

    def ask(self, lease: Lease) -> None:
        """Ask the site for the promise."""
        self._registry.offers.add(lease)
        self._changes.effects.append(OfferLease(lease))

    def commit(self, lease: Lease) -> None:
        """Tell the site that its promise holds."""
        lease.request = with_promise_until(lease.request, None)
        self._changes.effects.append(CommitLease(lease))

    def follow(self, lease: Lease, news: SiteReported, now_ms: int) -> None:
        """Update a component to what its site reports; one that is over there is over."""
        follow(lease, news)
        self._quotas.followed(lease, now_ms)
        self._changes.moved[lease.id] = lease
        if lease.state.is_final:
            del self._registry.remotes[lease.site].leases[lease.id]
            self._quotas.release(lease)
            self._changes.effects.append(LeaseClosed(lease, news.reason))

    def is_over_there(self, lease: Lease, reason: Reason, now_ms: int, *, has_begun: bool) -> None:
        """A site has refused a component, or has ended it though it was not done."""
        del self._registry.remotes[lease.site].leases[lease.id]
        self._quotas.ended(lease, now_ms)
        self._quotas.release(lease)
        self._changes.effects.append(Decision(lease, lease.site, Outcome.REFUSE, reason, CO_ALLOCATION))
        lease.state = LeaseState.FAILED if has_begun else LeaseState.REFUSED
        self._changes.effects.append(LeaseClosed(lease, reason))

    def _recall(self, lease: Lease, remote: RemoteSite, reason: Reason, now_ms: int) -> None:
        """End a component at such a site: whatever it says of that later is about a lease that is over."""
        del remote.leases[lease.id]
        self._quotas.ended(lease, now_ms)
        advance(lease, Step.CANCEL)
        self._changes.effects.append(RecallLease(lease))
        self._changes.effects.append(LeaseClosed(lease, reason))

    def call_off(self, lease: Lease, ready_ms: int, now_ms: int, why: Reason = Reason.COMPONENT_UNPLACEABLE) -> None:
        """Give back what a component was promised; it waits at the gateway again, ready when it first was."""
        name = lease.site
        if self.is_remote(name):  # it was not asked yet
            del self._registry.remotes[name].leases[lease.id]
            lease.request, lease.reserved_ms = with_promise_until(lease.request, None), UNPLANNED
        else:
            self._registry.touch(name).call_off(lease, now_ms)
            self.freed.add(name)
        self._knowledge.gone(lease, name)
        self._quotas.release(lease)
        advance(lease, Step.HOLD)
        self._changes.effects.append(Decision(lease, name, Outcome.HOLD, why, CO_ALLOCATION))
        lease.request = replace(lease.request, ready_ms=ready_ms)
        lease.site, lease.dispatched_ms = "", UNPLANNED

    def end(self, lease: Lease, reason: Reason, now_ms: int) -> None:
        """End a component's lease, wherever it is in its life."""
        if lease.state is LeaseState.HELD:
            advance(lease, Step.CANCEL)
            self._changes.effects.append(LeaseClosed(lease, reason))
        elif self.is_remote(lease.site):
            self._recall(lease, self._registry.remotes[lease.site], reason, now_ms)
        else:
            self.freed.add(lease.site)
            self._registry.touch(lease.site).cancel(lease, now_ms, reason)

    def refuse(self, lease: Lease, reason: Reason) -> None:
        """Refuse a component that waits at the gateway."""
        self._changes.effects.append(Decision(lease, "", Outcome.REFUSE, reason, CO_ALLOCATION))
        advance(lease, Step.REFUSE)
        self._changes.effects.append(LeaseClosed(lease, reason))
