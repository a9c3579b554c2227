"""The process that is killed: a federation that is told what to do through a pipe, and says what came of it.

Nothing is faked in it but the mines: store, engine, reconcilers and machines are the real ones.
"""

import asyncio
import faulthandler
import os
import sys
import traceback
from dataclasses import dataclass
from enum import Enum, auto
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path

from tests.service.crash.federation import Place, clock, config
from tests.service.crash.mines import Mine, MinedDriver, MinedStore, Spot

from leasehold.model.errors import LeaseholdError
from leasehold.service.commands import (
    Cancel,
    Command,
    Drain,
    Extend,
    ProposeAgreement,
    PublishAgreement,
    ResumeAgreement,
    RevokeAgreement,
    SignAgreement,
    Submit,
    SuspendAgreement,
    Undrain,
)
from leasehold.service.drivers.protocol import Observation
from leasehold.service.drivers.registry import DRIVERS
from leasehold.service.federation import Federation
from leasehold.service.metrics import Metrics
from leasehold.service.store.filters import EVERYTHING, LeaseFilter
from leasehold.service.store.rows import AgreementRow, JournalRow, LeaseRow, OrderRow

_MOVES = (
    ProposeAgreement,
    SignAgreement,
    PublishAgreement,
    SuspendAgreement,
    ResumeAgreement,
    RevokeAgreement,
)
_PAGE = 500
_ALL = 1_000_000


class Ask(Enum):
    """What a gateway is asked besides commands."""

    LOOK = auto()
    """How is everything? The answer is a `Look`."""
    STOP = auto()
    """Stop in good order."""


@dataclass(frozen=True, slots=True)
class Told:
    """A command or a question; the answer carries its ``number``."""

    number: int
    what: Command | Ask


@dataclass(frozen=True, slots=True)
class No:
    """An answer that is a no: why."""

    why: str


@dataclass(frozen=True, slots=True)
class Said:
    """An answer."""

    number: int
    answer: object


@dataclass(frozen=True, slots=True)
class Ready:
    """The federation serves, having kept its promises so far."""


@dataclass(frozen=True, slots=True)
class Lines:
    """What stands in the journal, as whoever listens to changes is told."""

    rows: list[JournalRow]


@dataclass(frozen=True, slots=True)
class Look:
    """Everything at one moment: leases as stored, orders not confirmed, machines, and what is wrong."""

    leases: list[LeaseRow]
    orders: list[OrderRow]
    machines: dict[str, list[Observation]]
    drained: set[str]
    agreements: list[AgreementRow]
    wrong: str


def be_gateway(connection: Connection, place: Place, policy: str, after_seq: int, mine: Mine) -> None:
    """Serve until told to stop, or until the pipe breaks."""
    log_errors(place.log)
    DRIVERS["emulated"] = partial(MinedDriver, mine=mine)
    try:
        asyncio.run(_Gateway(connection, place, policy, mine).serve(after_seq))
    except BaseException:
        traceback.print_exc()
        raise


def log_errors(path: Path) -> None:
    """Let whatever goes wrong in this process be read afterwards."""
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(file, sys.stderr.fileno())
    os.close(file)
    faulthandler.enable()


class _Gateway:
    def __init__(self, connection: Connection, place: Place, policy: str, mine: Mine) -> None:
        self._connection = connection
        self._place = place
        self._config = config(policy)
        self._mine = mine
        self._over = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()

    async def serve(self, after_seq: int) -> None:
        with MinedStore(self._place.store_url, self._mine) as store:
            folder = self._place.folder
            async with Federation.open(self._config, store, folder, clock, Metrics()) as federation:
                self._connection.send(Ready())
                following = asyncio.create_task(self._follow(federation, after_seq))
                reading = partial(self._read, federation)
                asyncio.get_running_loop().add_reader(self._connection.fileno(), reading)
                await self._over.wait()
                asyncio.get_running_loop().remove_reader(self._connection.fileno())
                following.cancel()
                await asyncio.gather(following, *self._tasks, return_exceptions=True)
        self._connection.close()

    def _read(self, federation: Federation) -> None:
        try:
            while self._connection.poll():
                task = asyncio.create_task(self._answer(federation, self._connection.recv()))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)
        except EOFError:
            self._over.set()

    async def _answer(self, federation: Federation, told: Told) -> None:
        if told.what is Ask.STOP:
            self._over.set()
            return
        answer: object
        try:
            answer = await _obey(federation, told.what)
        except LeaseholdError as error:
            answer = No(str(error))
        self._mine.passed(Spot.ANSWERING)
        self._connection.send(Said(told.number, answer))

    async def _follow(self, federation: Federation, after_seq: int) -> None:
        while True:
            await federation.feed.wait(after_seq)
            rows = await asyncio.to_thread(federation.store.journal, after_seq, _PAGE)
            after_seq = rows[-1].seq
            self._connection.send(Lines(rows))


async def _obey(federation: Federation, what: Command | Ask) -> object:
    match what:
        case Submit():
            return await federation.submit(what)
        case Cancel():
            return await federation.cancel(what.lease_id)
        case Extend():
            return await federation.extend(what.lease_id, what.by_ms)
        case Drain():
            await federation.sites.drain(what.site, what.by)
        case Undrain():
            await federation.sites.undrain(what.site, what.by)
        case Ask.LOOK:
            return await _look(federation)
        case _ if isinstance(what, _MOVES):
            return await federation.do(what)
        case _:
            raise AssertionError(what)
    return None


async def _look(federation: Federation) -> Look:
    wrong = ""
    try:
        await federation._engine_thread.ask(lambda engine: engine.check())
    except LeaseholdError as error:
        wrong = str(error)
    machines = {name: await reconciler.driver.observe() for name, reconciler in federation._reconcilers.items()}
    drained = {state.name for state in await federation.sites.list() if state.status == "drained"}
    # last, and sent without another pause: so nothing that was told of before is newer than this
    leases, orders = federation.store.leases(LeaseFilter(EVERYTHING), _ALL), federation.store.open_orders()
    agreements = federation.store.agreements()
    return Look(leases, orders, machines, drained, agreements, wrong or federation.health.broken)
