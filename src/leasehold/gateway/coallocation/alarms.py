"""When which co-allocation wants to be looked at again."""

from heapq import heappop, heappush

from leasehold.model.effect import Effect, WakeAt


class Alarms:
    """Alarms of a gateway's co-allocations; each moment is asked for once for each of them."""

    def __init__(self, effects: list[Effect]) -> None:
        """Begin without any; ``effects`` is the gateway's list."""
        self._effects = effects
        self._due: list[tuple[int, int]] = []
        self._known: set[tuple[int, int]] = set()

    def wake(self, coallocation_id: int, at_ms: int) -> None:
        """Look at a co-allocation again at that time."""
        alarm = (at_ms, coallocation_id)
        if alarm not in self._known:
            self._known.add(alarm)
            heappush(self._due, alarm)
            self._effects.append(WakeAt("", at_ms))

    def ring(self, now_ms: int) -> set[int]:
        """Name those whose time has come."""
        rung: set[int] = set()
        while self._due and self._due[0][0] <= now_ms:
            alarm = heappop(self._due)
            self._known.discard(alarm)
            rung.add(alarm[1])
        return rung
