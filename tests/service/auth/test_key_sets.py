"""The keys of an issuer: asked for when it may help, and no more often; relied on for a while without it."""

import asyncio
import json
import socket

import pytest
from tests.service.auth.issuer import AUDIENCE, KEYS, METADATA, LocalIssuer, published, signing_key

from leasehold.service.auth.errors import IssuerUnreachable, Unauthenticated
from leasehold.service.auth.issuers import Profile, TrustedIssuer
from leasehold.service.auth.key_sets import FetchError, KeySet, fetch_json

HOUR_S, DAY_S = 3_600, 86_400
ASKED_ONCE = [METADATA, KEYS]


class Keys:
    """A key set whose time is set by hand: cached for six hours, kept for four days."""

    def __init__(self, issuer: LocalIssuer) -> None:
        self.now_s = 1_000.0
        trusted = TrustedIssuer(issuer.url, (AUDIENCE,), Profile.WLCG)
        self._set = KeySet(trusted, fetch_json, lambda: self.now_s)

    def has(self, kid: str) -> bool:
        """Whether the issuer has such a key; raises IssuerUnreachable."""
        try:
            return asyncio.run(self._set.key(kid)).key_id == kid
        except Unauthenticated:
            return False


@pytest.fixture
def keys(issuer: LocalIssuer) -> Keys:
    return Keys(issuer)


def rotate(issuer: LocalIssuer) -> None:
    """Let the issuer sign with another key from now on."""
    issuer.publish(published("new", signing_key("ES256", "new")))


def test_nothing_is_asked_before_a_token_comes(issuer: LocalIssuer, keys: Keys) -> None:
    assert not issuer.asked
    assert keys.has("rsa")
    assert issuer.asked == ASKED_ONCE


def test_keys_are_asked_for_once_in_six_hours(issuer: LocalIssuer, keys: Keys) -> None:
    for keys.now_s in range(0, 24 * HOUR_S, 600):
        assert keys.has("rsa")
        assert keys.has("ec")
    assert issuer.asked == ASKED_ONCE * 4


def test_a_new_key_is_found_when_a_token_names_it(issuer: LocalIssuer, keys: Keys) -> None:
    keys.has("rsa")
    rotate(issuer)
    keys.now_s += 60
    assert keys.has("new")
    assert issuer.asked == ASKED_ONCE * 2


def test_a_key_that_was_taken_back_is_not_relied_on_any_more(issuer: LocalIssuer, keys: Keys) -> None:
    keys.has("rsa")
    rotate(issuer)
    keys.now_s += 6 * HOUR_S
    assert not keys.has("rsa")


def test_whatever_tokens_name_the_issuer_is_asked_once_a_minute(issuer: LocalIssuer, keys: Keys) -> None:
    keys.has("rsa")
    rotate(issuer)
    start_s = keys.now_s
    for second in range(1, 120):
        keys.now_s = start_s + second
        keys.has(f"guess{second}")
        assert keys.has("rsa") == (second < 60)
    assert issuer.asked == ASKED_ONCE * 2


def test_while_the_issuer_is_away_its_keys_are_good_for_four_days(issuer: LocalIssuer, keys: Keys) -> None:
    keys.has("rsa")
    issuer.status, start_s = 503, keys.now_s
    keys.now_s = start_s + 4 * DAY_S - 1
    assert keys.has("rsa")
    keys.now_s = start_s + 4 * DAY_S
    with pytest.raises(IssuerUnreachable, match="the answer is 503"):
        keys.has("rsa")


def test_while_the_issuer_is_away_nobody_can_tell_whether_a_key_is_new(issuer: LocalIssuer, keys: Keys) -> None:
    keys.has("rsa")
    issuer.status = 503
    keys.now_s += 60
    with pytest.raises(IssuerUnreachable):
        keys.has("new")
    assert keys.has("rsa")


def test_an_issuer_that_is_back_is_believed_again(issuer: LocalIssuer, keys: Keys) -> None:
    issuer.status = 503
    with pytest.raises(IssuerUnreachable):
        keys.has("rsa")
    issuer.status = 200
    keys.now_s += 59
    with pytest.raises(IssuerUnreachable):  # asked less than a minute ago
        keys.has("rsa")
    keys.now_s += 1
    assert keys.has("rsa")
    assert not keys.has("guess")


def test_an_issuer_that_is_away_is_asked_once_a_minute(issuer: LocalIssuer, keys: Keys) -> None:
    issuer.status = 503
    for keys.now_s in range(600):
        with pytest.raises(IssuerUnreachable):
            keys.has("rsa")
    assert issuer.asked == [METADATA] * 10


OTHERS = "its metadata are not those of this issuer"
NO_ADDRESS = "its metadata give no HTTPS address for its keys"
BAD_METADATA: list[tuple[object, str]] = [
    (None, "the answer is 404"),
    (b"<html>", "the answer is not valid JSON"),
    (b"[" * 100_000, "the answer is not valid JSON"),
    (b"\xff\xfe", "the answer is not valid JSON"),
    ([], OTHERS),
    ({}, OTHERS),
    ({"jwks_uri": "{url}/keys"}, OTHERS),
    ({"issuer": "https://elsewhere.example", "jwks_uri": "{url}/keys"}, OTHERS),
    ({"issuer": "{url}/", "jwks_uri": "{url}/keys"}, OTHERS),
    ({"issuer": "{url}"}, NO_ADDRESS),
    ({"issuer": "{url}", "jwks_uri": ["{url}/keys"]}, NO_ADDRESS),
    ({"issuer": "{url}", "jwks_uri": "http://elsewhere.example/keys"}, NO_ADDRESS),
    ({"issuer": "{url}", "jwks_uri": "file:///etc/passwd"}, NO_ADDRESS),
    ({"issuer": "{url}", "jwks_uri": "{url}/nowhere"}, "the answer is 404"),
]


@pytest.mark.parametrize(("metadata", "problem"), BAD_METADATA)
def test_metadata_that_lead_to_no_keys_of_the_issuer_are_not_followed(
    issuer: LocalIssuer, keys: Keys, metadata: object, problem: str
) -> None:
    if metadata is not None and not isinstance(metadata, bytes):
        metadata = json.loads(json.dumps(metadata).replace("{url}", issuer.url))
    issuer.answers[METADATA] = metadata
    with pytest.raises(IssuerUnreachable) as error:
        keys.has("rsa")
    assert str(error.value) == f"the keys of issuer {issuer.url} cannot be had: {problem}"
    assert KEYS not in issuer.asked


BAD_KEYS: list[object] = [
    None,
    b"",
    [],
    {},
    {"keys": []},
    {"keys": "rsa"},
    {"keys": [7, None, "rsa"]},
    {"keys": [{"kty": "RSA", "kid": "rsa"}]},
    {"keys": [{"kty": "EC", "kid": "rsa", "crv": "P-256", "x": "AA", "y": "AA"}]},
    {"keys": [{"kty": "RSA", "kid": "rsa", "alg": ["RS256"], "n": "AQAB", "e": "AQAB"}]},
    {"keys": [{"kty": ["RSA"], "kid": "rsa"}]},
    {"keys": [{"kty": "oct", "kid": "rsa", "k": "AAAA"}]},
]


@pytest.mark.parametrize("document", BAD_KEYS)
def test_a_key_set_without_a_key_that_can_be_used_is_no_key_set(
    issuer: LocalIssuer, keys: Keys, document: object
) -> None:
    issuer.answers[KEYS] = document
    with pytest.raises(IssuerUnreachable):
        keys.has("rsa")


def test_a_good_key_beside_bad_ones_is_used(issuer: LocalIssuer, keys: Keys) -> None:
    good, nameless = published("rsa", signing_key("RS256")), published("", signing_key("ES256"))
    issuer.publish({"kty": "RSA", "kid": "broken"}, {"kty": "unheard of", "kid": "odd"}, nameless, good)
    assert keys.has("rsa")
    assert not keys.has("broken")
    assert not keys.has("")


def test_a_bad_key_set_does_not_take_the_good_one_away(issuer: LocalIssuer, keys: Keys) -> None:
    keys.has("rsa")
    issuer.answers[KEYS] = {"keys": []}
    keys.now_s += 6 * HOUR_S
    assert keys.has("rsa")


# Many at once, with an issuer that answers when it is told to


class SlowIssuer:
    """Answers what it was asked when `answer` is set."""

    def __init__(self) -> None:
        self.asked = 0
        self.answer = asyncio.Event()

    async def fetch(self, url: str) -> object:
        self.asked += 1
        await self.answer.wait()
        if url.endswith(METADATA):
            return {"issuer": "https://wlcg.example", "jwks_uri": "https://wlcg.example/keys"}
        return {"keys": [published("rsa", signing_key("RS256"))]}


def slow_keys(slow: SlowIssuer, now_s: list[float]) -> KeySet:
    trusted = TrustedIssuer("https://wlcg.example", (AUDIENCE,), Profile.WLCG)
    return KeySet(trusted, slow.fetch, lambda: now_s[0])


async def let_others_run() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


def test_many_tokens_at_once_are_one_question() -> None:
    async def scenario() -> int:
        slow = SlowIssuer()
        keys = slow_keys(slow, [0.0])
        waiting = [asyncio.ensure_future(keys.key("rsa")) for _ in range(20)]
        await let_others_run()
        slow.answer.set()
        found = await asyncio.gather(*waiting)
        assert {key.key_id for key in found} == {"rsa"}
        return slow.asked

    assert asyncio.run(scenario()) == 2  # the metadata, the keys


def test_who_has_a_known_key_does_not_wait_for_an_answer() -> None:
    async def scenario() -> None:
        slow, now_s = SlowIssuer(), [0.0]
        keys = slow_keys(slow, now_s)
        slow.answer.set()
        await keys.key("rsa")
        slow.answer.clear()
        now_s[0] += 6 * HOUR_S
        asking, other = (asyncio.ensure_future(keys.key("rsa")) for _ in range(2))
        await let_others_run()
        assert (asking.done(), other.done()) == (False, True)
        slow.answer.set()
        assert await asking is not await other  # the one is from the new answer

    asyncio.run(scenario())


def test_who_goes_away_while_waiting_takes_nobody_along() -> None:
    async def scenario() -> None:
        slow = SlowIssuer()
        keys = slow_keys(slow, [0.0])
        impatient, patient = (asyncio.ensure_future(keys.key("rsa")) for _ in range(2))
        await let_others_run()
        impatient.cancel()
        await let_others_run()
        slow.answer.set()
        assert (await patient).key_id == "rsa"

    asyncio.run(scenario())


# Fetching itself


def test_a_redirection_is_not_followed(issuer: LocalIssuer) -> None:
    issuer.status = 302
    with pytest.raises(FetchError, match="the answer is 302"):
        asyncio.run(fetch_json(issuer.url + METADATA))
    assert issuer.asked == [METADATA]


def test_an_answer_has_a_size(issuer: LocalIssuer) -> None:
    issuer.answers["/large"] = b'"' + b"x" * 1_048_576 + b'"'
    with pytest.raises(FetchError, match="longer than 1048576 bytes"):
        asyncio.run(fetch_json(f"{issuer.url}/large"))


def test_an_answer_has_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("leasehold.service.auth.key_sets.TIMEOUT_S", 0.01)
    with socket.create_server(("127.0.0.1", 0)) as silent, pytest.raises(FetchError, match="no answer"):
        asyncio.run(fetch_json(f"http://127.0.0.1:{silent.getsockname()[1]}/"))


@pytest.mark.parametrize("url", ["http://127.0.0.1:1/", "http://[::1", "https://127.0.0.1:1/"])
def test_what_does_not_answer_is_said_in_one_word(url: str) -> None:
    with pytest.raises(FetchError, match=r"^no answer: \w+$"):
        asyncio.run(fetch_json(url))


INSIDE = [
    "https://127.0.0.1/keys",
    "http://127.0.0.1:8470/keys",
    "https://localhost/keys",
    "https://10.0.0.1/keys",
    "https://169.254.169.254/latest/meta-data",
    "https://192.168.1.1/keys",
    "https://[::1]/keys",
    "https://[fe80::1]/keys",
    "https://[fd00::1]/keys",
    "https://[::ffff:127.0.0.1]/keys",
    "https://0.0.0.0/keys",
    "https://metadata.internal/keys",
]


@pytest.mark.parametrize("url", INSIDE)
def test_metadata_of_an_issuer_elsewhere_lead_to_nobody_in_here(url: str) -> None:
    asked: list[str] = []

    async def fetch(asked_for: str) -> object:
        asked.append(asked_for)
        return {"issuer": "https://wlcg.example", "jwks_uri": url}

    trusted = TrustedIssuer("https://wlcg.example", (AUDIENCE,), Profile.WLCG)
    with pytest.raises(IssuerUnreachable, match="this machine or a private network"):
        asyncio.run(KeySet(trusted, fetch, lambda: 0.0).key("rsa"))
    assert asked == [trusted.discovery_url]


@pytest.mark.parametrize("url", ["https://10.0.0.1/keys", "https://keys.internal/keys"])
def test_an_issuer_that_is_in_here_itself_may_have_its_keys_here(url: str) -> None:
    keys = {"keys": [published("rsa", signing_key("RS256", "rsa"))]}

    async def fetch(asked_for: str) -> object:
        return keys if asked_for == url else {"issuer": "https://10.0.0.1", "jwks_uri": url}

    trusted = TrustedIssuer("https://10.0.0.1", (AUDIENCE,), Profile.WLCG)
    assert asyncio.run(KeySet(trusted, fetch, lambda: 0.0).key("rsa")).key_id == "rsa"
