"""Room for components, taken at sites and given back. Nothing else of co-allocation touches a site."""

from collections.abc import Callable, Mapping
from dataclasses import replace

from leasehold.gateway.coallocation.crew import CO_ALLOCATION
from leasehold.gateway.knowledge import Knowledge
from leasehold.gateway.quotas import AGREEMENT, QuotaEnforcer
from leasehold.gateway.site import Site
from leasehold.model.effect import Decision, Effect, LeaseClosed
from leasehold.model.lease import UNPLANNED, Lease, LeaseState
from leasehold.model.lifecycle import Step, advance
from leasehold.model.reason import Outcome, Reason


class Claims:
    """Takes and gives back; ``freed`` names the sites that got room back since it was last emptied."""

    def __init__(
        self,
        sites: Mapping[str, Site],
        quotas: QuotaEnforcer,
        knowledge: Knowledge,
        effects: list[Effect],
        touch: Callable[[str], Site],
    ) -> None:
        """Begin; ``effects`` is the gateway's list, ``touch`` marks a site to be served."""
        self.freed: set[str] = set()
        self._sites = sites
        self._quotas = quotas
        self._knowledge = knowledge
        self._effects = effects
        self._touch = touch

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
        speed_mips = self._sites[name].settings.speed_mips
        breach = self._quotas.why_not_there(lease, name, speed_mips, now_ms)
        if breach is not None:
            refused = Decision(lease, name, Outcome.REFUSE, breach.reason, AGREEMENT, breach.next_ms, breach=breach)
            self._effects.append(refused)
            return breach.reason
        refusal = self._touch(name).open_to_guests(now_ms).admit(lease, now_ms, idle_ms)
        if refusal is not None:
            self._effects.append(Decision(lease, name, Outcome.REFUSE, refusal, CO_ALLOCATION))
            return refusal
        lease.dispatched_ms = now_ms
        self._knowledge.sent(lease)
        self._quotas.granted(lease, speed_mips, now_ms)
        self._effects.append(Decision(lease, name, Outcome.DISPATCH, Reason.COALLOCATED, CO_ALLOCATION))
        return None

    def call_off(self, lease: Lease, ready_ms: int, now_ms: int, why: Reason = Reason.COMPONENT_UNPLACEABLE) -> None:
        """Give back what a component was promised; it waits at the gateway again, ready when it first was."""
        name = lease.site
        self._touch(name).call_off(lease, now_ms)
        self.freed.add(name)
        self._knowledge.gone(lease, name)
        self._quotas.over(lease)
        advance(lease, Step.HOLD)
        self._effects.append(Decision(lease, name, Outcome.HOLD, why, CO_ALLOCATION))
        lease.request = replace(lease.request, ready_ms=ready_ms)
        lease.site, lease.dispatched_ms = "", UNPLANNED

    def end(self, lease: Lease, reason: Reason, now_ms: int) -> None:
        """End a component's lease, wherever it is in its life."""
        if lease.state is LeaseState.HELD:
            advance(lease, Step.CANCEL)
            self._effects.append(LeaseClosed(lease, reason))
        else:
            self.freed.add(lease.site)
            self._touch(lease.site).cancel(lease, now_ms, reason)

    def refuse(self, lease: Lease, reason: Reason) -> None:
        """Refuse a component that waits at the gateway."""
        self._effects.append(Decision(lease, "", Outcome.REFUSE, reason, CO_ALLOCATION))
        advance(lease, Step.REFUSE)
        self._effects.append(LeaseClosed(lease, reason))
