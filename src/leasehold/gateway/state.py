"""What the parts of a gateway share: its open leases, and what the present instant has changed."""

from leasehold.model.effect import Effect
from leasehold.model.lease import Lease
from leasehold.model.reason import Reason
from leasehold.model.request import Request
from leasehold.model.value_dict import ValueDict


class InstantChanges:
    """What has changed in this instant; the gateway begins each one with nothing.

    ``effects``    what is to be done and known, in order
    ``displaced``  Migratable guests that lost their place, and why, until they are relocated in the same instant
    ``moved``      leases whose state, place or reservation changed, also without an effect
    """

    def __init__(self) -> None:
        """Begin without changes."""
        self.effects: list[Effect] = []
        self.displaced: list[tuple[Lease, Reason]] = []
        self.moved: dict[int, Lease] = {}

    def take_effects(self) -> list[Effect]:
        """Return the effects of this instant, and begin the next one without any."""
        effects, self.effects = self.effects, []
        return effects


class LeaseTable:
    """The open leases by number, in the order of their submission."""

    def __init__(self, reference_mips: int) -> None:
        """Begin empty; ``reference_mips`` is the speed that durations refer to."""
        self.open: dict[int, Lease] = ValueDict()
        self.reference_mips = reference_mips
        self._last_order = 0

    def create(self, request: Request) -> Lease:
        """Make a lease of a request, next in order; `add` makes it known."""
        self._last_order += 1
        return Lease(request.id, request, request.vms, self._last_order, request.duration_ms * self.reference_mips)

    def add(self, lease: Lease) -> None:
        """Take in a lease, new or from a record."""
        self.open[lease.id] = lease
        self._last_order = max(self._last_order, lease.order)
