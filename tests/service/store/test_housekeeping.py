"""What is let go of, and what stays."""

import pytest

from leasehold.service.store import housekeeping
from leasehold.service.store.store import Store
from leasehold.testing.rows import BEGIN_MS, answer_row, journal_row, lease_row, order_row

BEFORE_MS = BEGIN_MS + 100


def forgotten(store: Store) -> int:
    with store.writing() as batch:
        return batch.forget(BEFORE_MS)


def test_old_answers_are_forgotten(store: Store) -> None:
    with store.writing() as batch:
        batch.save_leases([lease_row(1)])
        batch.add_answers(
            [answer_row(str(at_ms), 1, created_ms=at_ms) for at_ms in (BEFORE_MS - 1, BEFORE_MS)]
        )
    assert forgotten(store) == 1
    keys = [("physics", str(at_ms)) for at_ms in (BEFORE_MS - 1, BEFORE_MS)]
    assert list(store.answers(keys)) == keys[1:]


@pytest.mark.parametrize("status", ["pending", "taken", "confirmed", "dropped"])
@pytest.mark.parametrize("state", ["running", "completed"])
@pytest.mark.parametrize("at_ms", [BEFORE_MS - 1, BEFORE_MS])
def test_old_orders_are_forgotten_when_they_are_settled_and_their_lease_is_closed(
    sqlite_store: Store, status: str, state: str, at_ms: int
) -> None:
    with sqlite_store.writing() as batch:
        batch.save_leases([lease_row(1, state=state)])
        batch.add_orders([order_row(1, status=status, created_ms=at_ms)])
    goes = status in {"confirmed", "dropped"} and state == "completed" and at_ms < BEFORE_MS
    assert forgotten(sqlite_store) == goes


def test_leases_and_journal_stay(store: Store) -> None:
    with store.writing() as batch:
        batch.save_leases([lease_row(1, state="completed")])
        batch.add_journal([journal_row(1, 1)])
        batch.add_orders([order_row(1, status="confirmed")])
        batch.add_answers([answer_row("key", 1)])
    assert forgotten(store) == 2
    assert forgotten(store) == 0
    assert store.lease(1) is not None
    assert store.last_seq() == 1


def test_it_is_done_in_pieces_so_that_nobody_waits_for_long(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(housekeeping, "AT_ONCE", 2)
    with store.writing() as batch:
        batch.save_leases([lease_row(1)])
        batch.add_answers([answer_row(str(number), 1) for number in range(5)])
    assert [forgotten(store) for _ in range(4)] == [2, 2, 1, 0]
