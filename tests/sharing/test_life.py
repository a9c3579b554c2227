"""The life of an agreement: what both have to sign, what stands meanwhile, and what its end takes with it."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from leasehold.model.agreement import Agreement, NoLimit, Standing
from leasehold.model.errors import UnknownName
from leasehold.sharing.records import (
    AgreementMove,
    AgreementRecord,
    AgreementSide,
    agreed,
    amend,
    expire,
    in_force,
    lineage,
    propose,
    publish,
    resume,
    revoke,
    sign,
    suspend,
    unpublish,
    withdraw,
)

HOUR_MS = 3_600_000


def terms(name: str = "atlas-at-das3", **more: Any) -> Agreement:
    return Agreement(name=name, provider="das3", consumer="atlas", limit=NoLimit(), **more)


def proposed(agreement: Agreement, *others: AgreementRecord) -> AgreementRecord:
    return propose(agreement, "das3-office", 0, {other.name: other for other in others})


def signed(agreement: Agreement, *others: AgreementRecord) -> AgreementRecord:
    record = sign(proposed(agreement, *others), AgreementSide.PROVIDER, 1, "das3-office", 1)
    return sign(record, AgreementSide.CONSUMER, 1, "atlas-office", 2)


def held(*records: AgreementRecord) -> dict[str, AgreementRecord]:
    return {record.name: record for record in records}


# --- signing ----------------------------------------------------------------------------------------------


def test_a_proposal_binds_nobody() -> None:
    record = proposed(terms())
    assert record.standing is Standing.PROPOSED
    assert not in_force(held(record), record.name, 0)
    assert agreed(held(record)) == ()


@pytest.mark.parametrize("side", AgreementSide)
def test_one_signature_binds_nobody(side: AgreementSide) -> None:
    record = sign(proposed(terms()), side, 1, "somebody", 1)
    assert record.standing is Standing.PROPOSED
    assert agreed(held(record)) == ()


def test_with_both_signatures_it_is_in_force_and_says_since_when() -> None:
    record = signed(terms())
    assert record.standing is Standing.SIGNED
    assert record.since.at_ms == 2
    assert in_force(held(record), record.name, 2)
    assert agreed(held(record)) == (terms(),)


def test_signing_again_changes_nothing() -> None:
    once = sign(proposed(terms()), AgreementSide.PROVIDER, 1, "das3-office", 1)
    assert sign(once, AgreementSide.PROVIDER, 1, "another-office", 5) == once
    both = signed(terms())
    assert sign(both, AgreementSide.CONSUMER, 1, "atlas-office", 9) == both


def test_who_read_another_revision_does_not_sign_this_one() -> None:
    record = amend(proposed(terms()), terms(priority=3), "das3-office", 1)
    with pytest.raises(AgreementMove, match=r"revision 1.*expected.*: revision 2"):
        sign(record, AgreementSide.CONSUMER, 1, "atlas-office", 2)


def test_a_name_stands_for_one_agreement_for_ever() -> None:
    over = revoke(held(signed(terms())), "atlas-at-das3", "atlas-office", 5)["atlas-at-das3"]
    with pytest.raises(AgreementMove, match="a new name"):
        proposed(terms(), over)


def test_nothing_is_proposed_or_signed_after_its_end() -> None:
    with pytest.raises(AgreementMove, match="an end in the future"):
        propose(terms(end_ms=10), "das3-office", 10, {})
    record = proposed(terms(end_ms=10))
    with pytest.raises(AgreementMove, match="an end in the future"):
        sign(record, AgreementSide.PROVIDER, 1, "das3-office", 10)


# --- amending ---------------------------------------------------------------------------------------------


def test_an_amended_proposal_needs_every_signature_anew() -> None:
    record = sign(proposed(terms()), AgreementSide.PROVIDER, 1, "das3-office", 1)
    record = amend(record, terms(priority=3), "atlas-office", 2)
    assert (record.revision, record.current.provider) == (2, None)


def test_what_holds_stays_until_both_have_signed_the_amendment() -> None:
    record = amend(signed(terms()), terms(lending_limit=4), "atlas-office", 5)
    record = sign(record, AgreementSide.CONSUMER, 2, "atlas-office", 6)
    assert record.agreement.lending_limit is None
    assert in_force(held(record), record.name, 6)
    record = sign(record, AgreementSide.PROVIDER, 2, "das3-office", 7)
    assert (record.revision, record.agreement.lending_limit, record.amendment) == (2, 4, None)


def test_no_number_stands_for_two_amendments() -> None:
    record = withdraw(amend(signed(terms()), terms(priority=1), "atlas-office", 5))
    assert (record.amendment, record.agreement.priority) == (None, 0)
    record = amend(record, terms(priority=2), "das3-office", 6)
    with pytest.raises(AgreementMove, match="revision 3"):
        sign(record, AgreementSide.CONSUMER, 2, "atlas-office", 7)


@pytest.mark.parametrize("key", ["provider", "consumer", "resource", "parent"])
def test_an_amendment_does_not_make_another_agreement(key: str) -> None:
    changed: Any = {key: "another"}
    with pytest.raises(AgreementMove, match="a new agreement"):
        amend(signed(terms()), replace(terms(), **changed), "das3-office", 5)


def test_an_amendment_may_postpone_the_end_but_not_after_it() -> None:
    record = signed(terms(end_ms=10))
    later = amend(record, terms(end_ms=20), "das3-office", 9)
    assert later.amendment is not None
    with pytest.raises(AgreementMove, match="an end in the future"):
        amend(record, terms(end_ms=20), "das3-office", 10)
    with pytest.raises(AgreementMove, match="an end in the future"):
        sign(later, AgreementSide.PROVIDER, 2, "das3-office", 10)


# --- publishing -------------------------------------------------------------------------------------------


def test_it_is_published_and_taken_off_the_board_again() -> None:
    record = publish(signed(terms()))
    assert record.published
    assert not unpublish(record).published


# --- suspending, expiring, revoking -----------------------------------------------------------------------


def test_a_suspended_agreement_holds_again_when_it_is_resumed() -> None:
    record = suspend(signed(terms()), "das3-office", 5, "maintenance")
    assert (record.standing, record.note) == (Standing.SUSPENDED, "maintenance")
    assert agreed(held(record)) == ()
    record = resume(record, "das3-office", 6)
    assert agreed(held(record)) == (terms(),)


def test_it_is_in_force_from_its_begin_to_before_its_end() -> None:
    record = signed(terms(begin_ms=10, end_ms=20))
    assert [at for at in (9, 10, 19, 20) if in_force(held(record), record.name, at)] == [10, 19]


def test_expiry_ends_what_has_passed_and_its_delegations() -> None:
    parent = signed(terms(end_ms=20))
    child = signed(terms("part", parent=parent.name), parent)
    other = signed(terms("other", end_ms=21))
    changed = expire(held(parent, child, other), 20)
    assert {name: record.standing for name, record in changed.items()} == {
        "atlas-at-das3": Standing.EXPIRED,
        "part": Standing.EXPIRED,
    }


def test_suspending_a_parent_suspends_its_delegations_in_effect() -> None:
    parent = signed(terms())
    child = signed(terms("part", parent=parent.name), parent)
    records = held(suspend(parent, "das3-office", 5), child)
    assert records["part"].standing is Standing.SIGNED
    assert not in_force(records, "part", 6)
    assert agreed(records) == ()


def test_revoking_a_parent_revokes_all_beneath_it_and_says_why() -> None:
    parent = signed(terms())
    child = signed(terms("part", parent=parent.name), parent)
    grandchild = proposed(terms("part-of-part", parent="part"), parent, child)
    changed = revoke(held(parent, child, grandchild), parent.name, "das3-office", 5, "we need it ourselves")
    assert {record.standing for record in changed.values()} == {Standing.REVOKED}
    assert {record.note for record in changed.values()} == {"we need it ourselves"}
    assert list(changed) == ["atlas-at-das3", "part", "part-of-part"]


def test_a_delegation_that_was_over_keeps_its_own_end() -> None:
    parent = signed(terms())
    child = signed(terms("part", parent=parent.name), parent)
    records = held(parent, child)
    records |= revoke(records, "part", "atlas-office", 3, "no longer wanted")
    assert "part" not in revoke(records, parent.name, "das3-office", 5)


def test_nothing_is_passed_on_of_what_is_not_there_or_over() -> None:
    with pytest.raises(UnknownName, match="parent: got 'atlas-at-das3'"):
        proposed(terms("part", parent="atlas-at-das3"))
    over = revoke(held(signed(terms())), "atlas-at-das3", "das3-office", 5)["atlas-at-das3"]
    with pytest.raises(AgreementMove, match="one can delegate it"):
        proposed(terms("part", parent=over.name), over)


@pytest.mark.parametrize(
    ("move", "standing"),
    [
        (lambda record: resume(record, "x", 9), "signed"),
        (withdraw, "no amendment"),
        (lambda record: suspend(suspend(record, "x", 8), "x", 9), "suspended"),
    ],
)
def test_a_move_that_does_not_fit_says_what_would(move: Any, standing: str) -> None:
    with pytest.raises(AgreementMove, match=rf"agreement atlas-at-das3: got '{standing}', expected .* so that"):
        move(signed(terms()))


# --- any order of moves -----------------------------------------------------------------------------------

SLOTS = st.integers(0, 5)
SIDES = st.sampled_from(AgreementSide)
ENDS = st.none() | st.integers(1, 40)


class AnyLife(RuleBasedStateMachine):
    """Everybody does whatever they like in any order; what is refused changes nothing."""

    @initialize()
    def begin(self) -> None:
        self.records: dict[str, AgreementRecord] = {}
        self.now_ms = 0
        self.ever_over: set[str] = set()

    def name(self, slot: int) -> str:
        return list(self.records)[slot % len(self.records)]

    def move(self, name: str, made: Any) -> None:
        try:
            self.records[name] = made(self.records[name])
        except AgreementMove:
            return

    @rule(end=ENDS, slot=SLOTS, delegated=st.booleans())
    def propose_one(self, end: int | None, slot: int, *, delegated: bool) -> None:
        name = f"a{len(self.records)}"
        parent = self.name(slot) if delegated and self.records else ""
        begin_ms = self.now_ms + 2 if slot == 1 else None
        agreement = terms(name, end_ms=end and self.now_ms + end, parent=parent, begin_ms=begin_ms)
        try:
            self.records[name] = propose(agreement, "office", self.now_ms, self.records)
        except AgreementMove:
            assert self.records[parent].is_over

    @precondition(lambda self: self.records)
    @rule(slot=SLOTS, side=SIDES, back=st.integers(0, 1))
    def sign_one(self, slot: int, side: AgreementSide, back: int) -> None:
        number = self.records[self.name(slot)].revisions - back
        self.move(self.name(slot), lambda it: sign(it, side, number, "office", self.now_ms))

    @precondition(lambda self: self.records)
    @rule(slot=SLOTS, end=ENDS)
    def amend_one(self, slot: int, end: int | None) -> None:
        end_ms = end and self.now_ms + end
        self.move(
            self.name(slot),
            lambda it: amend(it, replace(it.agreement, end_ms=end_ms), "office", self.now_ms),
        )

    @precondition(lambda self: self.records)
    @rule(slot=SLOTS, made=st.sampled_from([withdraw, publish, unpublish]))
    def change_one(self, slot: int, made: Any) -> None:
        self.move(self.name(slot), made)

    @precondition(lambda self: self.records)
    @rule(slot=SLOTS, made=st.sampled_from([suspend, resume]))
    def stop_or_go(self, slot: int, made: Any) -> None:
        self.move(self.name(slot), lambda it: made(it, "office", self.now_ms))

    @precondition(lambda self: self.records)
    @rule(slot=SLOTS)
    def revoke_one(self, slot: int) -> None:
        if not self.records[self.name(slot)].is_over:
            self.records |= revoke(self.records, self.name(slot), "office", self.now_ms)

    @rule(by=st.integers(1, 15), told=st.booleans())
    def pass_time(self, by: int, *, told: bool) -> None:
        self.now_ms += by
        if told:
            self.records |= expire(self.records, self.now_ms)

    @invariant()
    def nothing_holds_that_was_not_signed_by_both(self) -> None:
        for record in self.records.values():
            if record.standing in (Standing.SIGNED, Standing.SUSPENDED):
                assert record.current.is_signed
            if in_force(self.records, record.name, self.now_ms):
                assert record.current.is_signed

    @invariant()
    def nothing_holds_outside_its_time(self) -> None:
        for record in self.records.values():
            if in_force(self.records, record.name, self.now_ms):
                begin_ms, end_ms = record.agreement.begin_ms, record.agreement.end_ms
                assert begin_ms is None or begin_ms <= self.now_ms
                assert end_ms is None or self.now_ms < end_ms

    @invariant()
    def no_part_holds_without_the_whole(self) -> None:
        for name in self.records:
            if in_force(self.records, name, self.now_ms):
                assert all(in_force(self.records, step, self.now_ms) for step in lineage(self.records, name))

    @invariant()
    def what_is_over_stays_over_and_takes_its_parts_along(self) -> None:
        over = {name for name, record in self.records.items() if record.is_over}
        assert self.ever_over <= over
        self.ever_over = over
        assert all(self.records[name].agreement.parent not in over or name in over for name in self.records)

    @invariant()
    def the_gateway_is_told_whatever_is_in_force(self) -> None:
        told = {agreement.name for agreement in agreed(self.records)}
        assert {name for name in self.records if in_force(self.records, name, self.now_ms)} <= told


TestAnyLife = AnyLife.TestCase
