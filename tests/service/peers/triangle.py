"""Three gateways, each the peer of both others, or others in a chain; lines between them do whatever lines do.

Every end is a real engine with a real store; their clock is moved by hand. Each pair has two lines, one for
each way: on the line from ``a`` to ``b``, ``a`` calls as a site would, and ``b`` offers what it cannot take.
"""

from collections import Counter
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import permutations
from pathlib import Path

from tests.service.messages.line import live_of, rows_of
from tests.service.stores import store_at

from leasehold.gateway.peering import AskWhen
from leasehold.model.lease import LeaseState
from leasehold.model.reason import Reason
from leasehold.model.request import LeaseType
from leasehold.service.commands import Cancel, Command, Drain, Extend, KeepPeer, MessageBatch, Undrain
from leasehold.service.drivers.emulated.options import EmulatedNode
from leasehold.service.drivers.emulated.record import BRINGS_UP, Action, AuditLine
from leasehold.service.messages.endpoints import asking, asking_peer
from leasehold.service.messages.routing import identity_of
from leasehold.service.peers.summary import status_for
from leasehold.service.store.rows import LeaseRow
from leasehold.service.surroundings import new_id
from leasehold.testing.rows import submit

SLOTS = {"a": 2, "b": 3, "c": 4}
NAMES = tuple(SLOTS)
WAYS = tuple(permutations(NAMES, 2))
"""Who calls, and whom: who calls lends."""

CHAIN = tuple(way for way in WAYS if set(way) != {"a", "c"})
"""Those of them in a chain: `b` stands between the others."""

_MANY = 1_000_000
_ROUNDS = 400


def site_of(name: str) -> str:
    """The one site of a gateway."""
    return f"site-{name}"


@dataclass(frozen=True, slots=True)
class Message:
    """What is on the line: by whom it was written, and for whom."""

    by: str
    to: str
    mail: MessageBatch


class World:
    """All of them, and what is on the lines between them.

    ``slots`` are those of the one site of each gateway, and ``nodes`` its nodes, where it serves jobs; ``ways`` who
    calls whom, and requests make at most ``hops``. The sites of gateways ``with_images`` boot from images.
    """

    def __init__(
        self,
        folder: Path,
        policy: str = "rr",
        ask: AskWhen = AskWhen.NONE_CAN,
        *,
        slots: Mapping[str, int] = SLOTS,
        nodes: Mapping[str, tuple[EmulatedNode, ...]] | None = None,
        ways: Sequence[tuple[str, str]] = WAYS,
        hops: int = 1,
        with_images: Container[str] = (),
    ) -> None:
        self.slots, self.ways, self.hops = slots, ways, hops
        self.stores = {name: store_at(folder / f"{name}.db") for name in slots}
        of = nodes or {}
        self.gateways = {
            name: live_of(
                self.stores[name], site_of(name), most, policy, nodes=of.get(name, ()), has_images=name in with_images
            )
            for name, most in slots.items()
        }
        self.drained: set[str] = set()
        self.on_the_line: list[Message] = []
        self.audits: dict[str, list[AuditLine]] = {name: [] for name in slots}
        self.outputs: dict[str, dict[int, tuple[str, str]]] = {name: {} for name in slots}
        """What the commands of leases had written that are gone, as machines keep it."""
        for name, other in ways:
            self.agree(name, other, ask)

    def close(self) -> None:
        for store in self.stores.values():
            store.close()

    # What people do

    def agree(self, name: str, other: str, ask: AskWhen = AskWhen.NONE_CAN, max_vms: int | None = None) -> None:
        self.do(
            name,
            KeepPeer(other, f"https://{other}.example.org", ask.value, max_vms, self.hops, "operator", new_id()),
        )

    def do(self, name: str, command: Command) -> object:
        [answer] = self.gateways[name].do(command)
        return answer

    def submit(
        self, name: str, vms: int, duration_ms: int, kind: LeaseType = LeaseType.SUSPENDABLE, wait_ms: int = 0
    ) -> LeaseRow:
        ready_ms = self.gateways[name].now_ms + wait_ms if wait_ms else None
        request = submit("physics", kind, vms, duration_ms, memory_mib=64, ready_ms=ready_ms)
        [(row, _)] = self.gateways[name].do(request)
        found: LeaseRow = row
        return found

    def submit_at(self, name: str, vms: int, duration_ms: int) -> None:
        """Somebody of its own needs the site of a gateway."""
        request = submit(
            "owner", LeaseType.NON_PREEMPTABLE, min(vms, self.slots[name]), duration_ms, 64, site=site_of(name)
        )
        self.do(name, request)

    def cancel(self, name: str, lease_id: int) -> None:
        self.do(name, Cancel(lease_id))

    def extend(self, name: str, lease_id: int, by_ms: int) -> object:
        return self.do(name, Extend(lease_id, by_ms))

    def drain_or_resume(self, name: str) -> None:
        if name in self.drained:
            self.drained.discard(name)
            self.do(name, Undrain(site_of(name), "operator"))
        else:
            self.drained.add(name)
            self.do(name, Drain(site_of(name), "operator"))

    # What lines do

    def call(self, by: str, to: str) -> None:
        """Who lends calls: what it has, what has become of leases, and how far it has read."""
        engine = self.gateways[by].engine
        status = status_for(engine, engine.peers.rows[to], identity_of(self.stores[by], new_id))
        mail = replace(self._written(by, asking(to), by), status=status)
        self.on_the_line.append(Message(by, to, mail))

    def deliver(self, index: int, *, again: bool = False) -> None:
        """Something arrives; ``again``: and is still on the line. Whoever reads a call answers it."""
        message = self.on_the_line[index] if again else self.on_the_line.pop(index)
        is_read = not isinstance(self.do(message.to, message.mail), Exception)
        if is_read and message.mail.status is not None:
            answer = self._written(message.to, message.by, asking(message.to))
            fresh = tuple(one for one in answer.messages if one[0] > message.mail.acknowledged)
            self.on_the_line.append(Message(message.to, message.by, replace(answer, messages=fresh)))

    def exchange(self, by: str, to: str) -> None:
        """A call and its answer over a whole line."""
        self.call(by, to)
        self.deliver(len(self.on_the_line) - 1)
        self.deliver(len(self.on_the_line) - 1)

    def exchange_all(self) -> None:
        for by, to in self.ways:
            self.exchange(by, to)

    def _written(self, by: str, to: str, name: str) -> MessageBatch:
        """What ``by`` has to tell an endpoint, who calls it ``name``."""
        rows = self.stores[by].messages(to, 0, _MANY)
        _, received = self.stores[by].message_numbers(to)
        return MessageBatch(name, tuple((row.seq, row.body) for row in rows), received)

    # Time

    def pass_time(self, for_ms: int) -> None:
        until_ms = self.gateways["a"].now_ms + for_ms
        for live in self.gateways.values():
            live.pass_time_until(until_ms)
        self._keep_audits()

    def _keep_audits(self) -> None:
        for name, live in self.gateways.items():
            unwritten = live.sites[site_of(name)].machines.take_unwritten()
            self.audits[name] += unwritten.audit
            self.outputs[name] |= {lease_id: wrote[:2] for lease_id, wrote in unwritten.outputs.items()}

    def make_whole(self) -> None:
        """The lines are whole again, what was on them is lost, and everything comes to its end."""
        self.on_the_line.clear()
        for name in list(self.drained):
            self.drain_or_resume(name)
        for by, to in self.ways:
            self.agree(by, to)
        for _ in range(_ROUNDS):
            before = [rows_of(live) for live in self.gateways.values()]
            self.exchange_all()
            self.pass_time(1_000)
            if before == [rows_of(live) for live in self.gateways.values()] and self.is_quiet():
                break
        self.exchange_all()

    def is_quiet(self) -> bool:
        return not any(live.gateway.leases for live in self.gateways.values())

    # What must be so

    def row(self, name: str, lease_id: int) -> LeaseRow:
        row = self.stores[name].lease(lease_id)
        assert row is not None
        return row

    def guests(self, at: str, of: str) -> dict[int, list[LeaseRow]]:
        """What one gateway has of each lease of another; what it refused or could never start is not counted."""
        found: dict[int, list[LeaseRow]] = {}
        for row in rows_of(self.gateways[at]):
            is_none = row.lease.state == LeaseState.REFUSED or row.metadata.reason == Reason.NEVER_STARTED
            if row.metadata.origin == asking(of) and not is_none:
                found.setdefault(row.metadata.origin_id, []).append(row)
        return found

    def check(self) -> None:
        """Every promise of each decision core; every lease is in one place, so many hops away, and none goes round."""
        for live in self.gateways.values():
            live.engine.check()
        for name in self.slots:
            there = {other: self.guests(other, name) for other in self.slots if other != name}
            for row in rows_of(self.gateways[name]):
                path = [self.identity(name), *row.lease.request.via]
                assert len(set(path)) == len(path) <= self.hops + 1, f"lease {row.lease.id} came to {name} by {path}"
                if len(path) > self.hops:
                    assert row.lease.site in ("", site_of(name)), f"lease {row.lease.id} of {name} went on"
                where = [other for other, guests in there.items() for _ in guests.get(row.lease.id, [])]
                assert len(where) <= 1, f"lease {row.lease.id} of {name} was taken in more than once: {where}"
                assert not where or row.lease.site == where[0], (
                    f"lease {row.lease.id} of {name} is at {where} and at {row.lease.site!r}"
                )

    def check_that_all_agree(self) -> None:
        """Once the lines are whole and everything is quiet, both ends tell the same of every lease."""
        assert self.is_quiet()
        for name, store in self.stores.items():
            for other in self.slots:
                for endpoint in (other, asking(other)):
                    assert not store.messages(endpoint, 0, 10), f"{name} has messages to {endpoint}"
        for name, other in self.ways:
            there = self.guests(other, name)
            assert there.keys() <= {row.lease.id for row in rows_of(self.gateways[name])}
            for row in rows_of(self.gateways[name]):
                if row.lease.site == other and row.lease.state != LeaseState.REFUSED:
                    self._check_that_they_agree(row, there.get(row.lease.id, []))

    def _check_that_they_agree(self, row: LeaseRow, there: list[LeaseRow]) -> None:
        if there:
            assert _agreed(row) == _agreed(there[0]), row.lease.id
        else:  # taken back before it came to anything
            assert row.lease.state == LeaseState.CANCELLED

    def check_that_nothing_ran_twice(self) -> None:
        """By what the machines have written down: each lease booted once in all places together."""
        self._keep_audits()
        boots: Counter[tuple[str, int]] = Counter()
        for name, lines in self.audits.items():
            came_up = Counter((line.lease_id, line.incarnation) for line in lines if line.action in BRINGS_UP)
            assert max(came_up.values(), default=1) == 1, name
            booted = [line.lease_id for line in lines if line.action is Action.BOOT]
            boots.update(self._whose(name, lease_id) for lease_id in booted)
        twice = [lease for lease, count in boots.items() if count > 1]
        assert not twice, f"leases that were booted more than once: {twice}"
        completed = {
            (name, row.lease.id)
            for name in self.slots
            for row in rows_of(self.gateways[name])
            if row.lease.state == LeaseState.COMPLETED and not row.metadata.origin
        }
        assert completed <= boots.keys(), "completed, and never booted"

    def _whose(self, name: str, lease_id: int) -> tuple[str, int]:
        """The gateway whose user asked for a lease, and its number there."""
        row = self.row(name, lease_id)
        if not row.metadata.origin:
            return name, lease_id
        return self._whose(asking_peer(row.metadata.origin), row.metadata.origin_id)

    def identity(self, name: str) -> str:
        """The ID of a gateway on paths."""
        return self.gateways[name].gateway.peering.gateway_id


def _agreed(row: LeaseRow) -> tuple[object, ...]:
    return (
        row.lease.state,
        row.metadata.reason,
        row.lease.preemptions,
        row.lease.overhead_vm_ms,
        row.lease.migrations,
        row.lease.first_start_ms,
        row.lease.request.duration_ms,
        row.lease.wanted_ms,
    )
