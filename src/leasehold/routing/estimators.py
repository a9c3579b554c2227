"""What are the streams like, and how much of their time do guests need? Learnt from what a gateway has seen.

Streams: every past request counts with weight exp(-age / time constant). Rates are divided by the integral of the
same weight since the start, so that they are unbiased for a steady stream from the first moment on.
Without a time constant nothing is forgotten, and all estimates are consistent.

Run times: a lease that runs out of time is killed, so users ask for more than they need, many for several times as
much. A promise has to hold for all of that time; a price had better go by what is likely. Every user has a mean of
their own, which counts 100 ended leases at most, so that it follows habits. Before much was seen of a user, what all
users need serves as a prior with the weight of 20 leases; before much was seen of any, a prior that all of it is
needed, with the weight of 5. Users whose leases ended most recently are remembered: memory does not grow with time.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from leasehold.model.errors import InvalidField
from leasehold.model.request import Request
from leasehold.routing.moments import StreamMoments, require_positive

DAY_S = 86_400.0
NOTHING_SEEN = StreamMoments(0.0, 0.0, 0.0, 0.0, None, seen=0)


class StreamEstimator:
    """Rate and moments of one stream in constant time and memory.

    ``start_ms``         since when requests would have been seen
    ``time_constant_s``  age at which a request counts 1/e, None for never forgetting

    Durations are the requested ones: the real ones are known only later.
    Raises InvalidField when time runs backwards.
    """

    def __init__(self, start_ms: int = 0, time_constant_s: float | None = DAY_S) -> None:
        if time_constant_s is not None:
            require_positive("time_constant_s", time_constant_s)
        self._start_ms = self._last_ms = start_ms
        self._time_constant_s = time_constant_s
        self._seen = 0
        self._weight = 0.0
        self._vms = self._duration_s = self._vm_s = self._vm_s_square = 0.0

    def observe(self, vms: int, duration_s: float, now_ms: int) -> None:
        """Count one request that arrives now: each weighted mean moves towards it by its share."""
        self._age(now_ms)
        self._seen += 1
        self._weight += 1
        share = 1 / self._weight
        work = vms * duration_s
        self._vms += share * (vms - self._vms)
        self._duration_s += share * (duration_s - self._duration_s)
        self._vm_s += share * (work - self._vm_s)
        self._vm_s_square += share * (work * work - self._vm_s_square)

    def memory(self) -> list[float]:
        """Give everything that was learnt, for `recalled`."""
        return [
            self._start_ms,
            self._last_ms,
            self._seen,
            self._weight,
            self._vms,
            self._duration_s,
            self._vm_s,
            self._vm_s_square,
        ]

    @classmethod
    def recalled(cls, memory: Sequence[float], time_constant_s: float | None) -> "StreamEstimator":
        """Go on from what `memory` gave."""
        estimator = cls(int(memory[0]), time_constant_s)
        estimator._last_ms, estimator._seen = int(memory[1]), int(memory[2])
        estimator._weight, estimator._vms, estimator._duration_s = memory[3:6]
        estimator._vm_s, estimator._vm_s_square = memory[6:8]
        return estimator

    def moments(self, now_ms: int) -> StreamMoments:
        """Give what is known now; all zero before the first request."""
        if not self._seen:
            return NOTHING_SEEN
        self._age(now_ms)
        variance = max(0.0, self._vm_s_square - self._vm_s * self._vm_s)
        return StreamMoments(
            rate_per_s=self._rate_per_s(),
            mean_vms=self._vms,
            mean_duration_s=self._duration_s,
            mean_vm_s=self._vm_s,
            cv_vm_s=math.sqrt(variance) / self._vm_s,
            seen=self._seen,
        )

    def _rate_per_s(self) -> float:
        """Divide by the weighted time that was watched; 0 while no time has passed."""
        watched_s = (self._last_ms - self._start_ms) / 1000
        if self._time_constant_s is not None:
            watched_s = -self._time_constant_s * math.expm1(-watched_s / self._time_constant_s)
        return self._weight / watched_s if watched_s > 0 else 0.0

    def _age(self, now_ms: int) -> None:
        """Let the past fade to the weight that it has now; means do not change by that."""
        passed_ms = now_ms - self._last_ms
        if passed_ms < 0:
            raise InvalidField("now_ms", now_ms, f"{self._last_ms} or later: streams are seen in order of time")
        self._last_ms = now_ms
        if self._time_constant_s is not None:
            self._weight *= math.exp(-passed_ms / (1000 * self._time_constant_s))


class LoadEstimator:
    """The external stream of a gateway and the local stream of each of its sites.

    Each request is observed once, when it arrives, also if it is later held or refused.
    """

    def __init__(self, start_ms: int = 0, time_constant_s: float | None = DAY_S) -> None:
        self._start_ms = start_ms
        self._time_constant_s = time_constant_s
        self._external = self._new_stream()
        self._local: dict[str, StreamEstimator] = {}

    def observe_external(self, request: Request, now_ms: int) -> None:
        """Count a request that the gateway was asked for."""
        self._external.observe(request.vms, request.duration_ms / 1000, now_ms)

    def observe_local(self, site_name: str, request: Request, now_ms: int) -> None:
        """Count a request that a site's own user made there."""
        stream = self._local.get(site_name)
        if stream is None:
            stream = self._local[site_name] = self._new_stream()
        stream.observe(request.vms, request.duration_ms / 1000, now_ms)

    def stream(self, site_name: str | None, now_ms: int) -> StreamMoments:
        """Give the local stream of a site, or the external one for None; all zero where nothing was seen."""
        stream = self._external if site_name is None else self._local.get(site_name)
        return NOTHING_SEEN if stream is None else stream.moments(now_ms)

    def memory(self) -> dict[str, Any]:
        """Give everything that was learnt, as plain data for `recalled`."""
        return {
            "start_ms": self._start_ms,
            "time_constant_s": self._time_constant_s,
            "external": self._external.memory(),
            "local": {name: stream.memory() for name, stream in self._local.items()},
        }

    @classmethod
    def recalled(cls, memory: Mapping[str, Any]) -> "LoadEstimator":
        """Go on from what `memory` gave."""
        constant_s = memory["time_constant_s"]
        estimator = cls(memory["start_ms"], constant_s)
        estimator._external = StreamEstimator.recalled(memory["external"], constant_s)
        estimator._local = {
            name: StreamEstimator.recalled(stream, constant_s) for name, stream in memory["local"].items()
        }
        return estimator

    def _new_stream(self) -> StreamEstimator:
        return StreamEstimator(self._start_ms, self._time_constant_s)


MOST_COUNTED = 100
EVERYBODY_COUNTS = 20
BELIEF_COUNTS = 5
MOST_USERS = 200


class RunTimes:
    """Needed parts, as they were learnt: of each user, and of all."""

    def __init__(self) -> None:
        """Start from the prior that users need all that they request."""
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
