"""What has happened to an agreement, and what may happen next? From its proposal to its end.

::

               sign by both          suspend
    proposed ───────────────> signed ─────────> suspended
        │                       │    <─────────     │
        │                       │      resume       │
        ├───────────────────────┴───────────────────┤
        v                                           v
    revoked  (somebody wants it no longer)      expired  (its end has come)

Requirements (a) and (b) of Dumitrescu et al. 2007, section 2.3: both parties agree; agreements are found, and
passed on. Functions take records and give new ones; who may move what is decided by whoever calls.

An amendment is a new revision. Until both have signed it, the one before it holds. A *delegation* (an
agreement with a parent) is in force while its parent is: suspending the parent suspends it in effect, and
whatever ends the parent ends it as well. Leases that run under an agreement when it ends stay until their own
end; those that wait are asked about again under the agreements that are left.
"""

from collections.abc import Iterable
from dataclasses import replace

from leasehold.model.agreement import Agreement, Standing
from leasehold.model.errors import InvalidField, UnknownName
from leasehold.sharing.records import (
    OVER,
    Record,
    Records,
    Revision,
    Side,
    Signature,
    delegations,
    find,
    is_past,
)

_ALIVE = frozenset(Standing) - OVER

_ALLOWED: dict[str, frozenset[Standing]] = {
    "sign": _ALIVE,
    "publish": _ALIVE,
    "unpublish": frozenset(Standing),
    "amend": _ALIVE,
    "withdraw": frozenset({Standing.SIGNED, Standing.SUSPENDED}),
    "suspend": frozenset({Standing.SIGNED}),
    "resume": frozenset({Standing.SUSPENDED}),
    "revoke": _ALIVE,
    "delegate": _ALIVE,
}
"""From which standings each move may be made. `expire` is no move: its time comes."""

_FOR_EVER = ("name", "provider", "consumer", "resource", "parent")
"""What no amendment changes: it would be another agreement."""


class AgreementMove(InvalidField):
    """A move that the standing of an agreement does not allow."""

    def __init__(self, name: str, found: object, expected: str) -> None:
        self.name = name
        super().__init__(f"agreement {name}", found, expected)


# --- moves of one agreement ---------------------------------------------------------------------------------


def propose(agreement: Agreement, by: str, now_ms: int, others: Records) -> Record:
    """Draw up an agreement; nobody has signed it yet. ``others`` are all that there are, or ever were.

    Raises AgreementMove if the name was used before, the end has passed already, or the parent is over;
    UnknownName for a parent that is not there.
    """
    if agreement.name in others:
        raise AgreementMove(agreement.name, "a name in use", "a new name: a name stands for one agreement for ever")
    _check_end(agreement, now_ms)
    if agreement.parent:
        _check_parent(agreement, others)
    drawn_up = Signature(by, now_ms)
    return Record(Revision(agreement, 1, drawn_up), Standing.PROPOSED, drawn_up)


def sign(record: Record, side: Side, revision: int, by: str, now_ms: int) -> Record:
    """Sign a revision for one side; with both signatures it holds. Who signs again changes nothing.

    ``revision`` says which one was read. Raises AgreementMove if another one, or none, waits for signatures.
    """
    _check(record, "sign")
    if record.current.number == revision and record.current.is_signed:
        return record
    waiting = record.to_sign
    if waiting is None or waiting.number != revision:
        known = "none" if waiting is None else f"revision {waiting.number}"
        raise AgreementMove(record.name, f"revision {revision}", f"the revision that waits for signatures: {known}")
    _check_end(record.agreement, now_ms)
    _check_end(waiting.agreement, now_ms)
    signed = _with_signature(waiting, side, Signature(by, now_ms))
    if record.standing is Standing.PROPOSED:
        return _first_signed(record, signed).at(now_ms)
    return _amended(record, signed).at(now_ms)


def amend(record: Record, agreement: Agreement, by: str, now_ms: int) -> Record:
    """Draw up a new revision: it replaces a proposal, or stands beside what holds until both have signed it.

    Raises AgreementMove if the agreement is over, or would become another one: by another name, provider,
    consumer, resource or parent.
    """
    _check(record, "amend")
    for name in _FOR_EVER:
        value, before = getattr(agreement, name), getattr(record.agreement, name)
        if value != before:
            raise AgreementMove(
                record.name, value, f"the {name} {before!r} as before: anything else is a new agreement"
            )
    _check_end(record.agreement, now_ms)
    _check_end(agreement, now_ms)
    number = record.revisions + 1
    drawn_up = Revision(agreement, number, Signature(by, now_ms))
    if record.standing is Standing.PROPOSED:
        return replace(record, current=drawn_up, revisions=number)
    return replace(record, amendment=drawn_up, revisions=number)


def withdraw(record: Record) -> Record:
    """Take an amendment back that is not signed by both. Raises AgreementMove if there is none."""
    _check(record, "withdraw")
    if record.amendment is None:
        raise AgreementMove(record.name, "no amendment", "one that waits for signatures, so that it can be withdrawn")
    return replace(record, amendment=None)


def publish(record: Record) -> Record:
    """Let everybody discover it. Raises AgreementMove if it is over."""
    _check(record, "publish")
    return replace(record, published=True)


def unpublish(record: Record) -> Record:
    """Let only its two parties see it."""
    _check(record, "unpublish")
    return replace(record, published=False)


def suspend(record: Record, by: str, now_ms: int, note: str = "") -> Record:
    """Put it out of force for a while, and its delegations with it.

    Raises AgreementMove if it is not signed, or suspended already.
    """
    _check(record, "suspend")
    return replace(record, standing=Standing.SUSPENDED, since=Signature(by, now_ms), note=note).at(now_ms)


def resume(record: Record, by: str, now_ms: int) -> Record:
    """Put it in force again. Raises AgreementMove if it is not suspended, or its end has come."""
    _check(record, "resume")
    _check_end(record.agreement, now_ms)
    return replace(record, standing=Standing.SIGNED, since=Signature(by, now_ms), note="").at(now_ms)


# --- what the end of one agreement means for others ---------------------------------------------------------


def revoke(records: Records, name: str, by: str, now_ms: int, note: str = "") -> dict[str, Record]:
    """End an agreement and all its delegations; returns those that changed.

    A proposal is taken back in the same way. Raises UnknownName, or AgreementMove if it is over already.
    """
    _check(find(records, name), "revoke")
    since = Signature(by, now_ms)
    return _ended(records, [name], Standing.REVOKED, since, note)


def expire(records: Records, now_ms: int) -> dict[str, Record]:
    """End the agreements whose end has come, and all their delegations; returns those that changed."""
    due = [name for name, record in records.items() if not record.is_over and is_past(record.agreement, now_ms)]
    return _ended(records, due, Standing.EXPIRED, Signature("", now_ms), "")


def _ended(
    records: Records, names: Iterable[str], standing: Standing, since: Signature, note: str
) -> dict[str, Record]:
    ending = list(names)
    for name in ending:  # grows as delegations are found
        ending += [child for child in delegations(records, name) if child not in ending]
    return {
        name: replace(records[name], standing=standing, since=since, amendment=None, note=note).at(since.at_ms)
        for name in ending
        if not records[name].is_over
    }


# --- checks -------------------------------------------------------------------------------------------------


def _check(record: Record, move: str) -> None:
    allowed = _ALLOWED[move]
    if record.standing not in allowed:
        expected = f"{' or '.join(sorted(allowed))}, so that one can {move} it"
        raise AgreementMove(record.name, str(record.standing), expected)


def _check_end(agreement: Agreement, now_ms: int) -> None:
    if is_past(agreement, now_ms):
        raise AgreementMove(agreement.name, "an end that has passed", "an end in the future, or none")


def _check_parent(agreement: Agreement, others: Records) -> None:
    if agreement.parent not in others:
        raise UnknownName("parent", agreement.parent, others)
    _check(others[agreement.parent], "delegate")


def _with_signature(revision: Revision, side: Side, signature: Signature) -> Revision:
    if side is Side.PROVIDER:
        return replace(revision, provider=revision.provider or signature)
    return replace(revision, consumer=revision.consumer or signature)


def _first_signed(record: Record, signed: Revision) -> Record:
    if not signed.is_signed:
        return replace(record, current=signed)
    return replace(record, current=signed, standing=Standing.SIGNED, since=_last_signature(signed))


def _amended(record: Record, signed: Revision) -> Record:
    if not signed.is_signed:
        return replace(record, amendment=signed)
    return replace(record, current=signed, amendment=None)


def _last_signature(revision: Revision) -> Signature:
    assert revision.provider is not None
    assert revision.consumer is not None
    return max(revision.provider, revision.consumer, key=lambda signature: signature.at_ms)
