"""What every test shares: how Hypothesis searches, which tests share a worker, where workload logs are."""

import gc
import os
from collections.abc import Callable, Generator
from pathlib import Path

import pytest
from tests.searching import search

REPOSITORY = Path(__file__).resolve().parent.parent

ON_ONE_WORKER = {
    "tests/service/drivers/qemu": "guests",
    "tests/service/drivers/libvirt": "guests",
    "tests/service/jobs/test_real_machines.py": "guests",
    "tests/service/peers/test_real_machines.py": "guests",
    "tests/service/drivers/slurm": "slurm",
    "tests/service/drivers/ec2": "ec2",
}
"""Tests that share servers, or that several at a time would be too much for a small computer."""

LONG = ("docs", "soak", "storm")

search()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """Say how many processes test at a time: more than processors, since many a test waits for a server."""
    return (os.cpu_count() or 1) * 3 // 2


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Keep the garbage collector from what collection makes: millions of objects, which last as long as the process.

    It would look through all of them again and again, for a quarter of the time that tests take.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark those that need PostgreSQL, and give each test a group.

    With ``--dist loadgroup`` one worker runs a group, so that its servers start once.
    """
    for item in items:
        if _needs_postgresql(item):
            item.add_marker(pytest.mark.machines)
            item.own_markers = [mark for mark in item.own_markers if mark.name != "example"]
        item.add_marker(pytest.mark.xdist_group(_group(item)))


def _needs_postgresql(item: pytest.Item) -> bool:
    """Whether it runs on a server that not everybody has: of tests that run on each kind of store, one case does."""
    callspec = getattr(item, "callspec", None)
    is_of_many = callspec is not None and "postgresql" in callspec.params.values()
    return is_of_many or not {"postgres", "postgres_url"}.isdisjoint(getattr(item, "fixturenames", ()))


def _group(item: pytest.Item) -> str:
    """The servers that it shares, or else its file; what takes long is on its own."""
    file = item.path.relative_to(REPOSITORY).as_posix()
    shared = next((name for prefix, name in ON_ONE_WORKER.items() if file.startswith(prefix)), None)
    if shared is not None:
        return shared
    if _needs_postgresql(item):
        return "postgresql"
    if any(item.get_closest_marker(name) for name in LONG):
        return item.nodeid
    return file


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
