"""What are the streams like? Learnt from the requests that a gateway has seen, so that nobody need tell it.

Every past request counts with weight exp(-age / time constant). Rates are divided by the integral of the
same weight since the start, so that they are unbiased for a steady stream from the first moment on.
Without a time constant nothing is forgotten, and all estimates are consistent.
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
