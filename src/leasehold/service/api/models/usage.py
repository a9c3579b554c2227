"""What was used, on the wire: in slot-seconds, exact to the millisecond."""

from typing import Annotated

from pydantic import BeforeValidator, Field

from leasehold.model.agreement import MILLION
from leasehold.service.accounting import By, Line, Share, Use, Window
from leasehold.service.api.fields import MomentMs, Month, Name, plain_digits
from leasehold.service.api.models.agreements import Penalty, show_penalty
from leasehold.service.api.models.base import Asked, Shown, examples
from leasehold.service.api.moments import show_duration, show_moment

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


class UsageQuery(Asked):
    """Which use."""

    consumer: Name | None = Field(
        None, description="On account of this path, or of what is beneath it: a VO, a group, a user."
    )
    domain: Name | None = Field(None, description="At this virtual domain, or at this site.")
    since_ms: MomentMs | None = Field(
        None, alias="since", description="From then on; left out: from the begin of this month, in UTC."
    )
    until_ms: MomentMs | None = Field(None, alias="until", description="Until before then; left out: now.")
    by: By = Field(By.TOTAL, description="In windows of this length, which begin where they do in UTC.")
    depth: Depth = Field(1, description="How deep paths are told apart: 1 for VOs, 2 for groups in them.")


class StatementQuery(Asked):
    """Which statement."""

    month: Month = Field(description="The month, in UTC: `2026-10`.")
    consumer: Name = Field(description="The VO, or a group in it.")


class UseShown(Shown):
    """What one consumer used of one virtual domain in one window."""

    model_config = examples(_USE)

    begin: str = Field(description="When the window begins.")
    end: str = Field(description="When it ends.")
    consumer: str
    domain: str = Field(description="The virtual domain, or a site that is in none.")
    local: bool = Field(description="Whether by the site's own users, which no agreement is about.")
    slot_s: int | float = Field(description="VMs times seconds.")
    leases: int = Field(description="How many leases held VMs.")
    peak_vms: int = Field(description="The most VMs at a time.")


class Usage(Shown):
    """What was used: by window, consumer and virtual domain."""

    since: str = Field(description="From then on.")
    until: str = Field(description="Until before then.")
    usage: list[UseShown] = Field(description="Where nothing was used there is no entry.")


class ShareShown(Shown):
    """What an agreement gives of what its provider has."""

    model_config = examples(_SHARE)

    agreement: str = Field(description="Its name.")
    provider: str = Field(description="Who lends.")
    share: int | float = Field(description="In the long run, from 0 to 1.")
    burst_share: int | float = Field(description="In bursts, from 0 to 1.")
    slot_s: int | float = Field(description="What that comes to over the month: VMs times seconds.")


class LineShown(Shown):
    """What concerns one virtual domain; `*` is the sum of all."""

    model_config = examples(_LINE)

    domain: str = Field(description="The virtual domain, or a site that is in none.")
    shares: list[ShareShown] = Field(description="What was agreed, as far as it is about VMs.")
    slot_s: int | float = Field(description="What was used: VMs times seconds.")
    capacity_slot_s: int | float = Field(description="What there was for everybody.")
    used_share: int | float = Field(description="What was used of that, from 0 to 1.")
    peak_vms: int = Field(description="The most VMs at a time.")
    leases: int = Field(description="How many leases held VMs.")
    penalties: list[Penalty] = Field(description="Imposed in this month.")


class Statement(Shown):
    """The statement of a consumer for a month; what goes on now counts until now."""

    month: str = Field(description="The month, in UTC.")
    consumer: str
    begin: str = Field(description="When the month begins.")
    end: str = Field(description="When it ends.")
    lines: list[LineShown] = Field(description="By virtual domain, and last the sum.")


def show_usage(time: Window, uses: list[Use]) -> Usage:
    """Show use."""
    return Usage(since=show_moment(time[0]), until=show_moment(time[1]), usage=[_use(use) for use in uses])


def _use(use: Use) -> UseShown:
    return UseShown(
        begin=show_moment(use.window[0]),
        end=show_moment(use.window[1]),
        consumer=use.consumer,
        domain=use.domain,
        local=use.is_local,
        slot_s=show_duration(use.vm_ms),
        leases=use.leases,
        peak_vms=use.peak_vms,
    )


def show_statement(month: str, consumer: str, time: Window, lines: list[Line], now_ms: int) -> Statement:
    """Show a statement."""
    return Statement(
        month=month,
        consumer=consumer,
        begin=show_moment(time[0]),
        end=show_moment(time[1]),
        lines=[_line(line, now_ms) for line in lines],
    )


def _line(line: Line, now_ms: int) -> LineShown:
    part = round(line.used_vm_ms / line.capacity_vm_ms, 6) if line.capacity_vm_ms else 0
    return LineShown(
        domain=line.domain,
        shares=[_share(share) for share in line.shares],
        slot_s=show_duration(line.used_vm_ms),
        capacity_slot_s=show_duration(line.capacity_vm_ms),
        used_share=part,
        peak_vms=line.peak_vms,
        leases=line.leases,
        penalties=[show_penalty(row, now_ms) for row in line.penalties],
    )


def _share(share: Share) -> ShareShown:
    return ShareShown(
        agreement=share.agreement,
        provider=share.provider,
        share=share.share_ppm / MILLION,
        burst_share=share.burst_ppm / MILLION,
        slot_s=show_duration(share.vm_ms),
    )
