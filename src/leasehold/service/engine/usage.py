"""What leases used, as the store keeps it and as the decision core reads it back."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from leasehold.gateway.gateway import Gateway
from leasehold.model.agreement import CPUS, MEMORY
from leasehold.model.effect import Used
from leasehold.model.lease import Lease
from leasehold.model.request import Request
from leasehold.model.use import Holding, Segment
from leasehold.service.accounting import is_about
from leasehold.service.store.filters import UsageFilter
from leasehold.service.store.reading import UseChange
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
        return self._rows(self._asked_for(which))

    def latest(self, which: UsageFilter, limit: int) -> list[UsageRow]:
        """Give what is asked for, the latest begun: ``limit`` at most."""
        return self._rows(sorted(self._asked_for(which), key=self.since_ms.__getitem__)[-limit:])

    def changes(self, which: UsageFilter, step_ms: int, *, but: Collection[int] = ()) -> list[UseChange]:
        """Give how what is asked for began, summed in steps of the time that is asked for; without these leases."""
        sums: dict[tuple[str, str, bool, int], list[int]] = {}
        holdings, since_ms, from_ms = self.holdings, self.since_ms, which.from_ms
        for lease_id in self._asked_for(which):
            if lease_id in but:
                continue
            holding, at_ms = holdings[lease_id], max(0, since_ms[lease_id] - from_ms)
            vms = holding.amounts[CPUS]
            found = sums.setdefault((holding.site, holding.path, holding.is_local, at_ms // step_ms), [0, 0])
            found[0] += vms
            found[1] += vms * at_ms
        return [
            UseChange(self.domains.get(site, "") or site, path, is_local, step, *found)
            for (site, path, is_local, step), found in sums.items()
        ]

    def _rows(self, lease_ids: Iterable[int]) -> list[UsageRow]:
        uses = (
            Used(self.leases[lease_id], self.holdings[lease_id].site, self.since_ms[lease_id], self.now_ms)
            for lease_id in lease_ids
        )
        return [usage_row(use, self.domains.get(use.site, "")) for use in uses]

    def _asked_for(self, which: UsageFilter) -> list[int]:
        """Find the leases whose use is asked for; where all of it is, no lease is looked at for that."""
        if which.from_ms >= self.now_ms:
            return []
        before_ms, since_ms = min(which.to_ms, self.now_ms), self.since_ms
        begun = [lease_id for lease_id in self.holdings if since_ms[lease_id] < before_ms]
        if which.visible.everything and which.consumer is None and which.domain is None:
            return begun
        return [lease_id for lease_id in begun if self._is_about(which, lease_id, self.holdings[lease_id])]

    def _is_about(self, which: UsageFilter, lease_id: int, holding: Holding) -> bool:
        consumer, site = self.leases[lease_id].request.consumer, holding.site
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
