"""Stores for every test of the service: SQLite in the test's folder, PostgreSQL from a server of our own.

A test that takes ``store`` or ``store_url`` runs on both; ``sqlite_store`` is for those to whom the store is
only a place to put things.
"""

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests import needing
from tests.service.stores import store_at

from leasehold.service.store.store import Store, open_store
from leasehold.testing.postgres import PostgresServer, postgres_server

_NUMBERS = itertools.count(1)


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """One PostgreSQL server for all tests; it is gone when they are."""
    with needing.programs(), postgres_server() as server:
        yield server


@pytest.fixture
def postgres_url(postgres: PostgresServer) -> Iterator[str]:
    """The URL of a PostgreSQL database in which there is nothing yet."""
    name = f"store{next(_NUMBERS)}"
    postgres.make(name)
    yield postgres.url(name)
    postgres.drop(name)


@pytest.fixture
def sqlite_url(tmp_path: Path) -> str:
    """The URL of a SQLite file that is not there yet."""
    return f"sqlite:///{tmp_path / 'store.db'}"


@pytest.fixture(params=["sqlite", "postgresql"])
def store_url(request: pytest.FixtureRequest) -> str:
    """The URL of a store that is not there yet, of each kind."""
    return str(request.getfixturevalue("sqlite_url" if request.param == "sqlite" else "postgres_url"))


@pytest.fixture
def store(store_url: str) -> Iterator[Store]:
    """An empty store, of each kind."""
    with open_store(store_url) as store:
        yield store


@pytest.fixture
def sqlite_store(tmp_path: Path) -> Iterator[Store]:
    """An empty store on SQLite, for tests that are not about stores."""
    with store_at(tmp_path / "store.db") as store:
        yield store
