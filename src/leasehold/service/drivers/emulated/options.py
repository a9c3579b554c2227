"""What can the configuration say to an emulated site? All of it has a default."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated

from leasehold.configuration.declaration import Table, Within
from leasehold.configuration.keys import Keys
from leasehold.configuration.kinds import Seconds, Whole
from leasehold.service.drivers.emulated.faults import FAULTS, Faults
from leasehold.service.drivers.emulated.nodes import NODES, EmulatedNode
from leasehold.service.drivers.options import CAPABILITIES
from leasehold.service.drivers.protocol import Capabilities


@dataclass(frozen=True, slots=True)
class EmulatedOptions:
    """The options of one site."""

    boot_ms: Annotated[int, Seconds("how long booting takes")] = 0
    audit_lines: Annotated[int, Whole("how many lines of its record of who held machines when are kept")] = 1_000_000
    capabilities: Annotated[Capabilities, Within("what its machines can do", CAPABILITIES)] = field(
        default_factory=Capabilities
    )
    nodes: Annotated[tuple[EmulatedNode, ...], NODES] = ()
    faults: Annotated[Faults, Within("what goes wrong, and how often", FAULTS)] = field(default_factory=Faults)


OPTIONS = Table(EmulatedOptions, "What its emulated machines can do, and what goes wrong with them.")


def read_options(options: Mapping[str, object]) -> EmulatedOptions:
    """Read the options; raises InvalidField or UnknownName with the key as field."""
    return OPTIONS.read(Keys(options))
