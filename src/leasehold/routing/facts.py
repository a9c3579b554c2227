"""What a routing policy can know of the sites, from what never changes to what changes every moment."""

from bisect import bisect_left
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from leasehold.model.errors import InvalidField
from leasehold.model.request import LeaseType
from leasehold.routing.moments import StreamMoments, require_positive


@dataclass(frozen=True, slots=True, eq=False)
class SiteFacts:
    """What stays the same. Two of them are equal only if they are the same object.

    ``slots``           VMs that it can run at once
    ``speed_mips``      speed of one slot
    ``reference_mips``  speed that requested durations refer to
    ``told_local``      its local stream as its operator states it, None where it must be learnt

    Raises InvalidField for a size or speed that is not above zero.
    """

    name: str
    slots: int
    speed_mips: int
    reference_mips: int
    told_local: StreamMoments | None = None

    def __post_init__(self) -> None:
        """Refuse what no site can be."""
        for name in ("slots", "speed_mips", "reference_mips"):
            require_positive(f"{name} of {self.name}", getattr(self, name))

    @property
    def total_mips(self) -> int:
        """Computing power of the whole site."""
        return self.slots * self.speed_mips


@dataclass(slots=True)
class SiteHistory:
    """What this gateway itself did with a site and what came of it; the gateway keeps it up to date.

    ``sent``              leases dispatched there, by lease type
    ``in_flight_leases``  dispatched there and not yet ended or moved elsewhere, and their VMs
    ``preempted_leases``  how often one of them was preempted there
    """

    sent: list[int] = field(default_factory=lambda: [0] * len(LeaseType))
    in_flight_leases: int = 0
    in_flight_vms: int = 0
    preempted_leases: int = 0


EarliestStart = Callable[[int, int], int | None]
"""When so many VMs could start for so long (ms at the reference speed); None for never."""


@dataclass(frozen=True, slots=True)
class SiteLive:
    """How a site is right now.

    ``free_vms``            slots that nobody holds
    ``local_waiting_vms``   VMs that queued local requests ask for
    ``guest_waiting_vms``   VMs that queued guests ask for
    ``running_guest_vms``   VMs that guests hold
    ``earliest_start_ms``   asks the site's plan, None where a site does not answer that
    """

    free_vms: int
    local_waiting_vms: int = 0
    guest_waiting_vms: int = 0
    running_guest_vms: int = 0
    earliest_start_ms: EarliestStart | None = None

    @property
    def unclaimed_vms(self) -> int:
        """Give the free slots that no queued guest asks for; below 0 where they ask for more than that."""
        return self.free_vms - self.guest_waiting_vms


class Federation:
    """All sites behind one gateway in a fixed order, made once.

    Raises InvalidField when two sites share a name.
    """

    def __init__(self, sites: Iterable[SiteFacts]) -> None:
        self.sites = tuple(sites)
        self._position = {site.name: i for i, site in enumerate(self.sites)}
        if len(self._position) < len(self.sites):
            raise InvalidField("sites", [site.name for site in self.sites], "a name of its own for each site")
        self._sizes = sorted({site.slots for site in self.sites})
        self._at_least = [tuple(s for s in self.sites if s.slots >= size) for size in self._sizes]
        self._at_least.append(())

    def __getitem__(self, name: str) -> SiteFacts:
        """Give the facts of the site with this name."""
        return self.sites[self._position[name]]

    def position(self, name: str) -> int:
        """Give the place of a site in the fixed order."""
        return self._position[name]

    def wide_enough(self, vms: int) -> tuple[SiteFacts, ...]:
        """Give the sites with at least so many slots, in the fixed order: always the same tuple for them."""
        return self._at_least[bisect_left(self._sizes, vms)]
