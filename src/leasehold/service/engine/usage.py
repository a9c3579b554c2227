"""What leases used, as the store keeps it and as the decision core reads it back."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from leasehold.gateway.gateway import Gateway
from leasehold.model.agreement import CPUS, MEMORY
from leasehold.model.effect import Used
from leasehold.model.lease import Lease
from leasehold.model.request import Request
from leasehold.model.use import Holding, Segment
from leasehold.service.accounting import is_about
from leasehold.service.store.filters import UsageFilter
from leasehold.service.store.rows import UsageRow
from leasehold.sharing.rules import gpu_amounts


def usage_row(used: Used, domain: str) -> UsageRow:
    """Write down that a lease held machines at a site, which is in this virtual domain ("" for none)."""
    request = used.lease.request
    return UsageRow(
        lease_id=used.lease.id,
        begin_ms=used.begin_ms,
        end_ms=used.end_ms,
        consumer=request.consumer,
        group=request.group,
        path=request.path,
        site=used.site,
        domain=domain,
        vms=request.slots,
        memory_mib=request.memory_mib,
        claims=_claims(request),
        is_local=request.is_local,
    )


def _claims(request: Request) -> tuple[tuple[str, int], ...]:
    """All that it takes besides slots: where these are not its VMs, its memory too, and its GPUs."""
    if request.cores == 1 and not request.gpu_milli:
        return request.claims
    more = gpu_amounts(request) if request.gpu_milli else {}
    return (*request.claims, *sorted({MEMORY: request.vms * request.memory_mib, **more}.items()))


@dataclass(frozen=True, slots=True)
class GoingOn:
    """What leases held at one moment, as if that had ended then; to be read in any thread.

    The tables are copied as wholes, which takes the engine a few milliseconds for a hundred thousand leases;
    the caller makes rows of those that it may see.
    """

    now_ms: int
    leases: Mapping[int, Lease]
    holdings: Mapping[int, Holding]
    since_ms: Mapping[int, int]
    domains: Mapping[str, str]

    def rows(self, which: UsageFilter) -> list[UsageRow]:
        """Give what is asked for."""
        uses = (
            Used(self.leases[lease_id], holding.site, self.since_ms[lease_id], self.now_ms)
            for lease_id, holding in self.holdings.items()
            if self._is_asked_for(lease_id, holding, which)
        )
        return [usage_row(use, self.domains.get(use.site, "")) for use in uses]

    def _is_asked_for(self, lease_id: int, holding: Holding, which: UsageFilter) -> bool:
        begin_ms, site = self.since_ms[lease_id], holding.site
        if not which.from_ms < self.now_ms or not begin_ms < min(which.to_ms, self.now_ms):
            return False
        consumer = self.leases[lease_id].request.consumer
        return is_about(which, consumer, holding.path, site, self.domains.get(site, ""))


def going_on(gateway: Gateway, now_ms: int) -> GoingOn:
    """Look at what leases hold now."""
    sharing = gateway.quotas.sharing
    if sharing is None:
        return GoingOn(now_ms, {}, {}, {}, {})
    providers, since_ms = sharing.providers, gateway.quotas.all_since_ms()
    places = {*providers.places, *gateway.registry.remotes}
    domains = {site: providers.domain_of(site) for site in places}
    return GoingOn(now_ms, gateway.leases.copy(), sharing.ledger.holdings.copy(), since_ms, domains)


def segments(rows: Iterable[UsageRow]) -> list[Segment]:
    """Read what was used, as the ledger of the decision core counts it."""
    return [Segment(_holding(row), row.begin_ms, row.end_ms) for row in rows]


def _holding(row: UsageRow) -> Holding:
    amounts = {CPUS: row.vms, MEMORY: row.vms * row.memory_mib, **dict(row.claims)}
    return Holding(row.path, row.site, amounts, row.is_local)
