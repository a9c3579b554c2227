"""The joint requests of one engine: what is asked of them, and what is to be written of that."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from leasehold.model.effect import PartLeased
from leasehold.model.event import Event, JointCancelled, JointSubmitted
from leasehold.model.joint import Joint, JointRequest
from leasehold.service.commands import CancelJoint, SubmitJoint
from leasehold.service.errors import NoSuchJoint, TooManyOpen
from leasehold.service.store.batch import Batch
from leasehold.service.store.rows import JOINTS, JointRow, LeaseMetadata

if TYPE_CHECKING:
    from leasehold.service.engine.engine import Engine


class JointBook:
    """Reads what is said about joint requests; ``joints`` are those that were open at the start.

    ``last_lease_id``  the highest number that their leases may come to have
    """

    def __init__(self, engine: "Engine") -> None:
        """Begin with those in the store."""
        rows = engine.store.open_joints()
        self.joints = [row.joint for row in rows]
        self.last_lease_id = max((row.joint.request.lease_ids.stop - 1 for row in rows), default=0)
        self._engine = engine
        self._last_id = engine.store.highest_joint_id()
        self._about = {row.joint.id: (row.name, row.command) for row in rows}
        self._written = {row.joint.id: JOINTS.values(row) for row in rows}
        self._changed: dict[int, JointRow] = {}

    # What is asked

    def submit(self, command: SubmitJoint, now_ms: int) -> tuple[list[Event], JointRequest]:
        """Take a joint request in; raises InvalidField, UnknownName, TooManyOpen."""
        engine, request = self._engine, self.would_be(command, now_ms)
        self._last_id = request.id
        self._about[request.id] = (command.name, command.command)
        engine.last_lease_id = request.lease_ids.stop - 1
        return [JointSubmitted(request)], request

    def would_be(self, command: SubmitJoint, now_ms: int) -> JointRequest:
        """Give the request that a command would make now; raises what the command would be answered with."""
        request = self._request(command, now_ms)
        self._engine.gateway.joints.check(request)
        self._check_limit(request)
        return request

    def _request(self, command: SubmitJoint, now_ms: int) -> JointRequest:
        return JointRequest(
            self._last_id + 1,
            command.components,
            now_ms,
            now_ms if command.ready_ms is None else max(now_ms, command.ready_ms),
            self._engine.last_lease_id + 1,
            command.consumer,
            command.group,
            command.claim,
            command.place,
            command.deadline_ms,
            command.tries,
            command.retries,
            command.margin_ms,
            is_foreign=command.is_foreign,
        )

    def _check_limit(self, request: JointRequest) -> None:
        most, consumer = self._engine.most_open, request.consumer
        if most is not None and self._engine.open_of.get(consumer, 0) + len(request.components) > most:
            raise TooManyOpen(consumer, most)

    def cancel(self, command: CancelJoint, now_ms: int) -> list[Event]:  # noqa: ARG002 - all are read alike
        """Take a joint request back; raises NoSuchJoint."""
        self.row(command.joint_id)
        return [JointCancelled(command.joint_id)]

    # What happens

    def leased(self, effect: PartLeased, now_ms: int) -> None:
        """A component has a lease from now on: it is known and counted as any other."""
        engine, request = self._engine, effect.lease.request
        engine.about[request.id] = LeaseMetadata(*self._about[effect.joint.id], joint_id=effect.joint.id)
        engine.open_of[request.consumer] = engine.open_of.get(request.consumer, 0) + 1
        engine.minutes.submitted(request, now_ms)

    def follow(self, moved: Iterable[Joint]) -> None:
        """See which of these stand otherwise than is written."""
        for joint in moved:
            values = JOINTS.values(JointRow(joint, *self._about[joint.id]))
            if self._written.get(joint.id) != values:
                self._written[joint.id], self._changed[joint.id] = values, JOINTS.record(values)

    def row(self, joint_id: int) -> JointRow:
        """A joint request as it is, open or over; raises NoSuchJoint."""
        values = self._written.get(joint_id)
        row = self._engine.store.joint(joint_id) if values is None else JOINTS.record(values)
        if row is None:
            raise NoSuchJoint(joint_id)
        return row

    def row_with(self, lease_id: int) -> JointRow:
        """The joint request of a lease; raises NoSuchJoint."""
        about, kept = self._engine.about.get(lease_id), self._engine.store.lease(lease_id)
        joint_id = about.joint_id if about is not None else None if kept is None else kept.metadata.joint_id
        return self.row(joint_id or 0)

    # What is written

    def has_news(self) -> bool:
        """Whether there is anything to write."""
        return bool(self._changed)

    def save(self, batch: Batch) -> None:
        """Write everything into the store."""
        batch.upsert(JOINTS, list(self._changed.values()))

    def saved(self) -> None:
        """Everything is in the store; those that are over are found there."""
        for joint_id, row in self._changed.items():
            if row.joint.end_ms >= 0:
                del self._written[joint_id], self._about[joint_id]
        self._changed.clear()
