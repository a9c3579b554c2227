"""What the machines of an emulated site are like, and how long things take on them without faults."""

from dataclasses import dataclass, field

from leasehold.leasing.overhead import OverheadModel
from leasehold.service.drivers.emulated.nodes import EmulatedNode
from leasehold.service.drivers.protocol import Capabilities


@dataclass(frozen=True, slots=True)
class Hardware:
    """The machines of one site.

    ``slots``           how many VMs run at the same time
    ``speed_mips``      how much work each does in a millisecond
    ``reference_mips``  and a machine of the reference speed, on which ``sleep 1`` takes a second
    ``overhead``        how long saving, loading and moving memory takes
    ``boot_ms``         how long booting takes; the planner counts on no time at all
    ``capabilities``    what they can do: it may be less than emulation could, to try that out
    ``nodes``           what they run on; none: what a site has whose configuration says nothing of them
    """

    slots: int
    speed_mips: int
    reference_mips: int
    overhead: OverheadModel
    boot_ms: int = 0
    capabilities: Capabilities = field(default_factory=Capabilities)
    nodes: tuple[EmulatedNode, ...] = ()

    def wall_ms(self, work: int) -> int:
        """How long this much work takes, rounded up to whole milliseconds."""
        return -(-work // self.speed_mips)
