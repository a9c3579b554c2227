"""Tokens: found by their hash, revoked once, never forgotten."""

from leasehold.service.store.store import Store
from leasehold.testing.rows import BEGIN_MS, token_row

LATER_MS = BEGIN_MS + 1


def test_a_token_is_found_by_the_hash_of_its_secret(store: Store) -> None:
    store.add_token(token_row("one"))
    store.add_token(token_row("two"))
    assert store.token_by_hash("hash of two") == token_row("two")
    assert store.token_by_hash("hash of three") is None


def test_a_revoked_token_stays_known_as_revoked(store: Store) -> None:
    store.add_token(token_row("one"))
    assert store.revoke_token("one", LATER_MS)
    assert store.token_by_hash("hash of one") == token_row("one", revoked_ms=LATER_MS)


def test_a_token_is_revoked_once(store: Store) -> None:
    store.add_token(token_row("one"))
    assert store.revoke_token("one", LATER_MS)
    assert not store.revoke_token("one", LATER_MS + 1)
    assert not store.revoke_token("unheard-of", LATER_MS)
    assert store.tokens() == [token_row("one", revoked_ms=LATER_MS)]


def test_tokens_are_listed_oldest_first(store: Store) -> None:
    rows = [token_row("b", created_ms=1), token_row("a", created_ms=2), token_row("c", created_ms=2)]
    for row in rows[::-1]:
        store.add_token(row)
    assert store.tokens() == rows
