"""What the descriptions of these tests speak of: one moment, and two files."""

import pytest

from leasehold.configuration.job_description.description import Looking
from leasehold.model.errors import InvalidField

SIZES = {"survey.fits": 2_000, "data/model.bin": 7}


def _moment(field: str, text: str) -> int:
    if text != "2026-11-21T18:00:00Z":
        raise InvalidField(field, text, "six o'clock")
    return 1_795_284_000_000


def _size(field: str, path: str) -> int:
    if path not in SIZES:
        raise InvalidField(field, path, "an existing file")
    return SIZES[path]


@pytest.fixture
def looking() -> Looking:
    return Looking(moment_ms=_moment, size_of=_size)
