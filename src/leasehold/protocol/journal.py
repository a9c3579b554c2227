"""What happened: the lines of the journal, as a page or as they come."""

from typing import Annotated, Any

from pydantic import Field

from leasehold.protocol.base import A_MOMENT, NextPage, PageQuery, RequestModel, ResponseModel, examples
from leasehold.protocol.fields import MAX_FOLLOWED, Moment, Number, OrEmpty, OrNone

_ENTRY = {
    "seq": 1007, "at": A_MOMENT, "what": "start", "state": "running", "site": "das3", "reason": "room-free",
    "explanation": "got free room at once", "rule": "home-first", "detail": {},
}  # fmt: skip


class JournalQuery(PageQuery):
    """Which part of a lease's journal."""


class ChangesQuery(RequestModel):
    """Which changes to follow."""

    lease: list[Number] = Field(default=[], max_length=MAX_FOLLOWED, description="Only those of these leases.")
    after: Number | None = Field(
        default=None,
        description="Only those with a larger `seq`, and all of them; left out: from now on. "
        "The header `Last-Event-ID` comes before it.",
    )


class JournalEntry(ResponseModel):
    """One line of a lease's journal."""

    model_config = examples(_ENTRY)

    seq: int = Field(description="Counts up over all leases, and is never used twice.")
    at: Moment
    what: str = Field(description="What happened or was decided.")
    state: str = Field(description="The state of the lease afterwards.")
    site: OrEmpty
    reason: OrEmpty
    explanation: OrEmpty
    rule: OrEmpty = Field(description="The policy or rule that decided.")
    detail: Annotated[dict[str, Any], Field(default={})]


class Change(JournalEntry):
    """One line of the journal as it is sent to who follows the changes: with its lease."""

    model_config = examples(_ENTRY | {"lease": 42, "job": 7, "consumer": "physics"})

    lease: OrNone[int] = Field(description="null: it was about no lease")
    job: OrNone[int] = Field(description="The job that it is about, or of whose attempt the lease is.")
    consumer: OrEmpty = Field(description="Whose lease it is.")


class JournalPage(NextPage):
    """A part of a lease's journal, oldest first."""

    entries: tuple[JournalEntry, ...]
