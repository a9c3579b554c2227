"""Sign-in at an OpenID provider: a small one on this machine, which checks what RFC 7636 lets it check."""

import json
import re
from base64 import urlsafe_b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from hashlib import sha256
from html import unescape
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import parse_qs, parse_qsl, urlencode, urlsplit

import httpx2
import pytest
from tests.service.api.dashboard.test_pages import HTML, Page, get
from tests.service.api.house import CONFIG, House, house_in
from tests.service.auth.issuer import AUDIENCE, METADATA, LocalIssuer, running_issuer, sign

from leasehold.service.auth.issuers import Profile, TrustedIssuer

CLIENT = "dashboard-of-das3"
SAME_ORIGIN = {"Sec-Fetch-Site": "same-origin"}


@dataclass
class Provider:
    """Authorizes everybody who asks as it should be asked, and gives each code away once."""

    issuer: LocalIssuer
    token: dict[str, Any] = field(default_factory=dict)
    codes: dict[str, dict[str, str]] = field(default_factory=dict)
    refuses: bool = False

    def authorize(self, asked: dict[str, str]) -> str:
        assert (asked["response_type"], asked["client_id"]) == ("code", CLIENT)
        assert asked["code_challenge_method"] == "S256"
        if self.refuses:
            return f"{asked['redirect_uri']}?{urlencode({'error': 'access_denied', 'state': asked['state']})}"
        code = f"code-{len(self.codes)}"
        self.codes[code] = asked
        return f"{asked['redirect_uri']}?{urlencode({'code': code, 'state': asked['state']})}"

    def exchange(self, form: dict[str, str]) -> tuple[int, dict[str, Any]]:
        asked = self.codes.pop(form.get("code", ""), None)
        challenge = urlsafe_b64encode(sha256(form.get("code_verifier", "").encode()).digest()).decode().rstrip("=")
        if asked is None or asked["code_challenge"] != challenge or asked["redirect_uri"] != form["redirect_uri"]:
            return 400, {"error": "invalid_grant"}
        return 200, {"token_type": "Bearer", "access_token": sign(self.issuer.wlcg(**self.token))}


@contextmanager
def running_provider() -> Iterator[Provider]:
    """Serve a provider until the block is left."""
    with running_issuer() as issuer:
        provider = Provider(issuer)

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.send_response(302)
                self.send_header("Location", provider.authorize(dict(parse_qsl(urlsplit(self.path).query))))
                self.end_headers()

            def do_POST(self) -> None:
                length = int(self.headers["Content-Length"])
                status, body = provider.exchange(dict(parse_qsl(self.rfile.read(length).decode())))
                content = json.dumps(body).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name there
                del format, args

        with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
            url = f"http://127.0.0.1:{server.server_port}"
            issuer.answers[METADATA] |= {  # type: ignore[operator]  # a dictionary
                "authorization_endpoint": f"{url}/authorize",
                "token_endpoint": f"{url}/token",
            }
            thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
            thread.start()
            try:
                yield provider
            finally:
                server.shutdown()
                thread.join()


@pytest.fixture
def provider() -> Iterator[Provider]:
    with running_provider() as provider:
        yield provider


@pytest.fixture
def house(tmp_path: Path, provider: Provider) -> Iterator[House]:
    issuer = TrustedIssuer(provider.issuer.url, (AUDIENCE,), Profile.WLCG, client_id=CLIENT)
    with house_in(tmp_path, config=replace(CONFIG, issuers=(issuer,))) as house:
        yield house


def begin(house: House) -> tuple[str, str]:
    """Press the button; gives the cookie of the sign-in, and where the provider sends the browser back."""
    page = Page(get(house, "/sign-in?next=%2Fqueue").text)
    [name] = [one["value"] for one in page.named("input") if one.get("name") == "provider"]
    sent = house.ask("POST", "/sign-in/provider", data={"provider": name, "next": "/queue"}, headers=HTML | SAME_ORIGIN)
    assert sent.status_code == 200, sent.text
    house.client.cookies.clear()
    assert {"HttpOnly", "SameSite=lax", "Path=/sign-in"} <= set(sent.headers["Set-Cookie"].split("; "))
    [address] = re.findall(r'content="0;url=([^"]+)"', sent.text)
    answer = httpx2.get(unescape(address), follow_redirects=False)
    back = answer.headers["Location"]
    assert back.startswith("http://gateway/sign-in/callback?")
    return sent.headers["Set-Cookie"].split(";")[0], back.removeprefix("http://gateway")


def test_who_signs_in_at_the_provider_may_what_its_token_gives(house: House, provider: Provider) -> None:
    cookie, back = begin(house)
    answer = get(house, back, Cookie=cookie)
    assert 'content="0;url=/queue"' in answer.text
    cookies = answer.headers.get_list("Set-Cookie")
    session = next(one for one in cookies if one.startswith("leasehold_session="))
    assert {"HttpOnly", "SameSite=strict"} <= set(session.split("; "))
    house.client.cookies.clear()
    page = Page(get(house, "/queue", Cookie=session.split(";")[0]).text)
    assert "e1eb758b@" in page.text
    assert provider.codes == {}


def test_an_answer_counts_once_in_the_browser_that_began_and_with_its_state(house: House) -> None:
    cookie, back = begin(house)
    other, _ = begin(house)
    state = parse_qs(urlsplit(back).query)["state"][0]
    for wrong, header in ((back, ""), (back, other), (back, f"{cookie}x"), (back.replace(state, "another"), cookie)):
        answer = get(house, wrong, Cookie=header)
        assert (answer.status_code, "Set-Cookie" in answer.headers) == (502, False)
        assert "begin again" in answer.text
    assert get(house, back, Cookie=cookie).status_code == 200
    house.client.cookies.clear()
    again = get(house, back, Cookie=cookie)
    assert (again.status_code, "did not accept the code" in again.text) == (502, True)


def test_a_refusal_and_a_token_that_gives_nothing_are_said(house: House, provider: Provider) -> None:
    provider.token = {"aud": "https://elsewhere.example"}
    cookie, back = begin(house)
    answer = get(house, back, Cookie=cookie)
    assert (answer.status_code, "is meant for another audience" in answer.text) == (403, True)
    provider.refuses = True
    cookie, back = begin(house)
    assert "the provider refused the sign-in" in get(house, back, Cookie=cookie).text


def test_a_provider_that_leads_elsewhere_is_not_followed(house: House, provider: Provider) -> None:
    name = house.app.state.sign_in.names[0]
    fields = {"provider": name}
    for metadata in (
        {"issuer": "https://other.example"},
        {"authorization_endpoint": "http://evil.example/authorize"},
        {},
    ):
        provider.issuer.answers[METADATA] = {"issuer": provider.issuer.url} | metadata
        answer = house.ask("POST", "/sign-in/provider", data=fields, headers=HTML | SAME_ORIGIN)
        assert (answer.status_code, "the metadata of the provider" in answer.text) == (502, True)
    answer = house.ask("POST", "/sign-in/provider", data={"provider": "x"}, headers=HTML | SAME_ORIGIN)
    assert (answer.status_code, "is not one of those that are configured" in answer.text) == (502, True)
    assert house.ask("POST", "/sign-in/provider", data=fields, headers=HTML).status_code == 403
