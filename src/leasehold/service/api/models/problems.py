"""Problems on the wire (RFC 9457)."""

from typing import Any

from pydantic import Field

from leasehold.service.api.models.base import Shown, examples
from leasehold.service.api.problems import Kind

_PROBLEM = {
    "type": Kind.INVALID_REQUEST.urn, "title": Kind.INVALID_REQUEST.title, "status": 422,
    "detail": "vms: got 0, expected greater than or equal to 1",
    "field": "vms", "value": 0, "expected": "greater than or equal to 1",
}  # fmt: skip


class WrongField(Shown):
    """One field that cannot be accepted."""

    field: str = Field(description="The field as the caller wrote it.")
    value: Any = Field(description="What was found there; long values are cut.")
    expected: str = Field(description="What would have been accepted.")


class Problem(Shown):
    """Why the answer is no."""

    model_config = examples(_PROBLEM)

    type: str = Field(description="Which kind of problem it is; never changes.")
    title: str = Field(description="The kind in words.")
    status: int = Field(description="The HTTP status.")
    detail: str = Field(description="What is wrong this time, in one line.")
    field: str | None = Field(None, description="The first field that cannot be accepted.")
    value: Any = Field(None, description="What was found there; long values are cut.")
    expected: str | None = Field(None, description="What would have been accepted.")
    errors: list[WrongField] | None = Field(None, description="All such fields, where there are several.")
    reason: str | None = Field(None, description="Why not now: one of a closed list.")
    id: str | None = Field(None, description="Names this defect in the log of the service.")
