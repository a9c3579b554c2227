"""The run folders that the tests of the analysis share: written once, only read."""

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.analysis.builders import Tables, small_tables
from tests.analysis.toy_world import ToyWorld

from leasehold.analysis.run import Run


@pytest.fixture(scope="session")
def small(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """The run worked out by hand (`small_tables`)."""
    return small_tables().run(tmp_path_factory.mktemp("runs") / "small")


@pytest.fixture(scope="session")
def toy(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A run of 1,500 random requests on three clusters, with all four types of guests."""
    return ToyWorld(seed=1, jobs=1_500).tables.run(tmp_path_factory.mktemp("runs") / "toy")


@pytest.fixture
def corrupted(tmp_path: Path) -> Callable[[Callable[[Tables], object]], Run]:
    """Write the small run after something was done to its rows."""

    def write(corrupt: Callable[[Tables], object]) -> Run:
        tables = small_tables()
        corrupt(tables)
        return tables.run(tmp_path / "corrupted")

    return write
