"""What goes on across leases: the queue in groups, the feed of decisions, and what was held when."""

from typing import Annotated

from pydantic import BeforeValidator, Field

from leasehold.model.reason import Outcome
from leasehold.protocol.base import A_MOMENT, NextPage, PageQuery, RequestModel, ResponseModel, examples
from leasehold.protocol.fields import LeaseTypeName, Moment, Name, Number, OrEmpty, OrNone, Text, plain_digits
from leasehold.protocol.leases import Change, Lease

_GROUP = {
    "consumer": "physics", "type": "suspendable", "local": False, "state": "waiting", "reason": "room-in-use",
    "explanation": "waits because its room is in use", "sites": ["das3"], "leases": 12, "vms": 48,
    "oldest_at": A_MOMENT, "next_start_at": None,
}  # fmt: skip
_PREEMPTED = {"at": A_MOMENT, "site": "das3", "for_lease": 43, "leases": [42]}

MOST_HELD = 5_000
DECIDED = (*(outcome.value for outcome in Outcome), "closed")
"""What counts as a decision; the other lines of the journal are what followed from one."""


class QueueFilter(RequestModel):
    """A filter for the queue: open leases that hold no machines."""

    consumer: Name | None = Field(default=None, description="Of this consumer.")
    type: LeaseTypeName | None = Field(default=None, description="Of this type.")
    reason: Name | None = Field(default=None, description="With this last reason, such as `room-in-use`.")
    site: Name | None = Field(default=None, description="At this site, or with it as their home.")


class QueuedLeasesFilter(QueueFilter, PageQuery):
    """A filter for the leases of the queue."""


class QueueGroup(ResponseModel):
    """Queued leases of one consumer and type that wait for one reason."""

    model_config = examples(_GROUP)

    consumer: str
    type: LeaseTypeName
    local: bool = Field(description="Whether these are requests of sites' own users.")
    state: str
    reason: OrEmpty
    explanation: OrEmpty = Field(description="The reason in a sentence; empty: none was given yet.")
    sites: tuple[str, ...] = Field(description="Where they wait; empty: at the gateway.")
    leases: int
    vms: int
    oldest_at: Moment = Field(description="When the first of them was submitted.")
    next_start_at: OrNone[Moment] = Field(description="The earliest start in the plan; null: none is planned yet.")


class Queue(ResponseModel):
    """What waits, in groups, the largest consumer first."""

    leases: int
    vms: int
    groups: tuple[QueueGroup, ...]


class QueuedLeases(NextPage):
    """A part of the queue, the oldest leases first."""

    leases: tuple[Lease, ...]


class DecisionFilter(PageQuery):
    """A filter for decisions."""

    what: Text = Field(default="", description=f"One of {', '.join(DECIDED)}; empty: any.")
    reason: Text = Field(default="", description="For this reason; empty: any.")
    site: Text = Field(default="", description="At this site; empty: any.")
    consumer: Text = Field(default="", description="About leases of this consumer; empty: any.")
    lease: Number | None = Field(default=None, description="About this lease.")


class DecisionPage(NextPage):
    """Decisions, latest first."""

    decisions: tuple[Change, ...]


class TimelineFilter(RequestModel):
    """Which time, and which site; and how many times in which a lease held machines at most."""

    since: Moment | None = Field(default=None, description="Start; left out: an hour before the end.")
    until: Moment | None = Field(default=None, description="End; left out: now.")
    site: Name | None = Field(default=None, description="At this site only.")
    limit: Annotated[int, Field(ge=1, le=MOST_HELD), BeforeValidator(plain_digits)] = Field(
        default=1_000, description="Maximum number of entries in `held`; the latest begun are given."
    )


class TimelineSite(ResponseModel):
    """A site of the timeline."""

    name: str
    slots: int


class Held(ResponseModel):
    """A time in which a lease held machines at a site."""

    lease: int
    consumer: str
    type: OrEmpty = Field(description="Its type; empty: no longer known.")
    local: bool = Field(description="Whether it is a request of the site's own users.")
    vms: int
    site: str
    begin: Moment
    end: OrNone[Moment] = Field(description="null: it holds them still")


class TimelinePreemption(ResponseModel):
    """A preemption: room that was taken from leases for another."""

    model_config = examples(_PREEMPTED)

    at: Moment
    site: str
    for_lease: int = Field(description="The lease that took the room.")
    leases: tuple[int, ...] = Field(description="Those that gave it, as far as the caller may see them.")


class Timeline(ResponseModel):
    """What leases held between two moments, and who took room from whom."""

    since: Moment
    until: Moment
    sites: tuple[TimelineSite, ...]
    held: tuple[Held, ...] = Field(description="By begin.")
    preemptions: tuple[TimelinePreemption, ...] = Field(description="By time; the latest 400 at most.")
    more: bool = Field(description="Whether more was held than `held` has.")
