"""Which requests of a stream are joint requests, and how their components get their room."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from leasehold.configuration.plain import Plain, seconds
from leasehold.model.joint import Claim


@dataclass(frozen=True, slots=True)
class Together:
    """What a stream says of its joint requests; the usual values are those of a `JointRequest`.

    ``share``       part of the requests from outside that is split, from 0 to 1
    ``components``  into how many; a request of fewer VMs stays whole
    ``claim``       how the room of all components is made sure of
    ``place``       placement policy, `leasehold.gateway.coallocation.placement`
    ``claim_part``  incremental: the part of the time to the start before the first claim (KOALA's L)
    ``margin_ms``   incremental: how long before the start claiming may begin, besides the travel of files
    ``tries``       how often all of it is tried for before it is refused
    ``files``       MiB that each component reads, by the cluster where they are
    """

    share: float
    components: int = 2
    claim: Claim = Claim.INCREMENTAL
    place: str = "worst-fit"
    claim_part: float = 0.75
    margin_ms: int = 0
    tries: int = 3
    files: Mapping[str, int] = field(default_factory=dict)

    def widths(self, vms: int) -> tuple[int, ...]:
        """Give the VMs of each component of so many: all alike, and what is left over to the first."""
        each, rest = divmod(vms, self.components)
        return (each + rest, *([each] * (self.components - 1)))

    def to_dict(self) -> Plain:
        """Give the keys of ``together``."""
        told: Plain = {"share": self.share, "components": self.components}
        told |= {"claim": str(self.claim), "place": self.place, "claim_part": self.claim_part}
        told |= seconds("margin_s", self.margin_ms) | {"tries": self.tries}
        return told | ({"files": dict(self.files)} if self.files else {})
