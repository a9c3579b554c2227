"""A store of tokens in memory that counts how often it is asked, and a clock that is set by hand."""

from copy import copy

from leasehold.service.store.rows import TokenRow

NOW_MS = 1_800_000_000_000


class Clock:
    """Unix milliseconds that pass only when a test says so."""

    def __init__(self) -> None:
        self.now_ms = NOW_MS

    def __call__(self) -> int:
        return self.now_ms


class MemoryTokens:
    """A TokenStore; ``asked`` counts the look-ups."""

    def __init__(self) -> None:
        self.rows: dict[str, TokenRow] = {}
        self.asked = 0

    def add_token(self, row: TokenRow) -> None:
        self.rows[row.id] = row

    def token_by_hash(self, token_hash: str) -> TokenRow | None:
        self.asked += 1
        return next((copy(row) for row in self.rows.values() if row.hash == token_hash), None)

    def token(self, token_id: str) -> TokenRow | None:
        self.asked += 1
        return copy(self.rows.get(token_id))

    def tokens(self) -> list[TokenRow]:
        return list(self.rows.values())

    def revoke_token(self, token_id: str, now_ms: int) -> bool:
        row = self.rows.get(token_id)
        if row is None or row.revoked_ms is not None:
            return False
        row.revoked_ms = now_ms
        return True
