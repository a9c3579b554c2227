"""One gateway writes to a store, and nobody else, until it is gone."""

from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import create_engine, text

from leasehold.model.errors import InputError
from leasehold.service.store.errors import StoreUnavailable
from leasehold.service.store.rows import LEASES
from leasehold.service.store.store import Store, open_store
from leasehold.service.store.store_url import read_url
from leasehold.testing.rows import lease_row, token_row

Start = Callable[[str], Any]


@pytest.mark.usefixtures("impatient")
def test_two_processes_cannot_claim(store_url: str, another_gateway: Start) -> None:
    assert another_gateway(store_url).hear() == "claimed"
    with open_store(store_url) as store, pytest.raises(InputError) as caught:
        store.acquire_writer_lock()
    assert str(caught.value) == f"{read_url(store_url)}: is in use by another gateway"


def test_others_may_read_what_one_has_claimed(store_url: str, another_gateway: Start) -> None:
    other = another_gateway(store_url)
    assert other.hear() == "claimed"
    other.go_on()
    assert [other.hear() for _ in range(4)][-1] == "1 kept"
    with open_store(store_url) as store:
        assert len(store.live_leases()) == 10


def test_a_claim_ends_with_its_process_however_that_ends(store_url: str, another_gateway: Start) -> None:
    other = another_gateway(store_url)
    assert other.hear() == "claimed"
    other.kill()
    with open_store(store_url) as store:
        store.acquire_writer_lock()


def test_a_claim_ends_when_the_store_is_closed(store_url: str) -> None:
    for _ in range(2):
        with open_store(store_url) as store:
            store.acquire_writer_lock()
            store.acquire_writer_lock()


@pytest.mark.usefixtures("impatient")
def test_a_refused_claim_can_be_made_later(store_url: str) -> None:
    with open_store(store_url) as store:
        with open_store(store_url) as other:
            other.acquire_writer_lock()
            with pytest.raises(InputError):
                store.acquire_writer_lock()
        store.acquire_writer_lock()


TERMINATE = text(
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
    " WHERE datname = current_database() AND pid <> pg_backend_pid()"
)


def cut(store: Store) -> None:
    """End all connections to the store, as a restart of the server does."""
    engine = create_engine(store.url, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.execute(TERMINATE)
    engine.dispose()


def cut_while_writing(store: Store) -> None:
    with store.writing() as batch:
        batch.upsert(LEASES, [lease_row(1)])
        cut(store)


class TestLostConnection:
    """PostgreSQL only: whoever lost the connection that holds the claim has lost the claim."""

    def test_what_was_being_written_is_lost_and_the_next_transaction_is_not(self, postgres_url: str) -> None:
        with open_store(postgres_url) as store:
            store.acquire_writer_lock()
            with pytest.raises(StoreUnavailable):
                cut_while_writing(store)
            with store.writing() as batch:
                batch.upsert(LEASES, [lease_row(2)])
            assert store.live_leases() == [lease_row(2)]

    @pytest.mark.usefixtures("impatient")
    def test_the_claim_is_made_again_before_anything_is_written(self, postgres_url: str) -> None:
        with open_store(postgres_url) as store, open_store(postgres_url) as other:
            store.acquire_writer_lock()
            cut(store)
            with pytest.raises(StoreUnavailable):
                store.add_token(token_row("t"))
            store.add_token(token_row("t"))
            with pytest.raises(InputError):
                other.acquire_writer_lock()

    @pytest.mark.usefixtures("impatient")
    def test_nothing_is_written_where_another_gateway_was_quicker(self, postgres_url: str) -> None:
        with open_store(postgres_url) as store, open_store(postgres_url) as other:
            store.acquire_writer_lock()
            cut(store)
            other.acquire_writer_lock()
            with pytest.raises(StoreUnavailable):
                store.add_token(token_row("t"))
            for _ in range(2):
                with pytest.raises(InputError, match="is in use by another gateway"):
                    store.add_token(token_row("t"))
            assert other.tokens() == []
