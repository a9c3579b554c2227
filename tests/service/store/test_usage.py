"""Which use is asked for, said by the database and by plain Python."""

from collections.abc import Iterator
from dataclasses import replace
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from leasehold.model.agreement import CPUS
from leasehold.model.errors import InvariantBroken
from leasehold.model.use import Holding
from leasehold.service.accounting import account, is_about
from leasehold.service.api.routers.usage import used_in_steps
from leasehold.service.engine.usage import GoingOn
from leasehold.service.store.filters import EVERYTHING, UsageFilter, Visible
from leasehold.service.store.rows import LEASES, USAGE, UsageRow
from leasehold.service.store.store import Store
from leasehold.testing.rows import BEGIN_MS, lease_row, usage_row

# Names that a careless comparison would take for each other.
GROUPS = ("", "atlas", "ATLAS", "atlas/prod", "atlas%", "atlasx", "a_las")
CONSUMERS = ("physics", "climate")
SITES = ("a", "b", "c")
DOMAIN_OF = {"a": "ours", "b": "", "c": "b"}
"""The site `b` is in no domain, and a domain has its name."""
HOW_MANY = 150


def rows(random: Random) -> Iterator[UsageRow]:
    for lease_id in range(1, HOW_MANY + 1):
        group, consumer = random.choice(GROUPS), random.choice(CONSUMERS)
        begin_ms = BEGIN_MS + random.randrange(100)
        site = random.choice(SITES)
        yield usage_row(
            lease_id,
            begin_ms,
            begin_ms + random.randrange(1, 50),
            consumer=consumer,
            group=group,
            path=f"{group}/{consumer}" if group else consumer,
            site=site,
            domain=DOMAIN_OF[site],
            is_local=random.random() < 0.3,
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


OPEN = [
    replace(row, lease_id=HOW_MANY + place, begin_ms=BEGIN_MS + 7 * place, end_ms=BEGIN_MS + 10_000)
    for place, row in enumerate(ROWS[:20], 1)
]
"""Held still: no row of the store."""


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(which=filters, step_ms=st.integers(1, 60), now_ms=moments)
def test_sums_of_steps_are_those_of_all_rows(full_store: Store, which: UsageFilter, step_ms: int, now_ms: int) -> None:
    """What the store has of later than ``now_ms`` went on then; each counts once."""
    held = [row for row in (*ROWS, *OPEN) if row.begin_ms < now_ms <= row.end_ms]
    used, steps = used_in_steps(full_store, going_on(held, now_ms), which, step_ms)
    counted = [row for row in (*ROWS, *OPEN) if is_about(which, row.consumer, row.path, row.site, row.domain)]
    expected = {
        (use.domain, use.consumer, use.is_local, steps.index(use.window)): use.vm_ms for use in account(counted, steps)
    }
    found = {(*key, place): vm_ms for key, by_step in used.items() for place, vm_ms in enumerate(by_step) if vm_ms}
    assert found == (expected if steps else {})
    assert not steps or (steps[0][0], steps[-1][1]) == (which.from_ms, min(which.to_ms, now_ms))


def going_on(held: list[UsageRow], now_ms: int) -> GoingOn:
    """Say what leases hold now, as the engine does."""
    leases = {row.lease_id: lease_row(row.lease_id, consumer=row.consumer).lease for row in held}
    holdings = {row.lease_id: Holding(row.path, row.site, {CPUS: row.vms}, bool(row.is_local)) for row in held}
    return GoingOn(now_ms, leases, holdings, {row.lease_id: row.begin_ms for row in held}, DOMAIN_OF)
