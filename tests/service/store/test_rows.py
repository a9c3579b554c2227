"""Whatever is written is read again as it was, and what is written again takes its place."""

from typing import Any, get_type_hints

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.searching import examples

from leasehold.service.store import rows, schema
from leasehold.service.store.filters import EVERYTHING, LeaseFilter, UsageFilter
from leasehold.service.store.store import Store
from leasehold.testing.rows import BEGIN_MS, answer_row, lease_row, letter_row, token_row

# Whatever a row may hold: PostgreSQL has no NUL in its texts, and UTF-8 has no surrogates.
TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=30)
WHOLES = st.integers(-(2**63), 2**63 - 1)
VALUES = {str: TEXTS, int: WHOLES, int | None: st.none() | WHOLES, str | None: st.none() | TEXTS}

# Examples share a store, as days do; each writes what it reads.
on_one_store = settings(
    max_examples=examples(60), suppress_health_check=[HealthCheck.function_scoped_fixture]
)


def any_row(kind: Any, **fixed: Any) -> st.SearchStrategy[Any]:
    """A row of a kind with any values, but for those given."""
    hints = get_type_hints(kind).items()
    free = {name: VALUES[hint] for name, hint in hints if name not in fixed}
    return st.fixed_dictionaries(free | {name: st.just(value) for name, value in fixed.items()})


@pytest.mark.parametrize(
    ("table", "kind"),
    [
        (schema.leases, rows.LeaseRow),
        (schema.journal, rows.JournalRow),
        (schema.orders, rows.OrderRow),
        (schema.answers, rows.AnswerRow),
        (schema.sites, rows.SiteRow),
        (schema.peers, rows.PeerRow),
        (schema.agreements, rows.AgreementRow),
        (schema.penalties, rows.PenaltyRow),
        (schema.usage, rows.UsageRow),
        (schema.letters, rows.LetterRow),
        (schema.tokens, rows.TokenRow),
    ],
    ids=str,
)
def test_a_table_has_the_columns_of_its_row(table: Any, kind: Any) -> None:
    assert {column.name for column in table.columns} - {"number"} == set(get_type_hints(kind))


@on_one_store
@given(row=any_row(rows.LeaseRow), later=any_row(rows.LeaseRow))
def test_a_lease_is_what_was_saved_last(store: Store, row: rows.LeaseRow, later: rows.LeaseRow) -> None:
    later["id"] = row["id"]
    for saved in (row, later):
        with store.writing() as batch:
            batch.save_leases([saved])
        assert store.lease(row["id"]) == saved


@on_one_store
@given(saved=any_row(rows.SiteRow), later=any_row(rows.SiteRow))
def test_a_site_is_what_was_saved_last(store: Store, saved: rows.SiteRow, later: rows.SiteRow) -> None:
    later["name"] = saved["name"]
    with store.writing() as batch:
        batch.save_site(saved)
        batch.save_site(later)
    assert [row for row in store.sites() if row["name"] == saved["name"]] == [later]


@on_one_store
@given(saved=any_row(rows.PeerRow), later=any_row(rows.PeerRow))
def test_a_peer_is_what_was_saved_last_until_it_is_dropped(
    store: Store, saved: rows.PeerRow, later: rows.PeerRow
) -> None:
    later["name"] = saved["name"]
    with store.writing() as batch:
        batch.save_peer(saved)
        batch.save_peer(later)
    assert [row for row in store.peers() if row["name"] == saved["name"]] == [later]
    with store.writing() as batch:
        batch.drop_peer(saved["name"])
    assert saved["name"] not in {row["name"] for row in store.peers()}


@on_one_store
@given(saved=any_row(rows.AgreementRow), later=any_row(rows.AgreementRow))
def test_an_agreement_is_what_was_saved_last(
    store: Store, saved: rows.AgreementRow, later: rows.AgreementRow
) -> None:
    later["name"] = saved["name"]
    with store.writing() as batch:
        batch.save_agreements([saved])
        batch.save_agreements([later])
    assert [row for row in store.agreements() if row["name"] == saved["name"]] == [later]


@on_one_store
@given(saved=any_row(rows.PenaltyRow, lease_id=1), later=any_row(rows.PenaltyRow, lease_id=1))
def test_a_penalty_is_what_was_saved_last(
    store: Store, saved: rows.PenaltyRow, later: rows.PenaltyRow
) -> None:
    later["id"] = saved["id"]
    with store.writing() as batch:
        batch.save_leases([lease_row(1)])
        batch.save_penalties([saved])
        batch.save_penalties([later])
    assert [row for row in store.penalties() if row["id"] == saved["id"]] == [later]


@on_one_store
@given(name=TEXTS, text=TEXTS, later=TEXTS)
def test_a_memory_is_what_was_set_last(store: Store, name: str, text: str, later: str) -> None:
    with store.writing() as batch:
        batch.set_memory(name, text)
        batch.set_memory(name, later)
    assert store.memories()[name] == later


@on_one_store
@given(line=any_row(rows.JournalRow, lease_id=1))
def test_a_line_of_the_journal_is_what_was_added(store: Store, line: rows.JournalRow) -> None:
    line["seq"] = store.last_seq() + 1
    with store.writing() as batch:
        batch.save_leases([lease_row(1)])
        batch.add_journal([line])
    assert store.tail(1, 1) == [line]


@on_one_store
@given(order=any_row(rows.OrderRow, lease_id=1, status="pending"))
def test_an_order_is_what_was_added(store: Store, order: rows.OrderRow) -> None:
    order["id"] = f"{len(store.open_orders())} {order['id']}"
    with store.writing() as batch:
        batch.save_leases([lease_row(1)])
        batch.add_orders([order])
    assert store.open_orders()[-1] == order


def test_the_other_rows_are_what_was_added(store: Store) -> None:
    with store.writing() as batch:
        batch.save_leases([lease_row(1)])
        batch.add_answers([answer_row("key", 1)])
        batch.add_letters([letter_row(1)])
    store.add_token(token_row("t"))
    assert store.answers([("physics", "key")]) == {("physics", "key"): answer_row("key", 1)}
    assert store.letters("a", 0, 10) == [letter_row(1)]
    assert store.tokens() == [token_row("t")]


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
        store.answers([("physics", "key")]),
        store.memories(),
        store.sites(),
        store.agreements(),
        store.penalties(),
        store.usage(UsageFilter(EVERYTHING, 0, BEGIN_MS)),
        store.letters("a", 0, 10),
        store.token_by_hash("none"),
        store.tokens(),
    ]
    assert [thing for thing in read if thing] == []
    assert store.mail_state("a") == (0, 0)
    assert store.is_empty()
    store.ping()
