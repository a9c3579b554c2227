"""How long until something that went wrong is tried again? Twice as long each time, up to a minute."""

from collections.abc import Callable

from leasehold.service.drivers.kept.holding import Key

_FIRST_S = 0.5
_LONGEST_S = 60.0
_SITE: Key = (0, 0)


class Patience:
    """Remembers what went wrong, by lease, and for the whole site; ``clock`` counts seconds."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._pauses_s: dict[Key, float] = {}
        self._not_before_s: dict[Key, float] = {}
        self._why = ""

    def went_well(self, key: Key) -> None:
        """Forget what went wrong with these machines, and with the site."""
        for one in (key, _SITE):
            self._pauses_s.pop(one, None)
            self._not_before_s.pop(one, None)

    def rest(self, key: Key, pause_s: float) -> None:
        """Leave these machines alone for this while, though nothing went wrong."""
        self._not_before_s[key] = self._clock() + pause_s

    def forget(self, key: Key) -> None:
        """These machines are no more."""
        self._pauses_s.pop(key, None)
        self._not_before_s.pop(key, None)

    def went_wrong(self, key: Key) -> None:
        """Leave these machines alone for a while."""
        pause_s = min(_LONGEST_S, 2 * self._pauses_s.get(key, _FIRST_S / 2))
        self._pauses_s[key] = pause_s
        self._not_before_s[key] = self._clock() + pause_s

    def hold_up(self, why: str) -> None:
        """Leave all machines alone for a while."""
        self._why = why
        self.went_wrong(_SITE)

    def may_try(self, key: Key) -> bool:
        """Whether these machines have been left alone for long enough."""
        return self._clock() >= self._not_before_s.get(key, 0)

    def held_up(self) -> str:
        """Why all machines are left alone now; empty where they are not."""
        return "" if self.may_try(_SITE) else self._why

    def until_next(self, at_most_s: float) -> float:
        """How long until something may be tried again (s)."""
        waits_s = (at_s - self._clock() for at_s in self._not_before_s.values())
        return min([at_most_s, *(wait_s for wait_s in waits_s if wait_s > 0)])
