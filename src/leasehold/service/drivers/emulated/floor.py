"""Who has machines at an emulated site, what will become of them, and what is to be told and written."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from leasehold.service.drivers.emulated.agenda import Agenda
from leasehold.service.drivers.emulated.audit import BEGINNING, Action, AuditLine
from leasehold.service.drivers.emulated.holding import OVER, Becoming, Change, Holding
from leasehold.service.drivers.emulated.nodes import EmulatedNode
from leasehold.service.drivers.emulated.occupancy import Occupancy
from leasehold.service.drivers.emulated.troubles import Troubles
from leasehold.service.drivers.protocol import Observation, Phase

REMEMBERED = 100_000
"""How many departures are remembered: a late order is a copy from an outbox, and does not come that late."""

_NEVER = -1


@dataclass(frozen=True, slots=True)
class Unwritten:
    """What has changed: of each lease what is here now, the last incarnation that went, and what was done.

    ``sent`` has what went along with leases that were sent away: their incarnation, and how much of their
    work was done; ``outputs`` what the commands of leases had written that are gone; ``troubles`` what is
    wrong with nodes, None where that is as it was.
    """

    holdings: dict[int, Holding | None]
    gone: dict[int, int]
    sent: dict[int, tuple[int, int]]
    audit: list[AuditLine]
    outputs: dict[int, str]
    troubles: str | None

    def __bool__(self) -> bool:
        """Whether there is anything to write."""
        return bool(self.holdings) or self.troubles is not None


class Floor:
    """The machines of all leases. It moves them from phase to phase, and judges no order."""

    def __init__(
        self,
        holdings: Iterable[Holding] = (),
        gone: Mapping[int, int] | None = None,
        troubles: Troubles | None = None,
    ) -> None:
        """Go on with what was here; ``gone`` has the last incarnation of each that went, oldest first."""
        self.troubles = troubles or Troubles()
        self.occupancy = Occupancy(())
        self._here = {holding.lease_id: holding for holding in holdings}
        self._gone = dict(gone or {})
        self._agenda = Agenda((change, h.lease_id) for h in self._here.values() for change in h.coming)
        self._news: list[Observation] = []
        self._touched: set[int] = set()
        self._sent: dict[int, tuple[int, int]] = {}
        self._audit: list[AuditLine] = []
        self._outputs: dict[int, str] = {}
        self._troubles_as_written = self.troubles.to_text()
        self.used_vms = sum(holding.room_vms for holding in self._here.values())

    def stand_on(self, nodes: Iterable[EmulatedNode]) -> None:
        """Let the machines stand on these nodes: from then on it is counted what is taken of each."""
        self.occupancy = Occupancy(nodes)
        for holding in self._here.values():
            if holding.room_vms:
                self.occupancy.enter(holding)

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
        self._take_room(holding)

    def leave(self, lease_id: int, incarnation: int) -> None:
        """Let a lease go, and remember that this incarnation of it, and all before, are not wanted again."""
        self._touched.add(lease_id)
        self._gone.pop(lease_id, None)
        self._gone[lease_id] = incarnation
        if len(self._gone) > REMEMBERED:
            del self._gone[next(iter(self._gone))]
        holding = self._here.pop(lease_id, None)
        if holding is not None:
            self._give_room_back(holding)
            self.call_off(holding)
            if holding.now.output:
                self._outputs[lease_id] = holding.now.output

    def _take_room(self, holding: Holding) -> None:
        if holding.room_vms:
            self.used_vms += holding.room_vms
            self.occupancy.enter(holding)

    def _give_room_back(self, holding: Holding) -> None:
        if holding.room_vms:
            self.used_vms -= holding.room_vms
            self.occupancy.leave(holding)

    def send(self, holding: Holding, work_done: int) -> None:
        """Let whoever receives a lease know how much of its work is done, as its memory would."""
        self._sent[holding.lease_id] = (holding.incarnation, work_done)

    def become(self, holding: Holding, then: Becoming, since_ms: int) -> None:
        """Move machines to another phase, and tell of it."""
        self._give_room_back(holding)
        holding.now, holding.since_ms = then, since_ms
        self._take_room(holding)
        self._news.append(holding.observed())
        self._touched.add(holding.lease_id)
        if then.phase in BEGINNING:
            command = " ".join(holding.command) if then.phase is Phase.RUNNING else ""
            self.write(BEGINNING[then.phase], holding, since_ms, command or then.detail)

    def schedule(self, holding: Holding, at_ms: int, then: Becoming) -> None:
        """Let machines come to another phase at that time, if nothing comes between."""
        change = Change(at_ms, self._agenda.number(), then)
        holding.coming = (*holding.coming, change)
        self._agenda.enter(change, holding.lease_id)

    def fall(self, node: str, at_ms: int, then: Becoming) -> None:
        """Let all that is on a node, also saved memory, come to this; what ended before it has ended."""
        for holding in self._here.values():
            if node in holding.nodes and holding.phase not in OVER:
                self._cut_off(holding, at_ms, then)
        self.let_happen(at_ms)

    def _cut_off(self, holding: Holding, at_ms: int, then: Becoming) -> None:
        """What was to come before is still to come: it was only not to be seen yet."""
        before = tuple(change for change in holding.coming if change.at_ms <= at_ms)
        if any(change.then.phase in OVER for change in before):
            return
        self._agenda.strike_out(change for change in holding.coming if change not in before)
        holding.coming = before
        self.schedule(holding, at_ms, then)
        self._touched.add(holding.lease_id)

    def call_off(self, holding: Holding) -> None:
        """Whatever was to become of these machines does not any more."""
        self._agenda.strike_out(holding.coming)
        holding.coming = ()

    def let_happen(self, now_ms: int) -> None:
        """Let everything happen that is due, each at its time; on nodes in the dark it is seen later."""
        while (lease_id := self._agenda.take_due(now_ms)) is not None:
            holding = self._here[lease_id]
            dark_until_ms = self.troubles.dark_until_ms(holding.nodes, now_ms)
            if dark_until_ms:
                self._agenda.put_off(lease_id, dark_until_ms)
                continue
            change, *later = holding.coming
            holding.coming = tuple(later)
            self.become(holding, change.then, change.at_ms)

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
        outputs, self._outputs = self._outputs, {}
        holdings = {lease_id: self._here.get(lease_id) for lease_id in touched}
        gone = {lease_id: self._gone[lease_id] for lease_id in touched if lease_id in self._gone}
        return Unwritten(holdings, gone, sent, audit, outputs, self._changed_troubles())

    def _changed_troubles(self) -> str | None:
        text = self.troubles.to_text()
        if text == self._troubles_as_written:
            return None
        self._troubles_as_written = text
        return text
