"""One response of a gateway, as it came, and what it means where it is a no."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeVar

from pydantic import ValidationError

from leasehold.client.errors import BadResponse, problem_error
from leasehold.model.errors import InvalidField
from leasehold.protocol.base import ResponseModel
from leasehold.protocol.problems import MEDIA_TYPE, Problem
from leasehold.protocol.wrong_fields import wrong_field

M = TypeVar("M", bound=ResponseModel)
_OK = 200
_REDIRECTION = 300


def read(kind: type[M], content: bytes | str) -> M:
    """Read a body; what this model does not have is left out. Raises BadResponse for one that is not of this kind."""
    try:
        return kind.model_validate_json(content, strict=True, extra="ignore")
    except ValidationError as error:
        first = error.errors()[0]
        if first["type"] == "json_invalid":
            raise BadResponse("the response is not JSON, so whatever answers is not a gateway") from error
        wrong = InvalidField(**wrong_field(first | {"loc": ("response", *first["loc"])}, ()))
        raise BadResponse(f"the response is not a valid {kind.__name__}: {wrong}") from error


@dataclass(frozen=True, slots=True)
class Response:
    """Status, headers (their names in small letters) and body of one response."""

    status: int
    headers: Mapping[str, str]
    content: bytes

    @property
    def is_yes(self) -> bool:
        """Whether what was asked was done."""
        return _OK <= self.status < _REDIRECTION

    @property
    def retry_after_s(self) -> float | None:
        """When to ask again, where the gateway says so in seconds."""
        text = self.headers.get("retry-after", "")
        return float(text) if text.isdecimal() else None

    def text(self) -> str:
        """Give the body as text; raises the ProblemError that goes with a no."""
        if not self.is_yes:
            raise problem_error(self.problem(), self.retry_after_s)
        return self.content.decode(errors="replace")

    def read(self, kind: type[M]) -> M:
        """Read the body; raises ProblemError for a no, and BadResponse for what is not of this kind."""
        self.text()
        return read(kind, self.content)

    def problem(self) -> Problem:
        """Read what the gateway says when it says no; a proxy before it may say it in other words."""
        if self.headers.get("content-type", "").startswith(MEDIA_TYPE):
            try:
                told = read(Problem, self.content)
            except BadResponse:
                pass
            else:
                return told.model_copy(update={"status": self.status})
        return Problem(type="about:blank", title="", detail="", status=self.status)
