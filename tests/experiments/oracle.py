"""An independent simulation of one virtual domain: a second reading of section 4, to compare with.

It shares no code with the product. Jobs are (submission, length, consumer) in milliseconds, in order of
submission. Everything is looked at again at every moment at which anything can change, use is summed up from
the list of what ran, and whoever is admitted and was submitted first comes first.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

Job = tuple[int, int, int]
HORIZON_MS = 3_600_000


@dataclass
class Domain:
    """One virtual domain as it is simulated."""

    cpus: int
    jobs: Sequence[Job]
    starts: dict[int, int] = field(default_factory=dict)

    def used(self, consumer: int | None, from_ms: int, to_ms: int) -> int:
        """CPU-milliseconds of one consumer, or of all, between two moments."""
        total = 0
        for index, start_ms in self.starts.items():
            _, length_ms, whose = self.jobs[index]
            if consumer is None or whose == consumer:
                total += max(0, min(start_ms + length_ms, to_ms) - max(start_ms, from_ms))
        return total

    def share(self, consumer: int | None, from_ms: int, to_ms: int, window_ms: int) -> Fraction:
        return Fraction(self.used(consumer, from_ms, to_ms), self.cpus * window_ms)

    def free(self, now_ms: int) -> int:
        running = [i for i, s in self.starts.items() if s <= now_ms < s + self.jobs[i][1]]
        return self.cpus - len(running)


May = Callable[[Domain, int, int], bool]
"""Domain, consumer, moment: may a job of it start?"""


def anybody(_domain: Domain, _consumer: int, _now_ms: int) -> bool:
    """No limit."""
    return True


def commitment(epoch: Sequence[Fraction], epoch_ms: int, burst: Sequence[Fraction], burst_ms: int) -> May:
    """Below the epoch's share and below the burst's."""

    def may(domain: Domain, consumer: int, now_ms: int) -> bool:
        in_epoch = domain.share(consumer, now_ms - now_ms % epoch_ms, now_ms, epoch_ms)
        in_burst = domain.share(consumer, now_ms - now_ms % burst_ms, now_ms, burst_ms)
        return in_epoch < epoch[consumer] and in_burst < burst[consumer]

    return may


def decayed(
    share: Sequence[Fraction],
    window_ms: int,
    factor: Callable[[int, Fraction], Fraction],
    past: int,
    *,
    cumulative: bool,
    normalise: bool,
) -> May:
    """Below the share in decayed usage; ``factor`` of the i-th window, and of how busy all were in it."""

    def may(domain: Domain, consumer: int, now_ms: int) -> bool:
        begin_ms = now_ms - now_ms % window_ms
        usage, weights, weight = domain.share(consumer, begin_ms, now_ms, window_ms), Fraction(1), Fraction(1)
        for i in range(1, past + 1):
            bounds = (begin_ms - i * window_ms, begin_ms - (i - 1) * window_ms)
            found = factor(i, domain.share(None, *bounds, window_ms))
            weight = weight * found if cumulative else found
            usage += domain.share(consumer, *bounds, window_ms) * weight
            weights += weight
        return (usage / weights if normalise else usage) < share[consumer]

    return may


def simulate(cpus: int, jobs: Sequence[Job], may: May, bounds_ms: int) -> Domain:
    """Let the hour pass; ``bounds_ms`` is the least common grid of all windows."""
    domain = Domain(cpus, jobs)
    moments = {submit_ms for submit_ms, _, _ in jobs} | set(range(0, HORIZON_MS + 1, bounds_ms))
    while moments:
        now_ms = min(moments)
        moments.remove(now_ms)
        if now_ms > HORIZON_MS:
            break
        blocked: set[int] = set()
        free = domain.free(now_ms)
        for index, (submit_ms, length_ms, consumer) in enumerate(jobs):
            if submit_ms > now_ms or free == 0:
                break
            if index in domain.starts or consumer in blocked:
                continue
            if may(domain, consumer, now_ms):
                domain.starts[index] = now_ms
                moments.add(now_ms + length_ms)
                free -= 1
            else:
                blocked.add(consumer)
    return domain
