"""Backups: whole or not there, of one moment, and a store again wherever they are restored."""

import os
import sqlite3
import stat
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import sql
from sqlalchemy import URL, make_url, text

from leasehold.model.errors import InputError
from leasehold.service.store import backup as backups
from leasehold.service.store.backup import backup, restore
from leasehold.service.store.rows import IDEMPOTENCY_KEYS, JOURNAL, LEASES, MESSAGES, ORDERS, SITES, SiteRow
from leasehold.service.store.store import Store, open_store
from leasehold.service.store.store_url import writing_engine
from leasehold.testing.postgres import USER, PostgresServer
from leasehold.testing.rows import journal_row, key_row, lease_row, message_row, order_row, token_row


@pytest.fixture
def full_store(store: Store) -> Store:
    with store.writing() as batch:
        batch.upsert(LEASES, [lease_row(number, name="naïve \\ 'quoted'\n") for number in range(1, 20)])
        batch.insert(JOURNAL, [journal_row(1, 1), journal_row(2)])
        batch.insert(ORDERS, [order_row(1), order_row(2, status="confirmed")])
        batch.insert(IDEMPOTENCY_KEYS, [key_row("key", 1)])
        batch.set_snapshot("gateway", "{}")
        batch.upsert(
            SITES,
            [
                SiteRow(
                    name="a",
                    drained_ms=1,
                    drained_by="operator",
                    note="new disks",
                )
            ],
        )
        batch.insert(MESSAGES, [message_row(1)])
    store.add_token(token_row("t"))
    return store


@pytest.fixture
def elsewhere(store: Store, tmp_path: Path, request: pytest.FixtureRequest) -> Any:
    """The URL of an empty place for a store of the same kind."""
    if store.dialect == "sqlite":
        yield f"sqlite:///{tmp_path / 'elsewhere.db'}"
        return
    server: PostgresServer = request.getfixturevalue("postgres")
    name = f"{store.url.database}_elsewhere"
    server.make(name)
    yield server.url(name)
    server.drop(name)


def content(store: Store) -> list[object]:
    return [
        store.live_leases(),
        store.journal(0, 100),
        store.open_orders(),
        store.idempotency_keys([("physics", "key", False)]),
        store.snapshots(),
        store.sites(),
        store.messages("a", 0, 100),
        store.message_numbers("a"),
        store.tokens(),
    ]


def url_of(store: Store) -> str:
    return store.url.render_as_string(hide_password=False)


def test_a_restored_store_is_what_was_backed_up(full_store: Store, elsewhere: str, tmp_path: Path) -> None:
    backup(full_store, tmp_path / "backup")
    restore(tmp_path / "backup", elsewhere)
    with open_store(elsewhere) as restored:
        assert content(restored) == content(full_store)


def test_a_restored_store_goes_on(full_store: Store, elsewhere: str, tmp_path: Path) -> None:
    backup(full_store, tmp_path / "backup")
    restore(tmp_path / "backup", elsewhere)
    with open_store(elsewhere) as restored:
        restored.acquire_writer_lock()
        with restored.writing() as batch:
            batch.insert(ORDERS, [order_row(3)])
        assert [order.order.lease_id for order in restored.open_orders()] == [1, 3]


def test_a_backup_is_of_one_moment_while_there_is_writing(store: Store, elsewhere: str, tmp_path: Path) -> None:
    """Every transaction moves all leases to another site: a backup with two sites would be of two moments."""

    def move(turn: int) -> None:
        with store.writing() as batch:
            batch.upsert(LEASES, [lease_row(number, site=f"site {turn}") for number in range(200)])

    move(0)
    with ThreadPoolExecutor(1) as writer:
        moves = [writer.submit(move, turn) for turn in range(1, 40)]
        backup(store, tmp_path / "backup")
        for moved in moves:
            moved.result()
    restore(tmp_path / "backup", elsewhere)
    with open_store(elsewhere) as restored:
        assert len({row.lease.site for row in restored.live_leases()}) == 1


def test_a_backup_is_one_file_for_its_owner_alone(full_store: Store, tmp_path: Path) -> None:
    folder = tmp_path / "backups"
    folder.mkdir()
    backup(full_store, folder / "backup")
    assert [path.name for path in folder.iterdir()] == ["backup"]
    assert stat.S_IMODE((folder / "backup").stat().st_mode) == 0o600


def test_a_backup_takes_the_place_of_an_older_one_only_where_it_may(full_store: Store, tmp_path: Path) -> None:
    (tmp_path / "backup").write_text("an older one")
    with pytest.raises(InputError, match="backup: exists already; --force overwrites it"):
        backup(full_store, tmp_path / "backup")
    assert (tmp_path / "backup").read_text() == "an older one"
    backup(full_store, tmp_path / "backup", replace=True)
    restore(tmp_path / "backup", url_of(full_store), replace=True)


def test_a_backup_that_cannot_be_written_leaves_nothing(full_store: Store, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="backup: cannot be written: No such file or directory"):
        backup(full_store, tmp_path / "none" / "backup")


def test_a_backup_that_fails_leaves_the_older_one(
    full_store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    backup(full_store, tmp_path / "backup")
    before = (tmp_path / "backup").read_bytes()
    monkeypatch.setattr("leasehold.service.store.backup._flush", lambda _path: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        backup(full_store, tmp_path / "backup", replace=True)
    assert (tmp_path / "backup").read_bytes() == before
    assert not (tmp_path / "backup.partial").exists()


def administering(server: PostgresServer) -> psycopg.Connection:
    return psycopg.connect(host=str(server.folder), user=USER, dbname="postgres", autocommit=True)


class TestWithAPassword:
    """On a server that lets nobody in without the right password (scram), as production servers do."""

    PASSWORD = "p%/ä :@'s"  # noqa: S105 - of a server that lives as long as the test

    @pytest.fixture
    def role(self, postgres: PostgresServer) -> Iterator[str]:
        """A user of the server who needs the password."""
        name = f"scram{os.getpid()}"
        hba = postgres.folder / "data" / "pg_hba.conf"
        rule = f"local all {name} scram-sha-256\n"
        with administering(postgres) as server:
            create = "SET password_encryption = 'scram-sha-256'; CREATE ROLE {} LOGIN PASSWORD {}"
            server.execute(sql.SQL(create).format(sql.Identifier(name), sql.Literal(self.PASSWORD)))
            hba.write_text(rule + hba.read_text())
            server.execute("SELECT pg_reload_conf()")
            yield name
            hba.write_text(hba.read_text().replace(rule, ""))
            server.execute("SELECT pg_reload_conf()")
            server.execute(sql.SQL("DROP ROLE {}").format(sql.Identifier(name)))

    @pytest.fixture
    def databases(self, postgres: PostgresServer, role: str) -> Iterator[tuple[URL, URL]]:
        """Two empty databases of hers, as URLs without the password."""
        names = [f"{role}_{which}" for which in ("one", "two")]
        with administering(postgres) as server:
            for name in names:
                make = "CREATE DATABASE {} OWNER {} TEMPLATE template0"
                server.execute(sql.SQL(make).format(sql.Identifier(name), sql.Identifier(role)))
        here = [make_url(postgres.url(name)).set(username=role) for name in names]
        yield here[0], here[1]
        for name in names:
            postgres.drop(name)

    @pytest.mark.parametrize("place", ["user info", "parameter"])
    def test_in_the_url_a_store_is_backed_up_and_restored(
        self, databases: tuple[URL, URL], tmp_path: Path, place: str
    ) -> None:
        one, two = (
            url.set(password=self.PASSWORD)
            if place == "user info"
            else url.update_query_dict({"password": self.PASSWORD})
            for url in databases
        )
        with open_store(one.render_as_string(hide_password=False)) as store:
            assert self.PASSWORD not in str(store)
            with store.writing() as batch:
                batch.upsert(LEASES, [lease_row(1, name="hers")])
            backup(store, tmp_path / "backup")
            kept = content(store)
        restore(tmp_path / "backup", two.render_as_string(hide_password=False))
        with open_store(two.render_as_string(hide_password=False)) as restored:
            assert content(restored) == kept

    def test_a_wrong_one_is_refused_and_not_shown(self, databases: tuple[URL, URL], tmp_path: Path) -> None:
        wrong = "not" + self.PASSWORD
        with (
            Store(databases[0].set(password=wrong)) as store,
            pytest.raises(InputError, match="password authentication failed") as refused,
        ):
            backup(store, tmp_path / "backup")
        assert wrong not in str(refused.value)


class TestRefused:
    def test_a_store_with_something_in_it_is_not_overwritten(self, full_store: Store, tmp_path: Path) -> None:
        backup(full_store, tmp_path / "backup")
        before = content(full_store)
        with full_store.writing() as batch:
            batch.upsert(LEASES, [lease_row(99)])
        with pytest.raises(InputError, match="is not empty; --replace deletes"):
            restore(tmp_path / "backup", url_of(full_store))
        assert full_store.lease(99) is not None
        restore(tmp_path / "backup", url_of(full_store), replace=True)
        assert content(full_store) == before

    @pytest.mark.usefixtures("impatient")
    def test_a_store_in_use_is_not_overwritten(
        self, full_store: Store, tmp_path: Path, another_gateway: Callable[[str], Any]
    ) -> None:
        backup(full_store, tmp_path / "backup")
        assert another_gateway(url_of(full_store)).hear() == "claimed"
        with pytest.raises(InputError, match="is in use by another gateway"):
            restore(tmp_path / "backup", url_of(full_store), replace=True)

    @pytest.mark.parametrize("content", [b"", b"A message, not a backup."])
    def test_a_file_that_is_no_backup(self, store_url: str, tmp_path: Path, content: bytes) -> None:
        (tmp_path / "backup").write_bytes(content)
        with pytest.raises(InputError, match="backup: is not a backup of a store"):
            restore(tmp_path / "backup", store_url)

    def test_a_file_that_is_not_there(self, store_url: str, tmp_path: Path) -> None:
        with pytest.raises(InputError, match="backup: cannot be read: No such file or directory"):
            restore(tmp_path / "backup", store_url)

    def test_a_backup_of_the_other_kind(self, sqlite_store: Store, postgres_url: str, tmp_path: Path) -> None:
        backup(sqlite_store, tmp_path / "backup")
        with pytest.raises(InputError, match="backup of a sqlite store, and cannot be restored to postgresql"):
            restore(tmp_path / "backup", postgres_url)

    def test_a_damaged_backup(self, full_store: Store, elsewhere: str, tmp_path: Path) -> None:
        backup(full_store, tmp_path / "backup")
        whole = (tmp_path / "backup").read_bytes()
        (tmp_path / "backup").write_bytes(whole[: len(whole) // 2])
        with pytest.raises(InputError):
            restore(tmp_path / "backup", elsewhere)
        with open_store(elsewhere) as untouched:
            assert untouched.is_empty()

    def test_a_backup_that_is_newer_than_the_program(self, full_store: Store, elsewhere: str, tmp_path: Path) -> None:
        engine = writing_engine(full_store.url)
        with engine.begin() as connection:
            connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
        backup(full_store, tmp_path / "backup")
        with pytest.raises(InputError, match="has schema 9999, newer than this program"):
            restore(tmp_path / "backup", elsewhere)

    def test_a_database_of_somebody_else(self, sqlite_url: str, tmp_path: Path) -> None:
        connection = sqlite3.connect(tmp_path / "backup")
        connection.execute("CREATE TABLE songs (title TEXT)")
        connection.close()
        with pytest.raises(InputError, match="no such table: alembic_version"):
            restore(tmp_path / "backup", sqlite_url)


def test_a_missing_program_is_named_with_its_cure(
    postgres_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backups, "_DEBIAN_BINARIES", tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    with (
        open_store(postgres_url) as store,
        pytest.raises(InputError, match="pg_dump: is not installed: `apt-get"),
    ):
        backup(store, tmp_path / "backup")
    assert list(tmp_path.glob("backup*")) == []
