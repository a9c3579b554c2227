"""What leases used, as the store keeps it and as the decision core is told of it again."""

import json
from collections.abc import Iterable

from leasehold.gateway.gateway import Gateway
from leasehold.model.agreement import CPUS, MEMORY
from leasehold.model.effect import Used
from leasehold.model.use import Holding, Segment
from leasehold.service.engine.ledger import claims_text
from leasehold.service.store.rows import UsageRow


def usage_row(used: Used, domain: str) -> UsageRow:
    """Write down that a lease held machines at a site, which is in this virtual domain ("" for none)."""
    request = used.lease.request
    return {
        "lease_id": used.lease.id,
        "begin_ms": used.begin_ms,
        "end_ms": used.end_ms,
        "consumer": request.consumer,
        "group_name": request.group,
        "path": request.path,
        "site": used.site,
        "domain": domain,
        "vms": used.lease.vms,
        "memory_mib": request.memory_mib,
        "claims": claims_text(request.claims),
        "is_local": int(request.is_local),
    }


def going_on(gateway: Gateway, now_ms: int) -> list[UsageRow]:
    """Give what leases hold now, as if that ended now."""
    sharing = gateway.agreed.sharing
    if sharing is None:
        return []
    domain_of = sharing.providers.domain_of
    uses = (
        Used(gateway.leases[lease_id], holding.site, gateway.agreed.holds_since_ms(lease_id), now_ms)
        for lease_id, holding in sharing.ledger.holdings.items()
    )
    return [usage_row(use, domain_of(use.site)) for use in uses if use.begin_ms < now_ms]


def segments(rows: Iterable[UsageRow]) -> list[Segment]:
    """Read what was used, as the ledger of the decision core counts it."""
    return [Segment(_holding(row), row["begin_ms"], row["end_ms"]) for row in rows]


def _holding(row: UsageRow) -> Holding:
    amounts = {CPUS: row["vms"], MEMORY: row["vms"] * row["memory_mib"], **json.loads(row["claims"])}
    return Holding(row["path"], row["site"], amounts, bool(row["is_local"]))
