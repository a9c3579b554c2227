"""Live gateways whose clock is moved by hand, each with a store of its own."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from itertools import count
from pathlib import Path

import pytest
from tests.service.engine.examples import two_sites
from tests.service.stores import store_at

from leasehold.service.store.store import Store
from leasehold.testing.live import Live

NewStore = Callable[[], AbstractContextManager[Store]]


@pytest.fixture
def new_store(tmp_path: Path) -> NewStore:
    """What opens a new store, as often as it is asked, and takes it away again."""
    numbers = count()

    @contextmanager
    def opened() -> Iterator[Store]:
        path = tmp_path / f"{next(numbers)}.db"
        with store_at(path) as store:
            yield store
        path.unlink()

    return opened


@pytest.fixture
def sqlite_store(new_store: NewStore) -> Iterator[Store]:
    """An empty store."""
    with new_store() as store:
        yield store


@pytest.fixture
def live(sqlite_store: Store) -> Live:
    """Sites a and b of 4 VMs each. Saving takes 2 s, loading 3 s, moving 7 s; guests go to a first."""
    return two_sites(sqlite_store)
