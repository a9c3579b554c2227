"""The punishments of one engine: those that stand, and what is to be written of them."""

from dataclasses import replace
from typing import TYPE_CHECKING

from leasehold.model.agreement import Penalty
from leasehold.model.event import Event, PenaltyLifted
from leasehold.service.commands import LiftPenalty
from leasehold.service.engine.agreement_rows import penalty_of
from leasehold.service.errors import NoSuchPenalty
from leasehold.service.store.batch import Batch
from leasehold.service.store.rows import PENALTIES, PenaltyRow

if TYPE_CHECKING:
    from leasehold.service.engine.engine import Engine


class PenaltyBook:
    """Takes punishments down as they are imposed, and lets them be lifted."""

    def __init__(self, engine: "Engine") -> None:
        """Begin with those in the store."""
        self._engine = engine
        self._rows = {row.id: row for row in engine.store.penalties()}
        self._last_id = max(self._rows, default=0)
        self._changed: dict[int, PenaltyRow] = {}

    def standing(self, now_ms: int) -> list[Penalty]:
        """Give those that stand."""
        return [penalty_of(row) for row in self._rows.values() if stands(row, now_ms)]

    def imposed(self, penalty: Penalty, lease_id: int) -> None:
        """A lease broke a rule, and its consumer is punished."""
        self._last_id += 1
        row = PenaltyRow(
            id=self._last_id,
            agreement=penalty.agreement,
            provider=penalty.provider,
            consumer=penalty.consumer,
            points=penalty.points,
            since_ms=penalty.since_ms,
            until_ms=penalty.until_ms,
            lease_id=lease_id,
            lifted_ms=None,
            lifted_by="",
        )
        self._rows[row.id] = self._changed[row.id] = row

    def lift(self, command: LiftPenalty, now_ms: int) -> tuple[list[Event], PenaltyRow]:
        """Let a punishment end now; one that has ended stays as it is. Raises NoSuchPenalty."""
        row = self._rows.get(command.penalty_id)
        if row is None:
            raise NoSuchPenalty(command.penalty_id)
        if not stands(row, now_ms):
            return [], row
        lifted = replace(row, lifted_ms=now_ms, lifted_by=command.by)
        self._rows[row.id] = self._changed[row.id] = lifted
        minutes = self._engine.minutes
        told = {"agreement": row.agreement, "consumer": row.consumer, "penalty": row.id}
        minutes.line_about_site(row.provider, "penalty-lifted", now_ms, by=command.by, **told)
        return [PenaltyLifted(row.agreement, row.consumer)], lifted

    def has_news(self) -> bool:
        """Whether there is anything to write."""
        return bool(self._changed)

    def save(self, batch: Batch) -> None:
        """Write everything into the store."""
        batch.upsert(PENALTIES, list(self._changed.values()))

    def saved(self) -> None:
        """Everything is in the store."""
        self._changed.clear()


def stands(row: PenaltyRow, now_ms: int) -> bool:
    """Whether a punishment has neither ended nor been lifted."""
    return row.lifted_ms is None and (row.until_ms is None or now_ms < row.until_ms)
