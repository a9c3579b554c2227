"""Recurrent delegation: a consumer passes a part of its right on, and can never pass on more than it has.

Every agreement on the way from the provider to a request has to admit it, since use on a path counts on
everything above it; so the effective limit is the least on the way. What is computed here is how that limit
reads: the least of both shares, or their product where the delegate's is relative.
"""

from dataclasses import replace

from leasehold.model.agreement import (
    EVERYBODY,
    MILLION,
    Agreement,
    Commitment,
    Limit,
    NoLimit,
    TimeDecay,
    UsageDecay,
)
from leasehold.model.errors import InvalidField
from leasehold.sharing.paths import is_beneath
from leasehold.sharing.places import Providers


def shares_ppm(limit: Limit) -> tuple[int, int]:
    """Give the share in the long run and in bursts, ppm; all of it where there is no limit."""
    match limit:
        case NoLimit():
            return MILLION, MILLION
        case Commitment():
            return limit.epoch_ppm, limit.burst_ppm
        case TimeDecay() | UsageDecay():
            return limit.share_ppm, limit.share_ppm


def under(agreement: Agreement, parent: Agreement) -> Agreement:
    """Read an agreement as it holds beneath its parent, which is read so already."""
    long_ppm, burst_ppm = shares_ppm(parent.limit)
    limit = agreement.limit
    match limit:
        case Commitment():
            epoch = _share(limit.epoch_ppm, long_ppm, relative=agreement.relative)
            burst = _share(limit.burst_ppm, burst_ppm, relative=agreement.relative)
            limit = replace(limit, epoch_ppm=epoch, burst_ppm=burst)
        case TimeDecay() | UsageDecay():
            share = _share(limit.share_ppm, long_ppm, relative=agreement.relative)
            limit = replace(limit, share_ppm=share)
        case NoLimit():
            pass
    most = _least(agreement.lending_limit, parent.lending_limit)
    return replace(agreement, limit=limit, lending_limit=most, relative=False)


def _share(own_ppm: int, parents_ppm: int, *, relative: bool) -> int:
    return own_ppm * parents_ppm // MILLION if relative else min(own_ppm, parents_ppm)


def _least(one: int | None, other: int | None) -> int | None:
    return min((most for most in (one, other) if most is not None), default=None)


def check_delegation(agreement: Agreement, parent: Agreement, providers: Providers) -> None:
    """Refuse a delegation of what its parent does not give; raises InvalidField."""
    if not _is_passed_down(agreement, parent):
        expected = f"a consumer beneath {parent.consumer!r}, whose right {parent.name!r} is"
        raise InvalidField("consumer", agreement.consumer, expected)
    if agreement.resource != parent.resource:
        raise InvalidField("resource", agreement.resource, f"{parent.resource!r}, as in {parent.name!r}")
    if not _is_within(agreement, parent, providers):
        expected = f"{parent.provider!r} or a part of it, as in {parent.name!r}"
        raise InvalidField("provider", agreement.provider, expected)
    _check_shares(agreement, parent)


def _is_passed_down(agreement: Agreement, parent: Agreement) -> bool:
    if parent.consumer.startswith("@"):
        return f"@{agreement.provider}" == parent.consumer  # a domain passes on what a site lends it
    return agreement.consumer != parent.consumer and is_beneath(agreement.consumer, parent.consumer)


def _is_within(agreement: Agreement, parent: Agreement, providers: Providers) -> bool:
    if parent.consumer == f"@{agreement.provider}" or parent.provider in {agreement.provider, EVERYBODY}:
        return True
    return agreement.provider in providers.sites_of(parent.provider)


def _check_shares(agreement: Agreement, parent: Agreement) -> None:
    if agreement.relative or isinstance(agreement.limit, NoLimit):
        return
    for own_ppm, parents_ppm in zip(shares_ppm(agreement.limit), shares_ppm(parent.limit), strict=True):
        if own_ppm > parents_ppm:
            expected = f"at most {parents_ppm / 10_000:g}%, which is what {parent.name!r} gives"
            raise InvalidField("share", f"{own_ppm / 10_000:g}%", expected)
