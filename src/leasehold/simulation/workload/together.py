"""Which requests of a stream are co-allocations, and how their components get their room."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated

from leasehold.configuration.declaration import Choice, Counts, Number, Seconds, Table, Whole
from leasehold.gateway.coallocation.placement.registry import placement_policy_names
from leasehold.model.coallocation import MOST_COMPONENTS, Claim

MOST_TRIES = 100
"""Each try may need leases of its own, and their numbers are set aside."""


@dataclass(frozen=True, slots=True)
class StreamCoAllocations:
    """What a stream says of its co-allocations; the defaults are those of a `CoAllocationRequest`."""

    share: Annotated[
        float,
        Number(
            "share of the requests from outside that is split",
            more=", drawn by a separate random stream; those with fewer VMs than components stay whole",
            least=0,
            most=1,
        ),
    ]
    components: Annotated[int, Whole("number of components", least=2, most=MOST_COMPONENTS)] = 2
    claim: Annotated[
        Claim,
        Choice(
            "how room for all components is obtained",
            more=". `incremental`: machines are claimed one component after another, shortly before the"
            " start; `reservation`: all components reserve the earliest common start",
            of=Claim,
        ),
    ] = Claim.INCREMENTAL
    place: Annotated[str, Choice("placement policy", of=placement_policy_names)] = "worst-fit"
    claim_part: Annotated[
        float,
        Number(
            "incremental: part of the time to the start that passes before the first claim",
            more=", less than 1 (KOALA's *L*)",
            least=0,
            most=1,
        ),
    ] = 0.75
    margin_ms: Annotated[
        int,
        Seconds("incremental: how long before the start claiming may begin", more=", besides the transfer of files"),
    ] = 0
    tries: Annotated[int, Whole("number of tries before it is refused", most=MOST_TRIES)] = 3
    files: Annotated[
        Mapping[str, int],
        Counts(
            "MiB that each component reads, by the cluster that stores them",
            more=", such as `{ north = 2048 }`; the start waits until they have arrived, at the"
            " `network_mbps` of the destination",
            unset="none",
            optional=True,
        ),
    ] = field(default_factory=dict)

    def widths(self, vms: int) -> tuple[int, ...]:
        """Give the VMs of each component of so many: all alike, and what is left over to the first."""
        each, rest = divmod(vms, self.components)
        return (each + rest, *([each] * (self.components - 1)))


TOGETHER = Table(StreamCoAllocations, "Requests of a stream that are co-allocations.")
