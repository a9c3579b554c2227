"""How long tests wait for what has to come about."""

import time
from collections.abc import Callable
from typing import Final

from leasehold.model.errors import LeaseholdError

PATIENCE_S: Final = 300
"""Only what never comes about takes so long: slow computers are waited for."""

_PAUSE_S: Final = 0.05


def until(question: Callable[[], object], *unreachable: type[Exception]) -> None:
    """Ask until the answer is yes; where nobody can be reached now, which these errors say too, ask again."""
    not_now: tuple[type[Exception], ...] = (LeaseholdError, *unreachable)
    give_up_s = time.monotonic() + PATIENCE_S
    while time.monotonic() < give_up_s:
        try:
            if question():
                return
        except not_now:
            pass
        time.sleep(_PAUSE_S)
    raise AssertionError("it never came to be")
