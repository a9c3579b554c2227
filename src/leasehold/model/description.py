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


def _part(text: str, title: str) -> str:
    """Give the sentence after ``Title:``, with its indented continuation, as one line."""
    found = re.search(rf"^{title}:((?:.*)(?:\n[ \t]+.*)*)", text, re.MULTILINE)
    return " ".join(found[1].split()) if found else ""
