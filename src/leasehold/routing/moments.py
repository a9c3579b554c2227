"""What a stream of requests is like: its rate and the moments of its sizes, told or learnt."""

import math
from dataclasses import dataclass
from typing import Self

from leasehold.model.errors import InvalidField


@dataclass(frozen=True, slots=True)
class StreamMoments:
    """A stream of requests in a few numbers.

    ``rate_per_s``       requests a second
    ``mean_vms``         E[v], VMs of a request
    ``mean_duration_s``  E[d], seconds on a machine of the reference speed
    ``mean_vm_s``        E[v d], VM-seconds of a request
    ``cv_vm_s``          standard deviation over mean of v d, None where nobody knows it
    ``seen``             how many requests the numbers rest on, None where they were told

    Raises InvalidField for numbers that are negative or not finite.
    """

    rate_per_s: float
    mean_vms: float
    mean_duration_s: float
    mean_vm_s: float
    cv_vm_s: float | None = None
    seen: int | None = None

    def __post_init__(self) -> None:
        """Refuse what no stream can have."""
        for field in ("rate_per_s", "mean_vms", "mean_duration_s", "mean_vm_s"):
            require_non_negative(field, getattr(self, field))
        if self.cv_vm_s is not None:
            require_non_negative("cv_vm_s", self.cv_vm_s)

    @classmethod
    def told(
        cls, rate_per_s: float, mean_vms: float, mean_duration_s: float, cv_vm_s: float | None = None
    ) -> Self:
        """Make the moments that an operator states; sizes and durations are taken as independent."""
        return cls(rate_per_s, mean_vms, mean_duration_s, mean_vms * mean_duration_s, cv_vm_s)

    @property
    def was_told(self) -> bool:
        """Whether somebody stated the numbers, so that they stay as they are."""
        return self.seen is None


def require_non_negative(field: str, value: float) -> None:
    """Raise InvalidField unless the value is finite and not below zero."""
    if not (math.isfinite(value) and value >= 0):
        raise InvalidField(field, value, "a finite number of at least 0")


def require_positive(field: str, value: float) -> None:
    """Raise InvalidField unless the value is finite and above zero."""
    if not (math.isfinite(value) and value > 0):
        raise InvalidField(field, value, "a finite number above 0")
