"""What is installed, what can this machine do, and what keeps a gateway from working well?

One small check is one function in a registry: it looks, changes nothing, and says what it found and the
cure.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum


class Severity(StrEnum):
    """How bad it is."""

    OK = "ok"
    NOTE = "note"
    """An optional part is missing; no action is needed unless it is wanted."""
    WARNING = "warning"
    """It works, but not permanently, or not as safely as it should."""
    PROBLEM = "problem"
    """It does not work, or is not safe."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was found; ``cure`` is "" where there is nothing to do."""

    severity: Severity
    text: str
    cure: str = ""


def ok(text: str) -> Finding:
    """Make a finding that all is well."""
    return Finding(Severity.OK, text)


def note(text: str, cure: str) -> Finding:
    """Make a finding that an optional part is missing."""
    return Finding(Severity.NOTE, text, cure)


def warning(text: str, cure: str) -> Finding:
    """Make a finding that something should be improved."""
    return Finding(Severity.WARNING, text, cure)


def problem(text: str, cure: str) -> Finding:
    """Say that something does not work, or is not safe."""
    return Finding(Severity.PROBLEM, text, cure)


Check = Callable[[], list[Finding]]


@dataclass(frozen=True, slots=True)
class CheckResult:
    """A finding, and the part and the check that it is from."""

    part: str
    check: str
    finding: Finding


def examine(part: str, checks: Mapping[str, Check]) -> Iterator[CheckResult]:
    """Run checks, one after the other; one that fails itself keeps no other from being run."""
    for name, check in checks.items():
        try:
            findings = check()
        except Exception as error:  # noqa: BLE001 - whatever it stumbled over, the others are wanted
            text = f"this check failed: {type(error).__name__}: {error}"
            findings = [problem(text, "this is a defect of Leasehold: please report it")]
        yield from (CheckResult(part, name, finding) for finding in findings)
