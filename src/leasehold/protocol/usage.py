"""Usage in slot-seconds, exact to the millisecond."""

from enum import StrEnum
from typing import Annotated

from pydantic import BeforeValidator, Field

from leasehold.protocol.agreements import Penalty
from leasehold.protocol.base import RequestModel, ResponseModel, examples
from leasehold.protocol.fields import Moment, Month, Name, OrNone, Seconds, plain_digits

_NEXT = "2026-12-01T00:00:00.000Z"
_USE = {
    "begin": "2026-11-01T00:00:00.000Z", "end": _NEXT, "consumer": "atlas", "domain": "das3", "local": False,
    "slot_s": 86400.5, "leases": 12, "peak_vms": 16,
}  # fmt: skip
_BALANCE = {
    "creditor": "das3", "debtor": "lyon", "lent_slot_s": 86400, "returned_slot_s": 21600.5, "owed_slot_s": 64799.5,
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
    """The length of the windows, aligned with hours, days and months in UTC."""

    TOTAL = "total"
    HOUR = "hour"
    DAY = "day"
    MONTH = "month"


class UsageFilter(RequestModel):
    """A filter for usage."""

    consumer: Name | None = Field(default=None, description="Charged to this path or below it: a VO, a group, a user.")
    domain: Name | None = Field(default=None, description="At this virtual domain, or at this site.")
    since: Moment | None = Field(
        default=None, description="Start of the period; left out: the start of this month, in UTC."
    )
    until: Moment | None = Field(default=None, description="End of the period, exclusive; left out: now.")
    by: By = Field(default=By.TOTAL, description="Length of the windows, aligned in UTC.")
    depth: Depth = Field(
        default=1, description="Depth to which paths are distinguished: 1 for VOs, 2 for their groups."
    )


class StatementQuery(RequestModel):
    """The statement to return."""

    month: Month = Field(description="The month, in UTC: `2026-10`.")
    consumer: Name = Field(description="The VO, or one of its groups.")


class Use(ResponseModel):
    """Usage by one consumer of one virtual domain in one window."""

    model_config = examples(_USE)

    begin: Moment = Field(description="Start of the window.")
    end: Moment = Field(description="End of the window.")
    consumer: str
    domain: str = Field(description="The virtual domain, or a site outside all domains.")
    local: bool = Field(description="Whether by the site's own users, whom no agreement covers.")
    slot_s: Seconds = Field(description="Usage in VM-seconds.")
    leases: int = Field(description="Number of leases that held VMs.")
    peak_vms: int = Field(description="Maximum number of VMs at a time.")
    gpu_s: OrNone[Seconds] = Field(description="Usage in GPU-seconds, fractions included; null: none.")


class Usage(ResponseModel):
    """Usage by window, consumer and virtual domain."""

    since: Moment = Field(description="Start of the period.")
    until: Moment = Field(description="End of the period, exclusive.")
    usage: tuple[Use, ...] = Field(description="Entries with usage only.")


class BalanceQuery(RequestModel):
    """The period of which to say who owes whom."""

    since: Moment | None = Field(
        default=None, description="Start of the period; left out: the start of this month, in UTC."
    )
    until: Moment | None = Field(default=None, description="End of the period, exclusive; left out: now.")


class Balance(ResponseModel):
    """What one lent to another, and what it got in return, between two moments."""

    model_config = examples(_BALANCE)

    creditor: str = Field(description="The virtual domain or site that is owed.")
    debtor: str = Field(description="The virtual domain, site or consumer that owes.")
    lent_slot_s: Seconds = Field(description="VM-seconds that the debtor used of the creditor's machines.")
    returned_slot_s: Seconds = Field(description="VM-seconds that the creditor used of the debtor's machines.")
    owed_slot_s: Seconds = Field(description="The difference.")


class BalanceList(ResponseModel):
    """Who owes whom, the largest debt first."""

    since: Moment = Field(description="Start of the period.")
    until: Moment = Field(description="End of the period, exclusive.")
    balances: tuple[Balance, ...] = Field(description="One for each pair of whom one lent to the other.")


class Share(ResponseModel):
    """The share of the provider's capacity that an agreement grants."""

    model_config = examples(_SHARE)

    agreement: str = Field(description="Name of the agreement.")
    provider: str = Field(description="The provider.")
    share: Seconds = Field(description="Long-term share, from 0 to 1.")
    burst_share: Seconds = Field(description="Share in bursts, from 0 to 1.")
    slot_s: Seconds = Field(description="The share over the month, in VM-seconds.")


class StatementLine(ResponseModel):
    """One virtual domain; `*` is the sum of all."""

    model_config = examples(_LINE)

    domain: str = Field(description="The virtual domain, or a site outside all domains.")
    shares: tuple[Share, ...] = Field(description="Agreed shares of VMs.")
    slot_s: Seconds = Field(description="Usage in VM-seconds.")
    capacity_slot_s: Seconds = Field(description="Capacity available to all consumers, in VM-seconds.")
    used_share: Seconds = Field(description="Used part of the capacity, from 0 to 1.")
    peak_vms: int = Field(description="Maximum number of VMs at a time.")
    leases: int = Field(description="Number of leases that held VMs.")
    gpu_s: OrNone[Seconds] = Field(description="Usage in GPU-seconds, fractions included; null: none.")
    penalties: tuple[Penalty, ...] = Field(description="Penalties imposed in this month.")


class Statement(ResponseModel):
    """A consumer's statement for a month; leases that still run count until now."""

    month: str = Field(description="The month, in UTC.")
    consumer: str
    begin: Moment = Field(description="Start of the month.")
    end: Moment = Field(description="End of the month.")
    lines: tuple[StatementLine, ...] = Field(description="One line per virtual domain; the sum comes last.")
