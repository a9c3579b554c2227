"""A token issuer of our own: real keys, and a real HTTP server on this machine that publishes them."""

import hmac
import json
import time
from base64 import urlsafe_b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache, cached_property
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm

AUDIENCE = "https://gateway.example"
METADATA, KEYS = "/.well-known/openid-configuration", "/keys"

SigningKey = rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey


def signing_key(algorithm: str, name: str = "first") -> SigningKey:
    """Give the key of this name; it is made once for all tests, since RSA takes its time."""
    return _new_key(algorithm, name)


@cache
def _new_key(algorithm: str, _name: str) -> SigningKey:
    if algorithm.startswith(("RS", "PS")):
        return rsa.generate_private_key(65_537, 1_024 if algorithm == "RS256-short" else 2_048)
    if algorithm == "EdDSA":
        return ed25519.Ed25519PrivateKey.generate()
    return ec.generate_private_key({"ES256": ec.SECP256R1(), "ES384": ec.SECP384R1()}[algorithm])


def published(kid: str, key: SigningKey, **more: str) -> dict[str, Any]:
    """Write the public part of a key as RFC 7517 has it."""
    public = key.public_key()
    if isinstance(public, rsa.RSAPublicKey):
        return RSAAlgorithm.to_jwk(public, as_dict=True) | {"kid": kid} | more
    if isinstance(public, ec.EllipticCurvePublicKey):
        return ECAlgorithm.to_jwk(public, as_dict=True) | {"kid": kid} | more
    return OKPAlgorithm.to_jwk(public, as_dict=True) | {"kid": kid} | more


def public_pem(key: SigningKey) -> bytes:
    """Write the public part of a key as everybody can have it."""
    return key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)


class LocalIssuer:
    """What the server answers, and what it was asked.

    ``answers`` are documents, or raw bytes, by path; ``status`` what it says with them; ``asked`` the paths.
    """

    def __init__(self, url: str) -> None:
        self.url = url
        self.asked: list[str] = []
        self.status = 200
        self.answers: dict[str, object] = {METADATA: {"issuer": url, "jwks_uri": f"{url}{KEYS}"}}
        self.publish(published("rsa", signing_key("RS256")), published("ec", signing_key("ES256")))

    def publish(self, *keys: object) -> None:
        """Have these keys from now on, and no others."""
        self.answers[KEYS] = {"keys": list(keys)}

    def wlcg(self, **changes: object) -> dict[str, Any]:
        """Give the claims of a good WLCG token; a change to None leaves a claim out."""
        claims = {"wlcg.ver": "1.0", "jti": "40ce5a87", "scope": "compute.create compute.read"}
        return self._claims(claims | changes)

    def scitoken(self, **changes: object) -> dict[str, Any]:
        """Give the claims of a good SciToken."""
        claims = {"ver": "scitoken:2.0", "scope": "compute.create compute.read"}
        return self._claims(claims | changes)

    def _claims(self, changes: dict[str, object]) -> dict[str, Any]:
        now = int(time.time())
        claims = {"iss": self.url, "sub": "e1eb758b", "aud": AUDIENCE}
        times = {"iat": now, "nbf": now, "exp": now + 3_600}
        return {key: value for key, value in (claims | times | changes).items() if value is not None}


def sign(claims: dict[str, Any], algorithm: str = "RS256", kid: str | None = "rsa", name: str = "first") -> str:
    """Sign claims with the key of this algorithm and name."""
    headers = {} if kid is None else {"kid": kid}
    return jwt.encode(claims, signing_key(algorithm, name), algorithm.removesuffix("-short"), headers)


def sign_by_hand(claims: dict[str, Any], algorithm: str, secret: bytes | None, kid: str = "rsa") -> str:
    """Make a token that no library would: with a public key as shared secret, or without a signature."""
    parts = [_encoded({"alg": algorithm, "kid": kid, "typ": "JWT"}), _encoded(claims)]
    digest = hmac.digest(secret, ".".join(parts).encode(), "sha256") if secret is not None else b""
    return ".".join([*parts, urlsafe_b64encode(digest).decode().rstrip("=")])


def _encoded(part: dict[str, Any]) -> str:
    return urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=")


@contextmanager
def running_issuer() -> Iterator[LocalIssuer]:
    """Serve an issuer on a free port of this machine until the block is left."""
    with _Server(("127.0.0.1", 0), _Handler) as server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server.issuer
        finally:
            server.shutdown()
            thread.join()


class _Server(ThreadingHTTPServer):
    @cached_property
    def issuer(self) -> LocalIssuer:
        return LocalIssuer(f"http://127.0.0.1:{self.server_port}")


class _Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        assert isinstance(self.server, _Server)
        issuer = self.server.issuer
        issuer.asked.append(self.path)
        answer = issuer.answers.get(self.path)
        body = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
        self.send_response(404 if answer is None else issuer.status)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Location", KEYS)  # only a redirection means it
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_args: object) -> None:
        """Say nothing."""
