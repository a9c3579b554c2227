"""An agreement in the store that this version would refuse: a start goes on, and it gives nothing."""

import json
from dataclasses import replace

import pytest

from leasehold.configuration.agreements import agreement_from_dict
from leasehold.model.agreement import Standing
from leasehold.service.engine.agreements import record_of, row_of_record
from leasehold.service.store.rows import AgreementRow
from leasehold.sharing.records import AgreementSide, propose, sign

TERMS = {
    "name": "a", "provider": "das3", "consumer": "atlas", "kind": "udecay", "share": 0.3, "window_s": 300,
    "windows": 4,
}  # fmt: skip


@pytest.fixture
def row() -> AgreementRow:
    """A signed agreement, as the store has it."""
    record = propose(agreement_from_dict(TERMS), "admin", 1, {})
    for side in AgreementSide:
        record = sign(record, side, 1, "admin", 2)
    assert record.standing is Standing.SIGNED
    return row_of_record(record)


@pytest.mark.parametrize(
    "wrong",
    [
        {"windows": 9 * 10**15},
        {"window_s": 0.001},
        {"share": -1},
        {"kind": "decay", "factors": [0.5] * 8_001, "windows": None},
        {"lending_limit": 10**30},
    ],
)
def test_out_of_bounds_it_is_suspended_and_says_why(row: AgreementRow, wrong: dict[str, object]) -> None:
    document = {key: value for key, value in (TERMS | wrong).items() if value is not None}
    held = [{"document": document, "begin_ms": 2, "end_ms": 3}]
    record = record_of(replace(row, document=json.dumps(document), held=json.dumps(held)))
    assert (record.name, record.agreement.consumer) == ("a", "atlas")
    assert record.standing is Standing.SUSPENDED
    assert record.note.startswith("suspended at a start: its stored terms are refused")
    assert record.agreement.lending_limit == 0
    assert record_of(row_of_record(record)) == record


def test_within_bounds_it_is_what_it_was(row: AgreementRow) -> None:
    record = record_of(row)
    assert record.standing is Standing.SIGNED
    assert row_of_record(record) == row
