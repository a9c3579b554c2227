"""One answer of a gateway, as it came, and what it means where it is a no."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from leasehold.client.errors import BadAnswer, Problem, problem_error

_OK = 200
_REDIRECTION = 300
_SLUGS = "urn:leasehold:problem:"
_PROBLEM = "application/problem+json"
_WORDS = ("title", "detail", "field", "expected", "reason", "id")


@dataclass(frozen=True, slots=True)
class Answer:
    """Status, headers (their names in small letters) and body of one answer."""

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
        self._insist()
        return self.content.decode(errors="replace")

    def values(self) -> Any:  # noqa: ANN401 - JSON
        """Give the body as JSON; raises ProblemError for a no, and BadAnswer for what is no JSON."""
        self._insist()
        try:
            return json.loads(self.content)
        except ValueError as error:
            raise BadAnswer("whoever answers is no gateway: the answer is no JSON") from error

    def problem(self) -> Problem:
        """Read what the gateway says when it says no; whoever stands between may say it in other words."""
        if not self.headers.get("content-type", "").startswith(_PROBLEM):
            return Problem(self.status)
        try:
            told = json.loads(self.content)
        except ValueError:
            return Problem(self.status)
        return _problem(self.status, told) if isinstance(told, dict) else Problem(self.status)

    def _insist(self) -> None:
        if not self.is_yes:
            raise problem_error(self.problem(), self.retry_after_s)


def _problem(status: int, told: Mapping[str, Any]) -> Problem:
    errors = told.get("errors")
    words = {name: str(told.get(name) or "") for name in _WORDS}
    return Problem(
        status=status,
        slug=str(told.get("type", "")).removeprefix(_SLUGS),
        value=told.get("value"),
        errors=tuple(errors) if isinstance(errors, list) else (),
        **words,
    )
