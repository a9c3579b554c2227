"""The published signing keys of an issuer: cached, and fetched again when they change.

Keys are fetched when there are none, when they are older than ``keys_cached_s``, and when a token names one
that is not among them: the issuer may have changed them. Fetching is limited to once a minute, whatever tokens
are shown. While the issuer cannot be reached, the keys that are there are relied on until they are
``keys_kept_s`` old. A document is fetched with bounds on its size and on the time that it takes.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from functools import cache

import httpx2
import jwt

from leasehold.service.auth.errors import BearerError, IssuerUnreachable, Unauthenticated
from leasehold.service.auth.issuers import TrustedIssuer, is_fetchable, is_inside

TIMEOUT_S = 5.0
MOST_BYTES = 1_048_576


class FetchError(Exception):
    """A document cannot be fetched, or is not valid JSON; states why, without any of its content."""


async def fetch_json(url: str) -> object:
    """Fetch the JSON document at a URL. Redirections are not followed: keys are where the metadata say.

    Raises FetchError, after `TIMEOUT_S` at the latest.
    """
    try:
        async with asyncio.timeout(TIMEOUT_S):
            return json.loads(await _fetch(url))
    except TimeoutError:
        raise FetchError(f"no answer within {TIMEOUT_S:.0f} s") from None
    except (httpx2.HTTPError, httpx2.InvalidURL) as error:
        raise FetchError(f"no answer: {type(error).__name__}") from None
    except (ValueError, RecursionError):
        raise FetchError("the answer is not valid JSON") from None


_certificates = cache(httpx2.create_ssl_context)
"""The authorities that the system trusts; loading them is slow, so it is done once and in a thread."""


async def _fetch(url: str) -> bytes:
    """Read the body of a successful response, up to a size."""
    client = httpx2.AsyncClient(verify=await asyncio.to_thread(_certificates), timeout=TIMEOUT_S)
    async with client, client.stream("GET", url, headers={"Accept": "application/json"}) as response:
        if response.status_code != httpx2.codes.OK:
            raise FetchError(f"the answer is {response.status_code}")
        body = bytearray()
        async for chunk in response.aiter_bytes():
            body += chunk
            if len(body) > MOST_BYTES:
                raise FetchError(f"the answer is longer than {MOST_BYTES} bytes")
        return bytes(body)


ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
"""Asymmetric signature algorithms; no other is accepted, whatever a token says."""

PAUSE_S = 60.0
"""Least time between two fetches from an issuer."""

Fetch = Callable[[str], Awaitable[object]]
"""Gets the JSON document at a URL; raises FetchError."""

Seconds = Callable[[], float]
"""A clock that only goes forward."""


class KeySet:
    """The keys of one issuer. Belongs to one event loop, and never blocks it."""

    def __init__(self, issuer: TrustedIssuer, fetch: Fetch, clock: Seconds) -> None:
        self._issuer = issuer
        self._fetch = fetch
        self._clock = clock
        self._keys: dict[str, jwt.PyJWK] = {}
        self._fetched_s: float | None = None
        self._asked_s: float | None = None
        self._problem = ""
        self._asking = asyncio.Lock()

    async def key(self, kid: str) -> jwt.PyJWK:
        """Return the key with this id.

        Raises Unauthenticated if the issuer does not have it, IssuerUnreachable if that is unknown.
        """
        await self._refresh_for(kid)
        if self._will_do(kid):
            return self._keys[kid]
        if self._problem:
            raise IssuerUnreachable(self._issuer.url, self._problem)
        raise Unauthenticated(BearerError.INVALID_TOKEN, "the token names a key that its issuer does not have")

    async def _refresh_for(self, kid: str) -> None:
        """Fetch the keys if that may help. A caller that needs no new key does not wait for another's fetch."""
        if self._will_do(kid) and (self._asking.locked() or not self._needs_asking(kid)):
            return
        async with self._asking:
            if self._needs_asking(kid):
                await self._ask()

    def _needs_asking(self, kid: str) -> bool:
        is_settled = kid in self._keys and self._is_younger_than(self._issuer.keys_cached_s)
        is_pause = self._asked_s is not None and self._clock() - self._asked_s < PAUSE_S
        return not is_settled and not is_pause

    def _will_do(self, kid: str) -> bool:
        return kid in self._keys and self._is_younger_than(self._issuer.keys_kept_s)

    def _is_younger_than(self, age_s: float) -> bool:
        return self._fetched_s is not None and self._clock() - self._fetched_s < age_s

    async def _ask(self) -> None:
        """Fetch, and note when; a fetch that was cancelled does not count."""
        try:
            metadata = await self._fetch(self._issuer.discovery_url)
            self._keys = _usable_keys(await self._fetch(_keys_url(self._issuer, metadata)))
        except FetchError as error:
            self._problem = str(error)
        else:
            self._fetched_s, self._problem = self._clock(), ""
        self._asked_s = self._clock()


def _keys_url(issuer: TrustedIssuer, metadata: object) -> str:
    """Read where the keys are. Raises FetchError: metadata of another issuer, or keys on an insecure URL."""
    if not isinstance(metadata, Mapping) or metadata.get("issuer") != issuer.url:
        raise FetchError("its metadata are not those of this issuer")
    url = metadata.get("jwks_uri")
    if not isinstance(url, str) or not is_fetchable(url):
        raise FetchError("its metadata give no HTTPS address for its keys")
    if is_inside(url) and not is_inside(issuer.url):
        raise FetchError("its metadata lead to this machine or a private network for its keys")
    return url


def _usable_keys(document: object) -> dict[str, jwt.PyJWK]:
    """Read a key set (RFC 7517): the public keys that have an id and are for signatures."""
    try:
        keys = jwt.PyJWKSet.from_dict(dict(document) if isinstance(document, Mapping) else {}).keys
    except (
        jwt.PyJWTError,
        AttributeError,
        KeyError,
        TypeError,
        ValueError,
    ):  # PyJWT checks not all that it reads
        keys = []
    usable = {str(key.key_id): key for key in keys if _is_for_signatures(key)}
    if not usable:
        raise FetchError("it publishes no key that can be used")
    return usable


def _is_for_signatures(key: jwt.PyJWK) -> bool:
    has_id = isinstance(key.key_id, str) and bool(key.key_id)
    return has_id and key.algorithm_name in ALGORITHMS and key.public_key_use in {None, "sig"}
