"""What tests of all kinds of machines share."""

import fcntl
from collections.abc import Iterator

import pytest

# The suite that ships is not below this folder, and its asserts are to be as readable as those that are.
pytest.register_assert_rewrite(
    "leasehold.testing.enactors",
    "leasehold.testing.enactor_rig",
    "leasehold.testing.enactor_jobs",
    "leasehold.testing.enactor_naps",
)


@pytest.fixture
def alone_with_many_guests(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Let no two tests that run several virtual machines each run them at once, whoever runs the tests."""
    shared = tmp_path_factory.getbasetemp().parent
    with (shared / "many-guests.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
