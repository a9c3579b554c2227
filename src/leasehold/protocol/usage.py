"""What was used,: in slot-seconds, exact to the millisecond."""

from enum import StrEnum
from typing import Annotated

from pydantic import BeforeValidator, Field

from leasehold.protocol.agreements import Penalty
from leasehold.protocol.base import RequestModel, ResponseModel, examples
from leasehold.protocol.fields import Moment, Month, Name, Seconds, plain_digits

_NEXT = "2026-12-01T00:00:00.000Z"
_USE = {
    "begin": "2026-11-01T00:00:00.000Z", "end": _NEXT, "consumer": "atlas", "domain": "das3", "local": False,
    "slot_s": 86400.5, "leases": 12, "peak_vms": 16,
}  # fmt: skip
_SHARE = {
    "agreement": "atlas-at-das3", "provider": "das3", "share": 0.3, "burst_share": 0.6, "slot_s": 49766400
}  # fmt: skip
_LINE = {
    "domain": "das3", "shares": [_SHARE], "slot_s": 86400.5, "capacity_slot_s": 165888000,
    "used_share": 0.000521, "peak_vms": 16, "leases": 12, "penalties": [],
}  # fmt: skip

Depth = Annotated[int, Field(ge=1, le=10), BeforeValidator(plain_digits)]


class By(StrEnum):
    """How long the windows are; all begin where hours, days and months do in UTC."""

    TOTAL = "total"
    HOUR = "hour"
    DAY = "day"
    MONTH = "month"


class UsageFilter(RequestModel):
    """Which use."""

    consumer: Name | None = Field(
        default=None, description="On account of this path, or of what is beneath it: a VO, a group, a user."
    )
    domain: Name | None = Field(default=None, description="At this virtual domain, or at this site.")
    since: Moment | None = Field(
        default=None, description="From then on; left out: from the begin of this month, in UTC."
    )
    until: Moment | None = Field(default=None, description="Until before then; left out: now.")
    by: By = Field(default=By.TOTAL, description="In windows of this length, which begin where they do in UTC.")
    depth: Depth = Field(default=1, description="How deep paths are told apart: 1 for VOs, 2 for groups in them.")


class StatementQuery(RequestModel):
    """Which statement."""

    month: Month = Field(description="The month, in UTC: `2026-10`.")
    consumer: Name = Field(description="The VO, or a group in it.")


class Use(ResponseModel):
    """What one consumer used of one virtual domain in one window."""

    model_config = examples(_USE)

    begin: Moment = Field(description="When the window begins.")
    end: Moment = Field(description="When it ends.")
    consumer: str
    domain: str = Field(description="The virtual domain, or a site that is in none.")
    local: bool = Field(description="Whether by the site's own users, which no agreement is about.")
    slot_s: Seconds = Field(description="VMs times seconds.")
    leases: int = Field(description="How many leases held VMs.")
    peak_vms: int = Field(description="The most VMs at a time.")


class Usage(ResponseModel):
    """What was used: by window, consumer and virtual domain."""

    since: Moment = Field(description="From then on.")
    until: Moment = Field(description="Until before then.")
    usage: tuple[Use, ...] = Field(description="Where nothing was used there is no entry.")


class Share(ResponseModel):
    """What an agreement gives of what its provider has."""

    model_config = examples(_SHARE)

    agreement: str = Field(description="Its name.")
    provider: str = Field(description="Who lends.")
    share: Seconds = Field(description="In the long run, from 0 to 1.")
    burst_share: Seconds = Field(description="In bursts, from 0 to 1.")
    slot_s: Seconds = Field(description="What that comes to over the month: VMs times seconds.")


class StatementLine(ResponseModel):
    """What concerns one virtual domain; `*` is the sum of all."""

    model_config = examples(_LINE)

    domain: str = Field(description="The virtual domain, or a site that is in none.")
    shares: tuple[Share, ...] = Field(description="What was agreed, as far as it is about VMs.")
    slot_s: Seconds = Field(description="What was used: VMs times seconds.")
    capacity_slot_s: Seconds = Field(description="What there was for everybody.")
    used_share: Seconds = Field(description="What was used of that, from 0 to 1.")
    peak_vms: int = Field(description="The most VMs at a time.")
    leases: int = Field(description="How many leases held VMs.")
    penalties: tuple[Penalty, ...] = Field(description="Imposed in this month.")


class Statement(ResponseModel):
    """The statement of a consumer for a month; what goes on now counts until now."""

    month: str = Field(description="The month, in UTC.")
    consumer: str
    begin: Moment = Field(description="When the month begins.")
    end: Moment = Field(description="When it ends.")
    lines: tuple[StatementLine, ...] = Field(description="By virtual domain, and last the sum.")
