"""Opening a store: where it may be, who may read it, and what is said where it cannot be opened."""

import stat
from pathlib import Path

import pytest
from sqlalchemy import inspect, text

from leasehold.model.errors import InputError, InvalidField
from leasehold.service.store.errors import StoreUnavailable
from leasehold.service.store.rows import LEASES
from leasehold.service.store.store import Store, open_store
from leasehold.service.store.store_url import read_url, reading_engine, writing_engine
from leasehold.testing.rows import lease_row


def test_a_store_is_as_it_was_left(store_url: str) -> None:
    with open_store(store_url) as store, store.writing() as batch:
        batch.upsert(LEASES, [lease_row(1)])
    with open_store(store_url) as store:
        assert store.live_leases() == [lease_row(1)]


@pytest.mark.parametrize(
    "url",
    ["", "store.db", "sqlite://", "sqlite:///:memory:", "mysql://h/d", "postgresql://h", "postgresql:///"],
)
def test_a_url_that_names_no_store_is_refused(url: str) -> None:
    with pytest.raises(InvalidField, match=r"^store: got .*, expected sqlite:///PATH or postgresql\+psycopg"):
        open_store(url)


@pytest.mark.parametrize("url", ["mysql://u:secret@h/d", "u:secret@h/d", "postgresql://u:secret@h"])
def test_a_refused_url_is_shown_without_its_password(url: str) -> None:
    with pytest.raises(InvalidField) as caught:
        open_store(url)
    assert "secret" not in str(caught.value)


def test_a_server_that_is_not_there_is_named_without_its_password(tmp_path: Path) -> None:
    with pytest.raises(StoreUnavailable) as caught:
        open_store(f"postgresql://u:secret@/d?host={tmp_path}")
    assert str(tmp_path) in str(caught.value)
    assert "secret" not in str(caught.value)
    assert "\n" not in str(caught.value)


def test_both_ways_to_write_postgresql_mean_the_same() -> None:
    assert read_url("postgresql://h/d") == read_url("postgresql+psycopg://h/d")


def test_a_folder_that_is_not_there_is_an_input_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"none/store\.db: cannot be a store: No such file or directory"):
        open_store(f"sqlite:///{tmp_path}/none/store.db")


def test_a_file_that_is_no_database_is_left_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    path.write_text("A message, not a database. " * 100)
    with pytest.raises(StoreUnavailable, match="file is not a database"):
        open_store(f"sqlite:///{path}")
    assert path.read_text().startswith("A message")


def test_only_its_owner_may_read_a_file(sqlite_store: Store, tmp_path: Path) -> None:
    with sqlite_store.writing() as batch:
        batch.upsert(LEASES, [lease_row(1)])
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()}
    assert {"store.db", "store.db-wal"} <= modes.keys()
    assert set(modes.values()) == {0o600}


def test_a_closed_store_leaves_one_file_and_its_lock(tmp_path: Path) -> None:
    with open_store(f"sqlite:///{tmp_path}/store.db") as store:
        store.acquire_writer_lock()
    assert {path.name for path in tmp_path.iterdir()} == {"store.db", "store.db.lock"}


@pytest.mark.parametrize(("pragma", "value"), [("journal_mode", "wal"), ("synchronous", 2), ("foreign_keys", 1)])
def test_what_is_committed_on_sqlite_is_on_the_disk(sqlite_url: str, pragma: str, value: object) -> None:
    engine = writing_engine(read_url(sqlite_url))
    with engine.connect() as connection:
        assert connection.execute(text(f"PRAGMA {pragma}")).scalar() == value


def test_readers_cannot_write(sqlite_store: Store) -> None:
    engine = reading_engine(sqlite_store.url)
    with engine.connect() as connection, pytest.raises(Exception, match="readonly database"):
        connection.execute(text("DELETE FROM leases"))
    engine.dispose()


@pytest.mark.usefixtures("impatient")
def test_a_store_that_could_not_be_opened_is_unchanged(store_url: str) -> None:
    with Store(read_url(store_url)) as other:
        other.acquire_writer_lock()
        with pytest.raises(InputError, match="is in use by another gateway"):
            open_store(store_url)
    engine = reading_engine(read_url(store_url))
    with engine.connect() as connection:
        assert inspect(connection).get_table_names() == []
    engine.dispose()
