"""The components' leases: ordinary leases, each known to its joint request."""

from collections.abc import Callable, Iterable, Iterator

from leasehold.model.effect import Decision, Effect, PartLeased
from leasehold.model.joint import Joint
from leasehold.model.lease import Lease, LeaseState
from leasehold.model.lifecycle import Step, advance
from leasehold.model.reason import Outcome, Reason
from leasehold.model.request import Request

CO_ALLOCATION = "co-allocation"
"""The rule that holds components until all of them have room."""

Enrol = Callable[[Request], Lease]
"""Makes a lease of a request, and lets the gateway know it."""


class Crew:
    """All leases of the joint requests that are open, those that are over included."""

    def __init__(self, enrol: Enrol, effects: list[Effect]) -> None:
        """Begin with none; ``effects`` is the gateway's list."""
        self._enrol = enrol
        self._effects = effects
        self._joints: dict[int, Joint] = {}
        self._leases: dict[int, Lease] = {}

    def man(self, joint: Joint, index: int) -> None:
        """Give a component the lease of its turn, which waits at the gateway."""
        part = joint.parts[index]
        part.lease_id, part.site = joint.request.lease_id(index, part.turn), ""
        lease = self._enrol(joint.request.request(index, part.turn))
        self.take_up(joint, lease)
        advance(lease, Step.HOLD)
        self._effects.append(PartLeased(lease, joint, index))
        self._effects.append(Decision(lease, "", Outcome.HOLD, Reason.AWAITS_ITS_PARTS, CO_ALLOCATION))

    def renew(self, joint: Joint, index: int) -> None:
        """Give a component another lease, in place of one that is over."""
        joint.parts[index].turn += 1
        joint.parts[index].has_ended = False
        self.man(joint, index)

    def take_up(self, joint: Joint, lease: Lease) -> None:
        """Know a lease as one of this joint request."""
        self._joints[lease.id] = joint
        self._leases[lease.id] = lease

    def dismiss(self, joint: Joint) -> None:
        """A joint request is over, and all of its leases are."""
        for lease_id in joint.request.lease_ids:
            self._joints.pop(lease_id, None)
            self._leases.pop(lease_id, None)

    def joint_of(self, lease_id: int) -> Joint | None:
        """Find the open joint request of a lease; None for an ordinary lease."""
        return self._joints.get(lease_id)

    def lease(self, joint: Joint, index: int) -> Lease | None:
        """Give a component's present lease; None if it was over before a restart."""
        return self._leases.get(joint.parts[index].lease_id)

    def open_leases(self, joint: Joint) -> Iterator[tuple[int, Lease]]:
        """Give the components' present leases that are not over, with their indices."""
        for index in range(len(joint.parts)):
            lease = self.lease(joint, index)
            if lease is not None and not lease.state.is_final:
                yield index, lease

    def held(self) -> Iterable[int]:
        """Name the leases that wait here, at no site."""
        return (lease.id for lease in self._leases.values() if lease.state is LeaseState.HELD)
