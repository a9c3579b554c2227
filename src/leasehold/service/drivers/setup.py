"""What a driver is made from: its site's machines, and a place for its own files."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from leasehold.leasing.overhead import OverheadModel

Clock = Callable[[], int]
"""Tells the time in Unix milliseconds."""


@dataclass(frozen=True, slots=True)
class DriverSetup:
    """One site, as its driver gets to know it.

    ``slots``           how many VMs there is room for
    ``speed_mips``      how much work its machines do in a millisecond
    ``reference_mips``  and a machine on which a request takes as long as it says
    ``overhead``        how long saving, loading and moving memory is planned to take here
    ``folder``          for this driver's own files, and nobody else's; made when it is not there
    ``clock``           tells the time
    ``options``         what the configuration says to this kind of driver, unchecked
    ``private``         the service's folders, which nothing that runs in machines may enter
    """

    site: str
    slots: int
    speed_mips: int
    reference_mips: int
    overhead: OverheadModel
    folder: Path
    clock: Clock
    options: Mapping[str, object] = field(default_factory=dict)
    private: tuple[Path, ...] = ()
