"""Every error that a user can cause, as one line that names field, value and what was expected.

::

    LeaseholdError
    ├── InvalidField        a value that cannot be accepted
    ├── UnknownName         a name that is not in its list, with the nearest one
    ├── InputError          a file that cannot be read as what it claims to be
    └── InvariantBroken     Leasehold is wrong: a defect
        └── TransitionError a transition that the state of the lease does not allow
"""

from collections.abc import Iterable
from difflib import get_close_matches


class LeaseholdError(Exception):
    """The root: catching it catches whatever Leasehold raises on purpose."""


_MOST_SHOWN = 200


def _shown(value: object) -> str:
    """Write a value as a message shows it: whole where it is short, else its beginning."""
    if isinstance(value, int) and value.bit_length() > _MOST_SHOWN * 3:
        return f"a whole number of {value.bit_length()} bits"  # Python refuses to write very long ones
    if isinstance(value, list | dict) and len(value) > _MOST_SHOWN:
        return f"{len(value)} entries"
    shown = repr(value)
    return shown if len(shown) <= _MOST_SHOWN else f"{shown[:_MOST_SHOWN]}…"


class InvalidField(LeaseholdError):
    """A value that cannot be accepted.

    ``field`` names it as the user wrote it, ``value`` is what was found (None where there was none) and
    ``expected`` what would have been accepted.
    """

    def __init__(self, field: str, value: object, expected: str) -> None:
        self.field = field
        self.value = value
        self.expected = expected
        found = "missing" if value is None else f"got {_shown(value)}"
        super().__init__(f"{field}: {found}, expected {expected}")


class UnknownName(InvalidField):
    """A name that is not in its list; the message offers the nearest one."""

    def __init__(self, field: str, value: str, known: Iterable[str]) -> None:
        names = sorted(known)
        near = get_close_matches(value, names, n=1)
        hint = f" (did you mean {near[0]!r}?)" if near else ""
        super().__init__(field, value, f"one of {', '.join(names)}{hint}")


class InputError(LeaseholdError):
    """A file that cannot be read as what it claims to be; says file and line."""

    def __init__(self, path: object, line: int | None, problem: str) -> None:
        self.path = str(path)
        self.line = line
        self.problem = problem
        place = self.path if line is None else f"{self.path}:{line}"
        super().__init__(f"{place}: {problem}")


class InvariantBroken(LeaseholdError):
    """A promise of Leasehold's own was broken: a defect, never the user's fault."""


class TransitionError(InvariantBroken):
    """A transition that the state of the lease does not allow."""
