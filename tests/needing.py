"""Programs that some tests need: without them a test is skipped, and in CI it fails."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from leasehold.testing.debian import ProgramMissing


@contextmanager
def programs() -> Iterator[None]:
    """Skip a test whose set-up raises ProgramMissing, with the command that installs the program."""
    try:
        yield
    except ProgramMissing as missing:
        if os.environ.get("CI") == "true":
            pytest.fail(str(missing))
        pytest.skip(str(missing))
