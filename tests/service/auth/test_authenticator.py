"""From the header of a request to who asks: whatever the token, and however often somebody fails."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.service.auth.issuer import AUDIENCE, LocalIssuer, sign
from tests.service.auth.stores import Clock, MemoryTokens

from leasehold.service.auth.authenticator import Authenticator, bearer_token
from leasehold.service.auth.errors import (
    BearerError,
    Forbidden,
    IssuerUnreachable,
    TooManyRequests,
    Unauthenticated,
)
from leasehold.service.auth.issuers import Profile, TrustedIssuer
from leasehold.service.auth.jwts import Jwts
from leasehold.service.auth.limits import RateLimit
from leasehold.service.auth.principal import Principal, Role
from leasehold.service.auth.tokens import Tokens, new_text
from leasehold.service.errors import Unavailable

MEMBER = Principal("physics", frozenset({Role.MEMBER}))
ADDRESS, OTHER_ADDRESS = "192.0.2.7", "192.0.2.8"


class Gate:
    """An authenticator with everything around it; it forgives one failure a second, and three at once."""

    def __init__(self, *issuers: TrustedIssuer) -> None:
        self.now_s = 0.0
        self.store = MemoryTokens()
        self.tokens = Tokens(self.store, Clock())
        jwts = Jwts(issuers, Clock())
        self._authenticator = Authenticator(self.tokens, jwts, RateLimit(1, 3), lambda: self.now_s)

    def who(self, authorization: str | None, address: str = ADDRESS) -> Principal:
        return asyncio.run(self._authenticator.principal(authorization, address))

    def refuses(self, authorization: str | None, address: str = ADDRESS) -> Unauthenticated:
        with pytest.raises(Unauthenticated) as error:
            self.who(authorization, address)
        return error.value


@pytest.fixture
def gate() -> Gate:
    return Gate()


# Reading the header


@pytest.mark.parametrize("header", ["Bearer {}", "bearer {}", "BEARER {}", "  Bearer   {}  "])
def test_the_word_bearer_may_be_written_in_any_way(gate: Gate, header: str) -> None:
    _, text = gate.tokens.issue(MEMBER)
    assert gate.who(header.format(text)).consumer == "physics"


@pytest.mark.parametrize("header", [None, "", " ", "Basic cGh5c2ljczp4", "Token x", "Bearerx", "lh_1_2", "Digest a=b"])
def test_who_shows_no_bearer_token_is_asked_for_one(gate: Gate, header: str | None) -> None:
    refusal = gate.refuses(header)
    assert (refusal.error, refusal.status) == (BearerError.NONE, 401)
    assert refusal.challenge == 'Bearer realm="leasehold"'


@pytest.mark.parametrize(
    "header",
    [
        "Bearer",
        "Bearer ",
        "Bearer a b",
        'Bearer "x"',
        "Bearer x,y",
        "Bearer \u00fc",
        "Bearer " + "x" * 16_385,
    ],
)
def test_what_cannot_be_a_token_is_an_invalid_request(gate: Gate, header: str) -> None:
    refusal = gate.refuses(header)
    assert (refusal.error, refusal.status) == (BearerError.INVALID_REQUEST, 400)
    assert refusal.challenge.startswith('Bearer realm="leasehold", error="invalid_request"')


@pytest.mark.parametrize("text", ["x", "a.b.c", "ghp_0123456789", f"lh_{0:012}_{0:043}", "lh_", "lh_x_y"])
def test_a_token_that_nobody_knows_is_invalid(gate: Gate, text: str) -> None:
    refusal = gate.refuses(f"Bearer {text}")
    assert (refusal.error, refusal.status) == (BearerError.INVALID_TOKEN, 401)
    assert refusal.challenge.startswith('Bearer realm="leasehold", error="invalid_token"')


@given(st.text())
def test_no_header_comes_back_in_a_refusal(header: str) -> None:
    with pytest.raises(Unauthenticated) as error:
        bearer_token(f"Bearer {header}!")
    assert str(error.value) == "show a token: Authorization: Bearer TOKEN"


# Both kinds of tokens


def test_a_jwt_is_let_in_as_who_it_is(issuer: LocalIssuer) -> None:
    gate = Gate(TrustedIssuer(issuer.url, (AUDIENCE,), Profile.WLCG))
    who = gate.who(f"Bearer {sign(issuer.wlcg())}")
    assert who.consumer.startswith("e1eb758b@127.0.0.1:")
    assert not gate.store.asked


def test_a_jwt_that_gives_nothing_is_forbidden_and_no_failure_to_say_who_one_is(issuer: LocalIssuer) -> None:
    gate = Gate(TrustedIssuer(issuer.url, (AUDIENCE,), Profile.WLCG))
    for _ in range(10):
        with pytest.raises(Forbidden):
            gate.who(f"Bearer {sign(issuer.wlcg(scope='storage.read:/'))}")


def test_when_the_issuer_is_away_that_is_said_and_is_nobodys_failure(issuer: LocalIssuer) -> None:
    gate = Gate(TrustedIssuer(issuer.url, (AUDIENCE,), Profile.WLCG))
    issuer.status = 500
    for _ in range(10):
        with pytest.raises(IssuerUnreachable) as error:
            gate.who(f"Bearer {sign(issuer.wlcg())}")
    assert isinstance(error.value, Unavailable)


def test_a_token_in_use_is_looked_up_once(gate: Gate) -> None:
    _, text = gate.tokens.issue(MEMBER)
    for _ in range(100):
        gate.who(f"Bearer {text}")
    assert gate.store.asked == 1


def test_a_token_in_use_is_refused_once_it_is_revoked(gate: Gate) -> None:
    row, text = gate.tokens.issue(MEMBER)
    gate.who(f"Bearer {text}")
    gate.tokens.revoke(row.id)
    assert gate.refuses(f"Bearer {text}").problem == "the token was revoked"


def test_the_store_is_asked_outside_the_event_loop() -> None:
    class Watching(MemoryTokens):
        def token_by_hash(self, token_hash: str) -> None:
            del token_hash
            with pytest.raises(RuntimeError, match="no running event loop"):
                asyncio.get_running_loop()

    authenticator = Authenticator(Tokens(Watching(), Clock()), Jwts([], Clock()))
    with pytest.raises(Unauthenticated):
        asyncio.run(authenticator.principal(f"Bearer {new_text()}"))


# Who fails too often


@pytest.fixture
def locked(gate: Gate) -> Gate:
    """A gate at which an address has failed as often as it may."""
    for _ in range(3):
        gate.refuses(f"Bearer {new_text()}")
    return gate


def test_an_address_that_fails_too_often_is_told_to_wait(locked: Gate) -> None:
    for text in (new_text(), "a.b.c"):
        with pytest.raises(TooManyRequests, match=r"^too many tokens from this address were not valid; wait 1 s$"):
            locked.who(f"Bearer {text}")
    locked.now_s += 1
    assert locked.refuses(f"Bearer {new_text()}").problem == "the token is not known here"


def test_wrong_tokens_never_lock_out_a_right_one_of_the_same_address(locked: Gate, issuer: LocalIssuer) -> None:
    _, good = locked.tokens.issue(MEMBER)
    assert locked.who(f"Bearer {good}").consumer == "physics"
    gate = Gate(TrustedIssuer(issuer.url, (AUDIENCE,), Profile.WLCG))
    for _ in range(3):
        gate.refuses(f"Bearer {new_text()}")
    assert gate.who(f"Bearer {sign(issuer.wlcg())}").consumer.startswith("e1eb758b@")


def test_other_addresses_are_not_touched_by_it(locked: Gate) -> None:
    locked.refuses(f"Bearer {new_text()}", OTHER_ADDRESS)


def test_a_token_that_was_good_a_moment_ago_is_good_at_a_locked_address(gate: Gate) -> None:
    _, text = gate.tokens.issue(MEMBER)
    gate.who(f"Bearer {text}")
    for _ in range(3):
        gate.refuses(f"Bearer {new_text()}")
    assert gate.who(f"Bearer {text}").consumer == "physics"


def test_who_succeeds_is_not_counted(gate: Gate) -> None:
    for _ in range(10):
        gate.who(f"Bearer {gate.tokens.issue(MEMBER)[1]}")


def test_without_an_address_nothing_is_counted(gate: Gate) -> None:
    for _ in range(10):
        gate.refuses(f"Bearer {new_text()}", "")
