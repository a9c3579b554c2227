"""What a store deletes: what will not be asked for again, and what is older than the configuration keeps.

A closed lease goes with everything of it, but for its use, which has a time of its own. The newest lease, job
and co-allocation, and the last line of the journal, always stay: numbers count up from them.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields

from sqlalchemy import Column, Connection, Delete, Select, Table, delete, exists, func, select, tuple_

from leasehold.service.store.rows import (
    ATTEMPTS,
    CLOSED,
    CLOSED_JOBS,
    COALLOCATIONS,
    IDEMPOTENCY_KEYS,
    JOBS,
    JOURNAL,
    LEASES,
    LIVE,
    OPEN_JOBS,
    ORDERS,
    OUTPUTS,
    SETTLED,
    USAGE,
)

keys, attempts, jobs, coallocations = (each.table for each in (IDEMPOTENCY_KEYS, ATTEMPTS, JOBS, COALLOCATIONS))
journal, leases, orders, outputs, usage = (each.table for each in (JOURNAL, LEASES, ORDERS, OUTPUTS, USAGE))

AT_ONCE = 2_000
"""So many rows of a kind go in one transaction at most, so that no decision waits for long."""

LOOKED_AT = 50_000
"""So many of the oldest rows are looked at: what is old is among them, and the rest need not be read."""


@dataclass(frozen=True, slots=True)
class Cutoffs:
    """What is older than these moments (Unix ms) is deleted; 0 keeps everything.

    ``answers_ms``  idempotency keys, and orders that were carried out
    ``journal_ms``  lines about what is closed
    ``outputs_ms``  output of closed jobs
    ``leases_ms``   closed leases, co-allocations and jobs, since they ended
    ``usage_ms``    times in which leases held machines
    """

    answers_ms: int = 0
    journal_ms: int = 0
    outputs_ms: int = 0
    leases_ms: int = 0
    usage_ms: int = 0

    def not_after(self, **latest: int) -> "Cutoffs":
        """Keep more: nothing that is later than these moments goes."""
        values = {each.name: getattr(self, each.name) for each in fields(self)}
        return Cutoffs(**values | {name: min(values[name], moment) for name, moment in latest.items()})


def prune(connection: Connection, cutoffs: Cutoffs) -> Mapping[str, int]:
    """Delete some of what is old; says how many rows went, by table.

    While it says anything there may be more: ask again, in another transaction.
    """
    gone: dict[str, int] = {}
    for table, one in _old(connection, cutoffs):
        count = connection.execute(one).rowcount
        if count:
            gone[table.name] = gone.get(table.name, 0) + count
    return gone


def drop_outputs(connection: Connection, consumer: str, least_bytes: int) -> tuple[int, int]:
    """Delete the oldest outputs of a consumer until that has freed so many bytes; gives rows and bytes."""
    key = outputs.c.job_id, outputs.c.number
    oldest = (
        select(*key, outputs.c.size_bytes)
        .where(outputs.c.consumer == consumer)
        .order_by(outputs.c.fetched_ms, *key)
        .limit(AT_ONCE)
    )
    count = freed = 0
    while freed < least_bytes and (found := connection.execute(oldest).all()):
        going: list[tuple[int, int]] = []
        for job_id, number, size_bytes in found:
            if freed < least_bytes:
                going.append((job_id, number))
                freed += size_bytes
        connection.execute(delete(outputs).where(tuple_(*key).in_(going)))
        count += len(going)
    return count, freed


Old = tuple[Table, Delete]


def _old(connection: Connection, cutoffs: Cutoffs) -> Iterator[Old]:
    yield keys, _old_keys(cutoffs.answers_ms)
    yield orders, _old_orders(cutoffs.answers_ms)
    yield journal, _old_lines(cutoffs.journal_ms)
    yield outputs, _old_outputs(cutoffs.outputs_ms)
    yield from _of_jobs(connection, _old_jobs(cutoffs.leases_ms))
    yield from _of_leases(connection, _old_leases(cutoffs.leases_ms))
    yield coallocations, _old_coallocations(cutoffs.leases_ms)
    yield usage, _old_use(cutoffs.usage_ms)


def _first(number: Column[int]) -> Select[tuple[int]]:
    """Give the numbers of the oldest rows; by a name of its own, as both databases want it."""
    oldest = select(number).order_by(number).limit(LOOKED_AT).subquery()
    return select(oldest.c[number.name])


def _old_keys(before_ms: int) -> Delete:
    key = keys.c.consumer, keys.c.key, keys.c.of_job
    old = select(*key).where(keys.c.created_ms < before_ms)
    return delete(keys).where(tuple_(*key).in_(old.order_by(keys.c.created_ms).limit(AT_ONCE)))


def _old_orders(before_ms: int) -> Delete:
    settled = (
        select(orders.c.number)
        .join(leases, leases.c.id == orders.c.lease_id)
        .where(orders.c.created_ms < before_ms, SETTLED, CLOSED)
    )
    return delete(orders).where(orders.c.number.in_(settled.order_by(orders.c.number).limit(AT_ONCE)))


def _old_lines(before_ms: int) -> Delete:
    """Lines come in the order of time, so those that are too old are the first ones."""
    is_of_live = exists().where(leases.c.id == journal.c.lease_id, LIVE)
    is_of_open = exists().where(jobs.c.id == journal.c.job_id, OPEN_JOBS)
    is_last = journal.c.seq == select(func.max(journal.c.seq)).scalar_subquery()
    is_early = journal.c.seq.in_(_first(journal.c.seq))
    old = select(journal.c.seq).where(is_early, journal.c.at_ms < before_ms, ~is_of_live, ~is_of_open, ~is_last)
    return delete(journal).where(journal.c.seq.in_(old.order_by(journal.c.seq).limit(AT_ONCE)))


def _old_outputs(before_ms: int) -> Delete:
    key = tuple_(outputs.c.job_id, outputs.c.number)
    is_closed = exists().where(jobs.c.id == outputs.c.job_id, CLOSED_JOBS)
    old = select(outputs.c.job_id, outputs.c.number).where(outputs.c.fetched_ms < before_ms, is_closed)
    return delete(outputs).where(key.in_(old.limit(AT_ONCE)))


def _old_jobs(before_ms: int) -> Select[tuple[int]]:
    newest = select(func.max(jobs.c.id)).scalar_subquery()
    is_early = jobs.c.id.in_(_first(jobs.c.id))
    old = select(jobs.c.id).where(is_early, CLOSED_JOBS, jobs.c.ended_ms < before_ms, jobs.c.id < newest)
    return old.order_by(jobs.c.id).limit(AT_ONCE)


def _of_jobs(connection: Connection, old: Select[tuple[int]]) -> Iterator[Old]:
    """Everything of these jobs, they themselves last; their leases then go as others do."""
    found = list(connection.execute(old).scalars())
    if found:
        yield journal, delete(journal).where(journal.c.job_id.in_(found), journal.c.lease_id.is_(None))
        for table in (outputs, attempts, keys):
            yield table, delete(table).where(table.c.job_id.in_(found))
        yield jobs, delete(jobs).where(jobs.c.id.in_(found))


def _old_leases(before_ms: int) -> Select[tuple[int]]:
    newest = select(func.max(leases.c.id)).scalar_subquery()
    is_attempt = exists().where(attempts.c.lease_id == leases.c.id)
    is_of_open = exists().where(coallocations.c.id == leases.c.coallocation_id, coallocations.c.end_ms < 0)
    is_early = leases.c.id.in_(_first(leases.c.id))
    is_old = leases.c.end_ms < before_ms, leases.c.id < newest
    old = select(leases.c.id).where(is_early, CLOSED, *is_old, ~is_attempt, ~is_of_open)
    return old.order_by(leases.c.id).limit(AT_ONCE)


def _of_leases(connection: Connection, old: Select[tuple[int]]) -> Iterator[Old]:
    """Everything of these leases but their use, they themselves last."""
    found = list(connection.execute(old).scalars())
    if found:
        for table in (journal, orders, keys):
            yield table, delete(table).where(table.c.lease_id.in_(found))
        yield leases, delete(leases).where(leases.c.id.in_(found))


def _old_coallocations(before_ms: int) -> Delete:
    newest = select(func.max(coallocations.c.id)).scalar_subquery()
    old = select(coallocations.c.id).where(
        coallocations.c.end_ms >= 0, coallocations.c.end_ms < before_ms, coallocations.c.id < newest
    )
    return delete(coallocations).where(coallocations.c.id.in_(old.limit(AT_ONCE)))


def _old_use(before_ms: int) -> Delete:
    key = tuple_(usage.c.lease_id, usage.c.begin_ms)
    old = select(usage.c.lease_id, usage.c.begin_ms).where(usage.c.end_ms < before_ms)
    return delete(usage).where(key.in_(old.order_by(usage.c.end_ms).limit(AT_ONCE)))
