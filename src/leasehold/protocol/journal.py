"""Journal entries, as a page or as a stream."""

from typing import Annotated, Any

from pydantic import Field

from leasehold.protocol.base import A_MOMENT, NextPage, PageQuery, RequestModel, ResponseModel, examples
from leasehold.protocol.fields import MAX_FOLLOWED, Moment, Number, OrEmpty, OrNone

_ENTRY = {
    "seq": 1007, "at": A_MOMENT, "what": "start", "state": "running", "site": "das3", "reason": "room-free",
    "explanation": "got free room at once", "rule": "home-first", "detail": {},
}  # fmt: skip


class JournalQuery(PageQuery):
    """The range of a lease's journal to return."""


class ChangesQuery(RequestModel):
    """A filter for the stream of changes."""

    lease: list[Number] = Field(default=[], max_length=MAX_FOLLOWED, description="Only entries of these leases.")
    after: Number | None = Field(
        default=None,
        description="Start after this `seq`, without gaps; left out: from now on. "
        "The header `Last-Event-ID` takes precedence.",
    )


class JournalEntry(ResponseModel):
    """One line of a lease's journal."""

    model_config = examples(_ENTRY)

    seq: int = Field(description="Increases over all leases; never reused.")
    at: Moment
    what: str = Field(description="What happened or was decided.")
    state: str = Field(description="The state of the lease afterwards.")
    site: OrEmpty
    reason: OrEmpty
    explanation: OrEmpty
    rule: OrEmpty = Field(description="The policy or rule that decided.")
    detail: Annotated[dict[str, Any], Field(default={})]


class Change(JournalEntry):
    """One journal entry in the stream of changes, with its lease."""

    model_config = examples(_ENTRY | {"lease": 42, "job": 7, "consumer": "physics"})

    lease: OrNone[int] = Field(description="null: not about a lease")
    job: OrNone[int] = Field(description="The job it concerns, or the job of the lease's attempt.")
    consumer: OrEmpty = Field(description="The lease's consumer.")


class JournalPage(NextPage):
    """A part of a lease's journal, oldest first."""

    entries: tuple[JournalEntry, ...]
