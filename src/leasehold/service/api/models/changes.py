"""What happened, on the wire: the lines of the journal, as a page or as they come."""

import json
from collections.abc import Callable, Iterable
from typing import Any

from pydantic import Field, TypeAdapter

from leasehold.model.agreement import Breach
from leasehold.service.api.fields import MAX_FOLLOWED, Number, PageSize, Text
from leasehold.service.api.models.base import A_MOMENT, Asked, Shown, examples
from leasehold.service.api.models.leases import explain
from leasehold.service.api.moments import show_moment
from leasehold.service.store.rows import JournalRow

_ENTRY = {
    "seq": 1007, "at": A_MOMENT, "what": "start", "state": "running", "site": "das3", "reason": "room-free",
    "explanation": "got free room at once", "rule": "home-first", "detail": {},
}  # fmt: skip

_BREACH = TypeAdapter(Breach)


class JournalQuery(Asked):
    """Which part of a lease's journal."""

    limit: PageSize = Field(100, description="How many entries at most.")
    cursor: Text | None = Field(None, description="Where the page before ended: its `next`.")


class ChangesQuery(Asked):
    """Which changes to follow."""

    leases: list[Number] = Field([], alias="lease", max_length=MAX_FOLLOWED, description="Only those of these leases.")
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


ANOTHERS = "another consumer's lease"
"""Stands for the number of a lease that the reader may not see."""


def leases_named(rows: Iterable[JournalRow]) -> set[int]:
    """Give the leases that these lines name beside their own."""
    named: set[int] = set()
    for row in rows:
        if _PREEMPTION in row.detail:
            told = json.loads(row.detail).get(_PREEMPTION, {})
            for key in ("for_lease", "victims", "runner_up"):
                named |= set(_numbers(told.get(key)))
    return named


def show_entry(row: JournalRow, may_see: Callable[[int], bool]) -> Entry:
    """Show a line of one lease's journal to somebody who may see these leases."""
    return Entry(**_shared(row, may_see))


def show_change(row: JournalRow, may_see: Callable[[int], bool]) -> Change:
    """Show a line of the journal to who follows it, and may see these leases."""
    said = _shared(row, may_see)
    return Change(lease=row.lease_id, job=row.job_id, consumer=row.consumer, **said)


_PREEMPTION = "preemption"
_SIZES = {
    "for_lease": ("needed_vms",),
    "victims": ("freed_vms", "cost_vm_ms"),
    "runner_up": ("runner_up_cost_vm_ms",),
}
"""What tells how large leases are, by where these are named."""


def _numbers(value: object) -> list[int]:
    values = value if isinstance(value, list) else [value]
    return [one for one in values if isinstance(one, int)]


def _concealed(told: dict[str, Any], may_see: Callable[[int], bool]) -> dict[str, Any]:
    """Leave out numbers and sizes of leases that the reader may not see."""
    shown = dict(told)
    for key, sizes in _SIZES.items():
        value = told.get(key)
        if all(map(may_see, _numbers(value))):
            continue
        if isinstance(value, list):
            shown[key] = [one if may_see(one) else ANOTHERS for one in value]
        else:
            shown[key] = ANOTHERS
        shown |= dict.fromkeys(sizes)
    return shown


def _shared(row: JournalRow, may_see: Callable[[int], bool]) -> dict[str, Any]:
    detail = json.loads(row.detail)
    if _PREEMPTION in detail:
        detail[_PREEMPTION] = _concealed(detail[_PREEMPTION], may_see)
    breach = _BREACH.validate_python(detail["breach"]) if "breach" in detail else None
    return {
        "seq": row.seq,
        "at": show_moment(row.at_ms),
        "what": row.what,
        "state": row.state,
        "site": row.site,
        "reason": row.reason,
        "explanation": explain(row.reason, breach),
        "rule": row.rule,
        "detail": detail,
    }
