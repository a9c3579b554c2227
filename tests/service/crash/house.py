"""A gateway, two site managers beside their clusters, people who ask all of them, and somebody who kills."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from random import Random

from tests.service.crash import evidence
from tests.service.crash.federation import MEMORY_MIB, SLOTS, config
from tests.service.crash.served import Line, Served
from tests.waiting import PATIENCE_S

from leasehold.client import AsyncClient, Change, Lease, LeaseSpec, TokenSpec
from leasehold.client import LeaseFilter as Which
from leasehold.model.lease import LeaseState
from leasehold.model.request import LEASE_TYPES, LeaseType
from leasehold.service.auth.principal import Role
from leasehold.service.commands import Submit
from leasehold.service.drivers.emulated.record import AuditLine, read_audit
from leasehold.service.store.filters import EVERYTHING, LeaseFilter
from leasehold.service.store.rows import LeaseRow
from leasehold.testing.rows import lease_row, submit

HOME = "a"
FAR = ("b", "c")
GATEWAY = "gateway"
_ALL = 1_000_000
_GUESTS = (LeaseType.CANCELABLE, LeaseType.SUSPENDABLE, LeaseType.SUSPENDABLE, LeaseType.MIGRATABLE)
_USERS = 4
_NOW_AND_THEN_S = 0.1


class House:
    """All processes of a federation; each may be killed."""

    def __init__(self, folder: Path, number: int) -> None:
        self.kills = 0
        self.served: dict[str, Served] = {}
        self.changes: list[Change] = []
        self._folder = folder
        self._random = Random(number)
        self._keys = 0
        self._storm = True

    # Opening

    @asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        """Start everybody; whatever happens, nobody is left behind."""
        try:
            gateway = self._start(GATEWAY, HOME)
            await gateway.ready()
            async with gateway.client() as operator:
                for site in FAR:
                    spec = TokenSpec(consumer=site, roles=[Role.PEER], sites=[site])
                    token = (await operator.tokens.create(spec)).token
                    await self._start(site, site, Line(gateway.url, token, site)).ready()
            yield
        finally:
            for served in self.served.values():
                served.leave()

    def _start(self, name: str, site: str, line: Line | None = None) -> Served:
        everybody = config("most-free")
        mine = tuple(cluster for cluster in everybody.clusters if cluster.name == site)
        self.served[name] = Served(replace(everybody, clusters=mine), self._folder / name, line)
        return self.served[name]

    # The storm

    async def rage(self, kills: int) -> None:
        """Let people ask while processes die, then let everything come to its end."""
        async with asyncio.TaskGroup() as tasks:
            follower = tasks.create_task(self._follow())
            users = [tasks.create_task(self._use()) for _ in range(_USERS)]
            while self.kills < kills:
                await self._kill_somebody()
            self._storm = False
            await asyncio.gather(*users)
            for served in self.served.values():
                await self._until_all_is_over(served)
            await self._until_all_is_told()
            follower.cancel()
        for served in self.served.values():
            served.stop()

    async def _kill_somebody(self) -> None:
        await asyncio.sleep(self._random.uniform(0, 0.5))
        name = self._random.choice((GATEWAY, GATEWAY, *FAR))
        victim = self.served[name]
        victim.kill()
        self.kills += 1
        await asyncio.sleep(self._random.uniform(0, 0.1))
        victim.start()
        if self._random.random() < 0.8:
            await victim.ready()

    async def _use(self) -> None:
        while self._storm:
            name, request = self._wish()
            served = self.served[name]
            async with served.client() as client:
                lease = await self._submit(served, client, request)
                await asyncio.sleep(self._random.uniform(0, 0.1))
                if self._random.random() < 0.1:
                    await self._submit(served, client, request)
                if self._random.random() < 0.1:
                    served.witness.heard_lease(_row(await client.leases.cancel(lease.id)))

    def _wish(self) -> tuple[str, Submit]:
        """Who is asked, and for what: guests ask at the gateway, a site's own users at their site."""
        self._keys += 1
        is_local = self._random.random() < 0.4
        site = self._random.choice((HOME, *FAR)) if is_local else None
        work_ms = self._random.randrange(10, 60) if is_local else self._random.randrange(50, 300)
        request = submit(
            consumer="operator",
            lease_type=LeaseType.NON_PREEMPTABLE if is_local else self._random.choice(_GUESTS),
            vms=self._random.randint(1, 2 if site is None else SLOTS[site]),
            duration_ms=work_ms + 2_000,
            memory_mib=MEMORY_MIB,
            site=site,
            name=f"key-{self._keys}",
            command=("sleep", f"{work_ms / 1000}"),
            key=f"key-{self._keys}",
        )
        return site if site in FAR else GATEWAY, request

    async def _submit(self, served: Served, client: AsyncClient, request: Submit) -> Lease:
        served.witness.heard_ask(request)
        asked = request.request
        spec = LeaseSpec.of(
            type=asked.lease_type.label,
            vms=asked.vms,
            duration_s=asked.duration_ms / 1000,
            memory_mib=asked.memory_mib,
            local=asked.site is not None,
            site=asked.site,
            name=request.metadata.name,
            command=request.metadata.command,
        )
        lease = await client.leases.submit(spec, idempotency_key=request.key)
        served.witness.heard_answer(request, (_row(lease), False))
        return lease

    async def _follow(self) -> None:
        """Listen to everything that changes at the gateway, over all its deaths."""
        async with self.served[GATEWAY].client() as client:
            async for change in client.leases.watch(after=0):
                self.changes.append(change)

    # The calm after it

    async def _until_all_is_over(self, served: Served) -> None:
        async with asyncio.timeout(PATIENCE_S), served.client() as client:
            while [lease async for lease in client.leases.list(Which(open=True))]:  # noqa: ASYNC110 - over HTTP
                await asyncio.sleep(_NOW_AND_THEN_S)

    async def _until_all_is_told(self) -> None:
        """The follower is told of the end of everything that was accepted."""
        leases = set(self.served[GATEWAY].witness.accepted.values())
        async with asyncio.timeout(PATIENCE_S):
            while leases - {change.lease for change in self.changes if change.what == "closed"}:  # noqa: ASYNC110
                await asyncio.sleep(_NOW_AND_THEN_S)

    # The judgement

    def judge(self) -> None:
        """Everything that must be so when all is over."""
        rows = {name: self._judge_store(served) for name, served in self.served.items()}
        self._judge_what_was_told()
        requests = {row.metadata.name: row for name in self.served for row in rows[name]}
        numbers = {name: number for number, name in enumerate(sorted(requests), 1)}
        found = {site: self._audit(site, rows, numbers) for site in SLOTS}
        asked = {
            numbers[key]: submit
            for one in self.served.values()
            for key, submit in one.witness.asked.items()
            if key in numbers
        }
        completed = [
            numbers[row.metadata.name]
            for name in self.served
            for row in rows[name]
            if row.lease.state == LeaseState.COMPLETED.value
        ]
        evidence.nothing_came_up_twice(found)
        evidence.nothing_came_up_after_it_was_stopped(found)
        evidence.nobody_was_in_two_places(found)
        evidence.nobody_had_more_than_there_is(found, asked)
        evidence.whoever_completed_did_its_work(found, asked, completed)

    def _judge_store(self, served: Served) -> list[LeaseRow]:
        with served.store() as store:
            rows = store.leases(LeaseFilter(EVERYTHING), _ALL)
            served.witness.heard_lines(store.journal(0, _ALL))
        served.witness.everything_is_there([row for row in rows if not row.metadata.origin])
        served.witness.everything_is_over(rows)
        return rows

    def _judge_what_was_told(self) -> None:
        """Whoever listened was told of every change once, in order."""
        told = [change.seq for change in self.changes]
        written = [seq for seq in self.served[GATEWAY].witness.lines if seq <= told[-1]]
        assert told == sorted(written), "changes were told twice, out of order, or not at all"

    def _audit(self, site: str, rows: Mapping[str, list[LeaseRow]], numbers: Mapping[str, int]) -> list[AuditLine]:
        """What the machines of a site have written down, with the same number for a lease everywhere."""
        name = site if site in FAR else GATEWAY
        names = {row.lease.id: row.metadata.name for row in rows[name]}
        lines = read_audit(self.served[name].place.work / "machines" / site / "emulated.sqlite3")
        return [replace(line, lease_id=numbers[names[line.lease_id]]) for line in lines]


def _row(lease: Lease) -> LeaseRow:
    """As much of a lease as its witness looks at, as the store has it."""
    duration_ms = round(lease.duration_s * 1000)
    return lease_row(
        lease.id,
        name=lease.name,
        consumer=lease.consumer,
        lease_type=LEASE_TYPES[lease.type],
        vms=lease.vms,
        home=lease.home,
        duration_ms=duration_ms,
        state=lease.state,
    )
