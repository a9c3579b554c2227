"""How much of each rule is used up: what the broker looks at before it answers, and shows to whoever asks."""

from collections.abc import Iterator

from leasehold.model.agreement import Agreement, Commitment, NoLimit, TimeDecay, UsageDecay
from leasehold.sharing.book import account_of
from leasehold.sharing.enforcement import Sharing
from leasehold.sharing.limits.over import windows_ms
from leasehold.sharing.limits.time_decay import decayed_usage_ppm as time_decayed_ppm
from leasehold.sharing.limits.usage import Usage
from leasehold.sharing.limits.usage_decay import decayed_usage_ppm as usage_decayed_ppm
from leasehold.sharing.offers import Reading

_NO_WINDOW_MS = 1 << 62


def rules_for(sharing: Sharing, path: str, site: str, now_ms: int) -> list[Agreement]:
    """Give the rules for a consumer at a site, those with the narrowest applicability range first.

    A site before its domain, and that before everybody; a user before a group, and that before its VO; the
    shorter window first.
    """
    over = sharing.providers.over(site)

    def applicability(rule: Agreement) -> tuple[int, int, int]:
        depth = -1 if rule.consumer.startswith(("*", "@")) else rule.consumer.count("/")
        return over.index(rule.provider), -depth, min(windows_ms(rule.limit), default=_NO_WINDOW_MS)

    return sorted(sharing.book.applying(path, site, now_ms), key=applicability)


def readings(sharing: Sharing, path: str, site: str, now_ms: int) -> list[Reading]:
    """Say how much of each of these rules is used up, window by window, in the same order."""
    return [
        Reading(rule.name, rule.provider, rule.consumer, rule.resource, window_ms, used_ppm, limit_ppm)
        for rule in rules_for(sharing, path, site, now_ms)
        for window_ms, used_ppm, limit_ppm in _windows(rule, Usage(sharing.ledger, account_of(rule)), now_ms)
    ]


def _windows(rule: Agreement, usage: Usage, now_ms: int) -> Iterator[tuple[int, int, int]]:
    """Give length, use and limit of each window."""
    match rule.limit:
        case NoLimit():
            return
        case Commitment() as limit:
            for window_ms, limit_ppm in (
                (limit.burst_ms, limit.burst_ppm),
                (limit.epoch_ms, limit.epoch_ppm),
            ):
                yield window_ms, usage.share_ppm(now_ms - now_ms % window_ms, now_ms, window_ms), limit_ppm
        case TimeDecay() as limit:
            yield limit.window_ms, time_decayed_ppm(limit, usage, now_ms), limit.share_ppm
        case UsageDecay() as limit:
            yield limit.window_ms, usage_decayed_ppm(limit, usage, now_ms), limit.share_ppm
