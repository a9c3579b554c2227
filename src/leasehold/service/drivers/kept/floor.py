"""Who has machines at a site, and which orders are followed.

Who is told the same thing twice does it once, and an order that comes too late does nothing:

* An order for an earlier incarnation than what is here, or for one that was stopped or sent away, is out of
  date. What was stopped is remembered, so that a late copy of its START never starts it again.
* START, RESUME and RECEIVE of the incarnation that is here were followed before.
* STOP and SEND of what is not here have nothing to do, and are remembered.

Following an order sets a goal. Nothing here touches a machine.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence

from leasehold.service.drivers.facts import no_room_for
from leasehold.service.drivers.kept.holding import OVER, Goal, Holding, Key
from leasehold.service.drivers.kept.machine import Machine, State
from leasehold.service.drivers.protocol import Capabilities, Observation, Order, Phase, Problem, Verb

REMEMBERED = 100_000
"""How many departures are remembered: a late order is a copy from an outbox, and does not come that late."""

_BRINGS_UP = frozenset({Verb.START, Verb.RESUME, Verb.RECEIVE})
_NEVER = -1

_Way = Callable[[Order, Holding | None, int], Problem | None]


class Floor:
    """The holdings of one site: of each lease one that counts, and any number on the way out."""

    def __init__(
        self,
        slots: int,
        able: Capabilities,
        holdings: Iterable[Holding] = (),
        gone: Mapping[int, int] | None = None,
    ) -> None:
        """Go on with what was here; ``gone`` has the last incarnation of each that went, oldest first."""
        self.slots = slots
        self._able = able
        self._all = {holding.key: holding for holding in holdings}
        self._here = {one.lease_id: one for one in self._all.values() if not one.is_leaving}
        self._gone = dict(gone or {})
        self._touched: set[Key] = set()
        self._went: set[int] = set()
        self._news: dict[int, Observation] = {}
        self._ways: dict[Verb, _Way] = {
            Verb.START: self._start,
            Verb.SUSPEND: self._suspend,
            Verb.RESUME: self._resume,
            Verb.RECEIVE: self._receive,
            Verb.SEND: self._send,
            Verb.STOP: self._stop,
        }

    # what is here

    def all(self) -> list[Holding]:
        """List every holding, those on their way out too."""
        return list(self._all.values())

    def find(self, key: Key) -> Holding | None:
        """Find a holding by the name of its machines."""
        return self._all.get(key)

    def here(self, lease_id: int) -> Holding | None:
        """Find the holding of a lease that is not on its way out."""
        return self._here.get(lease_id)

    def last_gone(self, lease_id: int) -> int:
        """Give the last incarnation of a lease that was stopped or sent away; -1 if none was."""
        return self._gone.get(lease_id, _NEVER)

    def observe(self) -> list[Observation]:
        """See everything that is here, by lease; what is on its way to another site is seen there."""
        seen = {one.lease_id: one for one in self._all.values() if one.goal is Goal.GONE} | self._here
        return [seen[lease_id].observed() for lease_id in sorted(seen)]

    # what becomes of it

    def become(self, holding: Holding, phase: Phase, now_ms: int, detail: str = "") -> None:
        """Move machines to another phase, and tell of it; the same phase again keeps its time."""
        if phase is not holding.phase:
            holding.phase, holding.since_ms = phase, now_ms
        holding.detail = detail
        self.touch(holding)
        if not holding.is_leaving:
            self._news[holding.lease_id] = holding.observed()

    def touch(self, holding: Holding) -> None:
        """Note that a holding has to be written down."""
        self._touched.add(holding.key)

    def enter(self, holding: Holding) -> None:
        """Take the machines of a lease in."""
        self._all[holding.key] = self._here[holding.lease_id] = holding
        self.become(holding, holding.phase, holding.since_ms, holding.detail)

    def enter_unknown(self, key: Key, machines: Sequence[Machine], now_ms: int) -> None:
        """Take machines in that nobody ordered: to be ended if they are out of date, else as they are.

        Whoever is not wanted here is stopped by the service, which knows.
        """
        lease_id, birth = key
        here = self._here.get(lease_id)
        is_past = birth <= self.last_gone(lease_id) or here is not None
        is_saved = all(machine.state is State.SAVED for machine in machines)
        goal = Goal.SAVED if is_saved else Goal.UP
        phase = Phase.SAVED if is_saved else Phase.STARTING
        found = Holding(lease_id, birth, birth, len(machines), 0, (), goal, phase, now_ms, begun=True)
        if is_past:
            found.goal = Goal.GONE
            self._all[key] = found
            self.touch(found)
        else:
            self.enter(found)

    def drop(self, holding: Holding) -> None:
        """Nothing is left of it."""
        del self._all[holding.key]
        self.touch(holding)

    def take_news(self) -> dict[int, Observation]:
        """Take what has changed since the last time that this was asked, by lease."""
        news, self._news = self._news, {}
        return news

    def take_unwritten(self) -> tuple[dict[Key, Holding | None], dict[int, int]]:
        """Take what has to be written down: holdings, and the last incarnations that went."""
        touched, self._touched = self._touched, set()
        went, self._went = self._went, set()
        return {key: self._all.get(key) for key in touched}, {lease: self._gone[lease] for lease in went}

    def is_unwritten(self, keys: Iterable[Key], leases: Iterable[int]) -> None:
        """What was taken to be written down could not be."""
        self._touched.update(keys)
        self._went.update(leases)

    # which orders are followed

    def follow(self, order: Order, now_ms: int) -> Problem | None:
        """Follow an order; returns why it is not taken on."""
        here = self._here.get(order.lease_id)
        if order.verb is Verb.STOP:
            self._give_up_sending(order)
        if self._is_past(order, here):
            return None
        return self._cannot(order) or self._ways[order.verb](order, here, now_ms)

    def _is_past(self, order: Order, here: Holding | None) -> bool:
        if order.incarnation <= self.last_gone(order.lease_id):
            return True
        if here is None or order.incarnation > here.incarnation:
            return False
        return order.incarnation < here.incarnation or order.verb in _BRINGS_UP

    def _cannot(self, order: Order) -> Problem | None:
        if order.verb in {Verb.SUSPEND, Verb.RESUME} and not self._able.suspend:
            return Problem("these machines cannot be suspended", again=False)
        if order.verb in {Verb.SEND, Verb.RECEIVE} and not self._able.migrate:
            return Problem("these machines cannot be moved", again=False)
        if order.verb is Verb.START and order.command and not self._able.commands:
            return Problem("these machines cannot run commands", again=False)
        return None

    def _no_room_for(self, vms: int) -> Problem | None:
        used_vms = sum(one.room_vms for one in self._here.values())
        return no_room_for(vms, used_vms, self.slots)

    # how each is followed

    def _start(self, order: Order, here: Holding | None, now_ms: int) -> Problem | None:
        return self._take_in(order, here, Phase.STARTING, now_ms)

    def _receive(self, order: Order, here: Holding | None, now_ms: int) -> Problem | None:
        return self._take_in(order, here, Phase.RECEIVING, now_ms)

    def _take_in(self, order: Order, here: Holding | None, phase: Phase, now_ms: int) -> Problem | None:
        if here is not None:
            return Problem(f"incarnation {here.incarnation} of lease {order.lease_id} is {here.phase} here")
        problem = _impossible(order) or self._no_room_for(order.vms)
        if problem is None:
            self.enter(Holding.ordered(order, phase, now_ms))
        return problem

    def _suspend(self, order: Order, here: Holding | None, now_ms: int) -> Problem | None:
        if here is None or here.incarnation < order.incarnation:
            return Problem(f"incarnation {order.incarnation} of lease {order.lease_id} is not here yet")
        if here.phase not in OVER and here.goal is Goal.UP:
            here.goal = Goal.SAVED
            self.become(here, Phase.SAVING, now_ms)
        return None

    def _resume(self, order: Order, here: Holding | None, now_ms: int) -> Problem | None:
        if here is not None and here.phase is Phase.ENDED:
            # It ended in the moment when it was to be suspended, and so has nothing more to do.
            here.incarnation, here.since_ms = order.incarnation, now_ms
            self.become(here, Phase.ENDED, now_ms, here.detail)
            return None
        if here is None or here.phase in OVER:
            return Problem(f"no memory of lease {order.lease_id} is saved here", again=False)
        if here.phase is not Phase.SAVED:
            return Problem(f"the memory of lease {here.lease_id} is not saved: it is {here.phase}")
        problem = self._no_room_for(here.vms)
        if problem is None:
            here.incarnation, here.goal = order.incarnation, Goal.UP
            self.become(here, Phase.RESUMING, now_ms)
        return problem

    def _send(self, order: Order, here: Holding | None, _now_ms: int) -> None:
        self._let_go(order, here, Goal.AWAY)

    def _stop(self, order: Order, here: Holding | None, _now_ms: int) -> None:
        self._let_go(order, here, Goal.GONE)

    def _let_go(self, order: Order, here: Holding | None, goal: Goal) -> None:
        """Remember that this incarnation, and all before, are not wanted here again."""
        self._gone.pop(order.lease_id, None)
        self._gone[order.lease_id] = order.incarnation
        self._went.add(order.lease_id)
        if len(self._gone) > REMEMBERED:
            del self._gone[next(iter(self._gone))]
        if here is not None:
            here.goal, here.other_site = goal, order.other_site
            del self._here[here.lease_id]
            self._news.pop(here.lease_id, None)
            self.touch(here)

    def _give_up_sending(self, order: Order) -> None:
        for one in self._all.values():
            if one.lease_id == order.lease_id and one.goal is Goal.AWAY and one.incarnation <= order.incarnation:
                one.goal = Goal.GONE
                self.touch(one)


def _impossible(order: Order) -> Problem | None:
    """Say what is wished for that machines cannot have which are made where and as their world likes."""
    if order.on.nodes:
        return Problem(f"there is no node {order.on.nodes[0]} here", again=False)
    if order.on.image:
        return Problem(f"there is no image {order.on.image} here", again=False)
    return None
