"""Sessions of the dashboard: a signed cookie in place of a token in each request.

Who shows a token once gets a cookie that names the token's public id, never its secret. The session ends when the
token is revoked or expires, and after `LONGEST_S` in any case. For a JWT the cookie states what its issuer's token
gave, until that expires. Sign-in links, of which the demonstration prints one, work as long as the process lives.

A cookie can be sent by a page of somebody else; so besides being ``SameSite=Strict`` it only lets a request change
anything that comes from a page of this gateway (`require_same_origin`).
"""

import os
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import jwt
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException

from leasehold.model.errors import LeaseholdError
from leasehold.service.auth.authenticator import Authenticator
from leasehold.service.auth.permissions import Permission, ScopedPrincipal
from leasehold.service.auth.principal import Principal, Role
from leasehold.service.auth.tokens import Clock, Tokens

COOKIE = "leasehold_session"
KEY_FILE = "session.key"
LONGEST_S = 12 * 3600
_KEY_BYTES = 32
_ALGORITHM = "HS256"
_SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
_FORBIDDEN = 403


def session_key(folder: Path) -> bytes:
    """Return the key that signs sessions, made where there is none: sessions outlive a restart of the gateway."""
    path = folder / KEY_FILE
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        key = path.read_bytes()
        if len(key) >= _KEY_BYTES:
            return key
        path.unlink()  # its writing was interrupted
        return session_key(folder)
    with os.fdopen(descriptor, "wb") as file:
        key = secrets.token_bytes(_KEY_BYTES)
        file.write(key)
    return key


class Sessions:
    """Begins sessions and recognises them. Belongs to one event loop.

    ``key``    signs the cookies: at least 32 bytes
    ``clock``  gives Unix milliseconds
    """

    def __init__(self, key: bytes, authenticator: Authenticator, tokens: Tokens, clock: Clock) -> None:
        self._key = key
        self._authenticator = authenticator
        self._tokens = tokens
        self._clock = clock
        self._links: dict[str, str] = {}

    async def begin(self, token: str, address: str = "") -> tuple[str, int]:
        """Begin a session for the bearer of a token: the cookie, and for how many seconds it is valid.

        Raises what `Authenticator.principal` raises.
        """
        encoded = token.encode("ascii", "replace").decode()
        principal = await self._authenticator.principal(f"Bearer {encoded}", address)
        lasts_s = LONGEST_S
        if principal.token_id:
            claims: dict[str, Any] = {"token": principal.token_id}
        else:  # its signature has just been verified
            expires_s = int(jwt.decode(token, options={"verify_signature": False})["exp"])
            lasts_s = max(1, min(lasts_s, expires_s - self._clock() // 1000))
            claims = _claims_of(principal)
        now_s = self._clock() // 1000
        cookie = jwt.encode({**claims, "exp": now_s + lasts_s}, self._key, _ALGORITHM)
        return cookie, lasts_s

    async def principal(self, cookie: str) -> Principal | None:
        """Return whose session this is; None where it has ended, or is none of ours."""
        try:
            claims = jwt.decode(cookie, self._key, algorithms=[_ALGORITHM], options={"verify_exp": False})
            if claims["exp"] * 1000 <= self._clock():
                return None
            if "token" in claims:
                return await run_in_threadpool(self._tokens.of_session, str(claims["token"]))
            return _principal_of(claims)
        except (jwt.PyJWTError, LeaseholdError, KeyError, TypeError, ValueError):
            return None

    def link(self, token: str) -> str:
        """Make the code of a sign-in link for the bearer of a token; it works until this process ends."""
        code = secrets.token_urlsafe(16)
        self._links[code] = token
        return code

    def token_of_link(self, code: str) -> str:
        """Return the token of a sign-in link; "" for none of ours."""
        return self._links.get(code, "")


def _claims_of(principal: Principal) -> dict[str, Any]:
    scoped = principal.permissions if isinstance(principal, ScopedPrincipal) else None
    return {
        "consumer": principal.consumer,
        "roles": sorted(principal.roles),
        "groups": list(principal.groups),
        "sites": sorted(principal.sites),
        "permissions": None if scoped is None else sorted(scoped),
    }


def _principal_of(claims: Mapping[str, Any]) -> Principal:
    consumer, groups, sites = claims["consumer"], tuple(claims["groups"]), frozenset(claims["sites"])
    roles = frozenset(map(Role, claims["roles"]))
    if claims["permissions"] is None:
        return Principal(consumer, roles, groups, sites)
    permissions = frozenset(map(Permission, claims["permissions"]))
    return ScopedPrincipal(consumer, roles, groups, sites, permissions=permissions)


def require_same_origin(method: str, headers: Headers, origin: str) -> None:
    """Raise HTTPException for a request with a cookie that changes something and comes from another origin.

    ``origin`` is that of the gateway, as its configuration or the request says. Browsers send ``Sec-Fetch-Site``, or at
    least ``Origin``, with whatever is not a GET; a program that sends neither has no business with a cookie.
    """
    if method in _SAFE:
        return
    fetched, sent = headers.get("sec-fetch-site"), headers.get("origin", "")
    if fetched is not None:
        is_ours = fetched == "same-origin"
    else:
        is_ours = bool(sent) and urlsplit(sent).netloc in (urlsplit(origin).netloc, headers.get("host", ""))
    if not is_ours:
        raise HTTPException(_FORBIDDEN, "Origin: with a session, only pages of this gateway may change anything")
