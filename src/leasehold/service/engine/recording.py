"""One transaction for everything that a step brought; and what is read again at a start."""

import json
from typing import TYPE_CHECKING

from leasehold.gateway.gateway import Gateway
from leasehold.service.engine.correspondence import abouts_from
from leasehold.service.engine.ledger import row_of
from leasehold.service.letters.wire import About
from leasehold.service.store.reading import Reading
from leasehold.service.store.store import Store

if TYPE_CHECKING:
    from leasehold.service.engine.engine import Engine

MEMORY = "gateway"
DESK = "desk"
EXPERIENCE = "experience"
REMOTES = "remotes"


def write(engine: "Engine") -> None:
    """Write what is not written yet; all of it or nothing."""
    minutes, outbox, handlers = engine.minutes, engine.outbox, engine.handlers
    postbox, mail = engine.postbox, handlers.correspondence
    mail.report_on(minutes.leases.values(), engine.now_ms)
    books = (handlers.sites, handlers.peers, handlers.agreements, handlers.joints, handlers.jobs)
    is_told = minutes.leases or minutes.journal or any(book.has_news() for book in books)
    if not (is_told or outbox.new or outbox.changed or postbox.has_news() or mail.has_new_abouts):
        return
    with engine.store.writing() as batch:
        batch.save_leases([row_of(lease, engine.about[lease.id]) for lease in minutes.leases.values()])
        batch.add_journal(minutes.journal)
        batch.add_orders(list(outbox.new.values()))
        batch.set_orders(list(outbox.changed.values()))
        handlers.answers.save(batch)
        for book in books:
            book.save(batch)
        batch.add_usage(minutes.usage)
        postbox.save(batch)
        if mail.has_new_abouts:
            told = {name: about.to_dict() for name, about in mail.abouts.items()}
            batch.set_memory(REMOTES, json.dumps(told))
        if minutes.measured:
            batch.set_memory(EXPERIENCE, json.dumps(engine.gateway.experience()))
        if minutes.journal:
            batch.set_memory(MEMORY, json.dumps(engine.gateway.knowledge.memory()))
            batch.set_memory(DESK, json.dumps(engine.gateway.desk.memory()))


def last_written_ms(store: Store) -> int:
    """When something was written last; no gateway goes back behind that."""
    return max((line["at_ms"] for line in store.journal(store.last_seq() - 1, 1)), default=0)


def remembered_abouts(store: Reading) -> dict[str, About]:
    """Read what the sites that decide for themselves last said of themselves."""
    return abouts_from(json.loads(store.memories().get(REMOTES, "{}")))


def recall(gateway: Gateway, store: Store) -> None:
    """Let a new gateway remember what it had learnt and asked for, and which of its sites are drained."""
    memories = store.memories()
    if MEMORY in memories:
        gateway.knowledge.recall(json.loads(memories[MEMORY]))
    if DESK in memories:
        gateway.desk.remember(json.loads(memories[DESK]))
    gateway.recall_experience(json.loads(memories.get(EXPERIENCE, "{}")))
    drained = {row["name"] for row in store.sites() if row["drained_ms"] is not None}
    gateway.desk.lenders.not_lending = drained
