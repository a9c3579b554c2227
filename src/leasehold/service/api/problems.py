"""What is said when the answer is no: problem details (RFC 9457), one kind for each thing that is wrong."""

from collections.abc import Mapping
from enum import Enum

from pydantic_core import to_json
from starlette.responses import Response

MEDIA_TYPE = "application/problem+json"


class Kind(Enum):
    """One kind of problem: its HTTP status, and its title, which never changes."""

    UNREADABLE = 400, "The request cannot be read"
    UNAUTHENTICATED = 401, "A valid token is needed"
    FORBIDDEN = 403, "The caller may not do this"
    NOT_FOUND = 404, "There is nothing here"
    NO_SUCH_LEASE = 404, "There is no such lease"
    CONSOLE_ELSEWHERE = 404, "The console is at another site"
    NO_SUCH_COALLOCATION = 404, "There is no such co-allocation"
    NO_SUCH_JOB = 404, "There is no such job"
    NO_RESULT = 404, "The job has no result"
    NO_SUCH_SITE = 404, "There is no such site"
    NO_SUCH_PEER = 404, "There is no such peer"
    NO_SUCH_AGREEMENT = 404, "There is no such agreement"
    NO_SUCH_PENALTY = 404, "There is no such penalty"
    NO_SUCH_TOKEN = 404, "There is no such token"
    METHOD_NOT_ALLOWED = 405, "This cannot be done here"
    IDEMPOTENCY_CONFLICT = 409, "The key was used for another request"
    LEASE_CLOSED = 409, "The lease is over"
    CANNOT_EXTEND = 409, "The lease cannot last longer now"
    CANNOT_FORGET = 409, "The site cannot be forgotten now"
    CANNOT_REMOVE_PEER = 409, "The peer cannot be removed now"
    AGREEMENT_MOVE = 409, "The agreement does not stand where this can be done"
    TOO_LARGE = 413, "The body is too large"
    NOT_JSON = 415, "The body is not JSON"
    INVALID_REQUEST = 422, "The request makes no sense as it is"
    TOO_MANY_OPEN = 429, "The consumer has too many open requests"
    TOO_MANY_REQUESTS = 429, "The caller asks too often"
    TOO_MANY_STREAMS = 429, "The caller follows too many streams"
    DEFECT = 500, "Leasehold is wrong"
    UNAVAILABLE = 503, "Nothing can be promised now"

    def __init__(self, status: int, title: str) -> None:
        self.status = status
        self.title = title

    @property
    def urn(self) -> str:
        """The ``type`` of such problems: ``urn:leasehold:problem:no-such-lease``."""
        return f"urn:leasehold:problem:{self.name.lower().replace('_', '-')}"


def problem(kind: Kind, detail: str, headers: Mapping[str, str] | None = None, **more: object) -> Response:
    """Answer with a problem; ``more`` are further members of it."""
    said = {"type": kind.urn, "title": kind.title, "status": kind.status, "detail": detail}
    return Response(to_json(said | more, inf_nan_mode="null"), kind.status, headers, MEDIA_TYPE)
