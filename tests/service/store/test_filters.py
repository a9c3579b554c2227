"""Filters, visibility and pages, against the same said in plain Python."""

from collections.abc import Iterator
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from leasehold.model.lease import LeaseState
from leasehold.service.store.filters import EVERYTHING, JournalFilter, LeaseFilter, Visible
from leasehold.service.store.rows import JOURNAL, LEASES, JournalRow, LeaseRow
from leasehold.service.store.store import Store
from leasehold.testing.rows import BEGIN_MS, journal_row, lease_row

CONSUMERS = ("physics", "climate", "astro")
GROUPS = ("", "simulation", "analysis")
SITES = ("", "a", "b", "c")
HOW_MANY = 120


def leases(random: Random) -> Iterator[LeaseRow]:
    for number in range(1, HOW_MANY + 1):
        yield lease_row(
            number,
            consumer=random.choice(CONSUMERS),
            group=random.choice(GROUPS),
            site=random.choice(SITES),
            home=random.choice((None, *SITES[1:])),
            state=random.choice(list(LeaseState)),
        )


def lines(random: Random, about: list[LeaseRow]) -> Iterator[JournalRow]:
    for seq in range(1, HOW_MANY + 1):
        lease = random.choice((None, *about))
        if lease is None:
            yield journal_row(seq, consumer="", site=random.choice(SITES))
        else:
            who = {"consumer": lease.lease.request.consumer, "group": lease.lease.request.group}
            yield journal_row(seq, lease.lease.id, site=random.choice(SITES), **who)


SOME_LEASES = list(leases(Random(1)))
LINES = list(lines(Random(2), SOME_LEASES))


@pytest.fixture
def full_store(store: Store) -> Store:
    with store.writing() as batch:
        batch.upsert(LEASES, SOME_LEASES)
        batch.insert(JOURNAL, LINES)
    return store


def some(names: tuple[str, ...]) -> st.SearchStrategy[tuple[str, ...]]:
    return st.lists(st.sampled_from((*names, "unheard-of")), max_size=3).map(tuple)


visible = st.just(EVERYTHING) | st.builds(
    Visible, consumer=st.sampled_from((*CONSUMERS, "")), groups=some(GROUPS), sites=some(SITES)
)
lease_filters = st.builds(
    LeaseFilter,
    visible,
    states=some(tuple(LeaseState)),
    site=st.none() | st.sampled_from(SITES),
    consumer=st.none() | st.sampled_from(CONSUMERS),
    since_ms=st.none() | st.integers(BEGIN_MS, BEGIN_MS + HOW_MANY + 1),
    open=st.none() | st.booleans(),
)
reading_only = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])


def sees(visible: Visible, consumer: str, group: str, *places: str | None) -> bool:
    own = consumer != "" and consumer == visible.consumer
    of_group = group != "" and group in visible.groups
    at_site = any(place and place in visible.sites for place in places)
    return visible.everything or own or of_group or at_site


def asked_for(which: LeaseFilter, row: LeaseRow) -> bool:
    return (
        sees(
            which.visible,
            row.lease.request.consumer,
            row.lease.request.group,
            row.lease.site,
            row.lease.request.site,
        )
        and (not which.states or row.lease.state in which.states)
        and (which.site is None or which.site in {row.lease.site, row.lease.request.site})
        and (which.consumer is None or row.lease.request.consumer == which.consumer)
        and (which.since_ms is None or row.lease.request.submit_ms >= which.since_ms)
        and (which.open is None or LeaseState(row.lease.state).is_final != which.open)
    )


def pages(store: Store, which: LeaseFilter, limit: int) -> Iterator[list[LeaseRow]]:
    page = store.leases(which, limit)
    while page:
        yield page
        page = store.leases(which, limit, before_id=page[-1].lease.id)


@reading_only
@given(which=lease_filters, limit=st.integers(1, HOW_MANY))
def test_pages_hold_what_is_asked_for_newest_first(full_store: Store, which: LeaseFilter, limit: int) -> None:
    found = list(pages(full_store, which, limit))
    assert [row for page in found for row in page] == [row for row in SOME_LEASES[::-1] if asked_for(which, row)]
    assert all(len(page) == limit for page in found[:-1])


@reading_only
@given(
    visible=visible,
    site=st.none() | st.sampled_from(SITES),
    about=st.lists(st.integers(1, HOW_MANY), max_size=20).map(tuple),
    after=st.integers(0, HOW_MANY),
)
def test_lines_that_somebody_may_see(
    full_store: Store, visible: Visible, site: str | None, about: tuple[int, ...], after: int
) -> None:
    found = full_store.journal(after, HOW_MANY, which=JournalFilter(visible, site, about))
    assert found == [
        line
        for line in LINES[after:]
        if sees(visible, line.consumer, line.group, line.site)
        and site in {None, line.site}
        and (not about or line.lease_id in about)
    ]


def test_whoever_is_nobody_sees_nothing(full_store: Store) -> None:
    assert full_store.leases(LeaseFilter(Visible()), HOW_MANY) == []
    assert full_store.journal(0, HOW_MANY, which=JournalFilter(Visible())) == []


def test_a_page_may_begin_at_a_number_that_no_column_holds(full_store: Store) -> None:
    assert full_store.leases(LeaseFilter(EVERYTHING), HOW_MANY, before_id=10**30) == SOME_LEASES[::-1]
