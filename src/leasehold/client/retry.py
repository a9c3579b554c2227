"""How often a call is made again, and after which pause."""

import random
from dataclasses import dataclass

from leasehold.client.errors import Lost, Unreachable
from leasehold.client.response import Response

_TRY_AGAIN = frozenset({429, 502, 503, 504})
"""Statuses with which a gateway, or a proxy before it, says: nothing was done, ask again."""


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How long to retry requests that may be repeated.

    ``tries``          how often in all
    ``connect_tries``  how often as long as there was no connection: nothing was sent then, and nothing is in doubt
    ``first_s``        the pause before the second try; it doubles with each, and varies by up to a half, so
                       that many that were turned away together do not come back together
    ``longest_s``      the longest pause; a gateway that wants a longer one is taken at its word at once
    """

    tries: int = 8
    connect_tries: int = 8
    first_s: float = 0.25
    longest_s: float = 8.0

    def pause_s(self, failures: int) -> float:
        """Say how long to wait after so many failures in a row."""
        full_s = min(self.longest_s, self.first_s * 2 ** (failures - 1))
        return random.uniform(full_s / 2, full_s)


class Attempts:
    """The tries of one call so far, and whether there will be another."""

    def __init__(self, policy: RetryPolicy, key: str = "") -> None:
        self._policy = policy
        self._key = key
        self._failures = 0
        self._in_doubt = False

    def after_failure(self, failure: Unreachable) -> float:
        """Give the pause before the next try, in seconds; raises the failure where there will be none."""
        self._failures += 1
        self._in_doubt = self._in_doubt or isinstance(failure, Lost)
        if self._failures >= (self._policy.tries if self._in_doubt else self._policy.connect_tries):
            raise Lost(failure.url, failure.why, self._key) if self._in_doubt else failure
        return self._policy.pause_s(self._failures)

    def after_response(self, response: Response) -> float | None:
        """Give the pause before the next try, None where this is the answer."""
        self._failures += 1
        wanted_s = response.retry_after_s or 0.0
        over = self._failures >= self._policy.tries or wanted_s > self._policy.longest_s
        if over or response.status not in _TRY_AGAIN:
            return None
        return max(wanted_s, self._policy.pause_s(self._failures))

    def reset(self) -> None:
        """Forget the failures: it works."""
        self._failures = 0


ONCE = RetryPolicy(tries=1, connect_tries=1)
"""For what must not be asked twice."""
