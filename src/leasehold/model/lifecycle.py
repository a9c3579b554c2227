"""The life of a lease, one table per type; written out in ``docs/specs/lease-states.md``.

A move that is not in the table of the lease's type is a defect, and raises TransitionError.
"""

from enum import StrEnum

from leasehold.model.errors import TransitionError
from leasehold.model.lease import Lease, LeaseState
from leasehold.model.request import LeaseType


class Step(StrEnum):
    """What happens to a lease."""

    HOLD = "hold"
    PLAN = "plan"
    START = "start"
    BEGIN = "begin"
    HOLD_BACK = "hold-back"
    SUSPEND = "suspend"
    SAVED = "saved"
    RESUME = "resume"
    MIGRATE = "migrate"
    CONTINUE = "continue"
    COMPLETE = "complete"
    KILL = "kill"
    TERMINATE = "terminate"
    RESTART = "restart"
    FAIL = "fail"
    REFUSE = "refuse"
    CANCEL = "cancel"


Moves = dict[tuple[LeaseState, Step], LeaseState]
S = LeaseState

_BEFORE_START: Moves = {
    (S.SUBMITTED, Step.HOLD): S.HELD,
    (S.SUBMITTED, Step.PLAN): S.WAITING,
    (S.SUBMITTED, Step.REFUSE): S.REFUSED,
    (S.SUBMITTED, Step.CANCEL): S.CANCELLED,
    (S.HELD, Step.PLAN): S.WAITING,
    (S.HELD, Step.REFUSE): S.REFUSED,
    (S.HELD, Step.CANCEL): S.CANCELLED,
    (S.HELD, Step.RESTART): S.HELD,
    (S.HELD, Step.FAIL): S.FAILED,
    (S.WAITING, Step.RESTART): S.HELD,
    (S.WAITING, Step.HOLD): S.HELD,
    (S.WAITING, Step.REFUSE): S.REFUSED,
    (S.WAITING, Step.START): S.STARTING,
    (S.WAITING, Step.CANCEL): S.CANCELLED,
}
_START: Moves = {
    (S.STARTING, Step.BEGIN): S.RUNNING,
    (S.STARTING, Step.HOLD_BACK): S.WAITING,
    (S.STARTING, Step.HOLD): S.HELD,
    (S.STARTING, Step.CANCEL): S.CANCELLED,
    (S.STARTING, Step.RESTART): S.HELD,
    (S.STARTING, Step.FAIL): S.FAILED,
}
_RUN: Moves = {
    (S.RUNNING, Step.COMPLETE): S.COMPLETED,
    (S.RUNNING, Step.KILL): S.KILLED,
    (S.RUNNING, Step.CANCEL): S.CANCELLED,
    (S.RUNNING, Step.RESTART): S.HELD,
    (S.RUNNING, Step.FAIL): S.FAILED,
}
_SUSPEND: Moves = {
    (S.STARTING, Step.SUSPEND): S.SUSPENDING,
    (S.SUSPENDING, Step.HOLD): S.HELD,
    (S.RUNNING, Step.SUSPEND): S.SUSPENDING,
    (S.RESUMING, Step.SUSPEND): S.SUSPENDING,
    (S.SUSPENDING, Step.SAVED): S.SUSPENDED,
    (S.SUSPENDING, Step.COMPLETE): S.COMPLETED,
    (S.SUSPENDED, Step.RESUME): S.RESUMING,
    (S.RESUMING, Step.CONTINUE): S.RUNNING,
    (S.SUSPENDING, Step.CANCEL): S.CANCELLED,
    (S.SUSPENDED, Step.CANCEL): S.CANCELLED,
    (S.RESUMING, Step.CANCEL): S.CANCELLED,
    (S.RESUMING, Step.KILL): S.KILLED,
    (S.SUSPENDING, Step.RESTART): S.HELD,
    (S.SUSPENDED, Step.RESTART): S.HELD,
    (S.RESUMING, Step.RESTART): S.HELD,
    (S.SUSPENDING, Step.FAIL): S.FAILED,
    (S.SUSPENDED, Step.FAIL): S.FAILED,
    (S.RESUMING, Step.FAIL): S.FAILED,
}
_MIGRATE: Moves = {
    (S.STARTING, Step.MIGRATE): S.MIGRATING,
    (S.RUNNING, Step.MIGRATE): S.MIGRATING,
    (S.RESUMING, Step.MIGRATE): S.MIGRATING,
    (S.SUSPENDED, Step.MIGRATE): S.MIGRATING,
    (S.SUSPENDING, Step.MIGRATE): S.MIGRATING,
    (S.WAITING, Step.MIGRATE): S.MIGRATING,
    (S.MIGRATING, Step.MIGRATE): S.MIGRATING,
    (S.MIGRATING, Step.SUSPEND): S.SUSPENDING,
    (S.MIGRATING, Step.CONTINUE): S.RUNNING,
    (S.MIGRATING, Step.CANCEL): S.CANCELLED,
    (S.MIGRATING, Step.KILL): S.KILLED,
    (S.MIGRATING, Step.RESTART): S.HELD,
    (S.MIGRATING, Step.FAIL): S.FAILED,
    (S.WAITING, Step.FAIL): S.FAILED,
}

MOVES: dict[LeaseType, Moves] = {
    LeaseType.CANCELABLE: _BEFORE_START
    | _START
    | _RUN
    | {(S.STARTING, Step.TERMINATE): S.TERMINATED, (S.RUNNING, Step.TERMINATE): S.TERMINATED},
    LeaseType.SUSPENDABLE: _BEFORE_START | _START | _RUN | _SUSPEND,
    LeaseType.MIGRATABLE: _BEFORE_START | _START | _RUN | _SUSPEND | _MIGRATE,
    LeaseType.NON_PREEMPTABLE: _BEFORE_START | _START | _RUN | {(S.RUNNING, Step.HOLD_BACK): S.WAITING},
}


def advance(lease: Lease, step: Step) -> None:
    """Take one step in the life of a lease.

    Raises TransitionError where the lease's type and state do not allow it.
    """
    state = MOVES[lease.request.lease_type].get((lease.state, step))
    if state is None:
        kind = lease.request.lease_type.label
        raise TransitionError(f"lease {lease.id} ({kind}, {lease.state}) cannot {step}")
    lease.state = state
