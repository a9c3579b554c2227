"""What a site says of itself whenever it writes; the API, the engine and the store know it by this declaration."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Annotated, Any, ClassVar

from pydantic import ConfigDict, Field, StringConstraints, TypeAdapter, ValidationError
from pydantic.types import Strict

from leasehold.gateway.peering import MOST_HOPS
from leasehold.gateway.sites import Reach, RemoteTold
from leasehold.model.agreement import CPUS
from leasehold.model.errors import InvalidField
from leasehold.model.resources import MOST_DEVICES, MOST_SHARES, NodeResources
from leasehold.protocol.fields import GATEWAY_ID
from leasehold.sharing.rules import gpus_had

MOST_VMS = 1_000_000
"""No count of VMs, and no speed, goes beyond this, as in requests."""

MOST_NODES = 100_000
MOST_IMAGES = 1_000

Count = Annotated[int, Strict(), Field(ge=0, le=MOST_VMS)]
AtLeastOne = Annotated[int, Strict(), Field(ge=1, le=MOST_VMS)]
Flag = Annotated[bool, Strict()]
GatewayId = Annotated[str, StringConstraints(strict=True, max_length=64, pattern=GATEWAY_ID)]
LONGEST_NAME = 200
Name = Annotated[
    str, StringConstraints(strict=True, min_length=1, max_length=LONGEST_NAME, pattern=r"^[^\x00-\x1f\x7f-\x9f]*$")
]


@dataclass(frozen=True, slots=True)
class NodeOfSite:
    """One node, as `leasehold.model.resources.NodeResources`."""

    name: Name
    cores: AtLeastOne
    memory_mib: Annotated[int, Strict(), Field(ge=0, le=2**40)]
    gpu_model: Annotated[str, StringConstraints(strict=True, max_length=64)]
    gpus: Annotated[int, Strict(), Field(ge=0, le=MOST_DEVICES)]
    gpu_shares: Annotated[int, Strict(), Field(ge=0, le=MOST_SHARES)]


@dataclass(frozen=True, slots=True)
class ReachOfPeer:
    """What can be had through a peer so many hops beyond it, as `leasehold.gateway.sites.Reach`."""

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid")

    slots: Count
    free_vms: Count
    can_suspend: Flag
    can_migrate: Flag
    lends: Flag
    images: Annotated[tuple[Name, ...], Field(max_length=MOST_IMAGES)]
    login: Flag


@dataclass(frozen=True, slots=True)
class SiteStatus:
    """How a site is, as it says itself; counts are of VMs and, of those that wait, of leases and VMs.

    A peer tells of all its sites that lend, as if they were one.
    """

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid")

    identity: Annotated[Name, Field(description="Of the site's store: the same for as long as that lives.")]
    slots: AtLeastOne
    speed_mips: AtLeastOne
    reference_mips: AtLeastOne
    driver: Name
    can_suspend: Flag
    can_migrate: Flag
    lends: Annotated[Flag, Field(description="Whether it takes new guests.")]
    local_vms: Count
    guest_vms: Count
    waiting_local: Count
    waiting_guests: Count
    waiting_local_vms: Count
    waiting_guest_vms: Count
    hands_over: Annotated[Flag, Field(description="Whether saved memory can go from here to others, and back.")] = False
    gateway_id: Annotated[
        GatewayId, Field(description="The ID on paths of a peer, which tells of its sites as of one; empty for a site.")
    ] = ""
    beyond: Annotated[
        tuple[ReachOfPeer, ...],
        Field(description="What can be had through a peer: one hop beyond it, two, ...", max_length=MOST_HOPS - 1),
    ] = ()
    widest_vms: Annotated[Count, Field(description="The most that one lease can have at a peer.")] = 0
    widest_free_vms: Annotated[Count, Field(description="The most that one lease could have there at once.")] = 0
    login: Annotated[Flag, Field(description="Whether users can log in to their machines by a key.")] = False
    images: Annotated[
        tuple[Name, ...],
        Field(description="Names of the images that a lease may name there.", max_length=MOST_IMAGES),
    ] = ()
    nodes: Annotated[
        tuple[NodeOfSite, ...],
        Field(description="The nodes by which it is planned; none: by slots.", max_length=MOST_NODES),
    ] = ()

    def to_dict(self) -> dict[str, Any]:
        """Give it as JSON would."""
        return asdict(self)

    @classmethod
    def from_dict(cls, body: Mapping[str, Any]) -> "SiteStatus":
        """Read it; raises InvalidField for a field that is missing, of another type or out of bounds."""
        known = {field.name for field in fields(cls)}
        try:
            status = _ADAPTER.validate_python({name: value for name, value in body.items() if name in known})
        except ValidationError as error:
            raise first_of(error, "status") from None
        status.check()
        return status

    def check(self) -> None:
        """Refuse what cannot be so, as more that is free than there is; raises InvalidField."""
        for name, most in (("widest_vms", self.slots), ("widest_free_vms", self.widest_vms)):
            if getattr(self, name) > most:
                raise InvalidField(f"status.{name}", getattr(self, name), f"a whole number from 0 to {most}")

    @property
    def is_gateway(self) -> bool:
        """Whether it is a peer."""
        return bool(self.gateway_id)

    def told(self, name: str) -> RemoteTold:
        """Give it as the decision core is told it."""
        return RemoteTold(
            name,
            self.most_vms,
            self.speed_mips,
            self.can_suspend,
            self.can_migrate,
            self.lends,
            self.hands_over,
            is_peer=self.is_gateway,
            promises=not self.is_gateway,
            nodes=self.planned_by,
            images=self.images,
            login=self.login,
            gateway_id=self.gateway_id,
            beyond=tuple(Reach(**asdict(one)) for one in self.beyond),
            free_vms=self.widest_free_vms if self.is_gateway else self.free_vms,
            local_waiting_vms=self.waiting_local_vms,
            guest_waiting_vms=self.waiting_guest_vms,
            running_guest_vms=self.guest_vms,
            units={CPUS: self.slots, **gpus_had(self.planned_by)},
        )

    @property
    def planned_by(self) -> tuple[NodeResources, ...]:
        """Give its nodes as the decision core knows them; raises InvalidField."""
        return tuple(NodeResources(**asdict(node)) for node in self.nodes)

    @property
    def free_vms(self) -> int:
        """How many VMs are free; none where the site has become smaller than what it holds."""
        return max(0, self.slots - self.local_vms - self.guest_vms)

    @property
    def most_vms(self) -> int:
        """How many VMs one lease can have there at most."""
        return max(1, self.widest_vms) if self.is_gateway else self.slots


def first_of(error: ValidationError, above: str) -> InvalidField:
    """Give the first thing that is wrong with a body; ``above`` is what its fields are fields of."""
    first = error.errors(include_url=False, include_context=False)[0]
    field = ".".join(str(part) for part in (above, *first["loc"]))
    expected = first["msg"].removeprefix("Input should be ").removeprefix("Value error, ")
    return InvalidField(field, first["input"], expected)


_ADAPTER = TypeAdapter(SiteStatus)
