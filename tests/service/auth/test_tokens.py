"""Tokens of our own: given out once, kept as a hash, refused the moment that they are revoked."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.service.auth.stores import NOW_MS, Clock, MemoryTokens

from leasehold.model.errors import InvalidField
from leasehold.service.auth.errors import BearerError, Unauthenticated
from leasehold.service.auth.principal import Principal, Role
from leasehold.service.auth.tokens import TokenCache, Tokens, new_text
from leasehold.service.store.rows import TokenRow
from leasehold.service.store.store import Store

MEMBER = Principal("physics", frozenset({Role.MEMBER}), ("astro", "ocean"), frozenset({"das3"}))
REFUSALS = {"the token is not known here", "the token was revoked", "the token has expired"}


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def store_of_tokens() -> MemoryTokens:
    return MemoryTokens()


@pytest.fixture
def tokens(store_of_tokens: MemoryTokens, clock: Clock) -> Tokens:
    return Tokens(store_of_tokens, clock)


def refusal(tokens: Tokens, text: str) -> str:
    with pytest.raises(Unauthenticated) as error:
        tokens.find(text)
    assert error.value.error is BearerError.INVALID_TOKEN
    return error.value.problem


def test_a_token_says_whose_it_is(tokens: Tokens) -> None:
    row, text = tokens.issue(MEMBER, note="for the night shift")
    assert re.fullmatch(r"lh_[0-9a-f]{12}_[A-Za-z0-9_-]{43}", text)
    found = tokens.find(text)
    assert (found.consumer, found.roles, found.groups, found.sites, found.token_id) == (
        "physics",
        MEMBER.roles,
        ("astro", "ocean"),
        MEMBER.sites,
        row.id,
    )


def test_what_is_kept_does_not_give_the_token_back(tokens: Tokens, store_of_tokens: MemoryTokens) -> None:
    row, text = tokens.issue(MEMBER)
    secret = text.removeprefix(f"lh_{row.id}_")
    assert secret not in str(store_of_tokens.rows)
    assert secret not in str(vars(tokens))


def test_no_two_tokens_are_alike() -> None:
    assert len({new_text() for _ in range(1_000)}) == 1_000


def test_every_other_text_is_unknown(tokens: Tokens) -> None:
    row, text = tokens.issue(MEMBER)
    _, other = tokens.issue(MEMBER)
    wrong = [
        new_text(),
        text[:-1],
        text + "A",
        text[:-1] + ("A" if text[-1] != "A" else "B"),
        f"lh_{row.id}_{other.rpartition('_')[2]}",
        text.upper(),
        f" {text}",
        "lh_",
        "",
    ]
    assert {refusal(tokens, one) for one in wrong} == {"the token is not known here"}


@given(st.text())
def test_a_refusal_never_repeats_what_was_shown(shown: str) -> None:
    assert refusal(Tokens(MemoryTokens(), Clock()), shown) in REFUSALS


def test_a_store_that_finds_the_wrong_row_opens_nothing(clock: Clock) -> None:
    class Sloppy(MemoryTokens):
        def token_by_hash(self, token_hash: str) -> TokenRow | None:
            del token_hash
            return next(iter(self.rows.values()))

    tokens = Tokens(Sloppy(), clock)
    tokens.issue(MEMBER)
    assert refusal(tokens, new_text()) == "the token is not known here"


def test_a_token_expires_to_the_millisecond_even_if_it_was_seen_just_before(tokens: Tokens, clock: Clock) -> None:
    row, text = tokens.issue(MEMBER, expires_in_ms=3_000)
    assert row.expires_ms == NOW_MS + 3_000
    clock.now_ms = NOW_MS + 2_999
    assert tokens.find(text) == tokens.cached(text)
    clock.now_ms = NOW_MS + 3_000
    assert tokens.cached(text) is None
    assert refusal(tokens, text) == "the token has expired"


def test_a_revoked_token_is_refused_at_once(tokens: Tokens, clock: Clock) -> None:
    row, text = tokens.issue(MEMBER)
    _, other = tokens.issue(MEMBER)
    tokens.find(text)
    tokens.find(other)
    assert tokens.revoke(row.id)
    assert tokens.cached(text) is None
    assert refusal(tokens, text) == "the token was revoked"
    assert tokens.cached(other) is not None
    clock.now_ms += 1_000
    assert tokens.revoke(row.id)  # once more, which changes nothing
    assert not tokens.revoke("nobody")
    assert [one.revoked_ms for one in tokens.list()] == [clock.now_ms - 1_000, None]


def test_a_look_up_that_a_revocation_overtakes_is_not_remembered(clock: Clock) -> None:
    class RevokedMeanwhile(MemoryTokens):
        """Answers with the row as it was before somebody else revoked it."""

        def token_by_hash(self, token_hash: str) -> TokenRow | None:
            row = super().token_by_hash(token_hash)
            if row is not None:
                asked.revoke(row.id)
            return row

    asked = Tokens(RevokedMeanwhile(), clock)
    _, text = asked.issue(MEMBER)
    asked.find(text)  # began before the revocation
    assert asked.cached(text) is None
    assert refusal(asked, text) == "the token was revoked"


def test_the_store_is_asked_once_in_five_seconds(tokens: Tokens, store_of_tokens: MemoryTokens, clock: Clock) -> None:
    _, text = tokens.issue(MEMBER)
    for clock.now_ms in range(NOW_MS, NOW_MS + 15_000, 100):
        if tokens.cached(text) is None:
            tokens.find(text)
    assert store_of_tokens.asked == 3


def test_a_clock_that_was_set_back_makes_nothing_last_longer(tokens: Tokens, clock: Clock) -> None:
    _, text = tokens.issue(MEMBER)
    tokens.find(text)
    clock.now_ms -= 1
    assert tokens.cached(text) is None


def test_only_the_latest_tokens_are_remembered(store_of_tokens: MemoryTokens, clock: Clock) -> None:
    tokens = Tokens(store_of_tokens, clock, TokenCache(most=3))
    texts = [tokens.issue(MEMBER)[1] for _ in range(5)]
    for text in texts:
        tokens.find(text)
    assert [tokens.cached(text) is not None for text in texts] == [False, False, True, True, True]


def test_a_bad_token_is_not_remembered(tokens: Tokens, store_of_tokens: MemoryTokens) -> None:
    text = new_text()
    assert refusal(tokens, text) == refusal(tokens, text)
    assert store_of_tokens.asked == 2


ALL_ROLES = {role: frozenset({role}) for role in Role}


@pytest.mark.parametrize(
    ("owner", "field"),
    [
        (Principal("physics", frozenset()), "roles"),
        (Principal("", ALL_ROLES[Role.MEMBER]), "consumer"),
        (Principal("two words", ALL_ROLES[Role.MEMBER]), "consumer"),
        (Principal("line\nbreak", ALL_ROLES[Role.MEMBER]), "consumer"),
        (Principal("x" * 256, ALL_ROLES[Role.MEMBER]), "consumer"),
        (Principal("physics", ALL_ROLES[Role.MEMBER], ("two words",)), "groups"),
        (Principal("physics", ALL_ROLES[Role.MEMBER], ("",)), "groups"),
        (Principal("physics", ALL_ROLES[Role.MEMBER], (), frozenset({"two words"})), "sites"),
        (Principal("physics", ALL_ROLES[Role.GROUP_MANAGER]), "groups"),
        (Principal("physics", ALL_ROLES[Role.SITE_OPERATOR]), "sites"),
        (Principal("physics", ALL_ROLES[Role.PEER]), "sites"),
        (Principal("physics", ALL_ROLES[Role.PEER], (), frozenset({"das3", "das5"})), "sites"),
        (Principal("physics", frozenset({Role.PEER, Role.MEMBER}), (), frozenset({"das3"})), "roles"),
    ],
)
def test_a_token_that_would_mean_nothing_or_too_much_is_not_given_out(
    tokens: Tokens, store_of_tokens: MemoryTokens, owner: Principal, field: str
) -> None:
    with pytest.raises(InvalidField) as error:
        tokens.issue(owner)
    assert error.value.field == field
    assert "\n" not in str(error.value)
    assert not store_of_tokens.rows


@pytest.mark.parametrize("expires_in_ms", [0, -1])
def test_a_token_is_good_for_some_time_at_least(tokens: Tokens, expires_in_ms: int) -> None:
    with pytest.raises(InvalidField, match="expires_in_s"):
        tokens.issue(MEMBER, expires_in_ms=expires_in_ms)


def test_a_real_store_keeps_tokens_as_the_one_in_memory_does(store: Store, clock: Clock) -> None:
    store.acquire_writer_lock()
    tokens = Tokens(store, clock)
    row, text = tokens.issue(MEMBER, expires_in_ms=60_000, note="for the night shift")
    assert tokens.list() == [row]
    assert Tokens(store, clock).find(text) == tokens.find(text)
    assert tokens.revoke(row.id)
    assert refusal(Tokens(store, clock), text) == "the token was revoked"


@pytest.mark.parametrize(
    ("field", "owner"),
    [
        ("consumer", Principal(name, frozenset({Role.MEMBER})))
        for name in (
            "atlas/evil",
            "@das3",
            "*",
            "alice@wlcg.example",
            "two words",
            "",
            "x" * 256,
            "peer",
            "a\0",
        )
    ]
    + [
        ("groups", Principal("physics", frozenset({Role.MEMBER}), (name,)))
        for name in ("/cms", "cms/", "cms//x", "@das3", "a/@b", "*", "a@b", "peer/east", "x/" * 16 + "x", "")
    ],
)
def test_a_name_that_could_be_another_account_is_refused(tokens: Tokens, field: str, owner: Principal) -> None:
    with pytest.raises(InvalidField, match=f"^{field}: "):
        tokens.issue(owner)


def test_a_peer_is_called_by_its_path(tokens: Tokens) -> None:
    _, text = tokens.issue(Principal("peer/east", frozenset({Role.PEER}), sites=frozenset({"peer/east"})))
    assert tokens.find(text).consumer == "peer/east"
