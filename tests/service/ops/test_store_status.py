"""What is said of a store from outside, on both kinds."""

from pathlib import Path

import pytest

from leasehold.model.errors import InputError, InvalidField
from leasehold.service.clock import wall_ms
from leasehold.service.store.rows import JOURNAL, JournalRow
from leasehold.service.store.store import Store, open_store
from leasehold.service.store_status import Contents, look_at

MINUTE_MS = 60_000


def test_a_new_store_is_empty_and_this_programs(store_url: str) -> None:
    open_store(store_url).close()
    status = look_at(store_url)
    assert status.revision
    assert status.contents == Contents({}, last_seq=0)
    assert not status.in_use


def test_a_claimed_store_is_in_use(store_url: str) -> None:
    with open_store(store_url) as store:
        store.acquire_writer_lock()
        assert look_at(store_url).in_use
    assert not look_at(store_url).in_use


def test_looking_takes_the_claim_from_nobody(store_url: str) -> None:
    open_store(store_url).close()
    look_at(store_url)
    with open_store(store_url) as store:
        store.acquire_writer_lock()


def test_a_server_has_a_clock(postgres_url: str) -> None:
    open_store(postgres_url).close()
    assert abs(look_at(postgres_url).latest_ms - wall_ms()) < MINUTE_MS


def test_a_file_has_the_time_of_its_last_line(sqlite_store: Store) -> None:
    with sqlite_store.writing() as batch:
        batch.insert(
            JOURNAL,
            [
                JournalRow(
                    seq=1,
                    at_ms=1234,
                    lease_id=None,
                    job_id=None,
                    consumer="",
                    group="",
                    site="das3",
                    what="drained",
                    state="",
                    reason="",
                    rule="",
                    detail="{}",
                )
            ],
        )
    assert look_at(f"sqlite:///{sqlite_store.path}").latest_ms == 1234


def test_an_empty_file_has_no_schema_yet(tmp_path: Path) -> None:
    (tmp_path / "store.db").touch()
    status = look_at(f"sqlite:///{tmp_path / 'store.db'}")
    assert (status.revision, status.contents) == (None, None)


def test_a_store_that_is_not_there_is_not_made(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such store"):
        look_at(f"sqlite:///{tmp_path / 'store.db'}")
    assert list(tmp_path.iterdir()) == []


def test_what_is_no_url_is_said_so() -> None:
    with pytest.raises(InvalidField, match="expected sqlite:///PATH"):
        look_at("store.db")
