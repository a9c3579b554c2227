"""Workers get whole groups of tests, so that what the tests of a file share is made once."""

import pytest


def test_where_there_are_workers_a_test_says_its_group(request: pytest.FixtureRequest) -> None:
    """pytest-xdist appends the group to the ID, and schedules by that; under some pytests it does so in vain."""
    are_grouped = getattr(request.config.option, "loadgroup", False)
    assert request.node.nodeid.endswith("@tests/test_grouping.py") == are_grouped
