"""Writes down what becomes of joint requests, as the table ``joints`` of `leasehold.model.tables`."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from leasehold.gateway.coallocation.incremental import count_idle
from leasehold.model.effect import JointClosed, JointStarted, PartLeased
from leasehold.model.joint import Joint
from leasehold.model.reason import Reason
from leasehold.simulation.kernel import Handler
from leasehold.simulation.tables import TableWriter
from leasehold.simulation.workload.job import Job


@dataclass(slots=True)
class _Open:
    """A joint request that is not over; ``job`` is that of its first component."""

    joint: Joint
    job: Job
    started_ms: int | None = None


class JointRows:
    """Keeps in memory what is open, and writes what is over; no table where nothing is.

    ``count``  how many joint requests came
    """

    def __init__(self, folder: Path) -> None:
        """Write below ``folder``, which exists."""
        self.count = 0
        self._folder = folder
        self._table: TableWriter | None = None
        self._joint_of: dict[int, Joint] = {}
        self._open: dict[int, _Open] = {}
        self.handlers: Mapping[type, Handler] = {
            PartLeased: self._leased,
            JointStarted: self._started,
            JointClosed: self._closed,
        }

    def _leased(self, effect: PartLeased, now_ms: int) -> None:  # noqa: ARG002 - all are told alike
        self._joint_of[effect.lease.id] = effect.joint

    def came(self, lease_id: int, job: Job) -> None:
        """A job came; take note of it if it is a component's."""
        joint = self._joint_of.get(lease_id)
        if joint is not None and joint.id not in self._open:
            self._open[joint.id] = _Open(joint, job)
            self.count += 1

    def joint_of(self, lease_id: int) -> int | None:
        """Give the joint request of a lease that is over, and forget it; None for an ordinary lease."""
        joint = self._joint_of.pop(lease_id, None)
        return None if joint is None else joint.id

    def _started(self, effect: JointStarted, now_ms: int) -> None:
        self._open[effect.joint.id].started_ms = now_ms

    def _closed(self, effect: JointClosed, now_ms: int) -> None:
        self._write(self._open.pop(effect.joint.id), effect.reason, now_ms)

    def _write(self, one: _Open, reason: Reason, ended_ms: int | None) -> None:
        joint, request = one.joint, one.joint.request
        if self._table is None:
            self._table = TableWriter(self._folder, "joints")
        self._table.add(
            (
                joint.id,
                one.job.source,
                one.job.source_id,
                request.request(0, 0).path,
                len(request.components),
                sum(component.vms for component in request.components),
                request.claim,
                request.place,
                request.submit_ms,
                request.ready_ms,
                one.started_ms,
                ended_ms,
                joint.state,
                reason,
                joint.idle_vm_ms,
                joint.tried,
            )
        )

    def finish(self, now_ms: int) -> None:
        """Write what is still open when the simulated time is over, and close the table."""
        for one in self._open.values():
            for index in range(len(one.joint.parts)):
                count_idle(one.joint, index, now_ms)
            self._write(one, Reason.HORIZON_REACHED, None)
        if self._table is not None:
            self._table.close()
