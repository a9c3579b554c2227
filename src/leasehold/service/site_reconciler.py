"""The reconciler of one site: sends its orders to its driver, and reports to the engine what the driver observes.

Three things run side by side: orders are sent (repeated, with growing pauses, until they are taken on), changes are
reported as they happen, and from time to time the whole site is observed and compared with what should be there, which
makes up for whatever the other two have missed. That a site falls silent, and that it answers again, is reported to the
engine and logged once each.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from operator import attrgetter
from typing import TypeVar

import structlog

from leasehold.jobs.job import Fault
from leasehold.service.commands import (
    Command,
    MachinesAnswer,
    MachinesSilent,
    Observed,
    OrdersSent,
    SiteObserved,
)
from leasehold.service.drivers.facts import Access, HasOutput, LetsIn, Output
from leasehold.service.drivers.protocol import Driver, Observation, Order, Problem, Verb
from leasehold.service.drivers.staging import CannotBring, Staging
from leasehold.service.engine_thread import Clock
from leasehold.service.errors import Unavailable
from leasehold.service.store.rows import OrderRow

MOST_AT_ONCE = 256
ANSWER_WITHIN_S = 60.0
CONSOLE_WITHIN_S = 10.0
SILENT_AFTER_MS = 90_000
"""A site whose driver has not answered for so long, or never, is unreachable: it gets no guests."""
_OBSERVE_SILENT_S = 5.0
_CHECK_SILENCE_S = 1.0
_PAUSE_S = 1.0
_OBSERVE_SOON_S = 2.0

Do = Callable[[Command], Awaitable[object]]
T = TypeVar("T")
_MAKES_ROOM = frozenset({Verb.SUSPEND, Verb.SEND, Verb.STOP})


class SiteReconciler:
    """Reconciles one site.

    ``problem``        why its driver does not answer; empty while it does
    ``order_problem``  what was wrong with the order that failed last; empty once orders are taken on again
    ``last_seen_ms``   when its driver last answered
    """

    def __init__(
        self,
        site: str,
        driver: Driver,
        do: Do,
        clock: Clock,
        observe_every_s: float,
        staging: Staging | None = None,
    ) -> None:
        """``staging`` brings inputs to the site; None: it takes no files."""
        self.site = site
        self.driver = driver
        self.problem = ""
        self.order_problem = ""
        self.last_seen_ms: int | None = None
        self._is_reported_silent = False
        self._do = do
        self._clock = clock
        self._observe_every_s = observe_every_s
        self._waiting: dict[str, OrderRow] = {}
        self._waiting_of: dict[int, set[str]] = {}
        self._has_orders = asyncio.Event()
        self._observe_soon = asyncio.Event()
        self._staging = staging
        self._bringing: dict[int, str] = {}
        """Of leases whose inputs are being brought, the START that waits for them."""
        self._transfers: set[asyncio.Task[None]] = set()

    def deliver(self, rows: Iterable[OrderRow]) -> None:
        """Accept orders; they are sent in this sequence, and those of one lease never out of order."""
        for row in rows:
            if row.order.verb == Verb.STOP:
                self._bringing.pop(row.order.lease_id, None)
                for order in self._waiting_of.pop(row.order.lease_id, ()):
                    del self._waiting[order]
            self._waiting[row.order.id] = row
            self._waiting_of.setdefault(row.order.lease_id, set()).add(row.order.id)
        self._has_orders.set()

    @property
    def is_silent(self) -> bool:
        """Whether the site is unreachable: its driver fails, and has not answered for long, or never."""
        seen_ms = self.last_seen_ms
        return bool(self.problem) and (seen_ms is None or self._clock() - seen_ms > SILENT_AFTER_MS)

    async def report_silence(self) -> None:
        """Report, and log, that the driver has fallen silent or answers again; each once."""
        is_silent, problem = self.is_silent, self.problem
        if is_silent is self._is_reported_silent:
            return
        news = MachinesSilent(self.site, problem) if is_silent else MachinesAnswer(self.site)
        if not await self._report(news):
            return  # reported again in a moment
        self._is_reported_silent = is_silent
        log = structlog.get_logger("leasehold.reconciler").bind(site=self.site)
        if is_silent:
            log.warning("site does not answer", problem=problem)
        else:
            log.warning("site answers again")

    async def observe(self) -> SiteObserved | None:
        """Observe the whole site; None if the driver does not answer."""
        asked_ms = self._clock()
        seen = await self._answer_within(self.driver.observe())
        return None if seen is None else SiteObserved(self.site, tuple(seen), asked_ms)

    async def console(self, lease_id: int) -> str:
        """Return what the machines of a lease have written, the last 4 MiB of it as text that can be sent.

        Raises Unavailable if the driver does not answer.
        """
        if not self.is_silent:
            text = await self._answer_within(self.driver.console(lease_id), CONSOLE_WITHIN_S)
            if text is not None:
                return Output(text).text
        raise self._unavailable()

    async def access(self, lease_id: int) -> Sequence[Access]:
        """Say where the user of a lease can log in to its machines; raises Unavailable."""
        if not isinstance(self.driver, LetsIn):
            return ()
        if not self.is_silent:
            places = await self._answer_within(self.driver.access(lease_id), CONSOLE_WITHIN_S)
            if places is not None:
                return places
        raise self._unavailable()

    async def output(self, lease_id: int) -> Output:
        """Return what the command of a lease has written so far; where that is not kept apart, the console.

        Raises Unavailable if the driver does not answer.
        """
        if not isinstance(self.driver, HasOutput):
            return Output(await self.console(lease_id), is_whole=False)
        if not self.is_silent:
            wrote = await self._answer_within(self.driver.output(lease_id), CONSOLE_WITHIN_S)
            if wrote is not None:
                return wrote
        raise self._unavailable()

    def _unavailable(self) -> Unavailable:
        return Unavailable(f"the machines of site {self.site} do not answer: {self.problem}")

    async def run(self) -> None:
        """Run until cancelled."""
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._send_orders())
                tasks.create_task(self._report_changes())
                tasks.create_task(self._observe_periodically())
                tasks.create_task(self._check_silence())
        finally:
            for transfer in self._transfers:
                transfer.cancel()
            await asyncio.gather(*self._transfers, return_exceptions=True)

    # Orders

    async def _send_orders(self) -> None:
        while True:
            await self._until_an_order_is_due()
            due = self._due()
            for row in [row for row in due if self._lacks_files(row.order)]:
                due.remove(row)
                self._begin_to_bring(row)
            if due:
                await self._send([row.order for row in due])

    # Files: inputs are at the site before its driver learns of the lease, and hold up no other

    def _lacks_files(self, order: Order) -> bool:
        return order.verb is Verb.START and bool(order.files) and order.id not in self._bringing.values()

    def _begin_to_bring(self, row: OrderRow) -> None:
        self._bringing[row.order.lease_id] = row.order.id
        transfer = asyncio.create_task(self._bring(row), name=f"inputs of lease {row.order.lease_id}")
        self._transfers.add(transfer)
        transfer.add_done_callback(self._transfers.discard)

    async def _bring(self, row: OrderRow) -> None:
        """Bring the inputs of a lease, and then start it; where it was stopped meanwhile, it is not started."""
        order, problem = row.order, None
        try:
            if self._staging is None:
                problem = Problem(f"site {self.site} takes no files", again=False)
            else:
                await self._staging.bring(order.files)
        except CannotBring as error:
            problem = Problem(str(error), again=error.again, fault="" if error.again else Fault.INPUT_GONE.value)
        except Exception as error:  # noqa: BLE001 - logged; the other leases go on
            structlog.get_logger("leasehold.reconciler").exception("failed to bring files", site=self.site)
            problem = Problem(f"its inputs cannot be brought: {type(error).__name__}: {error}")
        if self._bringing.get(order.lease_id) != order.id:
            return
        if problem is None:
            await self._send([order])
        else:
            self._note_problems([order], {order.id: problem})
            await self._report(OrdersSent(self.site, (order.id,), {order.id: problem}))
        self._bringing.pop(order.lease_id, None)
        self._has_orders.set()

    async def _until_an_order_is_due(self) -> None:
        self._has_orders.clear()
        wait_s: float | None = None
        next_due_ms = self._next_due_ms()
        if next_due_ms is not None:
            wait_s = max(0.0, (next_due_ms - self._clock()) / 1000)
        try:
            async with asyncio.timeout(wait_s):
                await self._has_orders.wait()
        except TimeoutError:
            pass

    def _next_due_ms(self) -> int | None:
        """When the first order of some lease is due; its later orders wait for that one. None where all wait."""
        firsts: dict[int, int] = {}
        for row in self._in_sequence():
            if row.order.lease_id not in self._bringing:
                firsts.setdefault(row.order.lease_id, row.next_try_ms)
        return min(firsts.values(), default=None)

    def _in_sequence(self) -> list[OrderRow]:
        return sorted(self._waiting.values(), key=attrgetter("created_ms"))

    def _due(self) -> list[OrderRow]:
        """Take out what is to be sent now."""
        now_ms = self._clock()
        due: list[OrderRow] = []
        waits = set(self._bringing)
        for row in self._in_sequence():
            if row.next_try_ms > now_ms or row.order.lease_id in waits or len(due) == MOST_AT_ONCE:
                waits.add(row.order.lease_id)
            else:
                due.append(row)
        for row in due:
            del self._waiting[row.order.id]
            of_lease = self._waiting_of[row.order.lease_id]
            of_lease.remove(row.order.id)
            if not of_lease:
                del self._waiting_of[row.order.lease_id]
        return room_first(due)

    async def _send(self, orders: Sequence[Order]) -> None:
        problems = await self._answer_within(self.driver.carry_out(orders))
        answered = problems is not None
        if problems is None:
            problems = {order.id: Problem(self.problem) for order in orders}
        else:
            self._note_problems(orders, problems)
        await self._report(OrdersSent(self.site, tuple(order.id for order in orders), problems, answered))
        if any(order.verb in (Verb.STOP, Verb.SEND) for order in orders):
            self._observe_soon.set()

    def _note_problems(self, orders: Sequence[Order], problems: Mapping[str, Problem]) -> None:
        failed = [order for order in orders if order.id in problems]
        self.order_problem = ""
        if failed:
            last = failed[-1]
            self.order_problem = f"{last.verb} of lease {last.lease_id}: {problems[last.id].text}"

    # Observations

    async def _report_changes(self) -> None:
        while True:
            changes = await self._changes()
            if changes is None:
                await asyncio.sleep(_PAUSE_S)
            elif changes:
                await self._report(Observed(self.site, tuple(changes)))

    async def _changes(self) -> Sequence[Observation] | None:
        """Wait for changes; that there are none does not show that the driver answers."""
        return await self._answer(self.driver.changes(), shows=bool)

    async def _check_silence(self) -> None:
        while True:
            await self.report_silence()
            await asyncio.sleep(_CHECK_SILENCE_S)

    async def _observe_periodically(self) -> None:
        while True:
            every_s = min(self._observe_every_s, _OBSERVE_SILENT_S) if self.is_silent else self._observe_every_s
            try:
                async with asyncio.timeout(every_s):
                    await self._observe_soon.wait()
                    await asyncio.sleep(min(_OBSERVE_SOON_S, self._observe_every_s))
            except TimeoutError:
                pass
            self._observe_soon.clear()
            survey = await self.observe()
            if survey is not None:
                await self._report_survey(survey)

    async def _report_survey(self, survey: SiteObserved) -> None:
        """Report very many observations a part at a time: requests come in between."""
        seen = survey.observations
        if len(seen) > MOST_AT_ONCE:
            for first in range(0, len(seen), MOST_AT_ONCE):
                if not await self._report(Observed(self.site, seen[first : first + MOST_AT_ONCE])):
                    return  # the site is observed again soon
            survey = replace(survey, is_known=True)
        await self._report(survey)

    # Shared

    async def _answer_within(self, answer: Awaitable[T], within_s: float = ANSWER_WITHIN_S) -> T | None:
        """Wait for an answer of the driver, but not for ever."""
        try:
            async with asyncio.timeout(within_s):
                return await self._answer(answer)
        except TimeoutError:
            self.problem = f"no answer within {within_s:g} s"
            return None

    async def _answer(self, answer: Awaitable[T], shows: Callable[[T], bool] = lambda _: True) -> T | None:
        """Wait for an answer; ``shows`` says whether this one shows that the driver answers."""
        try:
            value = await answer
        except Exception as error:  # noqa: BLE001 - a driver may fail in any way; the other sites continue
            self.problem = f"{type(error).__name__}: {error}"
            return None
        if shows(value):
            self.problem = ""
            self.last_seen_ms = self._clock()
        return value

    async def _report(self, command: Command) -> bool:
        """Report to the engine; returns whether it took that in. If not, the site is observed again soon."""
        try:
            await self._do(command)
        except Exception as error:
            if not isinstance(error, Unavailable):
                log = structlog.get_logger("leasehold.reconciler")
                log.exception("failed to apply observations", site=self.site)
            await asyncio.sleep(_PAUSE_S)
            self._observe_soon.set()
            return False
        return True


def room_first(rows: Sequence[OrderRow]) -> list[OrderRow]:
    """Put orders that make room before those that take it, as planning did; those of a lease keep their sequence."""
    leaving: list[OrderRow] = []
    coming: list[OrderRow] = []
    leases_coming: set[int] = set()
    for row in rows:
        if row.order.verb in _MAKES_ROOM and row.order.lease_id not in leases_coming:
            leaving.append(row)
        else:
            coming.append(row)
            leases_coming.add(row.order.lease_id)
    return leaving + coming
