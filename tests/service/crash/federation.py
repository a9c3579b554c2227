"""The federation that is killed: so small that leases give way all the time, and so quick that it matters."""

import time
from dataclasses import dataclass
from pathlib import Path

from leasehold.configuration.tables import GatewaySpec, SharingSpec
from leasehold.configuration.terms import ClusterTerms
from leasehold.leasing.overhead import OverheadModel
from leasehold.service.config import Limits, ServiceConfig, ServiceSpec, SiteSpec

REFERENCE_MIPS = 2
SLOTS = {"a": 8, "b": 6, "c": 4}
SPEED_MIPS = {"a": 2, "b": 3, "c": 2}
MEMORY_MIB = 64
_OVERHEAD = OverheadModel(suspend_ms_per_gib=400, resume_ms_per_gib=300, network_mbps=100_000, migrate_fixed_ms=10)


@dataclass(frozen=True, slots=True)
class Place:
    """Where everything is kept that outlives a process: the store's URL and the machines' folder."""

    store_url: str
    folder: Path

    @property
    def log(self) -> Path:
        """What its processes say when something goes wrong in them."""
        return self.folder / "errors.log"

    def ledger(self, site: str) -> Path:
        """The file of a site's machines."""
        return self.folder / "machines" / site / "emulated.sqlite3"


def config(policy: str, port: int = 0) -> ServiceConfig:
    """Three emulated sites behind one gateway, looked at and checked all the time."""
    sites = [
        SiteSpec(name, slots, ClusterTerms(speed_mips=SPEED_MIPS[name], overhead=_OVERHEAD))
        for name, slots in SLOTS.items()
    ]
    return ServiceConfig(
        clusters=tuple(sites),
        service=ServiceSpec(port=port, reference_mips=REFERENCE_MIPS, check_every_ms=100, reconcile_every_ms=300),
        limits=Limits(requests_per_s=0),
        gateway=GatewaySpec(policy=policy, try_elsewhere=True, use_free_room=True, tick_ms=200),
        sharing=SharingSpec(),
    )


def clock() -> int:
    """The time, as machines and gateways have it."""
    return time.time_ns() // 1_000_000
