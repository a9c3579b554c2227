"""What can go wrong between a client and its gateway; each error is one clear line.

::

    LeaseholdError
    ├── NotInstalled     the part that talks HTTP is missing
    ├── Unreachable      no answer; nothing was sent
    │   └── Lost         the connection broke, and the request may have been accepted
    ├── BadResponse      what answers is not a gateway that this client understands
    └── ProblemError     the gateway says no, and why
        ├── NotSignedIn  401: no token, or one that does not count
        ├── NotAllowed   403: the token does not permit this
        ├── NotFound     404: there is no such thing
        ├── Conflict     409: not as things are now
        ├── TooMany      429: not so many at once
        ├── Invalid      every other 4xx: a value that cannot be accepted
        └── ServerFailed 5xx: the gateway could not do it
"""

from leasehold.model.errors import LeaseholdError
from leasehold.protocol.problems import Problem


class NotInstalled(LeaseholdError):
    """What a part of Leasehold needs was not installed."""

    def __init__(self, purpose: str, extra: str) -> None:
        super().__init__(f"{purpose} needs a part that is not installed: pip install 'leasehold[{extra}]'")


class Unreachable(LeaseholdError):
    """The gateway's address does not answer, and nothing was sent there."""

    def __init__(self, url: str, why: str) -> None:
        self.url = url
        self.why = why
        super().__init__(f"no gateway answers at {url}: {why}")


class Lost(Unreachable):
    """The connection broke after a request was sent, so that it may or may not have been accepted.

    ``key`` is its Idempotency-Key, "" without one: sending the same request again with the same key finds out,
    and does nothing twice.
    """

    def __init__(self, url: str, why: str, key: str = "") -> None:
        advice = f"; repeat the request with the idempotency key {key} to learn its outcome" if key else ""
        super().__init__(url, f"{why}{advice}")
        self.key = key


class BadResponse(LeaseholdError):
    """The response is not that of a gateway: it is some other server, or a gateway of another version."""


class ProblemError(LeaseholdError):
    """The gateway says no; ``problem`` has all that it says, and the message is its one line."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        super().__init__(problem.detail or problem.title or f"the gateway answered with status {problem.status}")


class NotSignedIn(ProblemError):
    """There was no token, or it does not count any more."""


class NotAllowed(ProblemError):
    """The token does not permit this."""


class NotFound(ProblemError):
    """It does not exist, or the caller may not see it."""


class Conflict(ProblemError):
    """It cannot be done as things are now."""


class Invalid(ProblemError):
    """A value cannot be accepted."""


class TooMany(ProblemError):
    """The caller is over a limit; ``retry_after_s`` is the time until the next try, None if unknown."""

    def __init__(self, problem: Problem, retry_after_s: float | None) -> None:
        super().__init__(problem)
        self.retry_after_s = retry_after_s


class ServerFailed(ProblemError):
    """The gateway could not do it, and it is not the caller's fault."""


_CLASSES = {401: NotSignedIn, 403: NotAllowed, 404: NotFound, 409: Conflict}
_TOO_MANY = 429
_SERVER_FAILED = 500


def problem_error(problem: Problem, retry_after_s: float | None = None) -> ProblemError:
    """Make the error of the class that goes with the status of a problem."""
    if problem.status == _TOO_MANY:
        return TooMany(problem, retry_after_s)
    if problem.status >= _SERVER_FAILED:
        return ServerFailed(problem)
    return _CLASSES.get(problem.status, Invalid)(problem)
