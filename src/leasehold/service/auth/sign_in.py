"""Sign-in at an OpenID provider: the authorization code flow (RFC 6749, section 4.1) with PKCE (RFC 7636).

An issuer that has a ``client_id`` offers it. The browser is sent there with a challenge, and comes back with a code.
For the code and the secret behind the challenge the provider gives an access token, which then counts as if it had been
shown: who may do what is settled as for any token of that issuer. The gateway is a public client, without a secret.

What belongs to one sign-in is in a signed cookie of the browser that began it, for ten minutes: a code that comes with
another state, or from another browser, is refused.
"""

import asyncio
import json
import secrets
from base64 import urlsafe_b64encode
from collections.abc import Iterable, Mapping
from hashlib import sha256
from hmac import compare_digest
from urllib.parse import urlencode

import httpx2
import jwt

from leasehold.model.errors import LeaseholdError
from leasehold.service.auth.issuers import TrustedIssuer, is_fetchable, is_inside
from leasehold.service.auth.key_sets import MOST_BYTES, TIMEOUT_S, FetchError, fetch_json
from leasehold.service.auth.tokens import Clock

COOKIE = "leasehold_sign_in"
LASTS_S = 600
_ALGORITHM = "HS256"
_OK = 200


class SignInError(LeaseholdError):
    """A sign-in at a provider did not succeed; says why in one line."""


class SignIn:
    """Sign-in at those of the issuers that offer it.

    ``key``    signs the cookie of a sign-in: at least 32 bytes
    ``clock``  gives Unix milliseconds
    """

    def __init__(self, issuers: Iterable[TrustedIssuer], key: bytes, clock: Clock) -> None:
        self._issuers = {issuer.name: issuer for issuer in issuers if issuer.client_id}
        self._key = key
        self._clock = clock

    @property
    def names(self) -> list[str]:
        """The providers by name."""
        return sorted(self._issuers)

    async def begin(self, name: str, redirect: str, back: str) -> tuple[str, str]:
        """Begin a sign-in: where to send the browser, and the cookie that it keeps meanwhile.

        ``redirect`` is where the provider sends it back, ``back`` the page to show in the end. Raises SignInError.
        """
        issuer = self._issuers.get(name)
        if issuer is None:
            raise SignInError("this provider is not one of those that are configured")
        endpoint = await _endpoint(issuer, "authorization_endpoint")
        state, verifier = secrets.token_urlsafe(24), secrets.token_urlsafe(48)
        challenge = urlsafe_b64encode(sha256(verifier.encode()).digest()).decode().rstrip("=")
        query = {
            "response_type": "code",
            "client_id": issuer.client_id,
            "redirect_uri": redirect,
            "scope": issuer.sign_in_scope,
            "state": state,
            "code_challenge": challenge,
            "code_challenge_method": "S256",
        }
        claims = {"issuer": name, "state": state, "verifier": verifier, "redirect": redirect, "back": back}
        cookie = jwt.encode({**claims, "exp": self._clock() // 1000 + LASTS_S}, self._key, _ALGORITHM)
        return f"{endpoint}{'&' if '?' in endpoint else '?'}{urlencode(query)}", cookie

    async def end(self, cookie: str, answer: Mapping[str, str]) -> tuple[str, str]:
        """Take what the provider sent the browser back with: the access token, and the page to show.

        Raises SignInError.
        """
        claims = self._claims(cookie)
        if not compare_digest(claims["state"].encode(), answer.get("state", "").encode()):
            raise SignInError("the answer of the provider belongs to another sign-in; begin again")
        if "error" in answer:
            raise SignInError("the provider refused the sign-in")
        issuer = self._issuers.get(claims["issuer"])
        if issuer is None or answer.get("iss", issuer.url) != issuer.url:  # iss: RFC 9207
            raise SignInError("the answer is not of the provider where the sign-in began")
        form = {
            "grant_type": "authorization_code",
            "code": answer.get("code", ""),
            "redirect_uri": claims["redirect"],
            "client_id": issuer.client_id,
            "code_verifier": claims["verifier"],
        }
        token = (await _post(await _endpoint(issuer, "token_endpoint"), form)).get("access_token")
        if not isinstance(token, str):
            raise SignInError("the provider gave no access token")
        return token, claims["back"]

    def _claims(self, cookie: str) -> dict[str, str]:
        try:
            claims = jwt.decode(cookie, self._key, algorithms=[_ALGORITHM], options={"verify_exp": False})
        except jwt.PyJWTError:
            raise SignInError("no sign-in was begun in this browser; begin again") from None
        if claims.pop("exp") * 1000 <= self._clock():
            raise SignInError("the sign-in took too long; begin again")
        return dict(claims)


async def _endpoint(issuer: TrustedIssuer, name: str) -> str:
    """Read an address from the metadata of a provider, under the rules for that of its keys."""
    try:
        metadata = await fetch_json(issuer.discovery_url)
    except FetchError as error:
        raise SignInError(f"the provider cannot be reached: {error}") from None
    if not isinstance(metadata, Mapping) or metadata.get("issuer") != issuer.url:
        raise SignInError("the metadata of the provider are not those of this issuer")
    url = metadata.get(name)
    if not isinstance(url, str) or not is_fetchable(url) or (is_inside(url) and not is_inside(issuer.url)):
        raise SignInError(f"the metadata of the provider give no usable {name}")
    return url


async def _post(url: str, form: Mapping[str, str]) -> Mapping[str, object]:
    """Send a form, and read the JSON object that is the answer; raises SignInError."""
    try:
        async with asyncio.timeout(TIMEOUT_S), httpx2.AsyncClient(timeout=TIMEOUT_S) as client:
            answer = await client.post(url, data=dict(form), headers={"Accept": "application/json"})
        if answer.status_code != _OK:
            raise SignInError(f"the provider did not accept the code: the answer is {answer.status_code}")
        found = json.loads(answer.content[:MOST_BYTES])
    except (TimeoutError, httpx2.HTTPError, httpx2.InvalidURL, ValueError, RecursionError):
        raise SignInError("the provider did not answer as it should") from None
    return found if isinstance(found, dict) else {}
