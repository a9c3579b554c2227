"""A month's statement, by hand: 8 CPUs in the domain `ours`, 2 at the site `c`, for 1000 ms."""

from dataclasses import replace
from typing import Any

import pytest

from leasehold.model.agreement import Agreement, Commitment, NoLimit, Penalty
from leasehold.service.accounting import Ground, Line, statement
from leasehold.service.store.rows import PenaltyRow
from leasehold.sharing.records import (
    AgreementRecord,
    AgreementSide,
    amend,
    propose,
    publish,
    resume,
    revoke,
    sign,
    suspend,
)
from leasehold.testing.rows import usage_row

TIME = (1_000, 2_000)
GROUND = Ground({"a": 4, "b": 4, "ours": 8, "c": 2, "*": 10}, {"a": "ours", "b": "ours", "c": ""})
HALF = Commitment(epoch_ppm=500_000, epoch_ms=100, burst_ppm=750_000, burst_ms=10)
ATLAS = Agreement("atlas-at-ours", "ours", "atlas", HALF)
PARENT = sign(
    sign(propose(Agreement("all", "ours", "science", HALF), "x", 300, {}), AgreementSide.PROVIDER, 1, "x", 300),
    AgreementSide.CONSUMER,
    1,
    "x",
    300,
)


def record(agreement: Agreement = ATLAS, at_ms: int = 400) -> AgreementRecord:
    """An agreement that both sign at once."""
    proposed = propose(agreement, "operators", at_ms, {agreement.parent: PARENT} if agreement.parent else {})
    for side in AgreementSide:
        proposed = sign(proposed, side, 1, "operators", at_ms)
    return proposed


def revoked(record: AgreementRecord, at_ms: int) -> AgreementRecord:
    return revoke({record.name: record}, record.name, "operators", at_ms)[record.name]


def penalty(**said: Any) -> PenaltyRow:
    return PenaltyRow(1, replace(Penalty("atlas-at-ours", "ours", "atlas", 5, 1_500, None), **said), 1)


def lines(*records: AgreementRecord, rows: Any = (), penalties: Any = ()) -> dict[str, Line]:
    known = {one.name: one for one in records}
    drawn_up = statement("atlas", TIME, rows, records, penalties, GROUND, known=known)
    return {line.domain: line for line in drawn_up}


def test_what_was_agreed_beside_what_was_used() -> None:
    rows = [
        usage_row(1, 900, 1_400, vms=4, domain="ours"),
        usage_row(2, 1_300, 2_500, vms=2, site="b", domain="ours"),
        usage_row(3, 1_000, 1_100, vms=1, site="c"),
    ]
    found = lines(record(), rows=[row for row in rows if row.end_ms > TIME[0]], penalties=[penalty()])
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


def given(*records: AgreementRecord) -> int:
    """VM-milliseconds that atlas was given at ours, by these agreements together."""
    drawn_up = lines(*records)
    return sum(share.vm_ms for share in drawn_up["ours"].shares) if "ours" in drawn_up else 0


def test_it_counts_from_the_second_signature_on() -> None:
    once = sign(propose(ATLAS, "x", 400, {}), AgreementSide.PROVIDER, 1, "operators", 500)
    assert given(once) == 0
    assert given(sign(once, AgreementSide.CONSUMER, 1, "atlas", 1_900)) == 4 * 100


def test_until_it_is_revoked() -> None:
    assert given(revoked(record(at_ms=1_200), 1_214)) == 4 * 14


def test_not_while_it_is_suspended() -> None:
    away = suspend(record(), "x", 1_100)
    assert given(away) == 4 * 100
    assert given(resume(away, "x", 1_700)) == 4 * (100 + 300)
    assert given(revoked(away, 1_700)) == 4 * 100


def test_on_the_terms_of_the_time() -> None:
    quarter = replace(ATLAS, limit=replace(HALF, epoch_ppm=250_000))
    drawn_up = amend(record(), quarter, "x", 1_100)
    assert given(drawn_up) == 4 * 1_000
    both = sign(sign(drawn_up, AgreementSide.PROVIDER, 2, "x", 1_300), AgreementSide.CONSUMER, 2, "x", 1_500)
    assert given(both) == 4 * 500 + 2 * 500
    assert lines(both)["ours"].shares[0].share_ppm == 250_000


def test_what_is_passed_on_counts_as_it_reads_beneath_its_parent_and_while_that_holds() -> None:
    part = record(Agreement("part", "ours", "atlas", HALF, parent="all", relative=True))
    assert given(PARENT, part) == 2 * 1_000  # half of the half that the parent gives
    assert lines(PARENT, part)["ours"].shares[0].share_ppm == 250_000
    assert given(suspend(PARENT, "x", 1_250), part) == 2 * 250
    assert given(part) == 0  # a parent that is not there


def test_moves_that_change_nothing_of_its_force_change_no_statement() -> None:
    assert given(publish(sign(record(), AgreementSide.PROVIDER, 1, "x", 1_500))) == 4 * 1_000


@pytest.mark.parametrize(
    "other",
    [
        record(Agreement("of-cms", "ours", "cms", HALF)),
        record(Agreement("of-a-part", "ours", "atlas/prod", HALF)),
        record(Agreement("of-memory", "ours", "atlas", HALF, resource="memory_mib")),
        record(Agreement("later", "ours", "atlas", HALF, begin_ms=2_000)),
        record(Agreement("before", "ours", "atlas", HALF, end_ms=1_000)),
        revoked(record(), 900),
        record(at_ms=2_000),
        propose(ATLAS, "x", 1, {}),
    ],
    ids=lambda one: f"{one.name} {one.standing}",
)
def test_what_did_not_hold_in_that_time_is_not_in_it(other: AgreementRecord) -> None:
    assert list(lines(other)) == ["*"]


@pytest.mark.parametrize("said", [{"since_ms": 999}, {"since_ms": 2_000}, {"consumer": "cms"}])
def test_nor_is_a_penalty_of_another_time_or_of_others(said: dict[str, Any]) -> None:
    assert list(lines(penalties=[penalty(**said)])) == ["*"]
