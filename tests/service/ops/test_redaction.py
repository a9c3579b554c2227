"""Nothing secret in logs: whatever stands around a secret, and however deep it lies, it does not come out."""

import json
from base64 import urlsafe_b64encode
from dataclasses import dataclass
from urllib.parse import quote

import pytest
import structlog
from hypothesis import given
from hypothesis import strategies as st
from structlog.typing import Processor

from leasehold.service.auth.tokens import id_of, new_text
from leasehold.service.logs import HIDDEN, redacted, without_secrets

around = st.text(max_size=15)  # shorter than any part of a secret
base64url = st.text("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_", min_size=20, max_size=60)
OPENINGS = [urlsafe_b64encode(opening)[:3].decode() for opening in (b'{"a', b'{"~', b"{ a", b"{\n ", b"{\t ", b"{\r\n")]
own_tokens = st.builds(new_text)
jwts = st.builds("{}{}.{}.{}".format, st.sampled_from(OPENINGS), base64url, base64url, base64url)
b64tokens = st.from_regex(r"[A-Za-z0-9\-._~+/]{16,60}=*", fullmatch=True)


def secret_of(token: str) -> str:
    return token[16:]  # after lh_<id>_


@given(before=around, token=own_tokens, after=around)
def test_our_own_tokens_keep_their_id_only(before: str, token: str, after: str) -> None:
    shown = redacted(f"{before}{token}{after}")
    assert secret_of(token) not in shown


@given(own_tokens)
def test_the_id_of_a_token_may_be_read(token: str) -> None:
    assert redacted(f"issued {token} to physics") == f"issued lh_{id_of(token)}_{HIDDEN} to physics"


@given(before=around, token=jwts, after=around)
def test_no_part_of_a_jwt_comes_out(before: str, token: str, after: str) -> None:
    shown = redacted(f"{before}{token}{after}")
    assert not any(part in shown for part in token.split("."))


@given(
    scheme=st.sampled_from(["Bearer", "bearer", "BEARER", "Basic"]),
    token=b64tokens,
    written=st.sampled_from(
        [
            "Authorization: {}",
            "authorization:{}",
            "{{'authorization': '{}'}}",
            '{{"Authorization": "{}", "accept": "*/*"}}',
            "[(b'authorization', b'{}')]",
            'curl -H "Authorization: {}" https://gateway.example',
            "got {} instead",
        ]
    ),
)
def test_no_authorization_header_comes_out(scheme: str, token: str, written: str) -> None:
    assert token not in redacted(written.format(f"{scheme} {token}"))


@given(token=st.text(st.characters(min_codepoint=33, max_codepoint=126, exclude_characters="\"'"), min_size=4))
def test_whatever_stands_in_an_authorization_header_goes(token: str) -> None:
    assert redacted(f"Authorization: Odd {token}\r\nAccept: */*") == f"Authorization: {HIDDEN}\r\nAccept: */*"


visible = st.characters(min_codepoint=33, max_codepoint=0x24F, categories=("L", "N", "P", "S"))


@given(password=st.text(visible, min_size=1))
def test_no_password_comes_out_of_a_url_escaped_or_not(password: str) -> None:
    for written in (quote(password, safe=""), password):
        shown = redacted(f"store postgresql+psycopg://leasehold:{written}@db.example/leasehold is away")
        assert shown == f"store postgresql+psycopg://leasehold:{HIDDEN}@db.example/leasehold is away"


@pytest.mark.parametrize("key", ["access_token", "token", "password", "client_secret", "api_key"])
@given(value=st.text(st.characters(min_codepoint=48, max_codepoint=122), min_size=1).filter(str.isalnum))
def test_no_secret_comes_out_of_a_query(key: str, value: str) -> None:
    shown = redacted(f"GET /v1/leases?{key}={value}&limit=10")
    assert shown == f"GET /v1/leases?{key}={HIDDEN}&limit=10"


@given(st.text() | own_tokens | jwts | b64tokens.map("Authorization: Bearer {}".format))
def test_what_was_hidden_once_stays_as_it_is(text: str) -> None:
    assert redacted(redacted(text)) == redacted(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "lease 42 of physics runs at das3 on 2 VMs",
        "GET /v1/leases?state=running&limit=100 200 3.2 ms",
        "http://127.0.0.1:8470/v1/leases/42",
        "sqlite:////var/lib/leasehold/leasehold.db",
        "show a token: Authorization is missing",
        "a bearer token is needed",
        "the token has expired",
        "token.inspect-self of e1eb758b@wlcg.example/cms",
        "urn:leasehold:problem:forbidden",
        "src/leasehold/service/auth/tokens.py",
        "src/leasehold/configuration/keys.py, line 42",
        "see news.txt, survey.results and they.are",
        "2026-11-21T10:43:36.120Z",
    ],
)
def test_what_is_no_secret_stays_readable(text: str) -> None:
    assert redacted(text) == text


@dataclass
class Holder:
    token: str


def wrapped(secret: str, depth: int) -> object:
    """Put a secret into lists and mappings in turn."""
    value: object = secret
    for level in range(depth):
        value = [value] if level % 2 else {"inner": value}
    return value


@given(token=own_tokens, depth=st.integers(0, 20))
def test_a_secret_is_found_however_deep_it_lies(token: str, depth: int) -> None:
    event = {"event": "odd", "detail": wrapped(token, depth)}
    assert secret_of(token) not in repr(without_secrets(None, "info", event))


@pytest.mark.parametrize("key", ["authorization", "Authorization", "password", "token", "client_secret", "cookie"])
def test_what_is_said_under_the_name_of_a_secret_goes_whatever_it_is(key: str) -> None:
    said = {"event": "odd", "headers": {key: "hunter2"}, key: ["hunter2"]}
    assert "hunter2" not in repr(without_secrets(None, "info", said))


@given(own_tokens)
def test_a_secret_is_found_in_whatever_can_be_written_down(token: str) -> None:
    cyclic: list[object] = [token]
    cyclic.append(cyclic)
    hiding: list[object] = [
        token.encode(),
        (token,),
        {token},
        {token: 1},
        Holder(token),
        ValueError(token),
        cyclic,
    ]
    for value in hiding:
        assert secret_of(token) not in repr(without_secrets(None, "info", {"value": value}))


def test_what_is_no_text_keeps_its_type() -> None:
    event = {
        "event": "request",
        "status": 200,
        "ms": 3.2,
        "ok": True,
        "none": None,
        "token_id": "3f9a6c1b2d04",
    }
    assert without_secrets(None, "info", dict(event)) == event


PROCESSORS: list[Processor] = [
    structlog.processors.format_exc_info,
    without_secrets,
    structlog.processors.JSONRenderer(),
]


@given(own_tokens)
def test_as_a_processor_it_lets_no_secret_into_a_line(token: str) -> None:
    logger = structlog.wrap_logger(structlog.ReturnLogger(), processors=PROCESSORS)
    line = logger.error("cannot go on", url=f"http://a:{token}@b", exc_info=ValueError(token))
    assert secret_of(token) not in line
    assert f"ValueError: lh_{id_of(token)}_{HIDDEN}" in json.loads(line)["exception"]
