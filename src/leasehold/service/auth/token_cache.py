"""Caches the principals of recent tokens, so that not every request needs the store or a signature check.

Tokens are kept by hash only, and for a few seconds only: that is how long a revocation by another process may
go unnoticed. A revocation in this process takes effect at once.
"""

from collections import OrderedDict
from dataclasses import dataclass
from hashlib import sha256
from threading import Lock

from leasehold.service.auth.principal import Principal

KEPT_MS = 5_000
MOST = 10_000


def hash_of(token: str) -> str:
    """Return the SHA-256 of a token in hexadecimal, the only form that may be stored."""
    return sha256(token.encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class _Seen:
    principal: Principal
    since_ms: int
    until_ms: int


class TokenCache:
    """The principals of up to ``most`` tokens that were found valid in the last ``kept_ms``.

    Times are Unix milliseconds, passed as arguments. Safe to use from several threads.
    """

    def __init__(self, kept_ms: int = KEPT_MS, most: int = MOST) -> None:
        self._kept_ms = kept_ms
        self._most = most
        self._seen: OrderedDict[str, _Seen] = OrderedDict()
        self._generation = 0
        self._lock = Lock()

    @property
    def generation(self) -> int:
        """Counts invalidations: a look-up that began in an earlier generation may be outdated."""
        return self._generation

    def get(self, token_hash: str, now_ms: int) -> Principal | None:
        """Return the principal of a cached token; a clock that was set back counts as a miss."""
        seen = self._seen.get(token_hash)
        return seen.principal if seen and seen.since_ms <= now_ms < seen.until_ms else None

    def put(
        self, token_hash: str, principal: Principal, now_ms: int, generation: int, valid_until_ms: int | None
    ) -> None:
        """Cache a look-up, unless an entry was invalidated since it began in ``generation``."""
        until_ms = now_ms + self._kept_ms
        until_ms = until_ms if valid_until_ms is None else min(until_ms, valid_until_ms)
        with self._lock:
            if generation == self._generation:
                self._seen[token_hash] = _Seen(principal, now_ms, until_ms)
                self._seen.move_to_end(token_hash)
                if len(self._seen) > self._most:
                    self._seen.popitem(last=False)

    def forget(self, token_id: str) -> None:
        """Invalidate a revoked token, and the result of any look-up under way."""
        with self._lock:
            self._generation += 1
            for token_hash in [key for key, seen in self._seen.items() if seen.principal.token_id == token_id]:
                del self._seen[token_hash]
