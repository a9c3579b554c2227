"""What is kept of an agreement: its terms, its revisions, who signed them, and where it is in its life.

What moves a record on is in `leasehold.sharing.life`; this says what the records mean together.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from leasehold.model.agreement import Agreement, Standing
from leasehold.model.errors import UnknownName

OVER = frozenset({Standing.EXPIRED, Standing.REVOKED})
"""From here no move leads on."""


class Side(StrEnum):
    """For whom somebody signs. In a delegation the consumer of the parent signs for the provider."""

    PROVIDER = "provider"
    CONSUMER = "consumer"


@dataclass(frozen=True, slots=True)
class Signature:
    """Who signed, and when."""

    by: str
    at_ms: int


@dataclass(frozen=True, slots=True)
class Revision:
    """One wording of an agreement, who drew it up, and who has signed it. The first has the number 1."""

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
class Record:
    """One agreement with its life so far.

    ``current``    the revision that holds; while it is proposed, the one to be signed
    ``standing``   where it is in its life
    ``since``      who moved it there, and when
    ``amendment``  the next revision, not yet signed by both
    ``revisions``  how many were ever drawn up, so that no number stands for two of them
    ``published``  whether others than its two parties may discover it
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

    def at(self, now_ms: int) -> "Record":
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


Records = Mapping[str, Record]
"""Agreements by name."""


def agreed(records: Records) -> tuple[Agreement, ...]:
    """Give what a gateway is told to keep: all that are signed, with every agreement that they are a part of.

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


def find(records: Records, name: str) -> Record:
    """Find an agreement by its name; raises UnknownName."""
    if name not in records:
        raise UnknownName("agreement", name, records)
    return records[name]


def _stands(records: Records, name: str) -> bool:
    steps = [records.get(step) for step in lineage(records, name)]
    return all(step is not None and step.standing is Standing.SIGNED for step in steps)


def _holds(record: Record | None, now_ms: int) -> bool:
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
