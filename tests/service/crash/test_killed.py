"""A gateway is killed with SIGKILL again and again, under load: nothing accepted is lost or run twice.

Each storm is drawn from its number. A failure names it; the same one again:

    pytest 'tests/service/crash/test_killed.py::test_...[sqlite-3]'

and other ones, as many as wanted: ``LEASEHOLD_STORMS=100:140``.
"""

import os
from pathlib import Path

import pytest
from tests.service.crash.storm import Storm

KILLS = 25


def _numbers() -> range:
    first, _, end = os.environ.get("LEASEHOLD_STORMS", "0:4").partition(":")
    return range(int(first), int(end))


@pytest.mark.storm
@pytest.mark.parametrize("number", _numbers())
def test_a_gateway_that_is_killed_loses_nothing_and_does_nothing_twice(
    store_url: str, tmp_path: Path, number: int
) -> None:
    storm = Storm(store_url, tmp_path, number)
    storm.rage(KILLS)
    storm.judge(storm.calm())
    assert storm.kills == KILLS
