"""Which use is asked for, said by the database and by plain Python."""

from collections.abc import Iterator
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from leasehold.model.errors import InvariantBroken
from leasehold.service.accounting import is_about
from leasehold.service.store.filters import EVERYTHING, UsageFilter, Visible
from leasehold.service.store.rows import LEASES, USAGE, UsageRow
from leasehold.service.store.store import Store
from leasehold.testing.rows import BEGIN_MS, lease_row, usage_row

# Names that a careless comparison would take for each other.
GROUPS = ("", "atlas", "ATLAS", "atlas/prod", "atlas%", "atlasx", "a_las")
CONSUMERS = ("physics", "climate")
SITES = ("a", "b", "c")
DOMAINS = ("", "ours", "b")
HOW_MANY = 150


def rows(random: Random) -> Iterator[UsageRow]:
    for lease_id in range(1, HOW_MANY + 1):
        group, consumer = random.choice(GROUPS), random.choice(CONSUMERS)
        begin_ms = BEGIN_MS + random.randrange(100)
        yield usage_row(
            lease_id,
            begin_ms,
            begin_ms + random.randrange(1, 50),
            consumer=consumer,
            group=group,
            path=f"{group}/{consumer}" if group else consumer,
            site=random.choice(SITES),
            domain=random.choice(DOMAINS),
        )


ROWS = sorted(rows(Random(1)), key=lambda row: (row.begin_ms, row.lease_id))


@pytest.fixture
def full_store(store: Store) -> Store:
    with store.writing() as batch:
        batch.upsert(LEASES, [lease_row(row.lease_id) for row in ROWS])
        batch.insert(USAGE, ROWS)
    return store


names = st.lists(st.sampled_from((*GROUPS, *SITES)), max_size=2).map(tuple)
visible = st.just(EVERYTHING) | st.builds(
    Visible, consumer=st.sampled_from((*CONSUMERS, "")), groups=names, sites=names
)
moments = st.integers(BEGIN_MS - 1, BEGIN_MS + 151)
filters = st.builds(
    UsageFilter,
    visible,
    from_ms=moments,
    to_ms=moments,
    consumer=st.none() | st.sampled_from([*GROUPS[1:], *CONSUMERS, "atlas/physics"]),
    domain=st.none() | st.sampled_from(("ours", *SITES)),
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(which=filters)
def test_the_store_finds_what_is_asked_for_in_order(full_store: Store, which: UsageFilter) -> None:
    assert full_store.usage(which) == [
        row
        for row in ROWS
        if row.end_ms > which.from_ms
        and row.begin_ms < which.to_ms
        and is_about(which, row.consumer, row.path, row.site, row.domain)
    ]


def test_no_time_counts_twice(full_store: Store) -> None:
    with pytest.raises(InvariantBroken), full_store.writing() as batch:
        batch.insert(USAGE, [ROWS[0]])
