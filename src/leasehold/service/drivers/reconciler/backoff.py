"""When is something that went wrong retried? After twice as long each time, up to a minute."""

from collections.abc import Callable, Hashable

_FIRST_S = 0.5
_LONGEST_S = 60.0
_SITE = "the whole site"


class Backoff:
    """The pauses after errors, by whatever has to pause, and for the whole site; ``clock`` counts seconds."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._pauses_s: dict[Hashable, float] = {}
        self._not_before_s: dict[Hashable, float] = {}
        self._why = ""

    def succeeded(self, key: Hashable) -> None:
        """End the pauses of this one, and of the site."""
        self.forget(key)
        self.forget(_SITE)

    def forget(self, key: Hashable) -> None:
        """End the pause of this one."""
        self._pauses_s.pop(key, None)
        self._not_before_s.pop(key, None)

    def failed(self, key: Hashable) -> None:
        """Begin a pause, twice as long as the one before."""
        pause_s = min(_LONGEST_S, 2 * self._pauses_s.get(key, _FIRST_S / 2))
        self._pauses_s[key] = pause_s
        self.rest(key, pause_s)

    def site_failed(self, why: str) -> None:
        """Begin a pause of the whole site."""
        self._why = why
        self.failed(_SITE)

    def rest(self, key: Hashable, pause_s: float) -> None:
        """Begin a pause though nothing went wrong."""
        self._not_before_s[key] = self._clock() + pause_s

    def may_try(self, key: Hashable) -> bool:
        """Whether the pause is over."""
        return self._clock() >= self._not_before_s.get(key, 0)

    def site_problem(self) -> str:
        """Why the whole site pauses now; empty where it does not."""
        return "" if self.may_try(_SITE) else self._why

    def wait_s(self, key: Hashable) -> float:
        """How long until this one's pause is over."""
        return max(0.0, self._not_before_s.get(key, 0) - self._clock())

    def until_next_s(self, at_most_s: float) -> float:
        """How long until the next pause is over."""
        waits_s = (at_s - self._clock() for at_s in self._not_before_s.values())
        return min([at_most_s, *(wait_s for wait_s in waits_s if wait_s > 0)])
