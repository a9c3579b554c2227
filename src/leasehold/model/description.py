"""What a policy says of itself: the question that it answers, its rule and its source."""

import re
from dataclasses import dataclass
from inspect import cleandoc


@dataclass(frozen=True, slots=True)
class PolicyDescription:
    """A policy in words; what its docstring does not say is empty."""

    name: str
    question: str
    rule: str
    source: str


def described(name: str, docstring: str | None) -> PolicyDescription:
    """Read it off a docstring: the first line is the question; ``Rule:`` and ``Source:`` say the rest."""
    text = cleandoc(docstring or "")
    return PolicyDescription(name, text.partition("\n")[0], _part(text, "Rule"), _part(text, "Source"))


def described_fields(docstring: str | None) -> dict[str, str]:
    """Read off a docstring what it says of each field, as in ````price``  what it is``."""
    found = re.findall(rf"^``(\w+)``{_REST}", cleandoc(docstring or ""), re.MULTILINE)
    return {name: _as_line(text) for name, text in found}


_REST = r"((?:.*)(?:\n[ \t]+.*)*)"
"""The rest of a line, with its indented continuation."""


def _part(text: str, title: str) -> str:
    """Give the sentence after ``Title:`` as one line."""
    found = re.search(rf"^{title}:{_REST}", text, re.MULTILINE)
    return _as_line(found[1]) if found else ""


def _as_line(text: str) -> str:
    return " ".join(text.split())
