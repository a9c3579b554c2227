"""Records on the wire and back."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, get_type_hints

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leasehold.client.reading import read, wire
from leasehold.client.records import (
    Caller,
    Capabilities,
    Change,
    Entry,
    Lease,
    NewToken,
    Occupancy,
    Queue,
    Site,
    Token,
)
from leasehold.model.lease import LeaseState
from leasehold.model.request import LEASE_TYPES, LeaseType

MOMENTS = st.datetimes(datetime(1970, 1, 1), datetime(2200, 1, 1), timezones=st.just(UTC)).map(  # noqa: DTZ001
    lambda moment: moment.replace(microsecond=moment.microsecond // 1000 * 1000)
)
SPECIAL: dict[Any, st.SearchStrategy[Any]] = {
    datetime: MOMENTS,
    datetime | None: st.none() | MOMENTS,
    Mapping[str, Any] | None: st.none() | st.dictionaries(st.text(), st.integers()),
}


def records(kind: type) -> st.SearchStrategy[Any]:
    """Make any record of this kind; times on the wire have milliseconds."""
    hints = get_type_hints(kind).items()
    return st.builds(kind, **{name: SPECIAL.get(hint, st.from_type(hint)) for name, hint in hints})


@pytest.mark.parametrize("kind", [Caller, Capabilities, Change, Entry, Lease, NewToken, Occupancy, Queue, Site, Token])
@given(data=st.data())
def test_a_record_comes_back_as_it_went(kind: type, data: st.DataObject) -> None:
    record = data.draw(records(kind))
    assert read(kind, wire(record)) == record


@pytest.mark.parametrize("name", LEASE_TYPES)
def test_types_are_on_the_wire_as_users_write_them(name: str) -> None:
    assert wire(LEASE_TYPES[name]) == name


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (datetime(2026, 11, 21, 10, 43, 36, 120_999, UTC), "2026-11-21T10:43:36.120Z"),
        (LeaseState.RUNNING, "running"),
        (LeaseType.CANCELABLE, "cancelable"),
        (("a", LeaseType.CANCELABLE), ["a", "cancelable"]),
        (None, None),
        ({"cost": 1}, {"cost": 1}),
    ],
)
def test_plain_values(value: Any, expected: Any) -> None:
    assert wire(value) == expected
