"""What came of trying for a co-allocation."""

from dataclasses import dataclass

from leasehold.model.agreement import Breach
from leasehold.model.reason import Reason


@dataclass(frozen=True, slots=True)
class NotNow:
    """There is no room for all yet, or an agreement says no until it does not."""

    breach: Breach | None = None


@dataclass(frozen=True, slots=True)
class Never:
    """It cannot be, and why."""

    reason: Reason
    breach: Breach | None = None


@dataclass(frozen=True, slots=True)
class Unfinished:
    """The budget of the instant was spent before that could be said: the search goes on at another one."""


Tried = NotNow | Never | Unfinished | None
"""None: every component has its place."""
