"""Sites on the wire."""

from pydantic import Field

from leasehold.service.api.fields import Text
from leasehold.service.api.models.base import A_MOMENT, Asked, Shown, examples
from leasehold.service.api.moments import show_duration, show_planned
from leasehold.service.engine.sites import Overhead
from leasehold.service.site_states import SiteState

_SITE = {
    "name": "das3", "slots": 64, "speed_mips": 1, "status": "up", "driver": "emulated",
    "capabilities": {"suspend": True, "migrate": True, "checkpoint": False, "commands": True},
    "vms": {"local": 16, "guests": 20, "free": 28}, "waiting": {"local": 0, "guests": 3},
    "drained_by": "", "note": "", "last_seen_at": A_MOMENT, "problem": "",
    "overheads": [{"operation": "suspend", "configured_s": 160, "learnt_s": 16.5, "count": 9}],
    "domain": "das", "resources": {"licence:matlab": 5},
    "allows": "guests that can be preempted; no Non-preemptable ones. Without an agreement: nobody",
}  # fmt: skip


class DrainRequest(Asked):
    """Why a site is drained."""

    model_config = examples({"note": "new switches until Thursday"})

    note: Text = Field("", description="For the others who look at the site.")


class CapabilitiesShown(Shown):
    """What a site's machines can do."""

    suspend: bool = Field(description="Save memory and resume.")
    migrate: bool = Field(description="Move with their memory to another site.")
    checkpoint: bool = Field(description="Save memory without stopping.")
    commands: bool = Field(description="Run a command.")


class VmsShown(Shown):
    """Who has a site's machines."""

    local: int
    guests: int
    free: int


class WaitingShown(Shown):
    """How many leases wait at a site."""

    local: int
    guests: int


class OverheadShown(Shown):
    """How long the site takes for one operation, of a lease of one VM with 1024 MiB."""

    operation: str = Field(description="`start`, `suspend`, `resume` or `migrate` (to this site).")
    configured_s: int | float | None = Field(description="By the owner's terms; null: they say nothing of it.")
    learnt_s: int | float | None = Field(
        description="As planned by now. Of a start, which is not planned, as usual; null: not known."
    )
    count: int = Field(description="How many measurements that is based on.")


class Site(Shown):
    """One site as the gateway sees it."""

    model_config = examples(_SITE)

    name: str
    slots: int = Field(description="How many machines it has in all.")
    speed_mips: int
    status: str = Field(description="`up`, `drained` or `unreachable`.")
    driver: str = Field(description="What carries orders out there.")
    capabilities: CapabilitiesShown
    vms: VmsShown
    waiting: WaitingShown
    drained_by: str
    note: str
    last_seen_at: str | None
    problem: str = Field(description="The last problem that its machines had; empty: none.")
    overheads: list[OverheadShown] = Field(description="Empty for a site that decides for itself.")
    domain: str = Field(description="The virtual domain that it is in; empty: none.")
    resources: dict[str, int] = Field(description="Units of what it has besides its machines.")
    allows: str = Field(description="Which guests its owner takes; empty for a site that decides for itself.")


class SiteList(Shown):
    """All sites of the federation."""

    sites: list[Site]


def show_site(state: SiteState) -> Site:
    """Show a site as the federation sees it."""
    can = state.capabilities
    return Site(
        name=state.name,
        slots=state.slots,
        speed_mips=state.speed_mips,
        status=state.status,
        driver=state.driver,
        capabilities=CapabilitiesShown(
            suspend=can.suspend, migrate=can.migrate, checkpoint=can.checkpoint, commands=can.commands
        ),
        vms=VmsShown(local=state.local_vms, guests=state.guest_vms, free=state.free_vms),
        waiting=WaitingShown(local=state.waiting_local, guests=state.waiting_guest),
        drained_by=state.drained_by,
        note=state.note,
        last_seen_at=show_planned(state.last_seen_ms),
        problem=state.problem,
        overheads=[_overhead(one) for one in state.overheads],
        domain=state.domain,
        resources=dict(state.resources),
        allows=state.allows,
    )


def _overhead(one: Overhead) -> OverheadShown:
    return OverheadShown(
        operation=one.operation,
        configured_s=_seconds(one.configured_ms),
        learnt_s=_seconds(one.learnt_ms),
        count=one.count,
    )


def _seconds(ms: int | None) -> int | float | None:
    return None if ms is None else show_duration(ms)
