"""Sites."""

from pydantic import Field

from leasehold.protocol.base import A_MOMENT, RequestModel, ResponseModel, examples
from leasehold.protocol.fields import AnyNumberOf, Moment, OrEmpty, OrFalse, OrNone, OrZero, Seconds, Text, Units

_SITE = {
    "name": "das3", "slots": 64, "speed_mips": 1, "status": "up", "driver": "emulated",
    "capabilities": {"suspend": True, "migrate": True, "checkpoint": False, "commands": True, "login": False},
    "vms": {"local": 16, "guests": 20, "free": 28}, "waiting": {"local": 0, "guests": 3},
    "drained_by": "", "note": "", "last_seen_at": A_MOMENT, "problem": "",
    "overheads": [{"operation": "suspend", "configured_s": 160, "learnt_s": 16.5, "count": 9}],
    "domain": "das", "resources": {"licence:matlab": 5},
    "allows": "guests that can be preempted; no Non-preemptable ones. Without an agreement: nobody",
}  # fmt: skip


class DrainSpec(RequestModel):
    """Why a site is drained."""

    model_config = examples({"note": "new switches until Thursday"})

    note: Text = Field(default="", description="Shown to others with access to the site.")


class Capabilities(ResponseModel):
    """What a site's machines can do."""

    suspend: OrFalse = Field(description="Save memory and resume.")
    migrate: OrFalse = Field(description="Move with their memory to another site.")
    checkpoint: OrFalse = Field(description="Save memory without stopping.")
    commands: OrFalse = Field(description="Run a command.")
    login: OrFalse = Field(description="Let the user of a lease log in by a key.")


class Occupancy(ResponseModel):
    """How many of a site's machines are in use, and for what."""

    local: int
    guests: int
    free: int


class QueueLengths(ResponseModel):
    """How many leases wait at a site."""

    local: int
    guests: int


class Overhead(ResponseModel):
    """The time the site takes for one operation on a lease of one VM with 1024 MiB."""

    operation: str = Field(description="`start`, `suspend`, `resume` or `migrate` (to this site).")
    configured_s: OrNone[Seconds] = Field(description="As configured by the owner; null: not configured.")
    learnt_s: Seconds | None = Field(
        description="The value planning uses (for `start`, which it ignores, the typical value); null: not known."
    )
    count: OrZero = Field(description="Number of measurements it is based on.")


class Site(ResponseModel):
    """One site as the gateway sees it."""

    model_config = examples(_SITE)

    name: str
    slots: int = Field(description="Total number of machines.")
    speed_mips: int
    status: str = Field(description="`up`, `drained` or `unreachable`.")
    driver: str = Field(description="The driver that carries out orders there.")
    capabilities: Capabilities
    vms: Occupancy
    waiting: QueueLengths
    drained_by: OrEmpty
    note: OrEmpty
    last_seen_at: OrNone[Moment]
    problem: OrEmpty = Field(description="The last problem with its machines; empty: none.")
    overheads: AnyNumberOf[Overhead] = Field(description="Empty for a site that decides for itself.")
    domain: OrEmpty = Field(description="Its virtual domain; empty: none.")
    images: AnyNumberOf[str] = Field(description="Names of the images that a lease may name here.")
    resources: Units = Field(description="Units of resources it has besides its machines.")
    allows: OrEmpty = Field(description="Which guests its owner accepts; empty for a site that decides for itself.")


class SiteList(ResponseModel):
    """All sites of the federation."""

    sites: tuple[Site, ...]
