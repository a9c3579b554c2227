"""A month's statement, by hand: 8 CPUs in the domain `ours`, 2 at the site `c`, for 1000 ms."""

from typing import Any

import pytest

from leasehold.model.agreement import Agreement, Commitment, NoLimit, Standing
from leasehold.service.statement import Ground, Line, statement
from leasehold.service.store.rows import PenaltyRow
from leasehold.sharing.records import Record, Revision, Signature
from leasehold.testing.rows import usage_row

TIME = (1_000, 2_000)
GROUND = Ground({"a": 4, "b": 4, "ours": 8, "c": 2, "*": 10}, {"a": "ours", "b": "ours", "c": ""})
HALF = Commitment(epoch_ppm=500_000, epoch_ms=100, burst_ppm=750_000, burst_ms=10)
ATLAS = Agreement("atlas-at-ours", "ours", "atlas", HALF)


def record(agreement: Agreement = ATLAS, standing: Standing = Standing.SIGNED, since_ms: int = 500) -> Record:
    signed = Signature("operators", 400)
    return Record(Revision(agreement, 1, signed, signed, signed), standing, Signature("operators", since_ms))


def penalty(**said: Any) -> PenaltyRow:
    row: Any = {
        "id": 1, "agreement": "atlas-at-ours", "provider": "ours", "consumer": "atlas", "points": 5,
        "since_ms": 1_500, "until_ms": None, "lease_id": 1, "lifted_ms": None, "lifted_by": "",
    }  # fmt: skip
    found: PenaltyRow = row | said
    return found


def lines(*records: Record, rows: Any = (), penalties: Any = ()) -> dict[str, Line]:
    drawn_up = statement("atlas", TIME, rows, records, penalties, GROUND)
    return {line.domain: line for line in drawn_up}


def test_what_was_agreed_beside_what_was_used() -> None:
    rows = [
        usage_row(1, 900, 1_400, vms=4, domain="ours"),
        usage_row(2, 1_300, 2_500, vms=2, site="b", domain="ours"),
        usage_row(3, 1_000, 1_100, vms=1, site="c"),
    ]
    found = lines(record(), rows=[row for row in rows if row["end_ms"] > TIME[0]], penalties=[penalty()])
    assert list(found) == ["c", "ours", "*"]
    ours = found["ours"]
    assert [(share.agreement, share.share_ppm, share.burst_ppm) for share in ours.shares] == [
        ("atlas-at-ours", 500_000, 750_000)
    ]
    assert ours.shares[0].vm_ms == 4 * 1_000
    assert (ours.used_vm_ms, ours.capacity_vm_ms) == (4 * 400 + 2 * 700, 8 * 1_000)
    assert (ours.peak_vms, ours.leases, len(ours.penalties)) == (6, 2, 1)
    assert (found["c"].used_vm_ms, found["c"].capacity_vm_ms, found["c"].shares) == (100, 2_000, ())
    assert (found["*"].used_vm_ms, found["*"].capacity_vm_ms, found["*"].leases) == (3_100, 10_000, 3)
    assert len(found["*"].penalties) == 1


def test_the_sites_own_users_are_not_in_it() -> None:
    found = lines(rows=[usage_row(1, 1_000, 1_400, is_local=1)])
    assert list(found) == ["*"]
    assert found["*"].used_vm_ms == 0


def test_an_agreement_with_one_site_is_with_its_domain() -> None:
    at_a = Agreement("at-a", "a", "atlas", NoLimit())
    assert [share.agreement for share in lines(record(at_a))["ours"].shares] == ["at-a"]


def test_an_agreement_with_all_is_with_the_sum() -> None:
    everywhere = Agreement("everywhere", "*", "atlas", HALF)
    (total,) = lines(record(everywhere)).values()
    assert [(share.agreement, share.vm_ms) for share in total.shares] == [("everywhere", 5_000)]


def test_a_share_counts_for_its_time() -> None:
    part = Agreement("part", "ours", "atlas", HALF, begin_ms=1_250, end_ms=1_750)
    assert lines(record(part))["ours"].shares[0].vm_ms == 4 * 500


@pytest.mark.parametrize(
    "other",
    [
        record(Agreement("of-cms", "ours", "cms", HALF)),
        record(Agreement("of-a-part", "ours", "atlas/prod", HALF)),
        record(Agreement("of-memory", "ours", "atlas", HALF, resource="memory_mib")),
        record(Agreement("later", "ours", "atlas", HALF, begin_ms=2_000)),
        record(Agreement("before", "ours", "atlas", HALF, end_ms=1_000)),
        record(standing=Standing.REVOKED, since_ms=900),
        Record(Revision(ATLAS, 1, Signature("x", 1)), Standing.PROPOSED, Signature("x", 1)),
    ],
    ids=lambda one: f"{one.name} {one.standing}",
)
def test_what_did_not_hold_in_that_time_is_not_in_it(other: Record) -> None:
    assert list(lines(other)) == ["*"]


@pytest.mark.parametrize("said", [{"since_ms": 999}, {"since_ms": 2_000}, {"consumer": "cms"}])
def test_nor_is_a_penalty_of_another_time_or_of_others(said: dict[str, Any]) -> None:
    assert list(lines(penalties=[penalty(**said)])) == ["*"]
