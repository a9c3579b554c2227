"""Problem details (RFC 9457): error responses."""

from enum import Enum
from typing import Annotated, Any

from pydantic import ConfigDict, Field, ValidationError

from leasehold.protocol.base import ResponseModel, examples
from leasehold.protocol.fields import OrEmpty

MEDIA_TYPE = "application/problem+json"
SLUGS = "urn:leasehold:problem:"


class Kind(Enum):
    """One kind of problem: its HTTP status and its fixed title."""

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
    NO_SUCH_FILE = 404, "There is no such file"
    METHOD_NOT_ALLOWED = 405, "This cannot be done here"
    IDEMPOTENCY_CONFLICT = 409, "The key was used for another request"
    LEASE_CLOSED = 409, "The lease has ended"
    CANNOT_EXTEND = 409, "The lease cannot last longer now"
    CANNOT_CHECKPOINT = 409, "The lease has nothing to save now"
    CANNOT_FORGET = 409, "The site cannot be forgotten now"
    CANNOT_REMOVE_PEER = 409, "The peer cannot be removed now"
    AGREEMENT_MOVE = 409, "The state of the agreement does not permit this"
    FILE_CONFLICT = 409, "The file does not continue, or changed under way"
    FILE_QUOTA = 409, "There is no room for the file"
    TOO_LARGE = 413, "The body is too large"
    NOT_JSON = 415, "The body is not JSON"
    NO_SUCH_PART = 416, "The file has no such part"
    INVALID_REQUEST = 422, "The request makes no sense as it is"
    TOO_MANY_OPEN = 429, "The consumer has too many open requests"
    TOO_MANY_REQUESTS = 429, "Too many requests of this caller"
    TOO_MANY_STREAMS = 429, "The caller follows too many streams"
    DEFECT = 500, "Leasehold is wrong"
    UNAVAILABLE = 503, "Nothing can be promised now"

    def __init__(self, status: int, title: str) -> None:
        self.status = status
        self.title = title

    @property
    def slug(self) -> str:
        """The last part of its ``type``: ``no-such-lease``."""
        return self.name.lower().replace("_", "-")

    @property
    def urn(self) -> str:
        """The ``type`` of such problems: ``urn:leasehold:problem:no-such-lease``."""
        return f"{SLUGS}{self.slug}"


_PROBLEM = {
    "type": Kind.INVALID_REQUEST.urn, "title": Kind.INVALID_REQUEST.title, "status": 422,
    "detail": "vms: got 0, expected greater than or equal to 1",
    "field": "vms", "value": 0, "expected": "greater than or equal to 1",
}  # fmt: skip


class WrongField(ResponseModel):
    """One field that cannot be accepted."""

    field: str = Field(description="The field, as the caller wrote it.")
    value: Annotated[Any, Field(default=None)] = Field(description="The value found there; long values are truncated.")
    expected: OrEmpty = Field(description="What would have been accepted.")


class Problem(ResponseModel):
    """An error response."""

    model_config = ConfigDict(**examples(_PROBLEM), json_schema_serialization_defaults_required=False)

    type: str = Field(description="The kind of problem; fixed for each kind.")
    title: str = Field(description="The kind of problem in words.")
    status: int = Field(description="The HTTP status.")
    detail: str = Field(description="The cause of this occurrence, in one line.")
    field: str | None = Field(default=None, description="The first field that cannot be accepted.")
    value: Any = Field(default=None, description="The value found there; long values are truncated.")
    expected: str | None = Field(default=None, description="What would have been accepted.")
    errors: tuple[WrongField, ...] | None = Field(default=None, description="All such fields, if there are several.")
    reason: str | None = Field(default=None, description="Why it is not possible now, from a closed list.")
    id: str | None = Field(default=None, description="Identifies this error in the service's log.")

    @property
    def slug(self) -> str:
        """The short name of its kind: ``no-such-lease``."""
        return self.type.removeprefix(SLUGS)


def problem_in(content: bytes, media_type: str, status: int) -> Problem | None:
    """Read what a gateway says when it says no; None where a proxy before it says it in other words."""
    if not media_type.startswith(MEDIA_TYPE):
        return None
    try:
        problem = Problem.model_validate_json(content, strict=True, extra="ignore")
    except ValidationError:
        return None
    return problem.model_copy(update={"status": status})
