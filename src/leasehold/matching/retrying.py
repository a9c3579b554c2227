"""When is a job tried again that found no room, and when is it given up?

Rule: at whole multiples of the interval after its submission, the last time at the limit; then it is refused.
Source: Thamarai Selvi et al., section 4.5: every 2 minutes, "until the timestamp is not exceeding 6mins".
"""

from dataclasses import dataclass

from leasehold.model.errors import InvalidField


@dataclass(frozen=True, slots=True)
class Retrying:
    """How often, and how long after submission at most, in ms. Raises InvalidField."""

    interval_ms: int = 120_000
    limit_ms: int = 360_000

    def __post_init__(self) -> None:
        """Refuse what would never be a next time."""
        if self.interval_ms < 1 or self.limit_ms < 0:
            raise InvalidField("retrying", self, "interval_ms of at least 1 and limit_ms of at least 0")

    def next_ms(self, submitted_ms: int, now_ms: int) -> int | None:
        """Give when to try again after a try that failed now, or none where that would be too late."""
        tries = max(0, now_ms - submitted_ms) // self.interval_ms + 1
        after_ms = tries * self.interval_ms
        return submitted_ms + after_ms if after_ms <= self.limit_ms else None
