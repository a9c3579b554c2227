"""How often is one lease preempted? The metrics of a run, and what befell single guests."""

from collections.abc import Mapping

from leasehold.experiments.intergrid.metrics import Watch
from leasehold.model.effect import LeaseClosed
from leasehold.simulation.kernel import Handler

THREE = 3
OFTEN = ("leases_twice", "leases_over_three_times", "most_preemptions")


class Often:
    """Looks on as another observer does, and counts leases that were preempted more than once.

    leases_twice, leases_over_three_times   leases that were preempted more than once, more than three times
    most_preemptions                        how often the one was that was preempted most often
    """

    def __init__(self, watch: Watch) -> None:
        """Look on beside this one."""
        self._watch = watch
        self._twice = self._over_three = self._most = 0
        self.submitted = watch.submitted
        self.handlers: Mapping[type, Handler] = {**watch.handlers, LeaseClosed: self._closed}

    def _closed(self, effect: LeaseClosed, now_ms: int) -> None:
        self._watch.handlers[LeaseClosed](effect, now_ms)
        times = effect.lease.preemptions
        self._twice += times > 1
        self._over_three += times > THREE
        self._most = max(self._most, times)

    def read(self) -> dict[str, float]:
        """Give all metrics."""
        often = (self._twice, self._over_three, self._most)
        return self._watch.read() | {name: float(value) for name, value in zip(OFTEN, often, strict=True)}
