"""What the engine reads when it starts, and people read at any time."""

from typing import Any

from leasehold.model.lease import LeaseState
from leasehold.service.drivers.protocol import Verb
from leasehold.service.store.rows import IDEMPOTENCY_KEYS, JOURNAL, LEASES, ORDERS, JournalRow
from leasehold.service.store.store import Store
from leasehold.testing.rows import journal_row, key_row, lease_row, order_row

MORE_THAN_A_STATEMENT_TAKES = 2_345
TOO_LARGE_FOR_ANY_COLUMN = 10**30


def written(store: Store, *leases: int, journal: list[JournalRow] | None = None) -> None:
    with store.writing() as batch:
        batch.upsert(LEASES, [lease_row(number) for number in leases])
        batch.insert(JOURNAL, journal or [])


class TestLeases:
    def test_live_leases_are_those_that_have_not_ended(self, store: Store) -> None:
        rows = [lease_row(number, state=state.value) for number, state in enumerate(LeaseState)]
        with store.writing() as batch:
            batch.upsert(LEASES, rows[::-1])
        assert store.live_leases() == [row for row in rows if not LeaseState(row.lease.state).is_final]

    def test_live_leases_are_counted_by_site_and_state(self, store: Store) -> None:
        with store.writing() as batch:
            batch.upsert(LEASES, [lease_row(number) for number in (1, 2)])
            batch.upsert(LEASES, [lease_row(3, state="running"), lease_row(4, site="", state="held")])
            batch.upsert(LEASES, [lease_row(5, state="completed")])
        assert store.count_by_state() == {("a", "waiting"): 2, ("a", "running"): 1, ("", "held"): 1}

    def test_the_highest_number_is_found_among_ended_leases_too(self, store: Store) -> None:
        with store.writing() as batch:
            batch.upsert(LEASES, [lease_row(7, state="completed"), lease_row(3)])
        assert store.highest_lease_id() == 7

    def test_there_is_no_lease_of_a_number_that_no_column_holds(self, store: Store) -> None:
        written(store, 1)
        assert store.lease(TOO_LARGE_FOR_ANY_COLUMN) is store.lease(-TOO_LARGE_FOR_ANY_COLUMN) is None


class TestJournal:
    def test_lines_are_read_in_order_from_where_one_was(self, store: Store) -> None:
        lines = [journal_row(seq) for seq in range(1, 8)]
        written(store, journal=lines[::-1])
        assert store.journal(2, 3) == lines[2:5]
        assert store.journal(5, 3) == lines[5:]
        assert store.journal(7, 3) == store.journal(TOO_LARGE_FOR_ANY_COLUMN, 3) == []
        assert store.last_seq() == 7

    def test_lines_of_one_lease(self, store: Store) -> None:
        lines = [journal_row(seq, lease_id=seq % 2) for seq in range(1, 8)]
        written(store, 0, 1, journal=lines)
        assert store.journal(1, 2, lease_id=1) == [lines[2], lines[4]]

    def test_the_tail_is_the_last_lines_of_a_lease_in_order(self, store: Store) -> None:
        lines = [journal_row(seq, lease_id=1) for seq in range(1, 8)]
        written(store, 1, journal=[*lines, journal_row(8)])
        assert store.tail(1, 3) == lines[4:]
        assert store.tail(1, 100) == lines
        assert store.tail(2, 3) == []


class TestOrders:
    def test_open_orders_come_in_the_order_of_their_creation(self, store: Store) -> None:
        orders = [order_row(1, incarnation) for incarnation in (3, 1, 2)]
        written(store, 1)
        for order in orders:
            with store.writing() as batch:
                batch.insert(ORDERS, [order, order_row(1, order.order.incarnation, Verb.STOP)])
        assert [(order.order.incarnation, order.order.verb) for order in store.open_orders()] == [
            (3, "start"), (3, "stop"), (1, "start"), (1, "stop"), (2, "start"), (2, "stop")
        ]  # fmt: skip

    def test_an_order_is_open_until_it_is_confirmed_or_dropped(self, store: Store) -> None:
        statuses = ("pending", "taken", "confirmed", "dropped")
        written(store, 1)
        with store.writing() as batch:
            batch.insert(ORDERS, [order_row(1, place) for place in range(4)])
            batch.update(
                ORDERS,
                [
                    order_row(1, place, status=status, attempts=5, next_try_ms=6, problem="p")
                    for place, status in enumerate(statuses)
                ],
                "id",
                ("status", "attempts", "next_try_ms", "problem"),
            )
        changed: dict[str, Any] = {"attempts": 5, "next_try_ms": 6, "problem": "p"}
        assert store.open_orders() == [order_row(1, place, status=statuses[place], **changed) for place in (0, 1)]


def test_keys_are_found_by_consumer_and_key_together(store: Store) -> None:
    asked = [("physics", str(number), False) for number in range(MORE_THAN_A_STATEMENT_TAKES)]
    rows = [key_row(key, 1) for _, key, _ in asked]
    written(store, 1)
    with store.writing() as batch:
        batch.insert(IDEMPOTENCY_KEYS, [*rows, key_row("0", 1, consumer="climate")])
    assert store.idempotency_keys([*asked, ("climate", "1", False)]) == dict(zip(asked, rows, strict=True))
