"""A copy has the values of its record, and goes its own way."""

from dataclasses import fields

import pytest

from leasehold.model.copier import copier
from leasehold.model.lease import Lease, LeaseState
from leasehold.model.request import LeaseType, Request
from leasehold.service.drivers.protocol import Order, Verb
from leasehold.service.store.rows import LeaseMetadata, OrderRow

REQUEST = Request(1, LeaseType.SUSPENDABLE, 2, 60_000, 0, 0)
RECORDS = (
    Lease(1, REQUEST, 2, 7, 60_000, site="a", state=LeaseState.RUNNING, placed=(("n1", 2, ()),)),
    LeaseMetadata("mine", ("true",), onward=("b",), reported="x"),
    OrderRow(Order("1.1.start", Verb.START, 1, 1, 2, 1024), "a", "pending", 3, 5, "late", 4),
)


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: type(record).__name__)
def test_every_value_is_that_of_the_record(record: object) -> None:
    copied = copier(type(record))(record)
    assert copied is not record
    for each in fields(record):  # type: ignore[arg-type]  # all are dataclasses
        assert getattr(copied, each.name) is getattr(record, each.name)


def test_what_becomes_of_the_copy_is_its_own() -> None:
    lease = Lease(1, REQUEST, 2, 7, 60_000)
    copied = copier(Lease)(lease)
    copied.site = "b"
    assert lease.site == ""
