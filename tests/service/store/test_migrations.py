"""The schema, up and down, on both databases; and that it comes with the package."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from hatchling.builders.wheel import WheelBuilder
from sqlalchemy import Connection, inspect, select, text

from leasehold.model.errors import InputError
from leasehold.service.store import job_schema, schema
from leasehold.service.store.engines import writing_engine
from leasehold.service.store.migrating import current_revision, downgrade, needs_migration, upgrade
from leasehold.service.store.place import read_url
from leasehold.service.store.store import Store, open_store
from leasehold.testing.rows import lease_row

REPOSITORY = Path(__file__).resolve().parents[3]
MIGRATIONS = Path("src/leasehold/service/store/migrations")
REVISIONS = [
    script.revision
    for script in reversed(list(ScriptDirectory(str(REPOSITORY / MIGRATIONS)).walk_revisions()))
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
    assert compare_metadata(MigrationContext.configure(connection), schema.metadata) == []


def test_down_to_nothing_and_up_again(connection: Connection) -> None:
    upgrade(connection)
    everything = tables(connection)
    downgrade(connection, "base")
    assert tables(connection) == set()
    assert current_revision(connection) is None
    upgrade(connection)
    assert tables(connection) == everything == set(schema.metadata.tables)


def test_each_step_can_be_undone_and_made_again(connection: Connection) -> None:
    for revision in REVISIONS:
        upgrade(connection, revision)
        after = tables(connection)
        downgrade(connection, "-1")
        upgrade(connection, revision)
        assert tables(connection) == after


def insert_lease(connection: Connection) -> None:
    """Put a lease into a store of an earlier schema: what it has no columns for is left out."""
    there = {column["name"] for column in inspect(connection).get_columns("leases")}
    row = {name: value for name, value in lease_row(1).items() if name in there}
    names = ", ".join(row)
    connection.execute(
        text(f"INSERT INTO leases ({names}) VALUES ({', '.join(f':{name}' for name in row)})"),  # noqa: S608
        row,
    )


def test_leases_of_before_agreements_are_bound_to_nothing(connection: Connection) -> None:
    upgrade(connection, "0003")
    insert_lease(connection)
    upgrade(connection, "0004")
    found = connection.execute(text("SELECT domain, claims, breach FROM leases")).one()
    assert tuple(found) == ("", "{}", "")
    downgrade(connection, "0003")
    assert connection.execute(text("SELECT count(*) FROM leases")).scalar() == 1


def test_leases_of_before_jobs_are_attempts_of_none(connection: Connection) -> None:
    upgrade(connection, "0005")
    insert_lease(connection)
    upgrade(connection, "0006")
    found = connection.execute(text("SELECT job_id, wishes FROM leases")).one()
    assert tuple(found) == (None, "")
    downgrade(connection, "0005")
    assert connection.execute(text("SELECT count(*) FROM leases")).scalar() == 1


def test_outputs_of_before_their_quota_count_towards_it(store_url: str) -> None:
    engine = writing_engine(read_url(store_url))
    output = {"job_id": 1, "number": 1, "text": "42 \N{MICRO SIGN}m", "is_whole": 1, "fetched_ms": 9}
    with engine.begin() as connection:
        upgrade(connection, "0009")
        jobs = {column["name"]: column for column in inspect(connection).get_columns("jobs")}
        row: dict[str, int | str | None] = {
            name: 0 if "INT" in str(column["type"]) else "" for name, column in jobs.items()
        }
        row |= {"id": 1, "consumer": "physics", "reliability": None, "surest": None}
        connection.execute(job_schema.jobs.insert().values(row))
        names = ", ".join(output)
        values = ", ".join(f":{name}" for name in output)
        connection.execute(text(f"INSERT INTO outputs ({names}) VALUES ({values})"), output)  # noqa: S608
    with engine.begin() as connection:
        upgrade(connection, "0010")
        found = connection.execute(text("SELECT consumer, size_bytes FROM outputs")).one()
        assert tuple(found) == ("physics", 6)
    with engine.begin() as connection:
        downgrade(connection, "0009")
        assert connection.execute(text("SELECT text FROM outputs")).scalar() == output["text"]
    engine.dispose()


def test_how_often_nodes_failed_goes_from_a_text_to_the_nodes_and_back(store_url: str) -> None:
    engine = writing_engine(read_url(store_url))
    kept = {"a/n1": {"failures": 1.5, "watched_ms": 7, "well_ms": -1}}
    with engine.begin() as connection:
        upgrade(connection, "0010")
        nodes = {column["name"]: column for column in inspect(connection).get_columns("nodes")}
        row = {name: 0 if "INT" in str(column["type"]) else "" for name, column in nodes.items()}
        names = ", ".join(row)
        values = ", ".join(f":{name}" for name in row)
        insert = text(f"INSERT INTO nodes ({names}) VALUES ({values})")  # noqa: S608
        connection.execute(insert, row | {"name": "a/n1"})
        told = {"name": "job-nodes", "text": json.dumps(kept)}
        connection.execute(text("INSERT INTO memories (name, text) VALUES (:name, :text)"), told)
    with engine.begin() as connection:
        upgrade(connection, "0011")
        found = connection.execute(text("SELECT name, charged, watched_ms, well_ms FROM nodes")).one()
        assert tuple(found) == ("a/n1", 1.5, 7, -1)
        assert connection.execute(text("SELECT count(*) FROM memories")).scalar() == 0
    with engine.begin() as connection:
        downgrade(connection, "0010")
        assert json.loads(connection.execute(text("SELECT text FROM memories")).scalar_one()) == kept
    engine.dispose()


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
    with pytest.raises(
        InputError, match=r": has schema 9999, newer than this program's \(\d{4}\): update it$"
    ):
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
        (select(schema.leases).where(schema.LIVE).order_by(schema.leases.c.id), "leases_live"),
        (select(schema.leases).where(schema.leases.c.consumer == "physics"), "leases_consumer"),
        (select(schema.orders.c.number).where(schema.OPEN), "orders_open"),
        (select(schema.journal).where(schema.journal.c.lease_id == 1), "journal_lease"),
        (select(schema.answers).where(schema.answers.c.created_ms < 1), "answers_created_ms"),
        (select(schema.usage).where(schema.usage.c.end_ms > 1), "usage_end_ms"),
        (select(job_schema.jobs).where(job_schema.OPEN_JOBS).order_by(job_schema.jobs.c.id), "jobs_open"),
        (select(job_schema.jobs).where(job_schema.jobs.c.consumer == "physics"), "jobs_consumer"),
        (select(job_schema.attempts).where(job_schema.attempts.c.lease_id == 1), "attempts_lease"),
        (select(job_schema.attempts.c.job_id).where(job_schema.attempts.c.site == "a"), "attempts_site"),
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
    wanted = {str(path.relative_to(REPOSITORY)) for path in (REPOSITORY / MIGRATIONS).rglob("*.py")}
    assert wanted <= shipped
    assert str(MIGRATIONS / "script.py.mako") in shipped
