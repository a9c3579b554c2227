"""A live gateway whose clock is moved by hand: the service's engine and store, and emulated machines.

::

    with open_store(url) as store:
        live = Live(store, make_gateway, {"a": machines})
        [(row, is_new)] = live.do(submit("physics", LeaseType.SUSPENDABLE, 2, 60_000))
        live.pass_time(60_000)

Nothing here waits or runs beside anything else: the engine receives every event at the
instant it happens, orders reach machines at once, and their results are processed before time advances. A gateway in
a process of its own does the same, with delays and in several steps.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from leasehold.gateway.gateway import Gateway
from leasehold.service.commands import Command, Observed, OrdersSent, SiteObserved
from leasehold.service.drivers.emulated.fault_injection import Faults, Line
from leasehold.service.drivers.emulated.machines import EmulatedMachines
from leasehold.service.drivers.protocol import Problem
from leasehold.service.engine.engine import Done, Engine
from leasehold.service.engine.jobs import JobSetup
from leasehold.service.engine.tasks import BackgroundTasks
from leasehold.service.engine.timers import START_WITHIN_MS
from leasehold.service.metrics import Metrics
from leasehold.service.site_reconciler import room_first
from leasehold.service.store.rows import OrderRow
from leasehold.service.store.store import Store

BEGIN_MS = 1_800_000_000_000
"""15 January 2027, 08:00 UTC: the default start time of a live gateway."""

_MOST_STEPS = 100
_SILENCE = Problem("the site does not answer")


class LiveSite:
    """The machines of one site, the wire to them, and the orders that are on their way.

    ``is_cut``  whether the connection to the site is cut
    """

    def __init__(self, name: str, machines: EmulatedMachines, faults: Faults | None = None) -> None:
        self.name = name
        self.machines = machines
        self.line = Line(faults or Faults(), name)
        self.is_cut = False
        self._orders: dict[str, OrderRow] = {}

    def deliver(self, rows: Sequence[OrderRow]) -> None:
        """Queue orders; a stop replaces all pending orders of its lease."""
        for row in rows:
            if row.order.verb == "stop":
                self._orders = {i: o for i, o in self._orders.items() if o.order.lease_id != row.order.lease_id}
            self._orders[row.order.id] = row

    def forget_orders(self) -> None:
        """Drop all undelivered orders, as a killed gateway does."""
        self._orders.clear()

    def tell(self, now_ms: int) -> Iterator[Command]:
        """Tell the orders that are due, and give what became of them."""
        due = [row for row in self._orders.values() if row.next_try_ms <= now_ms]
        if not due:
            return
        for row in due:
            del self._orders[row.order.id]
        orders = [row.order for row in room_first(due)]
        names = tuple(order.id for order in orders)
        if self.is_cut:
            yield OrdersSent(self.name, names, dict.fromkeys(names, _SILENCE), answered=False)
        else:
            yield OrdersSent(self.name, names, self.machines.carry_out(orders, now_ms))

    def news(self, now_ms: int) -> Iterator[Command]:
        """Let time pass for the machines, and give what is heard of them."""
        self.line.send(self.machines.pass_time(now_ms), now_ms)
        heard = () if self.is_cut else tuple(self.line.receive(now_ms))
        if heard:
            yield Observed(self.name, heard)

    def look(self, now_ms: int) -> Iterator[Command]:
        """Look at the whole site."""
        if not self.is_cut:
            self.machines.pass_time(now_ms)
            yield SiteObserved(self.name, tuple(self.machines.observe()), now_ms)

    def next_ms(self) -> int | None:
        """When something happens here by itself."""
        times = [row.next_try_ms for row in self._orders.values()]
        times += [at for at in (self.machines.next_change_ms(), self._next_arrival_ms()) if at is not None]
        return min(times, default=None)

    def _next_arrival_ms(self) -> int | None:
        return None if self.is_cut else self.line.next_arrival_ms()


class Live:
    """An engine at work. ``look_every_ms``: how often sites are looked at as a whole; None: on demand.

    ``setup`` concerns jobs, and ``tasks`` is what is to be done for them outside the engine, by whoever uses this.
    """

    def __init__(  # noqa: PLR0913 - what an engine takes, and what it works with
        self,
        store: Store,
        make_gateway: Callable[[], Gateway],
        machines: Mapping[str, EmulatedMachines],
        *,
        begin_ms: int = BEGIN_MS,
        faults: Faults | None = None,
        look_every_ms: int | None = None,
        most_open: int | None = None,
        start_within_ms: int = START_WITHIN_MS,
        setup: JobSetup | None = None,
    ) -> None:
        """Begin with what is in the store."""
        self.tasks = BackgroundTasks()
        self._setup = setup
        self.now_ms = begin_ms
        self.store = store
        self.metrics = Metrics()
        self.sites = {name: LiveSite(name, one, faults) for name, one in machines.items()}
        self._untold: list[Command] = []
        self._make_gateway = make_gateway
        self._most_open = most_open
        self._start_within_ms = start_within_ms
        self._look_every_ms = look_every_ms
        self._next_look_ms = None if look_every_ms is None else begin_ms + look_every_ms
        self.restart()

    @property
    def gateway(self) -> Gateway:
        """The decision core as it is now."""
        return self.engine.gateway

    def restart(self) -> None:
        """Discard everything that is not in the store, and continue from there."""
        for site in self.sites.values():
            site.forget_orders()
        make_gateway, now_ms = self._make_gateway, self.now_ms
        self.tasks = BackgroundTasks()
        self.engine = Engine(
            self.store,
            make_gateway,
            self.metrics,
            now_ms,
            self._most_open,
            self._setup,
            start_within_ms=self._start_within_ms,
        )
        self._next_alarm_ms: int | None = now_ms

    def do(self, *commands: Command) -> list[Any]:
        """Ask for these now, in one step, together with what machines have to tell; gives their answers."""
        return self._happen(commands)

    def at(self, at_ms: int, *commands: Command) -> list[Any]:
        """Let time pass until then, and ask for these in that very instant."""
        self.pass_time_until(at_ms - 1)
        self.now_ms = at_ms
        return self._happen(commands)

    def look(self) -> None:
        """Look at every site now."""
        self._happen([survey for site in self.sites.values() for survey in site.look(self.now_ms)])

    def pass_time(self, for_ms: int) -> None:
        """Let everything happen that happens by itself in this time."""
        self.pass_time_until(self.now_ms + for_ms)

    def pass_time_until(self, until_ms: int) -> None:
        """Let everything happen that happens by itself up to then, and at that very instant."""
        for _ in self.instants(until_ms):
            pass

    def instants(self, until_ms: int) -> Iterator[int]:
        """Go from instant to instant; yields the time of each once everything of it has happened."""
        while (at_ms := self.next_ms()) is not None and at_ms <= until_ms:
            self.now_ms = max(self.now_ms, at_ms)
            if self._next_look_ms is not None and self._next_look_ms <= self.now_ms:
                assert self._look_every_ms is not None
                self._next_look_ms = self.now_ms + self._look_every_ms
                self.look()
            else:
                self._happen(())
            yield self.now_ms
        self.now_ms = until_ms

    def next_ms(self) -> int | None:
        """When something happens by itself; None where everything is over."""
        times = [self._next_alarm_ms, self._next_look_ms, *(site.next_ms() for site in self.sites.values())]
        return min((at_ms for at_ms in times if at_ms is not None), default=None)

    # How an instant goes

    def _happen(self, commands: Sequence[Command]) -> list[Any]:
        """Process all events of the instant with the given commands, then their consequences to the end.

        Raises Unavailable where the engine does; the events are delivered again at the next step.
        """
        news = [*self._untold, *self._news()]
        self._untold = news
        answers = self._step([*news, *commands]).answers[len(news) :]
        self._untold = []
        for _ in range(_MOST_STEPS):
            consequences = [*self._tell(), *self._news()]
            is_due = self._next_alarm_ms is not None and self._next_alarm_ms <= self.now_ms
            if not consequences and not is_due:
                return answers
            self._step(consequences)
        raise AssertionError(f"the instant {self.now_ms} never ends")

    def _news(self) -> list[Command]:
        return [news for site in self.sites.values() for news in site.news(self.now_ms)]

    def _tell(self) -> list[Command]:
        return [command for site in self.sites.values() for command in site.tell(self.now_ms)]

    def _step(self, commands: Sequence[Command]) -> Done:
        done = self.engine.step(commands, self.now_ms)
        for command, answer in zip(commands, done.answers, strict=True):
            if isinstance(command, Observed | SiteObserved | OrdersSent) and isinstance(answer, Exception):
                raise answer  # otherwise it would be lost
        self._next_alarm_ms = done.next_alarm_ms
        self.tasks = BackgroundTasks.together((self.tasks, done.tasks))
        for name, site in self.sites.items():
            site.deliver([row for row in done.orders if row.site == name])
        return done
