"""What every test shares: how Hypothesis searches, and where public workload logs may lie."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.searching import search

REPOSITORY = Path(__file__).resolve().parent.parent

search()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """Say how many processes test at a time: more than processors, since many a test waits for a server."""
    return (os.cpu_count() or 1) * 3 // 2


@pytest.fixture(scope="session")
def workload_log() -> Callable[[str], Path]:
    """Find a public workload log by file name, or skip the test; mark such tests ``traces``."""
    folder = Path(os.environ.get("LEASEHOLD_TRACES", REPOSITORY.parent / "shared" / "traces"))

    def find(name: str) -> Path:
        path = folder / name
        if not path.is_file():
            pytest.skip(f"no {name} in {folder}: set LEASEHOLD_TRACES to the folder of your logs")
        return path

    return find
