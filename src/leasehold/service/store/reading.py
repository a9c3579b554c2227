"""Whatever can be read from a store, from any thread, while it is being written to."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain, repeat
from operator import attrgetter
from typing import Any, TypeVar

from sqlalchemy import (
    ColumnElement,
    CompoundSelect,
    CursorResult,
    Engine,
    Row,
    Select,
    Table,
    TextClause,
    and_,
    case,
    false,
    func,
    or_,
    select,
    text,
    true,
    union_all,
)

from leasehold.jobs.job import MOST_IN_ARRAY
from leasehold.model.request import LEASE_TYPES, LeaseType
from leasehold.service.store.errors import translated
from leasehold.service.store.filters import (
    HAS_JOB,
    JobFilter,
    JournalFilter,
    LeaseFilter,
    UsageFilter,
    Visible,
)
from leasehold.service.store.mapping import RecordTable, statements_for
from leasehold.service.store.rows import (
    AGREEMENTS,
    ATTEMPTS,
    BUILDABLE,
    CLOSED,
    CLOSED_JOBS,
    COALLOCATIONS,
    ENDPOINTS,
    IDEMPOTENCY_KEYS,
    IMAGES,
    JOBS,
    JOURNAL,
    LEASES,
    LIVE,
    MESSAGES,
    NODES,
    OF_A_COALLOCATION,
    OF_A_JOB,
    OPEN,
    OPEN_JOBS,
    ORDERS,
    OUTPUTS,
    PEERS,
    PENALTIES,
    SITES,
    SNAPSHOTS,
    TOKENS,
    USAGE,
    AgreementRow,
    AttemptRow,
    BuildableRow,
    CoAllocationRow,
    IdempotencyRow,
    ImageRow,
    JobRow,
    JournalRow,
    LeaseRow,
    MessageRow,
    NodeRow,
    OrderRow,
    OutputRow,
    PeerRow,
    PenaltyRow,
    SiteRow,
    TokenRow,
    UsageRow,
)

R = TypeVar("R")
T = TypeVar("T")

PREEMPTIONS_OF_LAST = 10_000
"""How many leases, the latest of all, say how often leases are preempted at a site."""


@dataclass(frozen=True, slots=True)
class Preempted:
    """How many guests of one type ended at a site lately after they had run there, and how many of them gave way."""

    site: str
    lease_type: LeaseType
    ended: int
    preempted: int


@dataclass(frozen=True, slots=True)
class QueuedAlike:
    """Open leases that are alike in the first six columns: how many, their VMs, and the earliest of their times.

    ``next_start_ms``  the earliest start that one of them was promised; None where none was
    """

    consumer: str
    lease_type: str
    is_local: bool
    reason: str
    state: str
    site: str
    leases: int
    vms: int
    oldest_ms: int
    next_start_ms: int | None


@dataclass(frozen=True, slots=True)
class UseChange:
    """How what one account holds of one provider changes within one step of a time.

    ``provider``  a virtual domain, or a site that is in none
    ``vms``       by how many more VMs are held after the step than before
    ``vm_ms``     the sum of each change times the moment at which it was, ms since the begin of the time
    """

    provider: str
    path: str
    is_local: bool
    step: int
    vms: int
    vm_ms: int


@dataclass(frozen=True, slots=True)
class OutcomeGroup:
    """Leases submitted in one span of time that are alike in the first four columns, and what became of them.

    ``waited_ms``  the sum over those that started of the time from ready to the first start; ``longest_ms`` its maximum
    """

    bucket_ms: int
    consumer: str
    is_local: bool
    lease_type: str
    leases: int
    started: int
    waited_ms: int
    longest_ms: int
    preemptions: int
    migrations: int


KEYS_AT_ONCE = 1_000  # a statement takes some ten thousand values at most
_ALTERNATIVES = 256  # of conditions; SQLite nests them, at most a thousand deep
_HIGHEST = 2**63 - 1  # what a column can hold; users write larger numbers


def within(number: int) -> int:
    """Give the number nearest to this one that a column can hold."""
    return max(-_HIGHEST, min(number, _HIGHEST))


class Reading:
    """Reads what is committed; every call sees one state of the store. Raises StoreUnavailable."""

    def __init__(self, engine: Engine) -> None:
        self._reading = engine
        self._texts = statements_for(engine.dialect)

    # Leases

    def live_leases(self) -> list[LeaseRow]:
        """All leases that are not in a final state, by id."""
        return self._rows(LEASES, LEASES.select().where(LIVE).order_by(LEASES.c.id))

    def lease(self, lease_id: int) -> LeaseRow | None:
        """One lease; None where there is none of that number."""
        return self._row(LEASES, LEASES.select().where(LEASES.c.id == within(lease_id)))

    def lease_from(self, gateway: str, number: int) -> LeaseRow | None:
        """The lease that a gateway has sent here under its own number, open or over; None where there is none."""
        those = (LEASES.c.origin == gateway, LEASES.c.origin_id == within(number), LEASES.c.origin_id > 0)
        return self._row(LEASES, LEASES.select().where(*those).order_by(LEASES.c.id.desc()).limit(1))

    def leases(self, which: LeaseFilter, limit: int, before_id: int | None = None) -> list[LeaseRow]:
        """The newest leases first, ``limit`` of them; ``before_id`` continues after a page."""
        page = LEASES.select().where(_leases_that(which)).order_by(LEASES.c.id.desc()).limit(limit)
        if before_id is not None:
            page = page.where(LEASES.c.id < within(before_id))
        return self._rows(LEASES, page)

    def highest_lease_id(self) -> int:
        """The highest number that a lease ever had; 0 before the first."""
        return self._number(select(func.max(LEASES.c.id)))

    def count_by_state(self) -> dict[tuple[str, str], int]:
        """How many live leases there are by (site, state); "" is the site of those without."""
        site, state = LEASES.c.site, LEASES.c.state
        counted = select(site, state, func.count().label("number")).where(LIVE).group_by(site, state)
        return {(row.site, row.state): row.number for row in self._fetch(counted)}

    def held_vms(self) -> dict[str, int]:
        """How many VMs leases hold, by site."""
        site, vms = LEASES.c.site, LEASES.c.vms
        holding = LIVE & (LEASES.c.held_since_ms >= 0)
        summed = select(site, func.sum(vms).label("vms")).where(holding).group_by(site)
        return {row.site: int(row.vms) for row in self._fetch(summed)}

    def preempted_at(self, site: str) -> list[Preempted]:
        """How often guests were preempted at a site, by type, the least valuable first."""
        kind, first = LEASES.c.lease_type, self.highest_lease_id() - PREEMPTIONS_OF_LAST
        was_preempted = func.sum(case((LEASES.c.preemptions > 0, 1), else_=0)).label("preempted")
        of_guests = (LEASES.c.id > first, LEASES.c.site == site, LEASES.c.home.is_(None), LEASES.c.first_start_ms >= 0)
        counted = select(kind, func.count().label("ended"), was_preempted).where(*of_guests, CLOSED).group_by(kind)
        found = [
            Preempted(site, LEASE_TYPES[row.lease_type], row.ended, int(row.preempted)) for row in self._fetch(counted)
        ]
        return sorted(found, key=attrgetter("lease_type"))

    # The journal

    def journal(
        self,
        after_seq: int,
        limit: int,
        *,
        lease_id: int | None = None,
        which: JournalFilter | None = None,
    ) -> list[JournalRow]:
        """The lines later than ``after_seq``, ``limit`` of them, in order; of one lease where it is given."""
        lines = JOURNAL.select().where(JOURNAL.c.seq > within(after_seq)).order_by(JOURNAL.c.seq).limit(limit)
        if lease_id is not None:
            lines = lines.where(JOURNAL.c.lease_id == within(lease_id))
        if which is not None:
            lines = lines.where(_lines_that(which))
        return self._rows(JOURNAL, lines)

    def tail(self, lease_id: int, count: int) -> list[JournalRow]:
        """The last ``count`` lines about a lease, in order."""
        lines = JOURNAL.select().where(JOURNAL.c.lease_id == within(lease_id))
        newest = self._rows(JOURNAL, lines.order_by(JOURNAL.c.seq.desc()).limit(count))
        return newest[::-1]

    def line_at(self, lease_id: int, what: str, at_ms: int) -> JournalRow | None:
        """The first line about a lease that says this of this time; None where there is none."""
        lines = JOURNAL.select().where(JOURNAL.c.lease_id == within(lease_id), JOURNAL.c.at_ms == at_ms)
        return self._row(JOURNAL, lines.where(JOURNAL.c.what == what).order_by(JOURNAL.c.seq).limit(1))

    def lines_of_job(self, job_id: int, count: int) -> list[JournalRow]:
        """The last ``count`` lines about a job and its attempts, in order."""
        lines = JOURNAL.select().where(OF_A_JOB, JOURNAL.c.job_id == within(job_id))
        newest = self._rows(JOURNAL, lines.order_by(JOURNAL.c.seq.desc()).limit(count))
        return newest[::-1]

    def last_seq(self) -> int:
        """The ``seq`` of the journal's last line; 0 before the first."""
        return self._number(select(func.max(JOURNAL.c.seq)))

    def lines_before(self, before_seq: int | None, limit: int, which: JournalFilter) -> list[JournalRow]:
        """The latest lines before ``before_seq``, or of all, ``limit`` of them, latest first."""
        lines = JOURNAL.select().where(_lines_that(which)).order_by(JOURNAL.c.seq.desc()).limit(limit)
        if before_seq is not None:
            lines = lines.where(JOURNAL.c.seq < within(before_seq))
        return self._rows(JOURNAL, lines)

    def lines_between(
        self, after_seq: int, to_seq: int, limit: int, *, which: JournalFilter | None = None
    ) -> list[JournalRow]:
        """The latest ``limit`` lines later than ``after_seq``, up to ``to_seq``; in order."""
        seq = JOURNAL.c.seq
        lines = JOURNAL.select().where(seq > within(after_seq), seq <= within(to_seq))
        if which is not None:
            lines = lines.where(_lines_that(which))
        return self._rows(JOURNAL, lines.order_by(seq.desc()).limit(limit))[::-1]

    def seq_at(self, at_ms: int) -> int:
        """The ``seq`` of the last line before ``at_ms``, 0 for none; found by halving: both columns grow together."""
        seq, at = JOURNAL.c.seq, JOURNAL.c.at_ms
        low, high = self._number(select(func.min(seq))) - 1, self.last_seq()
        low = max(low, 0)
        while low < high:
            middle = (low + high + 1) // 2
            found = self._fetch(select(at).where(seq <= middle).order_by(seq.desc()).limit(1))
            if found and found[0][0] < at_ms:
                low = middle
            else:
                high = middle - 1
        return low

    # What the dashboard shows of many leases at once

    def queue(self, which: LeaseFilter) -> list[QueuedAlike]:
        """The leases that a filter asks for in groups, the largest first; see `QueuedAlike`."""
        c = LEASES.c
        # concatenated: the index on consumers would be followed to each row of the table, which is read faster in order
        consumer = c.consumer.concat("").label("whose")
        keys = (consumer, c.lease_type, (c.home.is_not(None)).label("is_local"), c.reason, c.state, c.site)
        planned = func.min(case((c.reserved_ms >= 0, c.reserved_ms)))
        counted = select(
            *keys,
            func.count().label("leases"),
            func.sum(c.vms).label("vms"),
            func.min(c.submit_ms).label("oldest_ms"),
            planned.label("next_start_ms"),
        )
        rows = self._fetch(counted.where(_leases_that(which)).group_by(*keys))
        groups = (
            QueuedAlike(
                row.whose,
                row.lease_type,
                bool(row.is_local),
                row.reason,
                row.state,
                row.site,
                row.leases,
                int(row.vms),
                row.oldest_ms,
                row.next_start_ms,
            )
            for row in rows
        )
        return sorted(groups, key=lambda group: (-group.leases, group.consumer, group.lease_type, group.reason))

    def queued_leases(self, which: LeaseFilter, limit: int, after_id: int = 0) -> list[LeaseRow]:
        """The oldest leases first that a filter asks for, ``limit`` of them after the one with this number."""
        page = LEASES.select().where(_leases_that(which), LEASES.c.id > within(after_id))
        return self._rows(LEASES, page.order_by(LEASES.c.id).limit(limit))

    def leases_by_id(self, lease_ids: Sequence[int]) -> list[LeaseRow]:
        """These leases, those that there are."""
        return self._all(LEASES, (LEASES.select().where(LEASES.c.id.in_(some)) for some in _some(lease_ids)))

    def types_of(self, lease_ids: Sequence[int]) -> dict[int, str]:
        """The types of these leases, by number; of those that there are."""
        number, kind = LEASES.c.id, LEASES.c.lease_type
        found = (self._fetch(select(number, kind).where(number.in_(some))) for some in _some(lease_ids))
        return {row.id: row.lease_type for rows in found for row in rows}

    def holding_between(self, which: UsageFilter, limit: int) -> list[UsageRow]:
        """The latest ``limit`` times in which leases held machines that a filter asks for; open ones are not in it."""
        wanted = USAGE.select().where(_used_by(which)).order_by(USAGE.c.end_ms.desc(), USAGE.c.lease_id)
        return self._rows(USAGE, wanted.limit(limit))

    def outcomes(self, which: LeaseFilter, after_id: int, bucket_ms: int) -> list[OutcomeGroup]:
        """What became of the leases with later numbers, in groups; see `OutcomeGroup`."""
        c = LEASES.c
        bucket = (c.submit_ms - c.submit_ms % bucket_ms).label("bucket_ms")
        keys = (bucket, c.consumer, (c.home.is_not(None)).label("is_local"), c.lease_type)
        started = c.first_start_ms >= 0
        earliest = case((c.ready_ms > c.submit_ms, c.ready_ms), else_=c.submit_ms)
        waited = case((started & (c.first_start_ms > earliest), c.first_start_ms - earliest), else_=0)
        counted = select(
            *keys,
            func.count().label("leases"),
            func.sum(case((started, 1), else_=0)).label("started"),
            func.sum(waited).label("waited_ms"),
            func.max(waited).label("longest_ms"),
            func.sum(c.preemptions).label("preemptions"),
            func.sum(c.migrations).label("migrations"),
        )
        rows = self._fetch(counted.where(_leases_that(which), c.id > within(after_id)).group_by(*keys).order_by(bucket))
        return [
            OutcomeGroup(
                row.bucket_ms,
                row.consumer,
                bool(row.is_local),
                row.lease_type,
                row.leases,
                int(row.started),
                int(row.waited_ms),
                int(row.longest_ms),
                int(row.preemptions),
                int(row.migrations),
            )
            for row in rows
        ]

    # What the engine starts from

    def open_orders(self) -> list[OrderRow]:
        """The orders that are pending or taken, in the order of their creation."""
        return self._rows(ORDERS, ORDERS.select().where(OPEN).order_by(ORDERS.c.number))

    def idempotency_keys(self, keys: Sequence[tuple[str, str, bool]]) -> dict[tuple[str, str, bool], IdempotencyRow]:
        """What came of requests before, by consumer, Idempotency-Key, and whether they were for a job."""
        wanted = [(consumer, word, int(of_job)) for consumer, word, of_job in keys]
        found = [row for some in _some(wanted, _ALTERNATIVES) for row in self._by_keys(IDEMPOTENCY_KEYS, some)]
        return {(row.consumer, row.key, row.of_job): row for row in found}

    def snapshots(self) -> dict[str, str]:
        """JSON texts by the names under which they were kept."""
        return {row.name: row.text for row in self._rows(SNAPSHOTS, SNAPSHOTS.select())}

    def sites(self) -> list[SiteRow]:
        """What is remembered of sites, by name."""
        return self._rows(SITES, SITES.select().order_by(SITES.c.name))

    def peers(self) -> list[PeerRow]:
        """What was agreed with peers, by name."""
        return self._rows(PEERS, PEERS.select().order_by(PEERS.c.name))

    # Co-allocations

    def open_coallocations(self) -> list[CoAllocationRow]:
        """All co-allocations that are not over, by number."""
        return self._rows(
            COALLOCATIONS, COALLOCATIONS.select().where(COALLOCATIONS.c.end_ms < 0).order_by(COALLOCATIONS.c.id)
        )

    def coallocation(self, coallocation_id: int) -> CoAllocationRow | None:
        """One co-allocation; None where there is none of that number."""
        return self._row(COALLOCATIONS, COALLOCATIONS.select().where(COALLOCATIONS.c.id == within(coallocation_id)))

    def coallocations(self, which: LeaseFilter, limit: int, before_id: int | None = None) -> list[CoAllocationRow]:
        """The newest co-allocations first of which a lease is asked for; pages as those of `leases`."""
        with_such = select(LEASES.c.coallocation_id).where(OF_A_COALLOCATION, _leases_that(which))
        page = COALLOCATIONS.select().where(COALLOCATIONS.c.id.in_(with_such))
        if before_id is not None:
            page = page.where(COALLOCATIONS.c.id < within(before_id))
        return self._rows(COALLOCATIONS, page.order_by(COALLOCATIONS.c.id.desc()).limit(limit))

    def components(self, coallocation_id: int) -> list[LeaseRow]:
        """All leases that a co-allocation ever had, by number."""
        of_it = LEASES.select().where(LEASES.c.coallocation_id == within(coallocation_id))
        return self._rows(LEASES, of_it.order_by(LEASES.c.id))

    def highest_coallocation_id(self) -> int:
        """The highest number that a co-allocation ever had; 0 before the first."""
        return self._number(select(func.max(COALLOCATIONS.c.id)))

    # Sharing

    def agreements(self) -> list[AgreementRow]:
        """All agreements that there are, or ever were, by name."""
        return self._rows(AGREEMENTS, AGREEMENTS.select().order_by(AGREEMENTS.c.name))

    def penalties(self) -> list[PenaltyRow]:
        """All punishments that were ever imposed, oldest first."""
        return self._rows(PENALTIES, PENALTIES.select().order_by(PENALTIES.c.id))

    def usage(self, which: UsageFilter) -> list[UsageRow]:
        """The times in which leases held machines that lie in what is asked for at least in part."""
        wanted = USAGE.select().where(_used_by(which))
        return self._rows(USAGE, wanted.order_by(USAGE.c.begin_ms, USAGE.c.lease_id))

    def use_changes(self, which: UsageFilter, step_ms: int) -> list[UseChange]:
        """How the use that a filter asks for begins and ends, summed in steps of the time that it asks for.

        Only use that has ended, and before the end of that time.
        """
        c, from_ms = USAGE.c, which.from_ms
        within_time = and_(_used_by(which), c.end_ms < which.to_ms)
        begin_ms = case((c.begin_ms > from_ms, c.begin_ms - from_ms), else_=0)
        sums = (
            self._changes(at_ms, sign, step_ms, within_time)
            for at_ms, sign in ((begin_ms, 1), (c.end_ms - from_ms, -1))
        )
        return [
            UseChange(row.provider, row.path, bool(row.is_local), row.step, int(row.vms), int(row.vm_ms))
            for row in self._fetch(union_all(*sums))
        ]

    @staticmethod
    def _changes(at_ms: ColumnElement[int], sign: int, step_ms: int, which: ColumnElement[bool]) -> Select[Any]:
        c = USAGE.c
        provider = case((c.domain != "", c.domain), else_=c.site).label("provider")
        keys = (provider, c.path, c.is_local, (at_ms // step_ms).label("step"))
        sums = func.sum(sign * c.vms).label("vms"), func.sum(sign * c.vms * at_ms).label("vm_ms")
        return select(*keys, *sums).where(which).group_by(*keys)

    # Messages

    def messages(self, endpoint: str, after_seq: int, limit: int) -> list[MessageRow]:
        """Messages that were not acknowledged yet, later than ``after_seq``, in order."""
        to_them = MESSAGES.select().where(MESSAGES.c.endpoint == endpoint, MESSAGES.c.seq > within(after_seq))
        return self._rows(MESSAGES, to_them.order_by(MESSAGES.c.seq).limit(limit))

    def message_numbers(self, endpoint: str) -> tuple[int, int]:
        """The numbers of the last message to an endpoint and of the last one from there; 0 for none."""
        row = self._row(ENDPOINTS, ENDPOINTS.select().where(ENDPOINTS.c.endpoint == endpoint))
        return (0, 0) if row is None else (row.last_sent_seq, row.last_received_seq)

    # Tokens

    def token_by_hash(self, hash_: str) -> TokenRow | None:
        """The token whose secret has this hash, revoked and expired ones included."""
        return self._row(TOKENS, TOKENS.select().where(TOKENS.c.hash == hash_))

    def token(self, token_id: str) -> TokenRow | None:
        """The token with this public id, revoked and expired ones included."""
        return self._row(TOKENS, TOKENS.select().where(TOKENS.c.id == token_id))

    def tokens(self) -> list[TokenRow]:
        """All tokens ever given out, oldest first."""
        return self._rows(TOKENS, TOKENS.select().order_by(TOKENS.c.created_ms, TOKENS.c.id))

    # Jobs

    def open_jobs(self) -> list[JobRow]:
        """All jobs that are not over, by number."""
        return self._rows(JOBS, JOBS.select().where(OPEN_JOBS).order_by(JOBS.c.id))

    def job(self, job_id: int) -> JobRow | None:
        """One job; None where there is none of that number."""
        return self._row(JOBS, JOBS.select().where(JOBS.c.id == within(job_id)))

    def jobs(self, which: JobFilter, limit: int, before_id: int | None = None) -> list[JobRow]:
        """The newest jobs first, ``limit`` of them; ``before_id`` continues after a page."""
        page = JOBS.select().where(_jobs_that(which)).order_by(JOBS.c.id.desc()).limit(limit)
        if before_id is not None:
            page = page.where(JOBS.c.id < within(before_id))
        return self._rows(JOBS, page)

    def attempts(self, job_ids: Sequence[int]) -> list[AttemptRow]:
        """All attempts of these jobs, by job and number."""
        in_order = ATTEMPTS.select().order_by(ATTEMPTS.c.job_id, ATTEMPTS.c.number)
        of_them = (in_order.where(ATTEMPTS.c.job_id.in_(map(within, some))) for some in _some(job_ids))
        return self._all(ATTEMPTS, of_them)

    def attempts_of_leases(self, lease_ids: Sequence[int]) -> list[AttemptRow]:
        """The attempts that these leases are, those that are attempts."""
        of_them = (ATTEMPTS.select().where(ATTEMPTS.c.lease_id.in_(some)) for some in _some(lease_ids))
        return self._all(ATTEMPTS, of_them)

    def _all(self, table: RecordTable[R], queries: Iterable[Select[Any]]) -> list[R]:
        return [row for query in queries for row in self._rows(table, query)]

    def output(self, job_id: int, number: int) -> OutputRow | None:
        """What the command of an attempt wrote; None where that is not known (yet)."""
        of_it = OUTPUTS.select().where(OUTPUTS.c.job_id == within(job_id), OUTPUTS.c.number == number)
        return self._row(OUTPUTS, of_it)

    def output_bytes(self) -> dict[str, int]:
        """How much is kept of what commands wrote, in bytes, by consumer."""
        sums = select(OUTPUTS.c.consumer, func.sum(OUTPUTS.c.size_bytes).label("bytes"))
        return {row.consumer: int(row.bytes) for row in self._fetch(sums.group_by(OUTPUTS.c.consumer))}

    def highest_job_id(self) -> int:
        """The highest number that a job ever had; 0 before the first."""
        return self._number(select(func.max(JOBS.c.id)))

    def nodes(self) -> list[NodeRow]:
        """All nodes that were ever seen, by name."""
        return self._rows(NODES, NODES.select().order_by(NODES.c.name))

    def nodes_after(self, name: str, limit: int, site: str | None = None) -> list[NodeRow]:
        """The next nodes by name, ``limit`` of them; at one site where it is given."""
        page = NODES.select().where(NODES.c.name > name).order_by(NODES.c.name).limit(limit)
        if site is not None:
            page = page.where(NODES.c.site == site)
        return self._rows(NODES, page)

    def images(self) -> list[ImageRow]:
        """All images, and those that are being built or could not be, by name and site."""
        return self._rows(IMAGES, IMAGES.select().order_by(IMAGES.c.name, IMAGES.c.site))

    def buildable(self) -> list[BuildableRow]:
        """All parts of what can be built at sites with managers of their own, in their order."""
        columns = BUILDABLE.c
        return self._rows(BUILDABLE, BUILDABLE.select().order_by(columns.site, columns.listing, columns.part))

    def ping(self) -> None:
        """Return when the store answers; StoreUnavailable where it does not."""
        self._fetch(select(text("1")))

    # How

    @contextmanager
    def _result(self, query: Select[Any] | CompoundSelect[Any]) -> Iterator[CursorResult[Any]]:
        with translated(self), self._reading.connect() as connection:
            yield connection.execute(query)

    def _rows(self, table: RecordTable[R], query: Select[Any]) -> list[R]:
        """Give the rows that a query of `RecordTable.select` finds, read as the driver gives them: in bulk."""
        with self._result(query) as result:
            rows = result.cursor.fetchall()
        return [*map(table.record, rows)]

    def _by_keys(self, table: RecordTable[R], keys: Sequence[tuple[object, ...]]) -> list[R]:
        """Give the rows with these keys, at most `_ALTERNATIVES`: each step of the engine asks for some.

        Statements are compiled once, for a few sizes: the last key is repeated.
        """
        count = 1 << (len(keys) - 1).bit_length()
        keys = [*keys, *repeat(keys[-1], count - len(keys))]
        statement = self._texts.select_by_keys(table, count)
        with translated(self), self._reading.connect() as connection:
            result = connection.exec_driver_sql(statement, tuple(chain.from_iterable(keys)))
            return [*map(table.record, result.cursor.fetchall())]

    def _row(self, table: RecordTable[R], query: Select[Any]) -> R | None:
        rows = self._rows(table, query)
        return rows[0] if rows else None

    def _fetch(self, query: Select[Any] | CompoundSelect[Any]) -> Sequence[Row[Any]]:
        with self._result(query) as result:
            return result.fetchall()

    def _number(self, query: Select[Any]) -> int:
        return self._fetch(query)[0][0] or 0


def _some(keys: Sequence[T], most: int = KEYS_AT_ONCE) -> Iterator[Sequence[T]]:
    """Give as many at a time as a statement takes."""
    return (keys[first : first + most] for first in range(0, len(keys), most))


# --- filters as conditions that a database understands ----------------------------------------------


def _leases_that(which: LeaseFilter) -> ColumnElement[bool]:
    """The leases that a filter asks for."""
    return and_(true(), *_about_leases(which))


def _lines_that(which: JournalFilter) -> ColumnElement[bool]:
    """The lines of the journal that a filter asks for."""
    at_site = true() if which.site is None else JOURNAL.c.site == which.site
    of_leases = JOURNAL.c.lease_id.in_(which.leases) if which.leases else true()
    of_job = true() if which.job_id is None else JOURNAL.c.job_id == which.job_id
    of_kind = JOURNAL.c.what.in_(which.whats) if which.whats else true()
    for_reason = true() if which.reason is None else JOURNAL.c.reason == which.reason
    of_consumer = true() if which.consumer is None else JOURNAL.c.consumer == which.consumer
    visible = _visible(which.visible, JOURNAL.table, ("site",))
    return and_(visible, at_site, of_leases, of_job, of_kind, for_reason, of_consumer)


def _jobs_that(which: JobFilter) -> ColumnElement[bool]:
    """The jobs that a filter asks for."""
    return and_(true(), *_about_jobs(which))


def _about_jobs(which: JobFilter) -> Iterator[ColumnElement[bool] | TextClause]:
    yield _visible_job(which.visible)
    if which.states:
        yield JOBS.c.state.in_(which.states)
    if which.site is not None:
        yield _tried_at(which.site)
    if which.consumer is not None:
        yield JOBS.c.consumer == which.consumer
    if which.since_ms is not None:
        yield JOBS.c.submitted_ms >= which.since_ms
    if which.open is not None:
        yield OPEN_JOBS if which.open else CLOSED_JOBS
    if which.array is not None:
        # its jobs are numbered one after the other
        yield and_(JOBS.c.id >= within(which.array), JOBS.c.id < within(which.array + MOST_IN_ARRAY))
        yield JOBS.c.array_id == within(which.array)


def _visible_job(visible: Visible) -> ColumnElement[bool]:
    if visible.everything:
        return true()
    own = JOBS.c.consumer == visible.consumer if visible.consumer else false()
    groups = JOBS.c.group.in_([group for group in visible.groups if group])
    return or_(own, groups, _is_at(visible.sites))


def _tried_at(site: str) -> ColumnElement[bool]:
    return JOBS.c.id.in_(select(ATTEMPTS.c.job_id).where(ATTEMPTS.c.site == site))


def _is_at(sites: tuple[str, ...]) -> ColumnElement[bool]:
    """Jobs that are tried at a site now, or have succeeded there; one that only failed there is gone."""
    is_there = ATTEMPTS.c.site.in_([site for site in sites if site]), ATTEMPTS.c.state.in_(HAS_JOB)
    return JOBS.c.id.in_(select(ATTEMPTS.c.job_id).where(*is_there))


def _about_leases(which: LeaseFilter) -> Iterator[ColumnElement[bool] | TextClause]:
    yield _visible(which.visible, LEASES.table, ("site", "home"))
    if which.states:
        yield LEASES.c.state.in_(which.states)
    if which.site is not None:
        yield or_(LEASES.c.site == which.site, LEASES.c.home == which.site)
    if which.consumer is not None:
        yield LEASES.c.consumer == which.consumer
    if which.since_ms is not None:
        yield LEASES.c.submit_ms >= which.since_ms
    if which.open is not None:
        yield LIVE if which.open else CLOSED
    if which.queued:
        yield LIVE
        yield LEASES.c.held_since_ms < 0
    if which.lease_type is not None:
        yield LEASES.c.lease_type == which.lease_type
    if which.local is not None:
        yield LEASES.c.home.is_not(None) if which.local else LEASES.c.home.is_(None)
    if which.reason is not None:
        yield LEASES.c.reason == which.reason


def _visible(visible: Visible, table: Table, places: tuple[str, ...]) -> ColumnElement[bool]:
    if visible.everything:
        return true()
    whose = [("consumer", (visible.consumer,)), ("group", visible.groups)]
    whose += [(place, visible.sites) for place in places]
    named = ((column, [name for name in names if name]) for column, names in whose)
    return or_(false(), *(table.c[column].in_(names) for column, names in named if names))


def _used_by(which: UsageFilter) -> ColumnElement[bool]:
    """The use that a filter asks for: whatever lies in its time at least in part."""
    return and_(USAGE.c.end_ms > which.from_ms, USAGE.c.begin_ms < which.to_ms, *_about_use(which))


def _about_use(which: UsageFilter) -> Iterator[ColumnElement[bool]]:
    if not which.visible.everything:
        yield _visible_use(which.visible)
    if which.consumer is not None:
        yield _beneath(which.consumer)
    if which.domain is not None:
        yield or_(USAGE.c.domain == which.domain, USAGE.c.site == which.domain)


def _visible_use(visible: Visible) -> ColumnElement[bool]:
    """A group's is what was used on account of whatever is beneath it."""
    groups = (_beneath(group) for group in visible.groups if group)
    own = USAGE.c.consumer == visible.consumer if visible.consumer else false()
    return or_(own, USAGE.c.site.in_(visible.sites), *groups)


def _beneath(path: str) -> ColumnElement[bool]:
    prefix = f"{path}/"  # no LIKE, which in SQLite takes atlas for ATLAS
    return or_(USAGE.c.path == path, func.substr(USAGE.c.path, 1, len(prefix)) == prefix)
