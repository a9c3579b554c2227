"""What a store lets go of: answers that nobody will ask for again, and orders that are done for good.

Leases and the journal stay: they are what happened.
"""

from sqlalchemy import Connection, Delete, Table, delete, select, tuple_

from leasehold.service.store.job_schema import job_answers
from leasehold.service.store.schema import CLOSED, SETTLED, answers, leases, orders

AT_ONCE = 10_000
"""So many rows of a kind go in one transaction at most, so that no decision waits for long."""


def forget(connection: Connection, before_ms: int) -> int:
    """Delete answers and settled orders of closed leases, made before this Unix ms; returns how many.

    While it returns something there may be more: ask again, in another transaction.
    """
    old = (_old_answers(answers, before_ms), _old_answers(job_answers, before_ms), _old_orders(before_ms))
    return sum(connection.execute(one).rowcount for one in old)


def _old_answers(answers: Table, before_ms: int) -> Delete:
    key = tuple_(answers.c.consumer, answers.c.key)
    old = select(answers.c.consumer, answers.c.key).where(answers.c.created_ms < before_ms)
    return delete(answers).where(key.in_(old.order_by(answers.c.created_ms).limit(AT_ONCE)))


def _old_orders(before_ms: int) -> Delete:
    settled = (
        select(orders.c.number)
        .join(leases, leases.c.id == orders.c.lease_id)
        .where(orders.c.created_ms < before_ms, SETTLED, CLOSED)
    )
    return delete(orders).where(orders.c.number.in_(settled.order_by(orders.c.number).limit(AT_ONCE)))
