"""What is kept of an agreement, what has happened to it, and what may happen next? From its proposal to its end.

::

               sign by both          suspend
    proposed ───────────────> signed ─────────> suspended
        │                       │    <─────────     │
        │                       │      resume       │
        ├───────────────────────┴───────────────────┤
        v                                           v
    revoked   (a party wants it no longer)      expired  (its end has come)

Requirements (a) and (b) of Dumitrescu et al. 2007, section 2.3: both parties agree; agreements are found, and
passed on. Functions take records and return new ones; the caller checks permissions.

An amendment is a new revision. Until both have signed it, the one before it holds. A *delegation* (an
agreement with a parent) is in force while its parent is: suspending the parent suspends it in effect, and
whatever ends the parent ends it as well. Leases that run under an agreement when it ends stay until their own
end; those that wait are asked about again under the agreements that are left.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from leasehold.model.agreement import Agreement, Standing
from leasehold.model.errors import InvalidField, UnknownName

OVER = frozenset({Standing.EXPIRED, Standing.REVOKED})
"""From here no move leads on."""


class AgreementSide(StrEnum):
    """The side a signature is for. In a delegation the parent's consumer signs for the provider."""

    PROVIDER = "provider"
    CONSUMER = "consumer"


@dataclass(frozen=True, slots=True)
class Signature:
    """The author and time of a signature."""

    by: str
    at_ms: int


@dataclass(frozen=True, slots=True)
class Revision:
    """One revision of an agreement, with its author and signatures. The first has the number 1."""

    agreement: Agreement
    number: int
    drawn_up: Signature
    provider: Signature | None = None
    consumer: Signature | None = None

    @property
    def is_signed(self) -> bool:
        """Whether both have signed it."""
        return self.provider is not None and self.consumer is not None


@dataclass(frozen=True, slots=True)
class Span:
    """From when until when an agreement was signed, and not suspended, on these terms; None: it still is."""

    agreement: Agreement
    begin_ms: int
    end_ms: int | None = None


@dataclass(frozen=True, slots=True)
class AgreementRecord:
    """One agreement and its current state.

    ``current``    the revision that holds; while it is proposed, the one to be signed
    ``standing``   its state
    ``since``      the author and time of that state
    ``amendment``  the next revision, not yet signed by both
    ``revisions``  how many were ever drawn up, so that no number is reused
    ``published``  whether callers other than its two parties may discover it
    ``note``       why it was suspended or revoked, for people
    ``held``       when it was signed and not suspended, and on which terms, in order
    """

    current: Revision
    standing: Standing
    since: Signature
    amendment: Revision | None = None
    revisions: int = 1
    published: bool = False
    note: str = ""
    held: tuple[Span, ...] = ()

    @property
    def name(self) -> str:
        """The name of the agreement."""
        return self.current.agreement.name

    @property
    def agreement(self) -> Agreement:
        """Its terms, as they hold or are proposed."""
        return self.current.agreement

    @property
    def revision(self) -> int:
        """The number of the revision that holds, or is proposed."""
        return self.current.number

    @property
    def to_sign(self) -> Revision | None:
        """The revision that waits for a signature, None if none does."""
        return self.current if self.standing is Standing.PROPOSED else self.amendment

    def at(self, now_ms: int) -> "AgreementRecord":
        """Give the record with its last move, made at this time, in what it has held."""
        holds = self.agreement if self.standing is Standing.SIGNED else None
        past, last = self.held[:-1], self.held[-1:]
        if last and last[0].end_ms is None:
            if last[0].agreement == holds:
                return self
            last = (replace(last[0], end_ms=now_ms),)
        more = () if holds is None else (Span(holds, now_ms),)
        return replace(self, held=(*past, *last, *more))

    @property
    def is_over(self) -> bool:
        """Whether it has expired or was revoked."""
        return self.standing in OVER


Records = Mapping[str, AgreementRecord]
"""Agreements by name."""


def agreed(records: Records) -> tuple[Agreement, ...]:
    """Return the agreements a gateway has to enforce: all signed ones, with all their ancestors.

    Some may begin later, or have ended: the gateway looks at its clock.
    """
    return tuple(record.agreement for record in records.values() if _stands(records, record.name))


def in_force(records: Records, name: str, now_ms: int) -> bool:
    """Whether an agreement holds now: signed, begun, not ended, and so is whatever it is a part of."""
    return all(_holds(records.get(step), now_ms) for step in lineage(records, name))


def lineage(records: Records, name: str) -> list[str]:
    """Name an agreement, its parent, and so on up; a parent that is not there ends the list."""
    found = [name]
    while found[-1] in records and (parent := records[found[-1]].agreement.parent):
        if parent in found:
            break
        found.append(parent)
    return found


def find(records: Records, name: str) -> AgreementRecord:
    """Find an agreement by its name; raises UnknownName."""
    if name not in records:
        raise UnknownName("agreement", name, records)
    return records[name]


def _stands(records: Records, name: str) -> bool:
    steps = [records.get(step) for step in lineage(records, name)]
    return all(step is not None and step.standing is Standing.SIGNED for step in steps)


def _holds(record: AgreementRecord | None, now_ms: int) -> bool:
    if record is None or record.standing is not Standing.SIGNED:
        return False
    begin_ms = record.agreement.begin_ms
    return (begin_ms is None or begin_ms <= now_ms) and not is_past(record.agreement, now_ms)


def delegations(records: Records, name: str) -> list[str]:
    """Name the agreements that pass on a part of this one, directly."""
    return [child for child, record in records.items() if record.agreement.parent == name]


def is_past(agreement: Agreement, now_ms: int) -> bool:
    """Whether its end has come."""
    return agreement.end_ms is not None and agreement.end_ms <= now_ms


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
"""From which standings each move may be made. `expire` is not a move: it happens at its time."""

_FOR_EVER = ("name", "provider", "consumer", "resource", "parent")
"""What no amendment changes: it would be another agreement."""


class AgreementMove(InvalidField):
    """A move that the standing of an agreement does not allow."""

    def __init__(self, name: str, found: object, expected: str) -> None:
        self.name = name
        super().__init__(f"agreement {name}", found, expected)


# --- moves of one agreement ---------------------------------------------------------------------------------


def propose(agreement: Agreement, by: str, now_ms: int, others: Records) -> AgreementRecord:
    """Draw up an unsigned agreement. ``others`` are all existing and former ones.

    Raises AgreementMove if the name was used before, the end has passed already, or the parent is over;
    UnknownName for a parent that is not there.
    """
    if agreement.name in others:
        raise AgreementMove(agreement.name, "a name in use", "a new name: names of agreements are never reused")
    _check_end(agreement, now_ms)
    if agreement.parent:
        _check_parent(agreement, others)
    drawn_up = Signature(by, now_ms)
    return AgreementRecord(Revision(agreement, 1, drawn_up), Standing.PROPOSED, drawn_up)


def sign(record: AgreementRecord, side: AgreementSide, revision: int, by: str, now_ms: int) -> AgreementRecord:
    """Sign a revision for one side; with both signatures it is in force. Signing again has no effect.

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


def amend(record: AgreementRecord, agreement: Agreement, by: str, now_ms: int) -> AgreementRecord:
    """Draw up a new revision: it replaces a proposal, or coexists with the revision in force until both have signed it.

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


def withdraw(record: AgreementRecord) -> AgreementRecord:
    """Take an amendment back that is not signed by both. Raises AgreementMove if there is none."""
    _check(record, "withdraw")
    if record.amendment is None:
        raise AgreementMove(record.name, "no amendment", "one that waits for signatures, so that it can be withdrawn")
    return replace(record, amendment=None)


def publish(record: AgreementRecord) -> AgreementRecord:
    """Make it visible to every caller. Raises AgreementMove if it is over."""
    _check(record, "publish")
    return replace(record, published=True)


def unpublish(record: AgreementRecord) -> AgreementRecord:
    """Let only its two parties see it."""
    _check(record, "unpublish")
    return replace(record, published=False)


def suspend(record: AgreementRecord, by: str, now_ms: int, note: str = "") -> AgreementRecord:
    """Put it out of force for a while, and its delegations with it.

    Raises AgreementMove if it is not signed, or suspended already.
    """
    _check(record, "suspend")
    return replace(record, standing=Standing.SUSPENDED, since=Signature(by, now_ms), note=note).at(now_ms)


def resume(record: AgreementRecord, by: str, now_ms: int) -> AgreementRecord:
    """Put it in force again. Raises AgreementMove if it is not suspended, or its end has come."""
    _check(record, "resume")
    _check_end(record.agreement, now_ms)
    return replace(record, standing=Standing.SIGNED, since=Signature(by, now_ms), note="").at(now_ms)


# --- what the end of one agreement means for others ---------------------------------------------------------


def revoke(records: Records, name: str, by: str, now_ms: int, note: str = "") -> dict[str, AgreementRecord]:
    """End an agreement and all its delegations; returns those that changed.

    A proposal is taken back in the same way. Raises UnknownName, or AgreementMove if it is over already.
    """
    _check(find(records, name), "revoke")
    since = Signature(by, now_ms)
    return _ended(records, [name], Standing.REVOKED, since, note)


def expire(records: Records, now_ms: int) -> dict[str, AgreementRecord]:
    """End the agreements whose end has come, and all their delegations; returns those that changed."""
    due = [name for name, record in records.items() if not record.is_over and is_past(record.agreement, now_ms)]
    return _ended(records, due, Standing.EXPIRED, Signature("", now_ms), "")


def _ended(
    records: Records, names: Iterable[str], standing: Standing, since: Signature, note: str
) -> dict[str, AgreementRecord]:
    ending = list(names)
    for name in ending:  # grows as delegations are found
        ending += [child for child in delegations(records, name) if child not in ending]
    return {
        name: replace(records[name], standing=standing, since=since, amendment=None, note=note).at(since.at_ms)
        for name in ending
        if not records[name].is_over
    }


# --- checks -------------------------------------------------------------------------------------------------


def _check(record: AgreementRecord, move: str) -> None:
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


def _with_signature(revision: Revision, side: AgreementSide, signature: Signature) -> Revision:
    if side is AgreementSide.PROVIDER:
        return replace(revision, provider=revision.provider or signature)
    return replace(revision, consumer=revision.consumer or signature)


def _first_signed(record: AgreementRecord, signed: Revision) -> AgreementRecord:
    if not signed.is_signed:
        return replace(record, current=signed)
    return replace(record, current=signed, standing=Standing.SIGNED, since=_last_signature(signed))


def _amended(record: AgreementRecord, signed: Revision) -> AgreementRecord:
    if not signed.is_signed:
        return replace(record, amendment=signed)
    return replace(record, current=signed, amendment=None)


def _last_signature(revision: Revision) -> Signature:
    assert revision.provider is not None
    assert revision.consumer is not None
    return max(revision.provider, revision.consumer, key=lambda signature: signature.at_ms)
