"""What part of the time that they ask for do guests need? Learnt from those that have ended.

Whoever runs out of time is killed, so users ask for more than they need, many for several times as much. A
promise has to hold for all of that time; a price or a patience had better go by what is likely.

Every user has a mean of their own, which counts 100 ended leases at most, so that it follows habits. Before
much was seen of a user, what everybody needs is believed, as much as 20 leases would tell; before much was
seen of anybody, that all of it is needed, as much as 5 would. Of users, those are remembered who had a
lease end last: memory does not grow with time.
"""

from collections.abc import Mapping
from typing import Any

MOST_COUNTED = 100
EVERYBODY_COUNTS = 20
BELIEF_COUNTS = 5
MOST_USERS = 200


class RunTimes:
    """Needed parts, as they were learnt: of each user, and of all."""

    def __init__(self) -> None:
        """Begin believing that everybody asks for what they need."""
        self._all = _Mean()
        self._by_user: dict[str, _Mean] = {}

    def ended(self, user: str, part: float) -> None:
        """Count a lease of a user that ended by itself after this part of the time that it had asked for."""
        self._all.add(part)
        own = self._by_user.pop(user, None) or _Mean()
        own.add(part)
        self._by_user[user] = own
        if len(self._by_user) > MOST_USERS:
            del self._by_user[next(iter(self._by_user))]

    def needed_part(self, user: str) -> float:
        """Give the part of what they ask for that a user is likely to need, above 0 and at most 1."""
        of_all = self._all.beside(1.0, BELIEF_COUNTS)
        own = self._by_user.get(user)
        return of_all if own is None else own.beside(of_all, EVERYBODY_COUNTS)

    def memory(self) -> dict[str, Any]:
        """Give everything that was learnt, as plain data for `recalled`."""
        own = [[user, mean.count, mean.value] for user, mean in self._by_user.items()]
        return {"all": [self._all.count, self._all.value], "users": own}

    @classmethod
    def recalled(cls, memory: Mapping[str, Any]) -> "RunTimes":
        """Go on from what `memory` gave."""
        known = cls()
        known._all = _Mean(*memory["all"])
        known._by_user = {user: _Mean(count, value) for user, count, value in memory["users"]}
        return known


class _Mean:
    """A mean of parts in which old ones fade once many were counted."""

    __slots__ = ("count", "value")

    def __init__(self, count: int = 0, value: float = 1.0) -> None:
        self.count = count
        self.value = value

    def add(self, part: float) -> None:
        """Count one more."""
        self.count = min(self.count + 1, MOST_COUNTED)
        self.value += (part - self.value) / self.count

    def beside(self, belief: float, counts: int) -> float:
        """Give the mean together with what is believed, which counts as much as so many."""
        return (counts * belief + self.count * self.value) / (counts + self.count)
