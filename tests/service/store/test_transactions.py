"""All of a transaction or nothing of it, whatever happens in it and whoever looks on meanwhile."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from sqlalchemy.exc import InvalidRequestError

from leasehold.model.errors import InvariantBroken
from leasehold.service.store.filters import EVERYTHING, LeaseFilter
from leasehold.service.store.rows import IDEMPOTENCY_KEYS, JOURNAL, LEASES, MESSAGES, ORDERS, SITES, SiteRow
from leasehold.service.store.store import Batch, Store
from leasehold.testing.rows import journal_row, key_row, lease_row, message_row, order_row, token_row

READERS = 6
ROUNDS = 40


def write_one_of_each(batch: Batch) -> None:
    batch.upsert(LEASES, [lease_row(1)])
    batch.insert(JOURNAL, [journal_row(1, 1)])
    batch.insert(ORDERS, [order_row(1)])
    batch.insert(IDEMPOTENCY_KEYS, [key_row("key", 1)])
    batch.set_snapshot("gateway", "{}")
    batch.upsert(
        SITES,
        [
            SiteRow(
                name="a",
                drained_ms=None,
                drained_by="",
                note="",
            )
        ],
    )
    batch.insert(MESSAGES, [message_row(1)])


def write(store: Store, *then: Callable[[Batch], object]) -> None:
    with store.writing() as batch:
        for step in then:
            step(batch)


def interrupt(_batch: Batch) -> None:
    raise KeyboardInterrupt


def divide_by_zero(_batch: Batch) -> None:
    raise ZeroDivisionError


@pytest.mark.parametrize(("step", "error"), [(divide_by_zero, ZeroDivisionError), (interrupt, KeyboardInterrupt)])
def test_a_transaction_that_raises_leaves_nothing(
    store: Store, step: Callable[[Batch], None], error: type[BaseException]
) -> None:
    with pytest.raises(error):
        write(store, write_one_of_each, step)
    assert store.is_empty()


DEFECTS: dict[str, Callable[[Batch], None]] = {
    "a line with a number that was used": lambda batch: batch.insert(JOURNAL, [journal_row(1)]),
    "an order that was given before": lambda batch: batch.insert(ORDERS, [order_row(1)]),
    "a second answer for a key": lambda batch: batch.insert(IDEMPOTENCY_KEYS, [key_row("key", 1)]),
    "a message with a number that was used": lambda batch: batch.insert(MESSAGES, [message_row(1)]),
    "a line about no lease": lambda batch: batch.insert(JOURNAL, [journal_row(2, lease_id=99)]),
    "an order for no lease": lambda batch: batch.insert(ORDERS, [order_row(99)]),
    "a lease without consumer": lambda batch: batch.upsert(LEASES, [lease_row(2, consumer=None)]),
    "a number that no column holds": lambda batch: batch.upsert(LEASES, [lease_row(2, vms=2**63)]),
    "a word where a number belongs": lambda batch: batch.upsert(LEASES, [lease_row(2, vms="two")]),
    "a text that UTF-8 does not know": lambda batch: batch.upsert(LEASES, [lease_row(2, name="\ud800")]),
}


@pytest.mark.parametrize("defect", DEFECTS.values(), ids=DEFECTS)
def test_rows_that_contradict_what_is_there_are_a_defect(store: Store, defect: Callable[[Batch], None]) -> None:
    write(store, write_one_of_each)
    with pytest.raises(InvariantBroken):
        write(store, lambda batch: batch.upsert(LEASES, [lease_row(50)]), defect)
    assert [row.lease.id for row in store.live_leases()] == [1]


def test_what_a_defect_says_is_one_line_without_the_values(store: Store) -> None:
    store.add_token(token_row("t"))
    with pytest.raises(InvariantBroken) as caught:
        store.add_token(token_row("t"))
    assert "\n" not in str(caught.value)
    assert "hash of" not in str(caught.value)


def test_the_store_goes_on_after_a_defect(store: Store) -> None:
    with pytest.raises(InvariantBroken):
        write(store, DEFECTS["a line about no lease"])
    with store.writing() as batch:
        batch.upsert(LEASES, [lease_row(1)])
    assert store.live_leases() == [lease_row(1)]


def test_rows_may_come_before_the_lease_that_they_are_about(store: Store) -> None:
    with store.writing() as batch:
        batch.insert(JOURNAL, [journal_row(1, 1)])
        batch.insert(ORDERS, [order_row(1)])
        batch.upsert(LEASES, [lease_row(1)])
    assert store.last_seq() == len(store.open_orders()) == 1


def test_nothing_is_seen_before_the_end_of_a_transaction(store: Store) -> None:
    with store.writing() as batch:
        write_one_of_each(batch)
        assert store.is_empty()
    assert not store.is_empty()


def test_an_empty_transaction_is_nothing(store: Store) -> None:
    with store.writing() as batch:
        batch.upsert(LEASES, [])
        batch.insert(JOURNAL, [])
        batch.update(ORDERS, [], "id", ("status",))
    assert store.is_empty()


def test_a_transaction_within_a_transaction_is_an_error(store: Store) -> None:
    with pytest.raises(InvalidRequestError), store.writing(), store.writing():
        pass


def test_readers_see_whole_transactions_while_there_is_writing(store: Store) -> None:
    """Each transaction moves all leases to another site, so that no reader may ever find two sites."""
    written, all_ready = threading.Event(), threading.Barrier(READERS + 1)

    def write() -> None:
        all_ready.wait()
        try:
            for turn in range(ROUNDS):
                with store.writing() as batch:
                    batch.upsert(LEASES, [lease_row(number, site=f"site {turn}") for number in range(50)])
        finally:
            written.set()

    def read() -> Iterator[set[str]]:
        all_ready.wait()
        while not written.is_set():
            yield {row.lease.site for row in store.live_leases()}
            yield {row.lease.site for row in store.leases(LeaseFilter(EVERYTHING), 50)}

    with ThreadPoolExecutor(READERS + 1) as threads:
        readers = [threads.submit(lambda: list(read())) for _ in range(READERS)]
        threads.submit(write).result()
        seen = [sites for reader in readers for sites in reader.result()]
    assert all(len(sites) <= 1 for sites in seen)
    assert len(set().union(*seen)) > 1


def test_tokens_are_added_from_many_threads_while_there_is_writing(store: Store) -> None:
    with ThreadPoolExecutor(READERS) as threads:
        added = [threads.submit(store.add_token, token_row(f"t{number}")) for number in range(ROUNDS)]
        for turn in range(ROUNDS):
            with store.writing() as batch:
                batch.upsert(LEASES, [lease_row(turn)])
        for token in added:
            token.result()
    assert len(store.tokens()) == len(store.live_leases()) == ROUNDS
