"""How long did it take? An order that is seen to be done tells what plans should reckon with."""

from leasehold.model.event import Operation, OverheadMeasured
from leasehold.service.drivers.protocol import Observation, Phase, Verb
from leasehold.service.engine.outbox import TAKEN
from leasehold.service.store.rows import OrderRow

_DONE: dict[tuple[str, Phase], Operation] = {
    (Verb.START.value, Phase.RUNNING): Operation.START,
    (Verb.SUSPEND.value, Phase.SAVED): Operation.SUSPEND,
    (Verb.RESUME.value, Phase.RUNNING): Operation.RESUME,
    (Verb.RECEIVE.value, Phase.RUNNING): Operation.MIGRATE,
}
"""What was measured when an order of this verb is seen to have led to this phase.

That a command has *ended* says only that it was started at some time before.
"""


def measured_by(row: OrderRow, seen: Observation) -> OverheadMeasured | None:
    """Say how long an order took that this observation shows to be done; None where it shows nothing of it.

    It is counted from when the driver took it on, as far as that is known by now, else from when it was
    given; one that had to be told several times, and is not known to be taken on, tells nothing.
    """
    operation = _DONE.get((row.order.verb, seen.phase))
    began_ms = _began_ms(row, seen.since_ms)
    if operation is None or row.order.incarnation != seen.incarnation or began_ms is None:
        return None
    order = row.order
    return OverheadMeasured(row.site, operation, order.memory_mib, order.vms, seen.since_ms - began_ms)


def _began_ms(row: OrderRow, done_ms: int) -> int | None:
    if row.status == TAKEN and row.next_try_ms <= done_ms:
        return row.next_try_ms
    was_told_once = row.attempts == 0 and row.created_ms <= done_ms
    return row.created_ms if was_told_once else None
