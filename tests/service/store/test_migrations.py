"""The schema, up and down, on both databases; and that it comes with the package."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from hatchling.builders.wheel import WheelBuilder
from sqlalchemy import Connection, inspect, select, text

from leasehold.model.errors import InputError
from leasehold.service.store import rows
from leasehold.service.store.store import Store, current_revision, downgrade, needs_migration, open_store, upgrade
from leasehold.service.store.store_url import read_url, writing_engine

REPOSITORY = Path(__file__).resolve().parents[3]
MIGRATIONS = Path("src/leasehold/service/store/migrations")
REVISIONS = [
    script.revision for script in reversed(list(ScriptDirectory(str(REPOSITORY / MIGRATIONS)).walk_revisions()))
]


@pytest.fixture
def connection(store_url: str) -> Iterator[Connection]:
    """A database in which there is nothing, in a transaction."""
    engine = writing_engine(read_url(store_url))
    with engine.begin() as connection:
        yield connection


def tables(connection: Connection) -> set[str]:
    return set(inspect(connection).get_table_names()) - {"alembic_version"}


def test_migrations_lead_to_the_tables_that_the_program_works_with(connection: Connection) -> None:
    upgrade(connection)
    assert not needs_migration(connection)
    assert compare_metadata(MigrationContext.configure(connection), rows.metadata) == []


def test_down_to_nothing_and_up_again(connection: Connection) -> None:
    upgrade(connection)
    everything = tables(connection)
    downgrade(connection, "base")
    assert tables(connection) == set()
    assert current_revision(connection) is None
    upgrade(connection)
    assert tables(connection) == everything == set(rows.metadata.tables)


def test_each_step_can_be_undone_and_made_again(connection: Connection) -> None:
    for revision in REVISIONS:
        upgrade(connection, revision)
        after = tables(connection)
        downgrade(connection, "-1")
        upgrade(connection, revision)
        assert tables(connection) == after


def test_a_migration_that_fails_leaves_nothing(store_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(connection: Connection) -> None:
        upgrade(connection)
        raise InputError("migration", None, "failed")

    monkeypatch.setattr("leasehold.service.store.store.upgrade", fail)
    with pytest.raises(InputError, match="migration: failed"):
        open_store(store_url)
    monkeypatch.undo()
    open_store(store_url).close()


def test_a_schema_that_is_newer_than_the_program_is_refused(store: Store) -> None:
    engine = writing_engine(store.url)
    with engine.begin() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    with pytest.raises(InputError, match=r": has schema 9999, newer than this program's \(\d{4}\): update it$"):
        open_store(store.url.render_as_string(hide_password=False))


def test_no_two_processes_migrate_at_a_time(store_url: str) -> None:
    """The second finds the schema made when its turn comes."""
    with Store(read_url(store_url)) as late:
        open_store(store_url).close()
        late.bring_up_to_date()
        assert late.is_empty()


@pytest.mark.parametrize(
    ("query", "index"),
    [
        (rows.LEASES.select().where(rows.LIVE).order_by(rows.LEASES.c.id), "leases_live"),
        (rows.LEASES.select().where(rows.LEASES.c.consumer == "physics"), "leases_consumer"),
        (rows.ORDERS.select().where(rows.OPEN).order_by(rows.ORDERS.c.number), "orders_open"),
        (rows.JOURNAL.select().where(rows.JOURNAL.c.lease_id == 1), "journal_lease"),
        (rows.IDEMPOTENCY_KEYS.select().where(rows.IDEMPOTENCY_KEYS.c.created_ms < 1), "idempotency_keys_created_ms"),
        (rows.USAGE.select().where(rows.USAGE.c.end_ms > 1), "usage_end_ms"),
        (rows.JOBS.select().where(rows.OPEN_JOBS).order_by(rows.JOBS.c.id), "jobs_open"),
        (rows.JOBS.select().where(rows.JOBS.c.consumer == "physics"), "jobs_consumer"),
        (rows.ATTEMPTS.select().where(rows.ATTEMPTS.c.lease_id == 1), "attempts_lease"),
        (select(rows.ATTEMPTS.c.job_id).where(rows.ATTEMPTS.c.site == "a"), "attempts_site"),
    ],
    ids=lambda case: case if isinstance(case, str) else "",
)
def test_what_is_asked_often_has_an_index_that_the_database_uses(
    connection: Connection, query: object, index: str
) -> None:
    upgrade(connection)
    explain = "EXPLAIN QUERY PLAN"
    if connection.dialect.name == "postgresql":
        explain = "EXPLAIN"
        connection.execute(text("SET LOCAL enable_seqscan = off"))
    sql = query.compile(connection, compile_kwargs={"literal_binds": True})  # type: ignore[attr-defined]
    plan = connection.exec_driver_sql(f"{explain} {sql}").all()
    assert index in str(plan)


def test_the_migrations_come_with_the_package() -> None:
    shipped = {file.relative_path for file in WheelBuilder(str(REPOSITORY)).recurse_included_files()}
    files = (REPOSITORY / MIGRATIONS).rglob("*.*")
    wanted = {str(path.relative_to(REPOSITORY)) for path in files if path.suffix in {".py", ".sql"}}
    assert wanted <= shipped
    assert str(MIGRATIONS / "script.py.mako") in shipped
