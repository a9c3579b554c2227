"""How long does a node last? Exponential and Weibull, times in seconds."""

import math
from dataclasses import dataclass
from typing import Protocol

from leasehold.model.errors import InvalidField


class Lifetime(Protocol):
    """How long a node lasts from now on."""

    def survival(self, time_s: float) -> float:
        """Give the probability that it is still there after that time."""
        ...

    def quantile(self, failed: float) -> float:
        """Give the time after which it has failed with this probability, below 1."""
        ...


@dataclass(frozen=True, slots=True)
class Exponential:
    """A node that does not age: ``p(t) = exp(-lambda t)`` (Thamarai Selvi et al., section 5).

    Raises InvalidField for a rate that is not above 0.
    """

    rate_per_s: float

    def __post_init__(self) -> None:
        """Refuse a rate that is none."""
        require_positive("rate_per_s", self.rate_per_s)

    def survival(self, time_s: float) -> float:
        """Give exp(-lambda t)."""
        return math.exp(-self.rate_per_s * time_s)

    def quantile(self, failed: float) -> float:
        """Give the time after which it has failed with this probability."""
        return -math.log1p(-failed) / self.rate_per_s


@dataclass(frozen=True, slots=True)
class Weibull:
    """A new node that ages (shape above 1) or has its weak ones fail first (below 1).

    ``exp(-(t / scale)^shape)``. Raises InvalidField for parameters that are not above 0.
    """

    shape: float
    scale_s: float

    def __post_init__(self) -> None:
        """Refuse parameters that are none."""
        require_positive("shape", self.shape)
        require_positive("scale_s", self.scale_s)

    def survival(self, time_s: float) -> float:
        """Give exp(-(t / scale)^shape)."""
        return math.exp(-((time_s / self.scale_s) ** self.shape))

    def quantile(self, failed: float) -> float:
        """Give the time after which it has failed with this probability."""
        return self.scale_s * math.pow(-math.log1p(-failed), 1 / self.shape)


def require_positive(field: str, value: float) -> None:
    """Raise InvalidField for a value that is not a number above 0."""
    if not (value > 0 and math.isfinite(value)):
        raise InvalidField(field, value, "a number above 0")


def require_k_of_m(needed: int, nodes: int) -> None:
    """Raise InvalidField unless at least one and at most all nodes are needed."""
    if not 1 <= needed <= nodes:
        raise InvalidField("needed", needed, f"from 1 to the number of nodes, {nodes}")
