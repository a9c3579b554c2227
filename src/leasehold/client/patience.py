"""How often a question is asked again, and after which pause."""

import random
from dataclasses import dataclass

from leasehold.client.answer import Answer
from leasehold.client.errors import Lost, Unreachable

_TRY_AGAIN = frozenset({429, 502, 503, 504})
"""Statuses with which a gateway, or who stands before it, says: nothing was done, ask again."""


@dataclass(frozen=True, slots=True)
class Patience:
    """How long to go on asking what may be asked twice.

    ``tries``      how often in all
    ``knocks``     how often as long as nobody has opened: nothing was sent then, and nothing is in doubt
    ``first_s``    the pause before the second try; it doubles with each, and varies by up to a half, so
                   that many who were turned away together do not come back together
    ``longest_s``  the longest pause; a gateway that wants a longer one is taken at its word at once
    """

    tries: int = 8
    knocks: int = 8
    first_s: float = 0.25
    longest_s: float = 8.0

    def pause_s(self, failures: int) -> float:
        """Say how long to wait after so many failures in a row."""
        full_s = min(self.longest_s, self.first_s * 2 ** (failures - 1))
        return random.uniform(full_s / 2, full_s)


class Attempts:
    """The tries of one question so far, and whether there will be another."""

    def __init__(self, patience: Patience, key: str = "") -> None:
        self._patience = patience
        self._key = key
        self._failures = 0
        self._in_doubt = False

    def after_failure(self, failure: Unreachable) -> float:
        """Give the pause before the next try, in seconds; raises the failure where there will be none."""
        self._failures += 1
        self._in_doubt = self._in_doubt or isinstance(failure, Lost)
        if self._failures >= (self._patience.tries if self._in_doubt else self._patience.knocks):
            raise Lost(failure.url, failure.why, self._key) if self._in_doubt else failure
        return self._patience.pause_s(self._failures)

    def after_answer(self, answer: Answer) -> float | None:
        """Give the pause before the next try, None where this is the answer."""
        self._failures += 1
        wanted_s = answer.retry_after_s or 0.0
        over = self._failures >= self._patience.tries or wanted_s > self._patience.longest_s
        if over or answer.status not in _TRY_AGAIN:
            return None
        return max(wanted_s, self._patience.pause_s(self._failures))

    def start_anew(self) -> None:
        """Forget the failures: it works."""
        self._failures = 0


ONCE = Patience(tries=1, knocks=1)
"""For what must not be asked twice."""
