"""Whatever is written is read again as it was, and what is written again takes its place."""

from contextlib import suppress
from dataclasses import asdict, fields, is_dataclass
from enum import Enum
from types import UnionType
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.searching import examples

from leasehold.jobs.job import Backup, JobRequest
from leasehold.matching.needs import Amounts, InputFile, Job, Needs
from leasehold.matching.software import software
from leasehold.model.request import LeaseType
from leasehold.service.store import rows
from leasehold.service.store.filters import EVERYTHING, LeaseFilter, UsageFilter
from leasehold.service.store.mapping import METADATA, RecordTable
from leasehold.service.store.store import Store
from leasehold.testing.rows import BEGIN_MS, message_row

# Whatever a row may hold: PostgreSQL has no NUL in its texts, and UTF-8 has no surrogates.
TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=30)
WHOLES = st.integers(-(2**63), 2**63 - 1)
PLAIN: dict[Any, st.SearchStrategy[Any]] = {
    str: TEXTS,
    int: WHOLES,
    bool: st.booleans(),
    float: st.floats(allow_nan=False),
}
COUNTS = st.integers(1, 2**53)
NEEDS = st.builds(
    Needs,
    amounts=st.builds(Amounts, COUNTS, COUNTS, COUNTS),
    execution_ms=COUNTS,
    nodes=COUNTS,
    cpu_mhz=COUNTS,
    software=st.lists(st.sampled_from(["gcc", "gcc >= 12, < 14", "python3 ~= 3.11"]).map(software)).map(tuple),
    inputs=st.lists(st.builds(InputFile, TEXTS, COUNTS, TEXTS, TEXTS), max_size=2).map(tuple),
)
JOBS = st.builds(
    Job,
    job_id=WHOLES,
    submitted_ms=st.integers(0, BEGIN_MS),
    needs=NEEDS,
    deadline_ms=st.none() | st.integers(BEGIN_MS + 1, 2**53),
)
LIMITED: dict[Any, st.SearchStrategy[Any]] = {
    Amounts: st.builds(Amounts, COUNTS, COUNTS, COUNTS),
    JobRequest: st.builds(
        JobRequest,
        job=JOBS,
        command=st.lists(TEXTS, max_size=3).map(tuple),
        consumer=TEXTS,
        group=TEXTS,
        name=TEXTS,
        lease_type=st.sampled_from(LeaseType),
        backup=st.sampled_from(Backup),
        restarts=COUNTS,
        is_foreign=st.booleans(),
    ),
}
"""What not every value makes sense for."""
TABLES = {table.table.name: table for table in vars(rows).values() if isinstance(table, RecordTable)}


def any_of(hint: Any) -> st.SearchStrategy[Any]:  # noqa: PLR0911 - one for each kind
    """Any value of an annotation."""
    if get_origin(hint) is Annotated:
        return any_of(get_args(hint)[0])
    if get_origin(hint) is UnionType:
        return st.one_of(*map(any_of, get_args(hint)))
    if get_origin(hint) in {tuple, frozenset, list}:
        inner = get_args(hint)
        if get_origin(hint) is not tuple or inner[-1] is Ellipsis:
            return st.lists(any_of(inner[0]), max_size=3).map(get_origin(hint))
        return st.tuples(*map(any_of, inner))
    if hint is type(None):
        return st.none()
    if isinstance(hint, type) and issubclass(hint, Enum):
        return st.sampled_from(hint)
    if hint in LIMITED:
        return LIMITED[hint]
    if isinstance(hint, type) and issubclass(hint, tuple):
        return st.builds(hint, **{name: any_of(kind) for name, kind in get_type_hints(hint).items()})
    if is_dataclass(hint):
        hints = get_type_hints(hint, include_extras=True)
        parts = {each.name: any_of(hints[each.name]) for each in fields(hint)}
        return st.builds(hint, **parts)  # type: ignore[arg-type]  # a class, which is_dataclass does not say
    return PLAIN[hint]


class Undone(Exception):
    """Ends a transaction without a commit: examples leave nothing behind, and rows may refer to nothing."""


def with_key_of(table: RecordTable[Any], row: Any, other: Any) -> Any:
    """The row, under the key of another."""
    key = {column.name for column in table.table.primary_key.columns}
    both = zip(table.names, table.values(row), table.values(other), strict=True)
    return table.record([theirs if name in key else ours for name, ours, theirs in both])


def test_every_table_is_declared_by_its_rows() -> None:
    assert set(TABLES) == set(METADATA.tables)


@pytest.mark.parametrize("name", sorted(TABLES))
@settings(max_examples=examples(20), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_row_is_what_was_written_last(store: Store, name: str, data: st.DataObject) -> None:
    table = TABLES[name]
    first, second = (data.draw(any_of(table.kind)) for _ in range(2))
    with suppress(Undone), store.writing() as batch:

        def found() -> list[tuple[Any, ...]]:
            rows = batch._connection.execute(table.select()).all()
            return [table.values(table.record(row)) for row in rows]

        batch.insert(table, [first])
        assert found() == [table.values(first)]
        if table.table.primary_key.columns.keys() != ["number"]:  # orders are never replaced
            later = with_key_of(table, second, first)
            batch.upsert(table, [later])
            assert found() == [table.values(later)]
        raise Undone


@given(data=st.data(), name=st.sampled_from(sorted(TABLES)))
def test_no_field_of_a_row_is_lost(name: str, data: st.DataObject) -> None:
    """As objects, and not only as what they are written as."""
    row = data.draw(any_of(TABLES[name].kind))
    if isinstance(row, rows.LeaseRow):  # what is in two parts is the same in both, and one field is not kept
        row.lease.id, row.lease.vms, row.metadata.reported = row.lease.request.id, row.lease.request.vms, ""
    if isinstance(row, rows.JobRow):
        row.record.attempts = []  # are rows of their own
    assert asdict(TABLES[name].record(TABLES[name].values(row))) == asdict(row)


def test_messages_are_numbered_by_endpoint(store: Store) -> None:
    with store.writing() as batch:
        batch.insert(rows.MESSAGES, [message_row(1)])
        batch.upsert(rows.ENDPOINTS, [rows.EndpointRow("a", 1, 0)])
    assert store.messages("a", 0, 10) == [message_row(1)]
    assert store.message_numbers("a") == (1, 0)


def test_nothing_is_read_from_a_new_store(store: Store) -> None:
    read: list[object] = [
        store.live_leases(),
        store.leases(LeaseFilter(EVERYTHING), 10),
        store.lease(1),
        store.highest_lease_id(),
        store.count_by_state(),
        store.journal(0, 10),
        store.tail(1, 10),
        store.last_seq(),
        store.open_orders(),
        store.idempotency_keys([("physics", "key", False)]),
        store.snapshots(),
        store.sites(),
        store.agreements(),
        store.penalties(),
        store.usage(UsageFilter(EVERYTHING, 0, BEGIN_MS)),
        store.messages("a", 0, 10),
        store.token_by_hash("none"),
        store.tokens(),
    ]
    assert [thing for thing in read if thing] == []
    assert store.message_numbers("a") == (0, 0)
    assert store.is_empty()
    store.ping()
