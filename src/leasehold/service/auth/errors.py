"""Errors of authentication and authorization; each is one clear line without secrets.

::

    LeaseholdError
    ├── Unauthenticated     the caller is not known: 401, or 400 where the header cannot be read
    ├── Forbidden           the caller may not do this: 403
    ├── TooManyRequests     too often: 429
    └── Unavailable
        └── IssuerUnreachable   the caller cannot be identified now: 503
"""

from enum import StrEnum

from leasehold.model.errors import LeaseholdError
from leasehold.service.errors import Unavailable

REALM = "leasehold"


class BearerError(StrEnum):
    """The error codes of RFC 6750, section 3.1."""

    NONE = ""  # no token was shown at all: the challenge then names no error
    INVALID_REQUEST = "invalid_request"
    INVALID_TOKEN = "invalid_token"  # noqa: S105 - a word of the RFC
    INSUFFICIENT_SCOPE = "insufficient_scope"


class Unauthenticated(LeaseholdError):
    """The request has no token, or none that is valid here.

    ``problem`` is one of a few constant sentences, so that an attacker learns nothing from it.
    """

    def __init__(self, error: BearerError, problem: str) -> None:
        self.error = error
        self.problem = problem
        super().__init__(problem)

    @property
    def status(self) -> int:
        """The HTTP status that RFC 6750 assigns to the error."""
        return 400 if self.error is BearerError.INVALID_REQUEST else 401

    @property
    def challenge(self) -> str:
        """What to put into WWW-Authenticate."""
        return _challenge(self.error, self.problem)


class Forbidden(LeaseholdError):
    """An authenticated caller lacks a permission.

    ``caller``     the consumer and its roles
    ``act``     the permission that was needed, such as ``lease.cancel``
    ``needed``  the roles or scopes that would grant it
    """

    def __init__(self, caller: str, act: str, needed: str) -> None:
        self.who = caller
        self.act = act
        self.needed = needed
        super().__init__(f"{caller} lacks {act} here, which takes {needed}")

    @property
    def challenge(self) -> str:
        """What to put into WWW-Authenticate."""
        return _challenge(BearerError.INSUFFICIENT_SCOPE, f"{self.act} is needed")


class TooManyRequests(LeaseholdError):
    """A caller is over its rate limit; it may try again in ``wait_s`` seconds."""

    def __init__(self, problem: str, wait_s: float) -> None:
        self.wait_s = wait_s
        super().__init__(f"{problem}; wait {wait_s:.3g} s")


class IssuerUnreachable(Unavailable):
    """The keys of a token's issuer cannot be fetched, and the cached ones are too old to be relied on."""

    def __init__(self, issuer: str, problem: str) -> None:
        self.issuer = issuer
        super().__init__(f"the keys of issuer {issuer} cannot be had: {problem}")


def _challenge(error: BearerError, problem: str) -> str:
    base = f'Bearer realm="{REALM}"'
    return f'{base}, error="{error}", error_description="{problem}"' if error else base
