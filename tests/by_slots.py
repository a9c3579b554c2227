"""The plan and the queue of a site that is planned by slots."""

from leasehold.gateway.settings import Plan, Queue
from leasehold.leasing.backfill import Backfiller
from leasehold.leasing.kernel import Profile


def slots(plan: Plan) -> Profile:
    """The plan of a site of slots."""
    assert isinstance(plan, Profile)
    return plan


def slot_queue(queue: Queue) -> Backfiller:
    """The queue of a site of slots."""
    assert isinstance(queue, Backfiller)
    return queue
