"""One transaction for everything that a step brought; and what is read again at a start."""

import json
from typing import TYPE_CHECKING

from leasehold.gateway.gateway import Gateway
from leasehold.service.engine.correspondence import abouts_from
from leasehold.service.messages.wire import About
from leasehold.service.store.reading import Reading
from leasehold.service.store.rows import JOURNAL, LEASES, ORDERS, USAGE, LeaseRow
from leasehold.service.store.store import Store

if TYPE_CHECKING:
    from leasehold.service.engine.engine import Engine

LEARNING_LINES = 256
LEARNING_MS = 10_000
"""What policies have learnt is written after so many lines of the journal, or so long after the last time."""

ORDER_PROGRESS = ("status", "attempts", "next_try_ms", "problem")
"""What changes of an order once it was given."""

MEMORY = "gateway"
DESK = "desk"
EXPERIENCE = "experience"
REMOTES = "remotes"


class Learning:
    """When what policies have learnt is to be written again: a snapshot is too large for every step.

    It is advice, and no promise depends on it. Whoever is killed loses what was learnt since the last one.
    """

    def __init__(self, now_ms: int) -> None:
        self._lines = 0
        self._written_ms = now_ms

    def saw(self, lines: int) -> None:
        """So many lines of the journal tell of what policies may have learnt from."""
        self._lines += lines

    def is_due(self, now_ms: int, *, at_once: bool) -> bool:
        """Whether a snapshot is to be taken now; ``at_once``: if there is anything new at all."""
        if not self._lines:
            return False
        return at_once or self._lines >= LEARNING_LINES or now_ms - self._written_ms >= LEARNING_MS

    def written(self, now_ms: int) -> None:
        """A snapshot is in the store."""
        self._lines, self._written_ms = 0, now_ms


def write(engine: "Engine", *, all_learning: bool = False) -> None:
    """Write what is not written yet, all of it or nothing; of what was learnt a snapshot, if one is due."""
    minutes, outbox, handlers = engine.minutes, engine.outbox, engine.handlers
    postbox, mail = engine.postbox, handlers.correspondence
    mail.report_on(minutes.leases.values(), engine.now_ms)
    books = (handlers.sites, handlers.peers, handlers.agreements, handlers.coallocations, handlers.jobs)
    engine.learning.saw(len(minutes.journal))
    snapshot = engine.learning.is_due(engine.now_ms, at_once=all_learning)
    is_told = snapshot or minutes.leases or minutes.journal or any(book.has_news() for book in books)
    if not (is_told or outbox.new or outbox.changed or postbox.has_news() or mail.has_new_abouts):
        return
    with engine.store.writing() as batch:
        batch.upsert(LEASES, [LeaseRow(lease, engine.about[lease.id]) for lease in minutes.leases.values()])
        batch.insert(JOURNAL, minutes.journal)
        batch.insert(ORDERS, list(outbox.new.values()))
        batch.update(ORDERS, list(outbox.changed.values()), "id", ORDER_PROGRESS)
        handlers.answers.save(batch)
        for book in books:
            book.save(batch)
        batch.insert(USAGE, minutes.usage)
        postbox.save(batch)
        if mail.has_new_abouts:
            told = {name: about.to_dict() for name, about in mail.abouts.items()}
            batch.set_memory(REMOTES, json.dumps(told))
        if minutes.measured:
            batch.set_memory(EXPERIENCE, json.dumps(engine.gateway.overheads_snapshot()))
        if snapshot:
            batch.set_memory(MEMORY, json.dumps(engine.gateway.knowledge.snapshot()))
        if minutes.journal:
            batch.set_memory(DESK, json.dumps(engine.gateway.snapshot()))
    if snapshot:
        engine.learning.written(engine.now_ms)


def last_written_ms(store: Store) -> int:
    """When something was written last; no gateway goes back behind that."""
    return max((line.at_ms for line in store.journal(store.last_seq() - 1, 1)), default=0)


def remembered_abouts(store: Reading) -> dict[str, About]:
    """Read what the sites that decide for themselves last said of themselves."""
    return abouts_from(json.loads(store.memories().get(REMOTES, "{}")))


def recall(gateway: Gateway, store: Store) -> None:
    """Let a new gateway remember what it had learnt and asked for, and which of its sites are drained."""
    memories = store.memories()
    if MEMORY in memories:
        gateway.knowledge.restore(json.loads(memories[MEMORY]))
    if DESK in memories:
        gateway.restore(json.loads(memories[DESK]))
    gateway.restore_overheads(json.loads(memories.get(EXPERIENCE, "{}")))
    drained = {row.name for row in store.sites() if row.drained_ms is not None}
    gateway.registry.not_lending = drained
