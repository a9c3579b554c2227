"""A request to which agreements leave no site: why not, and until when there is no use in asking again."""

from collections.abc import Mapping
from dataclasses import dataclass

from leasehold.model.agreement import Breach
from leasehold.model.reason import NEVER, Reason
from leasehold.sharing.enforcement import Sharing

_FOREVER_MS = 1 << 62


@dataclass(frozen=True, slots=True)
class Barred:
    """What bars a request from each site that could take it; ``period`` names the agreements of that time."""

    breaches: tuple[Breach, ...]
    period: int

    @property
    def why(self) -> Breach:
        """The reason that may end first."""
        return min(self.breaches, key=_ends)

    def again_ms(self, sharing: Sharing, now_ms: int) -> int | None:
        """When time alone may open a site; None where only an event can, which is noticed anyway."""
        moments = [one.until_ms or one.next_ms or _FOREVER_MS for one in self.breaches]
        again_ms = min(*moments, sharing.book.turns_at_ms(now_ms), _FOREVER_MS)
        return None if again_ms == _FOREVER_MS else again_ms

    def still_holds(self, sharing: Sharing, amounts: Mapping[str, int], now_ms: int) -> bool:
        """Whether it is certain at a glance that nothing has opened since; ``amounts`` are asked for."""
        if sharing.settings.threshold or sharing.book.period(now_ms) != self.period:
            return False
        return all(_still_holds(one, sharing, amounts, now_ms) for one in self.breaches)


def _still_holds(breach: Breach, sharing: Sharing, amounts: Mapping[str, int], now_ms: int) -> bool:
    if breach.reason is Reason.SHARE_EXHAUSTED:
        return now_ms < breach.until_ms
    if breach.reason is Reason.CONCURRENCY_LIMIT_REACHED:
        granted = sharing.grants.units((breach.consumer, breach.provider, breach.resource))
        return granted + amounts[breach.resource] > breach.limit
    return False


def _ends(breach: Breach) -> tuple[bool, int]:
    return (breach.reason in NEVER, _FOREVER_MS if breach.next_ms is None else breach.next_ms)
