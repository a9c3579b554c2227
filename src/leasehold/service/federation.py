"""One live federation: what the API, and nothing else, calls.

Opening it reads the store, looks at every site's machines, plans on, checks every promise, and only then is
it ready. Closing it finishes what was begun; machines go on without us.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Self, TypeVar, cast

from leasehold.model.errors import InvariantBroken, LeaseholdError
from leasehold.model.event import SiteFellSilent
from leasehold.service.agreements import Agreements
from leasehold.service.commands import Cancel, Command, Drain, Extend, ForgetSite, Happened, Submit, Undrain
from leasehold.service.config import ServiceConfig
from leasehold.service.driver import Clock, Driver
from leasehold.service.enactment.courier import Courier
from leasehold.service.enactors.protocol import Enactor
from leasehold.service.engine.engine import Done, Engine
from leasehold.service.engine.sites import leases_by_site_and_state, occupancies, overhead_factors
from leasehold.service.errors import CannotForget, NoSuchLease, NoSuchSite
from leasehold.service.feed import Feed
from leasehold.service.finding.scouts import Scouts, job_setup
from leasehold.service.jobs import Jobs
from leasehold.service.letters.post import PostOffice, identity_of
from leasehold.service.letters.wire import About
from leasehold.service.metrics import Metrics
from leasehold.service.opening import check_sites, make_gateway, open_enactors, own_queues
from leasehold.service.peers.peers import Peers
from leasehold.service.site_states import SiteState, SiteStates
from leasehold.service.standing import Standing
from leasehold.service.store.rows import LeaseRow, OrderRow, SiteRow
from leasehold.service.store.store import Store

LISTEN_EVERY_S = 10.0
TIDY_EVERY_S = 3_600.0
KEEP_MS = 7 * 86_400_000
"""How long an answer is remembered for its Idempotency-Key, and an order that was carried out."""

STOPPING = "stopping"

T = TypeVar("T")


@dataclass(slots=True)
class Health:
    """How the service itself is.

    ``ready``    whether requests can be decided now; ``why_not`` says why they cannot
    ``broken``   the first promise that was found broken, "" while all hold
    """

    ready: bool = False
    why_not: str = "still starting"
    broken: str = ""

    @property
    def alive(self) -> bool:
        """Whether the process is worth keeping."""
        return not self.broken


class Federation:
    """A gateway with its sites, at work. Made by `Federation.open`."""

    def __init__(
        self,
        config: ServiceConfig,
        store: Store,
        enactors: Mapping[str, Enactor],
        clock: Clock,
        metrics: Metrics,
        folder: Path,
    ) -> None:
        """Read the store and plan on; the store must be claimed. Raises what `Store` raises."""
        self.config = config
        self.store = store
        self.clock = clock
        self.metrics = metrics
        self.health = Health()
        self.feed = Feed(store.last_seq())
        self.identity = identity_of(store)
        can = {name: enactor.capabilities for name, enactor in enactors.items()}
        most_open = config.limits.open_requests_per_consumer or None
        setup = job_setup(config.jobs, enactors)
        engine = Engine(store, lambda: make_gateway(config, can), metrics, clock(), most_open, setup)
        self._driver = Driver(engine, clock, self._passed, self._in_trouble)
        look_every_s = config.service.reconcile_every_ms / 1000
        self._couriers = {
            name: Courier(name, enactor, self.do, clock, look_every_s) for name, enactor in enactors.items()
        }
        self._scouts = Scouts(enactors, self.do, clock, config.jobs)
        self._own_queues = own_queues(config, enactors, self.do)
        self._drained = {row["name"]: row for row in store.sites() if row["drained_ms"] is not None}
        self._standing = Standing()
        metrics.show(lambda: self._standing)
        self.post = PostOffice(self.do, store, clock)
        self._states = SiteStates(config, self._couriers, self._drained, self.post, clock)
        self.peers = Peers(self, folder)
        self.agreements = Agreements(self)
        self.jobs = Jobs(self)

    @classmethod
    @asynccontextmanager
    async def open(
        cls, config: ServiceConfig, store: Store, folder: Path, clock: Clock, metrics: Metrics
    ) -> AsyncIterator[Self]:
        """Open a federation and close it in the end; ``folder`` has machines, and tokens of peers.

        Raises InputError where the store is in use by another gateway, or names a site that the
        configuration has not; InvariantBroken where what it holds cannot be true.
        """
        store.claim()
        check_sites(config, store)
        enactors = open_enactors(config, folder, clock)
        try:
            federation = cls(config, store, enactors, clock, metrics, folder)
            async with federation._at_work():
                yield federation
        finally:
            for enactor in enactors.values():
                await enactor.close()

    @asynccontextmanager
    async def _at_work(self) -> AsyncIterator[None]:
        surveys = await asyncio.gather(*(courier.look() for courier in self._couriers.values()))
        # asked before the driver begins: what has become of the machines meanwhile is known to its first step
        news = asyncio.gather(*(self.do(survey) for survey in surveys if survey is not None))
        driving = asyncio.create_task(self._driver.run())
        helping: list[asyncio.Task[None]] = []
        try:
            await news
            await self._begin()
            helping = [asyncio.create_task(courier.run()) for courier in self._couriers.values()]
            self._scouts.begin()
            helping += [asyncio.create_task(queue.run()) for queue in self._own_queues]
            helping.append(asyncio.create_task(self._check_now_and_then()))
            helping.append(asyncio.create_task(self._listen_for_silence()))
            helping.append(asyncio.create_task(self._tidy_now_and_then()))
            await self.peers.open()
            yield
        finally:
            self.health.ready, self.health.why_not = False, STOPPING
            await self.peers.close()
            await self._scouts.close()
            for task in helping:
                task.cancel()
            await asyncio.gather(*helping, return_exceptions=True)
            self._driver.stop()
            await driving

    async def _begin(self) -> None:
        """Check every promise, and be ready."""
        await self._driver.ask(lambda engine: engine.check())
        await self._look_around()
        self.health.ready, self.health.why_not = True, ""

    def _passed(self, done: Done) -> None:
        """A step is in the store: tell who waits for news, and send its orders out."""
        self.feed.advance(done.last_seq)
        self.post.has_letters_to(done.letters_to)
        self._scouts.send(done.errands)
        by_site: dict[str, list[OrderRow]] = {}
        for row in done.orders:
            by_site.setdefault(row["site"], []).append(row)
        for site, rows in by_site.items():
            if site in self._couriers:  # else it was taken out of the configuration, with orders left to stop
                self._couriers[site].deliver(rows)

    def _in_trouble(self, why: str) -> None:
        """Nothing can be decided now, or (with "") something can again; `_at_work` has the last word."""
        if self.health.why_not != STOPPING:
            self.health.ready, self.health.why_not = not why, why

    async def _tidy_now_and_then(self) -> None:
        """Let go of what nobody will ask for again, a little at a time."""
        while True:
            before_ms = self.clock() - KEEP_MS
            with suppress(LeaseholdError):
                while await self._driver.ask(lambda engine: engine.tidy(before_ms)):  # noqa: B023 - asked now
                    pass
            await asyncio.sleep(TIDY_EVERY_S)

    async def _check_now_and_then(self) -> None:
        every_s = self.config.service.check_every_ms / 1000
        while every_s:
            await asyncio.sleep(every_s)
            try:
                await self._driver.ask(lambda engine: engine.check())
            except InvariantBroken as error:
                self.health.broken = self.health.broken or str(error)
            except LeaseholdError:
                continue  # the store does not answer now

    async def _listen_for_silence(self) -> None:
        """Send nothing more to sites that have not been heard of for too long."""
        while True:
            await asyncio.sleep(LISTEN_EVERY_S)
            with suppress(LeaseholdError):  # where the store does not answer now, the next time will do
                await self._mark_the_silent()

    async def _mark_the_silent(self) -> None:
        remotes = await self._driver.ask(lambda engine: list(engine.gateway.desk.remotes.values()))
        for remote in remotes:
            if not remote.silent and self.post.is_silent(remote.name):
                await self.do(Happened(SiteFellSilent(remote.name)))

    # Leases

    async def do(self, command: Command) -> object:
        """Ask the engine; raises what it answers with."""
        return await self._driver.do(command)

    async def ask(self, question: Callable[[Engine], T]) -> T:
        """Look at the engine between two steps."""
        return await self._driver.ask(question)

    async def submit(self, request: Submit) -> tuple[LeaseRow, bool]:
        """Take a request in; True with it if it is new, False if it came before under the same key."""
        return cast("tuple[LeaseRow, bool]", await self.do(request))

    async def cancel(self, lease_id: int) -> LeaseRow:
        """Take a lease back; one that is over stays as it is. Raises NoSuchLease."""
        return cast("LeaseRow", await self.do(Cancel(lease_id)))

    async def extend(self, lease_id: int, by_ms: int) -> LeaseRow:
        """Let a lease last longer; raises NoSuchLease, Closed, CannotExtend, InvalidField."""
        return cast("LeaseRow", await self.do(Extend(lease_id, by_ms)))

    async def console(self, lease_id: int) -> str:
        """Give what a lease's machines have written; raises NoSuchLease, Unavailable."""
        row = await asyncio.to_thread(self.store.lease, lease_id)
        if row is None:
            raise NoSuchLease(lease_id)
        courier = self._couriers.get(row["site"])
        return "" if courier is None else await courier.console(lease_id)

    # Sites

    async def drain(self, site: str, by: str, note: str = "") -> None:
        """Lend nothing more at a site; raises NoSuchSite."""
        await self.do(Drain(site, by, note))
        row: SiteRow = {"name": site, "drained_ms": self.clock(), "drained_by": by, "note": note}
        self._drained[site] = row

    async def undrain(self, site: str, by: str) -> None:
        """Lend again; raises NoSuchSite."""
        await self.do(Undrain(site, by))
        self._drained.pop(site, None)

    async def forget(self, site: str, by: str) -> None:
        """Let go of a site that decides for itself and will not come back; what is there has failed.

        Raises NoSuchSite, and CannotForget for one that may still be there.
        """
        state = await self.site(site)
        if site not in self._couriers and not self.post.is_silent(site):
            raise CannotForget(site, f"it is {state.status}; wait until it has been silent for a minute")
        await self.do(ForgetSite(site, by))
        self._drained.pop(site, None)

    async def site(self, name: str) -> SiteState:
        """Look at one site; raises NoSuchSite."""
        for state in await self.sites():
            if state.name == name:
                return state
        raise NoSuchSite(name)

    async def sites(self) -> list[SiteState]:
        """Look at all sites, in the order of the configuration; peers are none."""
        now = await self._driver.ask(lambda engine: occupancies(engine.gateway))
        own = [self._states.own(name, now[name]) for name in self._couriers]
        abouts = await self._driver.ask(lambda engine: dict(engine.handlers.correspondence.abouts))
        remotes = {name: about for name, about in abouts.items() if not about.is_gateway}
        return own + [self._states.remote(name, about) for name, about in remotes.items()]

    async def about(self) -> About:
        """Say of the one site here what its gateway is to know."""
        (spec,) = self.config.clusters
        now = (await self._driver.ask(lambda engine: occupancies(engine.gateway)))[spec.name]
        can = self._couriers[spec.name].enactor.capabilities
        return About(
            identity=self.identity,
            slots=spec.slots,
            speed_mips=spec.terms.speed_mips,
            reference_mips=self.config.service.reference_mips,
            enactor=spec.enactor,
            can_suspend=can.suspend,
            can_migrate=can.migrate,
            lends=spec.name not in self._drained,
            local_vms=now.local_vms,
            guest_vms=now.guest_vms,
            waiting_local=now.waiting_local,
            waiting_guests=now.waiting_guests,
            waiting_local_vms=now.waiting_local_vms,
            waiting_guest_vms=now.waiting_guest_vms,
        )

    # Metrics

    async def render_metrics(self) -> tuple[bytes, str]:
        """Give all metrics as they are now, and the type of that content."""
        await self._look_around()
        return self.metrics.render()

    async def _look_around(self) -> None:
        """Let the gauges show how things stand."""
        self._standing = await self._driver.ask(self._stand)

    def _stand(self, engine: Engine) -> Standing:
        vms: dict[tuple[str, str], int] = {}
        for name, now in occupancies(engine.gateway).items():
            vms |= {
                (name, "local"): now.local_vms,
                (name, "guest"): now.guest_vms,
                (name, "free"): now.free_vms,
            }
        orders: dict[tuple[str, str], int] = {}
        for row in engine.outbox:
            orders[row["site"], row["status"]] = orders.get((row["site"], row["status"]), 0) + 1
        up = {name: self._states.is_up(name) for name in self._couriers}
        factors = overhead_factors(engine.gateway)
        agreements, penalties = engine.handlers.agreements.count(self.clock())
        leases = leases_by_site_and_state(engine.gateway)
        jobs = Counter(record.state.value for record in engine.handlers.jobs.desk.records.values())
        return Standing(leases, vms, orders, up, factors, jobs, agreements, penalties)
