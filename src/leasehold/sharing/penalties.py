"""Penalties: whoever breaks a rule that may be broken is held to every rule, until the penalty ends.

They are imposed without anybody's doing, and end at their time or when an administrator lifts them
(Dumitrescu et al. 2007, section 2.1).
"""

from collections.abc import Iterable

from leasehold.model.agreement import Agreement, Penalty


class Penalties:
    """All penalties that stand."""

    def __init__(self) -> None:
        """Begin with none."""
        self._standing: dict[tuple[str, str], list[Penalty]] = {}

    def impose(self, agreement: Agreement, now_ms: int) -> Penalty | None:
        """Punish the consumer of an agreement for breaking it; None where that is done already."""
        key = (agreement.consumer, agreement.provider)
        if any(penalty.agreement == agreement.name for penalty in self._stand(key, now_ms)):
            return None
        until_ms = None if agreement.penalty_ms is None else now_ms + agreement.penalty_ms
        penalty = Penalty(agreement.name, agreement.provider, agreement.consumer, agreement.penalty, now_ms, until_ms)
        self.take_up([penalty])
        return penalty

    def take_up(self, penalties: Iterable[Penalty]) -> None:
        """Go on from a record: these stand."""
        for penalty in penalties:
            self._standing.setdefault((penalty.consumer, penalty.provider), []).append(penalty)

    def lift(self, agreement: str, consumer: str) -> list[Penalty]:
        """End the penalties for breaking an agreement before their time; returns them."""
        lifted = []
        for key, penalties in self._standing.items():
            if key[0] == consumer:
                lifted += [penalty for penalty in penalties if penalty.agreement == agreement]
                penalties[:] = [penalty for penalty in penalties if penalty.agreement != agreement]
        return lifted

    def stands(self, agreement: Agreement, now_ms: int) -> bool:
        """Whether one stands between the two parties of an agreement."""
        return bool(self._standing) and bool(self._stand((agreement.consumer, agreement.provider), now_ms))

    def standing(self, now_ms: int) -> list[Penalty]:
        """Give all that stand."""
        return [penalty for key in list(self._standing) for penalty in self._stand(key, now_ms)]

    def _stand(self, key: tuple[str, str], now_ms: int) -> list[Penalty]:
        penalties = self._standing.get(key)
        if penalties is None:
            return []
        penalties[:] = [one for one in penalties if one.until_ms is None or now_ms < one.until_ms]
        if not penalties:
            del self._standing[key]
        return penalties
