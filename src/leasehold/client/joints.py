"""Joint leases, for the client that waits for its answers."""

from collections.abc import Iterator
from typing import Unpack

from leasehold.client import joint_calls
from leasehold.client.joint_calls import JointWish
from leasehold.client.joint_records import JointExplanation, JointLease
from leasehold.client.wire import Wire


class Joints:
    """Ask for machines at several sites, all or nothing, and look after them."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire

    def submit(self, **wish: Unpack[JointWish]) -> JointLease:
        """Ask for a joint lease; what may be said is in `JointWish`. Raises as `Leases.submit` does."""
        return self._wire.ask(joint_calls.submit_joint(wish))

    def get(self, joint_id: int) -> JointLease:
        """Look at one; raises NotFound."""
        return self._wire.ask(joint_calls.joint(joint_id))

    def list(self) -> Iterator[JointLease]:
        """Go through those that are visible, the newest first."""
        return self._wire.pages(joint_calls.joints())

    def cancel(self, joint_id: int) -> JointLease:
        """Take one back, with all of its components; raises NotFound and NotAllowed."""
        return self._wire.ask(joint_calls.cancel_joint(joint_id))

    def explain(self, **wish: Unpack[JointWish]) -> JointExplanation:
        """Say what would become of one, without asking for it."""
        return self._wire.ask(joint_calls.explain_joint(wish))
