"""Who uses the federation while it storms, over HTTP and nothing else; every call is noted for the judge.

Whoever gets no answer asks again with the same Idempotency-Key, and sometimes asks again though there was
one.
"""

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Any

import httpx2
from tests.storm.judge import Call, Judge
from tests.storm.loop import in_life
from tests.storm.network import scope_of
from tests.storm.world import PEERS, SLOTS, World

ROLES: dict[str, dict[str, Any]] = {
    "alice": {"roles": ["member"], "groups": ["atlas"]},
    "bob": {"roles": ["member"], "groups": ["belle"]},
    "carol": {"roles": ["group-manager"], "groups": ["atlas"]},
    "olga": {"roles": ["site-operator"]},
    "owner": {"roles": ["member"]},
}
"""Who there is beside the administrator; sites are added that the process has."""
GUESTS = ("alice", "bob", "carol")
TYPES = ("cancelable", "suspendable", "suspendable", "migratable", "non-preemptable")
COMMANDS: tuple[list[str], ...] = (
    [],
    ["sleep", "1"],
    ["sleep", "5"],
    ["true"],
    ["false"],
    ["exit", "3"],
    ["echo", "x"],
    ["no-such"],
)
LIMITS: tuple[dict[str, Any], ...] = (
    {"lending_limit": 1},
    {"epoch_share": 0.3, "epoch_s": 20, "burst_share": 0.6, "burst_s": 5},
)


@dataclass(slots=True)
class Somebody:
    """One user of one gateway."""

    world: World
    judge: Judge
    name: str
    to: str
    http: httpx2.AsyncClient
    rng: Random
    mine: list[tuple[str, int]] = field(default_factory=list)

    async def call(
        self,
        method: str,
        path: str,
        body: object = None,
        key: str = "",
        query: Mapping[str, Any] | None = None,
    ) -> Call:
        """Ask once, and note what came of it; status 0: no answer."""
        loop = self.world.loop
        call = Call(self.name, self.to, method, path, body, key, loop.time())
        headers = {"Idempotency-Key": key} if key else {}
        try:
            response = await self.http.request(method, path, json=body, headers=headers, params=query)
        except httpx2.TransportError as error:
            call.problem = type(error).__name__
        else:
            call.status = response.status_code
            kind = response.headers.get("content-type", "")
            call.answer = response.json() if "json" in kind else response.text
        call.answered_s = loop.time()
        if not path.startswith(("/v1/tokens", "/v1/peers/")):
            said = json.dumps(call.answer, sort_keys=True) if call.status else call.problem
            said = "" if path == "/metrics" else said  # how long things took in earnest
            self.world.trace(f"{self.name}@{self.to} {method} {path} {json.dumps(body)} {key} -> {call.status} {said}")
        self.judge.heard(call)
        return call

    async def insist(self, method: str, path: str, body: object = None, key: str = "") -> Call | None:
        """Ask until there is an answer that says something; None: it was given up."""
        for _ in range(40):
            call = await self.call(method, path, body, key)
            if call.status and call.status != httpx2.codes.SERVICE_UNAVAILABLE:
                return call
            await asyncio.sleep(self.rng.uniform(0.1, 4))
        return None

    async def submit(self, path: str, body: dict[str, Any], key: str) -> None:
        """Ask for something, and now and then once more though it was answered."""
        body = body | {"name": key}
        call = await self.insist("POST", path, body, key)
        if call is not None and call.status in {200, 201}:
            self.mine.append((path, call.answer["id"]))
            if self.rng.random() < 0.2:
                await self.call("POST", path, body, key)


class Crowd:
    """All users of all gateways; ``admins`` has the operator of each."""

    def __init__(self, world: World, judge: Judge) -> None:
        self._world = world
        self._judge = judge
        self._rng = world.random("people")
        self._number = 0
        self.admins: dict[str, Somebody] = {}
        self._others: dict[str, dict[str, Somebody]] = {}

    async def settle_in(self) -> None:
        """Before the storm: wait for the gateways, give out tokens, and agree with the peers."""
        world = self._world
        for name, process in world.processes.items():
            process.start()
            await process.up.wait()
            self.admins[name] = self._somebody("admin", name, process.admin_token())
            self._others[name] = {}
            for who, what in ROLES.items():
                sites = list(SLOTS[name]) if who in {"olga", "owner"} else []
                token = await self._token(name, {"consumer": who, **what, "sites": sites})
                self._others[name][who] = self._somebody(who, name, token)
        for_manager = {"consumer": "far", "roles": ["peer"], "sites": ["far"]}
        world.processes["manager"].uplink_token.set_result(await self._token("home", for_manager))
        for name, other in (*PEERS, *(pair[::-1] for pair in PEERS)):
            shown = await self._token(other, {"consumer": name, "roles": ["peer"], "sites": [name]})
            terms = {
                "url": f"https://{other}",
                "token": shown,
                "ask": self._rng.choice(["none-can", "none-can-now"]),
                "max_hops": 2,
            }
            call = await self.admins[name].call("PUT", f"/v1/peers/{other}", terms)
            assert call.status == 200, call
        await asyncio.sleep(30)

    def _somebody(self, who: str, to: str, token: str) -> Somebody:
        http = self._world.client(f"{who} at {to}", to, token)
        return Somebody(self._world, self._judge, who, to, http, self._world.random(f"{who} at {to}"))

    async def _token(self, to: str, body: object) -> str:
        call = await self.admins[to].call("POST", "/v1/tokens", body)
        assert call.status == 201, call
        return str(call.answer["token"])

    async def live(self, until_s: float) -> None:
        """Go on until then."""
        async with asyncio.TaskGroup() as tasks:
            for to in SLOTS:
                busy = 1.0 if to == "home" else 0.3
                for who in GUESTS if to != "manager" else ():
                    tasks.create_task(self._guest(self._others[to][who], until_s, busy))
                tasks.create_task(self._owner(self._others[to]["owner"], until_s, busy))
                tasks.create_task(self._onlooker(self._others[to]["olga"], until_s))
                tasks.create_task(self._operator(self.admins[to], until_s))
            tasks.create_task(self._parties(until_s))

    def _key(self, kind: str) -> str:
        self._number += 1
        return f"{kind}-{self._number}"

    async def _guest(self, who: Somebody, until_s: float, busy: float) -> None:
        rng, loop = who.rng, self._world.loop
        while loop.time() < until_s:
            await asyncio.sleep(rng.expovariate(busy / 4))
            act = rng.random()
            if act < 0.4:
                await who.submit("/v1/leases", self._lease(rng), self._key("lease"))
            elif act < 0.5:
                await who.submit("/v1/coallocations", self._coallocation(who.to, rng), self._key("coallocation"))
            elif act < 0.62:
                await who.submit("/v1/jobs", self._job(rng), self._key("job"))
            elif not who.mine:
                continue
            else:
                path, number = rng.choice(who.mine[-8:])
                await self._again(who, path, number, rng.random())

    async def _again(self, who: Somebody, path: str, number: int, act: float) -> None:
        """Look at something of one's own, or change it."""
        if act < 0.25:
            await who.call("DELETE", f"{path}/{number}")
        elif act < 0.4 and path == "/v1/leases":
            await who.call("POST", f"{path}/{number}/extension", {"by_s": who.rng.choice([1, 2, 4, 8])})
        elif act < 0.5:
            await who.call("GET", path, query={"limit": 20, "open": "true"} if act < 0.45 else None)
        elif act < 0.55 and path == "/v1/leases":
            await who.call("GET", f"{path}/{number}/console")
        elif act < 0.65 and path == "/v1/jobs":
            await who.call("GET", f"{path}/{number}/result")
        else:
            await who.call("GET", f"{path}/{number}")

    def _lease(self, rng: Random) -> dict[str, Any]:
        kind = rng.choice(TYPES)
        body = {
            "type": kind,
            "vms": rng.choice([1, 1, 2, 3, 4, 7]),
            "duration_s": rng.choice([1, 3, 8, 20, 45]),
            "memory_mib": rng.choice([64, 256]),
            "command": rng.choice(COMMANDS),
        }
        if rng.random() < 0.1:
            body["domain"] = rng.choice(["north", "south", "far"])
        return body

    def _coallocation(self, to: str, rng: Random) -> dict[str, Any]:
        components: list[dict[str, Any]] = [{"vms": rng.randint(1, 2)} for _ in range(rng.randint(1, 3))]
        for component in components:
            if rng.random() < 0.4:
                component["site"] = rng.choice(["far", "far", "north", "south"])
        return {
            "components": components if to == "home" else [{"vms": one["vms"]} for one in components],
            "duration_s": rng.choice([2, 6, 15]),
            "claim": rng.choice(["incremental", "reservation"]),
            "retries": rng.randint(0, 1),
            "command": rng.choice(COMMANDS),
        }

    def _job(self, rng: Random) -> dict[str, Any]:
        return {
            "command": rng.choice(COMMANDS[1:]),
            "execution_s": rng.choice([2, 6, 12]),
            "memory_mib": rng.choice([64, 256]),
            "nodes": rng.choice([1, 1, 1, 2]),
            "backup": rng.choice(["none", "none", "cold", "hot"]),
            "restarts": rng.randint(0, 3),
            "type": rng.choice(TYPES[:3]),
        }

    async def _owner(self, who: Somebody, until_s: float, busy: float) -> None:
        """A user of the site itself, before whom guests give way."""
        rng = who.rng
        while self._world.loop.time() < until_s:
            await asyncio.sleep(rng.expovariate(busy / 10))
            site = rng.choice(sorted(SLOTS[who.to]))
            vms = rng.randint(1, SLOTS[who.to][site])
            body = {"local": True, "site": site, "vms": vms, "duration_s": rng.choice([2, 5, 15])}
            await who.submit("/v1/leases", body, self._key("local"))
            if who.mine and rng.random() < 0.2:
                await self._again(who, *rng.choice(who.mine[-4:]), rng.random())

    async def _onlooker(self, who: Somebody, until_s: float) -> None:
        """The operator of a site: drains it, lends again, and looks at what is there."""
        rng = who.rng
        while self._world.loop.time() < until_s:
            await asyncio.sleep(rng.expovariate(1 / 15))
            site = rng.choice(sorted(SLOTS[who.to]))
            act = rng.random()
            if act < 0.3:
                await who.call("POST", f"/v1/sites/{site}/drain", {"note": "storm"})
                await asyncio.sleep(rng.expovariate(1 / 8))
                await who.insist("POST", f"/v1/sites/{site}/resume")
            else:
                await who.call("GET", rng.choice(["/v1/leases", "/v1/sites", "/v1/usage", "/v1/jobs", "/v1/nodes"]))

    async def _operator(self, who: Somebody, until_s: float) -> None:
        """Look at everything now and then, as monitoring does."""
        while self._world.loop.time() < until_s:
            await asyncio.sleep(who.rng.uniform(1, 6))
            await who.call("GET", "/v1/leases", query={"open": "true", "limit": 1000})
            await who.call("GET", who.rng.choice(["/healthz", "/readyz", "/metrics", "/v1/sites", "/v1/peers"]))

    async def _parties(self, until_s: float) -> None:
        """A site's operator and a group's manager come to terms, and part again."""
        provider, consumer = self._others["home"]["olga"], self._others["home"]["carol"]
        rng = provider.rng
        while self._world.loop.time() < until_s:
            await asyncio.sleep(rng.expovariate(1 / 12))
            name = self._key("agreement")
            terms: dict[str, Any] = {
                "name": name,
                "provider": rng.choice(["north", "south"]),
                "consumer": "atlas",
                "kind": "commitment",
            }
            terms |= rng.choice(LIMITS)
            drawn_up = await provider.insist("POST", "/v1/agreements", terms)
            if drawn_up is None or drawn_up.status != 201:
                continue
            for who, side in ((provider, "provider"), (consumer, "consumer")):
                await who.insist("POST", f"/v1/agreements/{name}/sign", {"side": side, "revision": 1})
            await asyncio.sleep(rng.expovariate(1 / 15))
            if rng.random() < 0.3:
                await provider.call("POST", f"/v1/agreements/{name}/suspend", {"note": "storm"})
            await consumer.insist("POST", f"/v1/agreements/{name}/revoke", {"note": "storm"})

    # afterwards

    async def go_home(self) -> None:
        """After the storm: lend everywhere again, and end all agreements."""
        for name, admin in self.admins.items():
            for site in SLOTS[name]:
                await self._surely(admin, "POST", f"/v1/sites/{site}/resume")
            agreements = await self._surely(admin, "GET", "/v1/agreements")
            for agreement in agreements.answer["agreements"]:
                await admin.insist("POST", f"/v1/agreements/{agreement['name']}/revoke", {"note": "calm"})

    async def wait_for_all(self, at_most_s: float) -> None:
        """Wait until everything that was ever asked for is over."""
        until_s = self._world.loop.time() + at_most_s
        left = ["?"]
        while left and self._world.loop.time() < until_s:
            await asyncio.sleep(10)
            left = []
            for name, admin in self.admins.items():
                for what in ("leases", "jobs"):
                    call = await self._surely(admin, "GET", f"/v1/{what}?open=true&limit=1000")
                    left += [f"{name} {what} {one['id']} {one['state']}" for one in call.answer[what]]
                call = await self._surely(admin, "GET", "/v1/coallocations?limit=1000")
                over = {"completed", "refused", "failed", "cancelled", "killed"}
                left += [
                    f"{name} coallocation {one['id']}"
                    for one in call.answer["coallocations"]
                    if one["state"] not in over
                ]
        for one in left[:5]:
            self._world.violated(f"not over {at_most_s:.0f} s after the storm: {one}")

    async def _surely(self, who: Somebody, method: str, path: str) -> Call:
        call = await who.insist(method, path)
        assert call is not None, (method, path)
        return call

    async def read_back(self) -> None:
        """Show the judge all that is kept: every lease, job and co-allocation, and the whole journal."""
        for name, admin in self.admins.items():
            await self._surely(admin, "GET", "/healthz")
            for what in ("leases", "jobs", "coallocations"):
                await self._all_pages(admin, f"/v1/{what}")
            self._judge.kept(name, await self._journal(name, admin))

    async def _all_pages(self, who: Somebody, path: str) -> None:
        cursor = ""
        while True:
            call = await self._surely(who, "GET", f"{path}?limit=500{cursor}")
            if call.answer["next"] is None:
                return
            cursor = f"&cursor={call.answer['next']}"

    async def _journal(self, name: str, admin: Somebody) -> list[dict[str, Any]]:
        """Follow the changes from the first one on, until nothing more comes."""
        request = admin.http.build_request("GET", "/v1/changes?after=0")
        parts: list[bytes] = []
        hung_up = asyncio.Event()

        async def receive() -> dict[str, Any]:
            await hung_up.wait()
            return {"type": "http.disconnect"}

        async def send(message: Any) -> None:
            parts.append(message.get("body", b""))
            if message["type"] == "http.response.start" and message["status"] != httpx2.codes.OK:
                self._world.violated(f"{name} shows no journal: {message['status']}")

        process = self._world.processes[name]
        serving = process.app(scope_of(request), receive, send)
        task = self._world.loop.create_task(serving, context=in_life(process.life))
        await asyncio.sleep(20)
        hung_up.set()
        await asyncio.wait([task])
        if not task.cancelled() and task.exception() is not None:
            self._world.violated(f"{name} breaks its journal off: {task.exception()!r}"[:600])
        lines = b"".join(parts).decode().splitlines()
        return [json.loads(line.removeprefix("data: ")) for line in lines if line.startswith("data: ")]
