"""Is decayed usage over a share? What both kinds of decay do; they differ in how the past weighs."""

from collections.abc import Callable
from dataclasses import dataclass

from leasehold.model.agreement import MILLION, TimeDecay, UsageDecay
from leasehold.sharing.decay import Past, decayed_ppm
from leasehold.sharing.limits.usage import Over, Usage, first_room_ms, next_bound_ms


@dataclass(slots=True)
class Decaying:
    """A limit on the decayed usage of an account.

    ``past_windows``  how many windows before the present one may count
    ``past_before``   what was used in them, before a window that began at a moment (ms)
    ``weight_now``    what the present window weighs, ppm
    """

    limit: TimeDecay | UsageDecay
    usage: Usage
    past_windows: int
    past_before: Callable[[int], Past]
    weight_now: int = MILLION

    def over(self, now_ms: int) -> Over | None:
        """Say how far the consumer is over its share; None if it is not."""
        share_ppm, window_ms = self.limit.share_ppm, self.limit.window_ms
        begin_ms = now_ms - now_ms % window_ms
        used_ppm = self._with(self.usage.past(begin_ms, self.past_before), begin_ms, now_ms)
        if used_ppm < share_ppm:
            return None
        next_ms = first_room_ms(
            lambda at_ms: self.used_ppm(at_ms) >= share_ppm, now_ms, window_ms, self.past_windows + 2
        )
        return Over(used_ppm, share_ppm, window_ms, next_bound_ms(now_ms, window_ms), next_ms)

    def used_ppm(self, now_ms: int) -> int:
        """Give decayed usage, ppm of what the provider has; of a time to come: if use goes on as it is."""
        begin_ms = now_ms - now_ms % self.limit.window_ms
        return self._with(self.past_before(begin_ms), begin_ms, now_ms)

    def _with(self, past: Past, begin_ms: int, now_ms: int) -> int:
        used, whole = self.usage.used(begin_ms, now_ms), self.usage.whole(self.limit.window_ms)
        return decayed_ppm(used, past, whole, normalise=self.limit.normalise, weight_now=self.weight_now)
