"""What a stream of requests is like: its rate and the moments of its sizes, configured or learnt."""

import math
from collections.abc import Callable, Sequence
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
    ``cv_vm_s``          standard deviation over mean of v d, None if unknown
    ``seen``             how many requests the numbers rest on, None if configured

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
    def told(cls, rate_per_s: float, mean_vms: float, mean_duration_s: float, cv_vm_s: float | None = None) -> Self:
        """Make the moments that an operator states; sizes and durations are taken as independent."""
        return cls(rate_per_s, mean_vms, mean_duration_s, mean_vms * mean_duration_s, cv_vm_s)

    @property
    def was_told(self) -> bool:
        """Whether the numbers are configured, and so fixed."""
        return self.seen is None


def together(streams: Sequence[StreamMoments]) -> StreamMoments:
    """Give the stream that several independent ones make where they flow together.

    Rates add up; a mean is that of the streams, each weighted with its rate.
    """
    flowing = [stream for stream in streams if stream.rate_per_s > 0]
    if len(flowing) < 2:  # noqa: PLR2004 - one stream is itself
        return (flowing or list(streams))[0]
    rate_per_s = sum(stream.rate_per_s for stream in flowing)

    def mean(value: Callable[[StreamMoments], float]) -> float:
        return sum(stream.rate_per_s * value(stream) for stream in flowing) / rate_per_s

    mean_vm_s = mean(lambda stream: stream.mean_vm_s)
    square = mean(lambda stream: stream.mean_vm_s**2 * (1 + (stream.cv_vm_s or 0.0) ** 2))
    cv_vm_s = math.sqrt(max(0.0, square - mean_vm_s**2)) / mean_vm_s if mean_vm_s else None
    return StreamMoments(
        rate_per_s=rate_per_s,
        mean_vms=mean(lambda stream: stream.mean_vms),
        mean_duration_s=mean(lambda stream: stream.mean_duration_s),
        mean_vm_s=mean_vm_s,
        cv_vm_s=cv_vm_s,
        seen=sum(stream.seen or 0 for stream in flowing),
    )


def require_non_negative(field: str, value: float) -> None:
    """Raise InvalidField unless the value is finite and not below zero."""
    if not (math.isfinite(value) and value >= 0):
        raise InvalidField(field, value, "a finite number of at least 0")


def require_positive(field: str, value: float) -> None:
    """Raise InvalidField unless the value is finite and above zero."""
    if not (math.isfinite(value) and value > 0):
        raise InvalidField(field, value, "a finite number above 0")
