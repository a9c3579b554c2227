"""What can be written in one transaction."""

from collections.abc import Mapping, Sequence
from typing import TypedDict

from sqlalchemy import Connection

from leasehold.model.errors import InvariantBroken
from leasehold.service.store.housekeeping import Before, drop_outputs, forget
from leasehold.service.store.rows import (
    AgreementRow,
    AnswerRow,
    AttemptRow,
    ImageRow,
    JobAnswerRow,
    JobRow,
    JointRow,
    JournalRow,
    LeaseRow,
    LetterRow,
    NodeRow,
    OrderRow,
    OutputRow,
    PeerRow,
    PenaltyRow,
    SiteRow,
    UsageRow,
)
from leasehold.service.store.statements import Statements


class OrderUpdate(TypedDict):
    """Where the order ``id`` is now; the names are those of `OrderRow`."""

    id: str
    status: str
    attempts: int
    next_try_ms: int
    problem: str


class Seen(TypedDict):
    """What changes of the node ``name`` whenever somebody looks; the names are those of `NodeRow`."""

    name: str
    free_cores: int
    free_memory_mib: int
    free_disk_mib: int
    seen_ms: int
    charged: float
    watched_ms: int
    well_ms: int


class Batch:
    """One transaction. Whatever is written here is kept together or not at all.

    Rows that name a lease may be written before it, as long as it is there when the batch ends.
    """

    def __init__(self, connection: Connection, statements: Statements) -> None:
        self._connection = connection
        self._statements = statements

    def save_leases(self, rows: Sequence[LeaseRow]) -> None:
        """Keep these leases as they are now, new or not."""
        self._write(self._statements.save_lease, rows)

    def add_journal(self, rows: Sequence[JournalRow]) -> None:
        """Add lines to the journal; a ``seq`` that was used before is a defect (InvariantBroken)."""
        self._write(self._statements.add_journal, rows)

    def add_orders(self, rows: Sequence[OrderRow]) -> None:
        """Put orders into the outbox; an ``id`` that is there already is a defect (InvariantBroken)."""
        self._write(self._statements.add_order, rows)

    def set_orders(self, updates: Sequence[OrderUpdate]) -> None:
        """Say where these orders are now; one that is not there (any more) is passed over."""
        self._write(self._statements.set_order, updates)

    def add_answers(self, rows: Sequence[AnswerRow]) -> None:
        """Remember answers; a second one for the same key of a consumer is a defect (InvariantBroken)."""
        self._write(self._statements.add_answer, rows)

    def set_memory(self, name: str, text: str) -> None:
        """Keep a JSON text under this name."""
        self._write(self._statements.set_memory, [{"name": name, "text": text}])

    def save_site(self, row: SiteRow) -> None:
        """Keep what is to be remembered of a site, known before or not."""
        self._write(self._statements.save_site, [row])

    def save_peer(self, row: PeerRow) -> None:
        """Keep what was agreed with a peer, known before or not."""
        self._write(self._statements.save_peer, [row])

    def drop_peer(self, name: str) -> None:
        """Let go of a peer."""
        self._write(self._statements.drop_peer, [{"name": name}])

    def save_agreements(self, rows: Sequence[AgreementRow]) -> None:
        """Keep agreements as they stand now, known before or not."""
        self._write(self._statements.save_agreement, rows)

    def save_penalties(self, rows: Sequence[PenaltyRow]) -> None:
        """Keep punishments, new ones and those that were lifted."""
        self._write(self._statements.save_penalty, rows)

    def add_usage(self, rows: Sequence[UsageRow]) -> None:
        """Add times in which leases held machines; the same one again is a defect (InvariantBroken)."""
        self._write(self._statements.add_usage, rows)

    def save_joints(self, rows: Sequence[JointRow]) -> None:
        """Write joint requests down as they are now."""
        self._write(self._statements.save_joint, rows)

    def save_jobs(self, rows: Sequence[JobRow]) -> None:
        """Write jobs down as they are now, new or not."""
        self._write(self._statements.save_job, rows)

    def save_attempts(self, rows: Sequence[AttemptRow]) -> None:
        """Write attempts down as they are now, new or not."""
        self._write(self._statements.save_attempt, rows)

    def add_outputs(self, rows: Sequence[OutputRow]) -> None:
        """Keep what commands wrote; a second one of an attempt is a defect (InvariantBroken)."""
        self._write(self._statements.add_output, rows)

    def drop_outputs(self, consumer: str, least_bytes: int) -> tuple[int, int]:
        """Let go of the oldest outputs of a consumer, of so many bytes; see `housekeeping`."""
        return drop_outputs(self._connection, consumer, least_bytes)

    def add_job_answers(self, rows: Sequence[JobAnswerRow]) -> None:
        """Remember answers; a second one for the same key of a consumer is a defect (InvariantBroken)."""
        self._write(self._statements.add_job_answer, rows)

    def save_nodes(self, rows: Sequence[NodeRow]) -> None:
        """Keep what is known of nodes, known before or not."""
        self._write(self._statements.save_node, rows)

    def see_nodes(self, rows: Sequence[Seen]) -> None:
        """Say what is free on nodes and how long they were watched, where nothing else has changed."""
        self._write(self._statements.see_node, rows)

    def save_images(self, rows: Sequence[ImageRow]) -> None:
        """Keep what is known of images, known before or not."""
        self._write(self._statements.save_image, rows)

    def drop_image(self, name: str, site: str) -> None:
        """Let go of an image that is not there any more."""
        self._write(self._statements.drop_image, [{"name": name, "site": site}])

    def add_letters(self, rows: Sequence[LetterRow]) -> None:
        """Keep letters until they are acknowledged, and how far was written to each correspondent."""
        self._write(self._statements.add_letter, rows)
        self._write(self._statements.set_sent, rows)

    def acknowledge_letters(self, correspondent: str, up_to_seq: int) -> None:
        """Let go of the letters to this correspondent up to this one."""
        self._write(self._statements.drop_letters, [{"correspondent": correspondent, "seq": up_to_seq}])

    def set_received(self, correspondent: str, seq: int) -> None:
        """Remember the last letter from this correspondent that was taken in."""
        self._write(self._statements.set_received, [{"correspondent": correspondent, "seq": seq}])

    def forget_correspondent(self, correspondent: str) -> None:
        """Let go of all letters to somebody, and of the numbers: the next ones begin anew."""
        for statement in (self._statements.drop_all_letters, self._statements.drop_mail):
            self._write(statement, [{"correspondent": correspondent}])

    def forget(self, before: Before) -> Mapping[str, int]:
        """Let go of some of what is old, and say how many rows went, by table; see `housekeeping`."""
        return forget(self._connection, before)

    def _write(self, statement: str, rows: Sequence[Mapping[str, object]]) -> None:
        if not rows:
            return
        try:
            self._connection.exec_driver_sql(statement, [dict(row) for row in rows])
        except (OverflowError, UnicodeError) as error:
            raise InvariantBroken(f"a row that no store can keep: {error}") from error
