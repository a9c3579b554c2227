"""When what is pending is looked at again though nothing has happened: at the next tick, or asleep until a later one.

Ticks are ``tick_ms`` apart, from the first request that is held. Where the routing policy says that no look can change
anything before some time, the gateway leaves out the ticks before that. Any event ends the sleep; what the policy
would have learnt from the looks that were left out is caught up then (`RetryLoop.wake`), so that a gateway that sleeps
decides the same as one that looks at every tick.
"""

from leasehold.gateway.state import InstantChanges
from leasehold.model.effect import AlarmCalledOff, WakeAt

GATEWAY = ""
"""Where a decision is taken that is about no site, and an alarm that is not a site's."""

NO_TICKS = range(0)


class Alarm:
    """The ticks of a gateway, and its sleep between them.

    ``tick_ms``  the time from one tick to the next
    ``next_ms``  the next tick, None while nothing is pending
    ``is_on``    whether there is a tick to come, or one that was asked for
    """

    def __init__(self, tick_ms: int, changes: InstantChanges) -> None:
        """Begin without ticks."""
        self.tick_ms = tick_ms
        self.next_ms: int | None = None
        self.is_on = False
        self._changes = changes
        self._asleep_until_ms: int | None = None
        self._set_ms: int | None = None

    def wake(self, now_ms: int) -> range:
        """End the sleep; returns the ticks before now that were left out."""
        if self._asleep_until_ms is None or self.next_ms is None:
            return NO_TICKS
        left_out = range(self.next_ms, min(now_ms, self._asleep_until_ms), self.tick_ms)
        self.next_ms += self.tick_ms * len(left_out)
        self._asleep_until_ms = None
        return left_out

    def rings(self, now_ms: int) -> bool:
        """Whether the time of the next tick has come; there is no next one until `look_again` says so."""
        if self.next_ms is None or self.next_ms > now_ms:
            return False
        self.next_ms = None
        return True

    def look_again(self, at_ms: int, now_ms: int) -> None:
        """Have a tick at this time, if none comes before it; the ticks after it follow from there."""
        at_ms = max(at_ms, now_ms + 1)
        if self.next_ms is not None and self.next_ms <= at_ms:
            return
        if self.next_ms is not None and self.next_ms == self._set_ms:
            self._set_ms = None  # it stays set
        elif self.next_ms is not None:
            self._changes.effects.append(WakeAt(GATEWAY, self.next_ms))
        self.next_ms = at_ms
        self.is_on = True

    def tick_from(self, at_ms: int, next_ms: int) -> int:
        """Give the first tick at this time or later, ``next_ms`` being the next one."""
        return next_ms + self.tick_ms * max(0, -(-(at_ms - next_ms) // self.tick_ms))

    def sleep(self, until_ms: int) -> None:
        """Leave out the ticks before this one."""
        if self.next_ms is not None and until_ms > self.next_ms:
            self._asleep_until_ms = until_ms

    def set(self, now_ms: int, *, may_sleep: bool) -> None:
        """Ask for the tick that is next, or ends the sleep, instead of the one that was asked for before."""
        if not may_sleep:
            self._asleep_until_ms = None
        if self._set_ms is not None and self._set_ms <= now_ms:
            self._set_ms = None
        wanted_ms = self.next_ms if self._asleep_until_ms is None else self._asleep_until_ms
        self.is_on = wanted_ms is not None
        if wanted_ms == self._set_ms:
            return
        if self._set_ms is not None:
            self._changes.effects.append(AlarmCalledOff(self._set_ms))
        if wanted_ms is not None:
            self._changes.effects.append(WakeAt(GATEWAY, wanted_ms))
        self._set_ms = wanted_ms
