"""How often does a node fail? Learnt from what happened, and careful as long as little has."""

import math
from dataclasses import dataclass

from leasehold.matching.reliability.lifetimes import require_positive
from leasehold.model.errors import InvalidField

YEAR_S = 365 * 24 * 3600.0


@dataclass(frozen=True, slots=True)
class FailureRate:
    """What is known of a node's failures: how many in how long, what was thought beforehand included.

    Rule: failures are a Poisson process whose rate has a Gamma distribution. Beforehand it is that of
    ``failures`` in ``watched_s``; each failure and each second that is seen is added. The usual belief is
    one failure a year, which weighs as much as one year of watching: an assumption, to be set from a site's
    records.
    Source: the conjugate prior of the Poisson process (Gelman et al., Bayesian Data Analysis, section 2.6).

    Raises InvalidField for a belief without failures or without time.
    """

    failures: float = 1.0
    watched_s: float = YEAR_S

    def __post_init__(self) -> None:
        """Refuse what would be a rate of nothing."""
        require_positive("failures", self.failures)
        require_positive("watched_s", self.watched_s)

    def after(self, failures: float, watched_s: float) -> "FailureRate":
        """Give what is known after so many more failures in so much more time. Raises InvalidField."""
        if failures < 0 or watched_s < 0:
            raise InvalidField("failures, watched_s", (failures, watched_s), "both at least 0")
        return FailureRate(self.failures + failures, self.watched_s + watched_s)

    @property
    def mean_per_s(self) -> float:
        """The mean of the rate."""
        return self.failures / self.watched_s

    @property
    def deviation_per_s(self) -> float:
        """The standard deviation of the rate: how much is still unknown."""
        return math.sqrt(self.failures) / self.watched_s

    def survival(self, time_s: float) -> float:
        """How likely does it last, with what is unknown taken in: ``(1 + t / watched)^-failures``.

        At least as much as ``exp(-mean t)``: a node that may fail often may also never fail.
        """
        return math.exp(-self.failures * math.log1p(time_s / self.watched_s))
