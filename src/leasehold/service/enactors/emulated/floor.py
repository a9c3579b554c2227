"""Who has machines at an emulated site, what will become of them, and what is to be told and written."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from leasehold.service.enactors.emulated.agenda import Agenda
from leasehold.service.enactors.emulated.audit import BEGINNING, Action, AuditLine
from leasehold.service.enactors.emulated.holding import Change, Holding
from leasehold.service.enactors.protocol import Observation, Phase

REMEMBERED = 100_000
"""How many departures are remembered: a late order is a copy from an outbox, and does not come that late."""

_NEVER = -1


@dataclass(frozen=True, slots=True)
class Unwritten:
    """What has changed: of each lease what is here now, the last incarnation that went, and what was done.

    ``sent`` has what went along with leases that were sent away: their incarnation, and how much of their
    work was done.
    """

    holdings: dict[int, Holding | None]
    gone: dict[int, int]
    sent: dict[int, tuple[int, int]]
    audit: list[AuditLine]

    def __bool__(self) -> bool:
        """Whether there is anything to write."""
        return bool(self.holdings)


class Floor:
    """The machines of all leases. It moves them from phase to phase, and judges no order."""

    def __init__(self, holdings: Iterable[Holding] = (), gone: Mapping[int, int] | None = None) -> None:
        """Go on with what was here; ``gone`` has the last incarnation of each that went, oldest first."""
        self._here = {holding.lease_id: holding for holding in holdings}
        self._gone = dict(gone or {})
        self._agenda = Agenda((change, h.lease_id) for h in self._here.values() for change in h.coming)
        self._news: list[Observation] = []
        self._touched: set[int] = set()
        self._sent: dict[int, tuple[int, int]] = {}
        self._audit: list[AuditLine] = []
        self.used_vms = sum(holding.room_vms for holding in self._here.values())

    def here(self, lease_id: int) -> Holding | None:
        """Find what a lease has here."""
        return self._here.get(lease_id)

    def last_gone(self, lease_id: int) -> int:
        """Give the last incarnation of a lease that was stopped or sent away; -1 if none was."""
        return self._gone.get(lease_id, _NEVER)

    def next_change_ms(self) -> int | None:
        """When the next change is due by itself."""
        return self._agenda.next_ms()

    def observe(self) -> list[Observation]:
        """See everything that is here, by lease."""
        return [self._here[lease_id].observed() for lease_id in sorted(self._here)]

    def enter(self, holding: Holding) -> None:
        """Take the machines of a lease in."""
        self._here[holding.lease_id] = holding
        self.used_vms += holding.room_vms

    def leave(self, lease_id: int, incarnation: int) -> None:
        """Let a lease go, and remember that this incarnation of it, and all before, are not wanted again."""
        self._touched.add(lease_id)
        self._gone.pop(lease_id, None)
        self._gone[lease_id] = incarnation
        if len(self._gone) > REMEMBERED:
            del self._gone[next(iter(self._gone))]
        holding = self._here.pop(lease_id, None)
        if holding is not None:
            self.used_vms -= holding.room_vms
            self.call_off(holding)

    def send(self, holding: Holding, work_done: int) -> None:
        """Let whoever receives a lease know how much of its work is done, as its memory would."""
        self._sent[holding.lease_id] = (holding.incarnation, work_done)

    def become(self, holding: Holding, phase: Phase, since_ms: int, detail: str = "") -> None:
        """Move machines to another phase, and tell of it."""
        before_vms = holding.room_vms
        holding.phase, holding.since_ms, holding.detail = phase, since_ms, detail
        self.used_vms += holding.room_vms - before_vms
        self._news.append(holding.observed())
        self._touched.add(holding.lease_id)
        if phase in BEGINNING:
            command = " ".join(holding.command) if phase is Phase.RUNNING else ""
            self.write(BEGINNING[phase], holding, since_ms, detail or command)

    def schedule(self, holding: Holding, at_ms: int, phase: Phase, detail: str = "") -> None:
        """Let machines come to another phase at that time, if nothing comes between."""
        change = Change(at_ms, self._agenda.number(), phase, detail)
        holding.coming = (*holding.coming, change)
        self._agenda.enter(change, holding.lease_id)

    def call_off(self, holding: Holding) -> None:
        """Whatever was to become of these machines does not any more."""
        self._agenda.strike_out(holding.coming)
        holding.coming = ()

    def let_happen(self, now_ms: int) -> None:
        """Let everything happen that is due, each at its time."""
        while (lease_id := self._agenda.take_due(now_ms)) is not None:
            holding = self._here[lease_id]
            change, *later = holding.coming
            holding.coming = tuple(later)
            self.become(holding, change.phase, change.at_ms, change.detail)

    def write(self, action: Action, holding: Holding, at_ms: int, detail: str = "") -> None:
        """Write down what was done to the machines of a lease."""
        self._audit.append(AuditLine(at_ms, holding.lease_id, holding.incarnation, action, detail))

    def take_news(self) -> list[Observation]:
        """Take what has changed since the last time that this was asked."""
        news, self._news = self._news, []
        return news

    def take_unwritten(self) -> Unwritten:
        """Take what has to be written down since the last time that this was asked."""
        touched, self._touched = self._touched, set()
        audit, self._audit = self._audit, []
        sent, self._sent = self._sent, {}
        holdings = {lease_id: self._here.get(lease_id) for lease_id in touched}
        gone = {lease_id: self._gone[lease_id] for lease_id in touched if lease_id in self._gone}
        return Unwritten(holdings, gone, sent, audit)
