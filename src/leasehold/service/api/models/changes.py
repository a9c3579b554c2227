"""What happened, on the wire: the lines of the journal, as a page or as they come."""

import json
from typing import Any

from pydantic import Field

from leasehold.service.api.fields import MAX_FOLLOWED, Number, PageSize, Text
from leasehold.service.api.models.base import A_MOMENT, Asked, Shown, examples
from leasehold.service.api.models.leases import explain
from leasehold.service.api.moments import show_moment
from leasehold.service.store.breaches import breach_from_dict
from leasehold.service.store.rows import JournalRow

_ENTRY = {
    "seq": 1007, "at": A_MOMENT, "what": "start", "state": "running", "site": "das3", "reason": "room-free",
    "explanation": "started at once in free room", "rule": "home-first", "detail": {},
}  # fmt: skip


class JournalQuery(Asked):
    """Which part of a lease's journal."""

    limit: PageSize = Field(100, description="How many entries at most.")
    cursor: Text | None = Field(None, description="Where the page before ended: its `next`.")


class ChangesQuery(Asked):
    """Which changes to follow."""

    leases: list[Number] = Field(
        [], alias="lease", max_length=MAX_FOLLOWED, description="Only those of these leases."
    )
    after: Number | None = Field(
        None,
        description="Only those with a larger `seq`, and all of them; left out: from now on. "
        "The header `Last-Event-ID` comes before it.",
    )


class Entry(Shown):
    """One line of a lease's journal."""

    model_config = examples(_ENTRY)

    seq: int = Field(description="Counts up over all leases, and is never used twice.")
    at: str
    what: str = Field(description="What happened or was decided.")
    state: str = Field(description="The state of the lease afterwards.")
    site: str
    reason: str
    explanation: str
    rule: str = Field(description="The policy or rule that decided.")
    detail: dict[str, Any]


class Change(Entry):
    """One line of the journal as it is sent to who follows the changes: with its lease."""

    model_config = examples(_ENTRY | {"lease": 42, "job": 7, "consumer": "physics"})

    lease: int | None = Field(description="null: it was about no lease")
    job: int | None = Field(description="The job that it is about, or of whose attempt the lease is.")
    consumer: str = Field(description="Whose lease it is.")


class JournalPage(Shown):
    """A part of a lease's journal, oldest first."""

    entries: list[Entry]
    next: str | None = Field(description="The `cursor` of the next page; null: this was the last.")


def show_entry(row: JournalRow) -> Entry:
    """Show a line of one lease's journal."""
    return Entry(**_shared(row))


def show_change(row: JournalRow) -> Change:
    """Show a line of the journal to who follows it."""
    return Change(lease=row["lease_id"], job=row["job_id"], consumer=row["consumer"], **_shared(row))


def _shared(row: JournalRow) -> dict[str, Any]:
    detail = json.loads(row["detail"])
    breach = breach_from_dict(detail["breach"]) if "breach" in detail else None
    return {
        "seq": row["seq"],
        "at": show_moment(row["at_ms"]),
        "what": row["what"],
        "state": row["state"],
        "site": row["site"],
        "reason": row["reason"],
        "explanation": explain(row["reason"], breach),
        "rule": row["rule"],
        "detail": detail,
    }
