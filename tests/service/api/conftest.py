"""The API's tests have a house each: a whole federation, in one process and without a socket."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.searching import PROFILE
from tests.service.api.house import House, house_in

# The cases of a fuzzer are made while tests are collected, for seconds and by every worker; make test leaves them out.
collect_ignore = ["test_schema.py"] if PROFILE == "quick" else []


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    """A house with two sites, das3 with 64 machines and lyon with 32."""
    with house_in(tmp_path) as house:
        yield house
