"""What is let go of, and what stays."""

import pytest

from leasehold.service.config import Retention
from leasehold.service.store import retention
from leasehold.service.store.filters import EVERYTHING, LeaseFilter, UsageFilter
from leasehold.service.store.retention import Cutoffs
from leasehold.service.store.rows import IDEMPOTENCY_KEYS, JOURNAL, LEASES, ORDERS, USAGE
from leasehold.service.store.store import Store
from leasehold.testing.rows import BEGIN_MS, journal_row, key_row, lease_row, order_row, usage_row

BEFORE_MS = BEGIN_MS + 100


def forgotten(store: Store, **before: int) -> int:
    """Let go of what is older than this; by itself only of keys and orders."""
    with store.writing() as batch:
        return sum(batch.prune(Cutoffs(**(before or {"answers_ms": BEFORE_MS}))).values())


def everything(store: Store, **before: int) -> None:
    """Ask until nothing more goes."""
    while forgotten(store, **before):
        pass


def test_old_keys_are_forgotten(store: Store) -> None:
    with store.writing() as batch:
        batch.upsert(LEASES, [lease_row(1)])
        batch.insert(
            IDEMPOTENCY_KEYS, [key_row(str(at_ms), 1, created_ms=at_ms) for at_ms in (BEFORE_MS - 1, BEFORE_MS)]
        )
    assert forgotten(store) == 1
    keys = [("physics", str(at_ms), False) for at_ms in (BEFORE_MS - 1, BEFORE_MS)]
    assert list(store.idempotency_keys(keys)) == keys[1:]


@pytest.mark.parametrize("status", ["pending", "taken", "confirmed", "dropped"])
@pytest.mark.parametrize("state", ["running", "completed"])
@pytest.mark.parametrize("at_ms", [BEFORE_MS - 1, BEFORE_MS])
def test_old_orders_are_forgotten_when_they_are_settled_and_their_lease_is_closed(
    sqlite_store: Store, status: str, state: str, at_ms: int
) -> None:
    with sqlite_store.writing() as batch:
        batch.upsert(LEASES, [lease_row(1, state=state)])
        batch.insert(ORDERS, [order_row(1, status=status, created_ms=at_ms)])
    goes = status in {"confirmed", "dropped"} and state == "completed" and at_ms < BEFORE_MS
    assert forgotten(sqlite_store) == goes


def test_leases_and_journal_stay(store: Store) -> None:
    with store.writing() as batch:
        batch.upsert(LEASES, [lease_row(1, state="completed")])
        batch.insert(JOURNAL, [journal_row(1, 1)])
        batch.insert(ORDERS, [order_row(1, status="confirmed")])
        batch.insert(IDEMPOTENCY_KEYS, [key_row("key", 1)])
    assert forgotten(store) == 2
    assert forgotten(store) == 0
    assert store.lease(1) is not None
    assert store.last_seq() == 1


def test_it_is_done_in_pieces_so_that_nobody_waits_for_long(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retention, "AT_ONCE", 2)
    with store.writing() as batch:
        batch.upsert(LEASES, [lease_row(1)])
        batch.insert(IDEMPOTENCY_KEYS, [key_row(str(number), 1) for number in range(5)])
    assert [forgotten(store) for _ in range(4)] == [2, 2, 1, 0]


# What the configuration lets go of


def numbers(store: Store) -> list[int]:
    return sorted(row.lease.id for row in store.leases(LeaseFilter(EVERYTHING), 100))


def fill(store: Store) -> None:
    """An old closed lease, one that still runs, a young closed one, and the newest, old and closed."""
    states = {1: ("completed", BEFORE_MS - 1), 2: ("running", None), 3: ("completed", BEFORE_MS)}
    with store.writing() as batch:
        for lease_id, (state, end_ms) in (states | {4: ("completed", BEFORE_MS - 1)}).items():
            batch.upsert(LEASES, [lease_row(lease_id, state=state, end_ms=end_ms)])
            batch.insert(JOURNAL, [journal_row(lease_id, lease_id, at_ms=BEFORE_MS - 1)])
            batch.insert(ORDERS, [order_row(lease_id, status="confirmed", created_ms=BEFORE_MS - 1)])
            batch.insert(IDEMPOTENCY_KEYS, [key_row(str(lease_id), lease_id, created_ms=BEFORE_MS)])
            batch.insert(USAGE, [usage_row(lease_id, BEFORE_MS - 10, BEFORE_MS - 1)])


def test_closed_leases_go_with_all_of_theirs_but_their_use(store: Store) -> None:
    fill(store)
    everything(store, leases_ms=BEFORE_MS)
    assert numbers(store) == [2, 3, 4]  # numbers count up from the newest
    assert [row.lease_id for row in store.journal(0, 100)] == [2, 3, 4]
    assert list(store.idempotency_keys([("physics", "1", False), ("physics", "3", False)])) == [("physics", "3", False)]
    assert len(store.usage(UsageFilter(EVERYTHING, 0, BEFORE_MS))) == 4


def test_lines_of_what_is_closed_go_and_those_of_what_is_open_stay(store: Store) -> None:
    fill(store)
    everything(store, journal_ms=BEFORE_MS)
    assert [row.lease_id for row in store.journal(0, 100)] == [2, 4]  # 4 has the last line of all
    assert numbers(store) == [1, 2, 3, 4]


def test_use_goes_by_its_own_time(store: Store) -> None:
    fill(store)
    everything(store, usage_ms=BEFORE_MS - 1)
    assert len(store.usage(UsageFilter(EVERYTHING, 0, BEFORE_MS))) == 4
    everything(store, usage_ms=BEFORE_MS)
    assert store.usage(UsageFilter(EVERYTHING, 0, BEFORE_MS)) == []


def test_where_nothing_is_said_everything_is_kept(store: Store) -> None:
    fill(store)
    everything(store, answers_ms=0)
    assert numbers(store) == [1, 2, 3, 4]
    assert len(store.journal(0, 100)) == 4


def test_many_go_in_pieces(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retention, "AT_ONCE", 2)
    with store.writing() as batch:
        batch.upsert(LEASES, [lease_row(number, state="completed", end_ms=BEGIN_MS) for number in range(1, 7)])
    assert [forgotten(store, leases_ms=BEFORE_MS) for _ in range(4)] == [2, 2, 1, 0]


def test_days_are_counted_back_from_now_and_0_is_for_ever() -> None:
    day_ms = 86_400_000
    before = Retention(leases_days=0, journal_days=2, usage_days=30).cutoffs(100 * day_ms)
    assert (before.leases_ms, before.journal_ms, before.usage_ms) == (0, 98 * day_ms, 70 * day_ms)
    assert before.not_after(usage_ms=5).usage_ms == 5
    assert before.not_after(usage_ms=99 * day_ms).usage_ms == 70 * day_ms
