"""Rate limits by key, in bounded memory, with the time as an argument."""

import math
from collections import OrderedDict
from dataclasses import dataclass
from ipaddress import IPv6Address, ip_address, ip_network

from leasehold.model.errors import InvalidField
from leasehold.service.auth.errors import TooManyRequests

MOST_KEYS = 10_000
_IPV6_PREFIX = 64


@dataclass(frozen=True, slots=True)
class RateLimit:
    """A sustained rate per second and a burst. A rate of 0 means no limit.

    Raises InvalidField for a rate that is negative or not finite, and for a burst below 1.
    """

    rate_per_s: float
    burst: int = 1

    def __post_init__(self) -> None:
        if not (math.isfinite(self.rate_per_s) and self.rate_per_s >= 0):
            raise InvalidField("requests_per_s", self.rate_per_s, "0 for no limit, or a positive number")
        if self.burst < 1:
            raise InvalidField("burst", self.burst, "at least 1")


FAILURES = RateLimit(rate_per_s=1, burst=30)
"""Failed authentications allowed per address: enough for a mistake in a script, too few for guessing."""


class Limiter:
    """A token bucket for each key, as the generic cell rate algorithm: one number for each.

    A request is admitted if the bucket has room for one, and its full cost is counted then: no request is too
    expensive to be made, and the rate holds in the long run.

    The number is the time at which the bucket will be full again. The ``most`` keys that were used last are
    known; a key that is not has a full bucket. Times are seconds of any clock that goes forward. Belongs to
    one event loop.
    """

    def __init__(self, limit: RateLimit, problem: str, most: int = MOST_KEYS) -> None:
        """``problem`` is the message for a caller that is over the limit."""
        self._limit = limit
        self._problem = problem
        self._most = most
        self._full_s: OrderedDict[str, float] = OrderedDict()

    def check(self, key: str, now_s: float) -> None:
        """Raise TooManyRequests if the key is over its limit; count nothing."""
        wait_s = self._wait_s(key, now_s)
        if wait_s > 0:
            raise TooManyRequests(self._problem, wait_s)

    def count(self, key: str, now_s: float, cost: int = 1) -> None:
        """Count the cost of a request."""
        if self._limit.rate_per_s:
            self._full_s[key] = max(self._full_s.get(key, now_s), now_s) + cost / self._limit.rate_per_s
            self._full_s.move_to_end(key)
            if len(self._full_s) > self._most:
                self._full_s.popitem(last=False)

    def take(self, key: str, now_s: float, cost: int = 1) -> None:
        """Count a request, or raise TooManyRequests and count nothing."""
        self.check(key, now_s)
        self.count(key, now_s, cost)

    def _wait_s(self, key: str, now_s: float) -> float:
        """Return the seconds until the bucket has room for one more."""
        rate = self._limit.rate_per_s
        room_s = (self._limit.burst - 1) / rate if rate else math.inf
        return self._full_s.get(key, now_s) - now_s - room_s


def address_key(address: str) -> str:
    """Return the key under which an address is counted: for IPv6 the /64, which is what one household has."""
    try:
        parsed = ip_address(address)
    except ValueError:
        return address
    if not isinstance(parsed, IPv6Address):
        return str(parsed)
    return str(parsed.ipv4_mapped or ip_network((int(parsed), _IPV6_PREFIX), strict=False))
