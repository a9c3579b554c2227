"""What a site with a manager of its own, or a peer, says would become of a request there."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from leasehold.gateway.peering import MOST_HOPS
from leasehold.model.lease import LeaseState
from leasehold.model.reason import Reason
from leasehold.service.messages.fields import Flag, Id, Moment, Natural, Text
from leasehold.service.messages.site_status import Name

MOST_WITHIN_MS = 10_000
"""So long an answer is waited for at most."""


class Planned(BaseModel):
    """What would become of a request that a gateway has asked about; times are from when the site said so.

    ``starts_in_ms``  -1: not known; ``ends_in_ms`` likewise
    ``onward``        the gateways that it would go on to
    ``passed_on``     whether the last of all would pass it on to one that has not answered
    ``problem``       why nothing can be said, "" where something is
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    kind: Literal["planned"] = "planned"
    number: Id
    state: LeaseState
    reason: Reason
    starts_in_ms: Moment = -1
    ends_in_ms: Moment = -1
    preempted_leases: Natural = 0
    preempted_vms: Natural = 0
    delayed_leases: Natural = 0
    onward: Annotated[tuple[Name, ...], Field(max_length=MOST_HOPS)] = ()
    passed_on: Flag = False
    problem: Text = ""
