"""Tokens that Leasehold issues itself: ``lh_<id>_<secret>``.

The id is public: it names the token in lists and logs. The secret is 32 random bytes; it is shown once, and only
the SHA-256 of the whole token is stored. A plain hash is enough for a secret that cannot
be guessed.
"""

import re
import secrets
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256
from hmac import compare_digest
from threading import Lock
from typing import Protocol

from leasehold.model.errors import InvalidField
from leasehold.service.auth.errors import BearerError, Unauthenticated
from leasehold.service.auth.principal import Principal, Role, check_consumer, check_roles
from leasehold.service.store.rows import TokenRow

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

    So not every request needs the store or a signature check. Tokens are kept by hash only, and briefly: that is
    how long a revocation by another process may go unnoticed. One in this process takes effect at once.

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


PREFIX = "lh_"
_ID_BYTES = 6
_SECRET_BYTES = 32
_FORM = re.compile(r"lh_([0-9a-f]{12})_([A-Za-z0-9_-]{43})")

Clock = Callable[[], int]
"""Gives Unix milliseconds."""


class TokenStore(Protocol):
    """The part of the store that tokens need; safe to call from any thread."""

    def add_token(self, row: TokenRow, /) -> None:
        """Keep a token."""

    def token_by_hash(self, token_hash: str, /) -> TokenRow | None:
        """Find a token by the hash of its whole text."""

    def token(self, token_id: str, /) -> TokenRow | None:
        """Find a token by its public id."""

    def tokens(self) -> list[TokenRow]:
        """List all tokens ever issued."""

    def revoke_token(self, token_id: str, now_ms: int, /) -> bool:
        """Mark a token as revoked; False if there is none or it already is."""


def new_text() -> str:
    """Generate the text of a new token."""
    return f"{PREFIX}{secrets.token_hex(_ID_BYTES)}_{secrets.token_urlsafe(_SECRET_BYTES)}"


def id_of(text: str) -> str | None:
    """Extract the id from the text of a token; None if it is not one."""
    match = _FORM.fullmatch(text)
    return match[1] if match else None


def is_live(row: TokenRow, now_ms: int) -> bool:
    """Whether a token is valid at this time: neither revoked nor expired."""
    return row.revoked_ms is None and (row.expires_ms is None or now_ms < row.expires_ms)


def roles_of(row: TokenRow) -> frozenset[Role]:
    """Read the roles of a token."""
    return frozenset(map(Role, row.roles.split()))


class Tokens:
    """The tokens of one store. A token revoked here is refused from then on, in every thread.

    The methods read and write the store, and block: an event loop calls them in a thread, except for `cached`.
    """

    def __init__(self, store: TokenStore, clock: Clock, cache: TokenCache | None = None) -> None:
        self._store = store
        self._clock = clock
        self._cache = cache or TokenCache()

    def issue(self, owner: Principal, *, expires_in_ms: int | None = None, note: str = "") -> tuple[TokenRow, str]:
        """Issue a token: its row, and its text, which cannot be had a second time.

        Raises InvalidField; see `leasehold.service.auth.principal.check_roles` for what goes with which role.
        """
        text = new_text()
        row = token_row(text, owner, self._clock(), expires_in_ms=expires_in_ms, note=note)
        self._store.add_token(row)
        return row, text

    def cached(self, text: str) -> Principal | None:
        """Return the principal of a token seen in the last seconds, without reading the store."""
        return self._cache.get(hash_of(text), self._clock())

    def find(self, text: str) -> Principal:
        """Return the principal of a token. Raises Unauthenticated: unknown, expired or revoked.

        Only a caller with the whole secret learns that a token was once valid.
        """
        if id_of(text) is None:
            raise _refused("is not known here")
        token_hash, generation, now_ms = hash_of(text), self._cache.generation, self._clock()
        row = self._live_row(token_hash, now_ms)
        principal = _principal(row)
        self._cache.put(token_hash, principal, now_ms, generation, row.expires_ms)
        return principal

    def of_session(self, token_id: str) -> Principal:
        """Return the principal of the token that a session of the dashboard began with; see `find`.

        The id is not secret: the caller has verified that the session is one of ours.
        """
        key, generation, now_ms = f"id:{token_id}", self._cache.generation, self._clock()
        known = self._cache.get(key, now_ms)
        if known is None:
            row = _live(self._store.token(token_id), now_ms)
            known = _principal(row)
            self._cache.put(key, known, now_ms, generation, row.expires_ms)
        return known

    def _live_row(self, token_hash: str, now_ms: int) -> TokenRow:
        row = self._store.token_by_hash(token_hash)
        if row is None or not compare_digest(row.hash, token_hash):
            raise _refused("is not known here")
        return _live(row, now_ms)

    def list(self) -> list[TokenRow]:
        """List all tokens ever issued, including expired and revoked ones."""
        return self._store.tokens()

    def revoke(self, token_id: str) -> bool:
        """Revoke a token; False if none with this id was ever issued."""
        revoked = self._store.revoke_token(token_id, self._clock())
        self._cache.forget(token_id)
        return revoked or any(row.id == token_id for row in self._store.tokens())


def token_row(
    text: str, owner: Principal, now_ms: int, *, expires_in_ms: int | None = None, note: str = ""
) -> TokenRow:
    """Make the row of a token with this text. Raises InvalidField as `Tokens.issue` does."""
    check_consumer("consumer", owner.consumer, owner.roles)
    check_roles(owner.roles, owner.groups, owner.sites)
    if expires_in_ms is not None and expires_in_ms <= 0:
        raise InvalidField("expires_in_s", expires_in_ms / 1000, "a positive number of seconds")
    return TokenRow(
        id=id_of(text) or "",
        hash=hash_of(text),
        consumer=owner.consumer,
        roles=" ".join(sorted(owner.roles)),
        groups=" ".join(dict.fromkeys(owner.groups)),
        sites=" ".join(sorted(owner.sites)),
        note=note,
        created_ms=now_ms,
        expires_ms=None if expires_in_ms is None else now_ms + expires_in_ms,
        revoked_ms=None,
    )


def _live(row: TokenRow | None, now_ms: int) -> TokenRow:
    """Return the row of a token that is valid now; raises Unauthenticated."""
    if row is None:
        raise _refused("is not known here")
    if row.revoked_ms is not None:
        raise _refused("was revoked")
    if not is_live(row, now_ms):
        raise _refused("has expired")
    return row


def _refused(why: str) -> Unauthenticated:
    return Unauthenticated(BearerError.INVALID_TOKEN, f"the token {why}")


def _principal(row: TokenRow) -> Principal:
    return Principal(
        consumer=row.consumer,
        roles=roles_of(row),
        groups=tuple(row.groups.split()),
        sites=frozenset(row.sites.split()),
        token_id=row.id,
    )
