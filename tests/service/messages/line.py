"""A gateway, two sites that decide for themselves, and a line between them that does whatever lines do.

Both ends are real engines with real stores; their clock is moved by hand. What is on the line is data: it can
be delivered in any order, twice, late or never, and whoever it is for may have died and come back meanwhile.
"""

from collections import Counter
from collections.abc import Container, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from random import Random

from tests.service.stores import store_at

from leasehold.gateway.gateway import Gateway, Routing
from leasehold.jobs.settings import JobSettings
from leasehold.leasing.overhead import OverheadModel
from leasehold.model.agreement import CPUS
from leasehold.model.lease import LeaseState
from leasehold.model.reason import Reason
from leasehold.model.request import LeaseType
from leasehold.model.resources import NodeResources
from leasehold.routing.registry import routing_policy
from leasehold.service.commands import Cancel, Command, Drain, Extend, MessageBatch, Undrain
from leasehold.service.drivers.emulated.fault_injection import FaultInjector, Faults
from leasehold.service.drivers.emulated.machines import EmulatedMachines
from leasehold.service.drivers.emulated.options import EmulatedNode, Hardware
from leasehold.service.drivers.emulated.record import BRINGS_UP, Action, AuditLine
from leasehold.service.engine.jobs import JobSetup
from leasehold.service.engine.sites import occupancies
from leasehold.service.messages.endpoints import GATEWAY
from leasehold.service.messages.routing import identity_of
from leasehold.service.messages.site_status import NodeOfSite, SiteStatus
from leasehold.service.store.filters import EVERYTHING, LeaseFilter
from leasehold.service.store.rows import LeaseRow
from leasehold.service.store.store import Store
from leasehold.service.surroundings import new_id
from leasehold.sharing.enforcement import Sharing, SharingSettings
from leasehold.sharing.parties import Provider
from leasehold.testing.live import Live
from leasehold.testing.rows import submit
from leasehold.testing.worlds import live_site

QUICK = OverheadModel(suspend_ms_per_gib=400, resume_ms_per_gib=300, network_mbps=10_000, migrate_fixed_ms=100)
FAR = {"far": 4, "north": 3}
HOME = "home"
_MANY = 1_000_000
_ROUNDS = 400
_TAKEN_BACK = (Reason.HANDED_BACK, Reason.NEVER_STARTED)


def live_of(
    store: Store,
    name: str,
    slots: int,
    policy: str = "rr",
    *,
    try_elsewhere: bool = True,
    nodes: tuple[EmulatedNode, ...] = (),
    has_images: bool = False,
) -> Live:
    """One service with one site of its own; with ``nodes``, it serves jobs, and is planned by those that have GPUs.

    ``has_images``  whether its machines boot from images
    """

    gateway_id = identity_of(store, new_id)
    planned = tuple(
        NodeResources(one.name, one.cores, one.memory_mib, one.gpu_model, one.gpus, one.gpu_shares)
        for one in nodes
        if one.gpus
    )

    def make() -> Gateway:
        routing = Routing(routing_policy(policy)(Random(0)), try_elsewhere=try_elsewhere)
        sharing = Sharing(
            [Provider(name, {CPUS: slots})], SharingSettings()
        )  # everybody may, and all use is accounted for
        site = live_site(name, slots, overhead=QUICK, nodes=planned)
        return Gateway([site], routing, 1, sharing, gateway_id=gateway_id)

    machines = EmulatedMachines(Hardware(slots, 1, 1, QUICK, nodes=nodes), FaultInjector(Faults(), name))
    images = frozenset([name]) if has_images else frozenset[str]()
    setting = JobSettings(sites=frozenset([name]), images_awaited=has_images)
    setup = JobSetup(setting, image_sites=images) if nodes else None
    return Live(store, make, {name: machines}, setup=setup)


def rows_of(live: Live) -> list[LeaseRow]:
    """Every lease that is in a store."""
    return live.store.leases(LeaseFilter(EVERYTHING), _MANY)


@dataclass(frozen=True, slots=True)
class Message:
    """What is on the line: for whom, about which site."""

    to_gateway: bool
    site: str
    mail: MessageBatch


class World:
    """All three, and what is on the line between them."""

    def __init__(
        self,
        folder: Path,
        policy: str = "rr",
        *,
        try_elsewhere: bool = True,
        home_slots: int = 2,
        nodes: Mapping[str, tuple[EmulatedNode, ...]] | None = None,
        with_images: Container[str] = (),
    ) -> None:
        of, stores = nodes or {}, (GATEWAY, *FAR)
        self.stores = {name: store_at(folder / f"{name}.db") for name in stores}
        self.gateway = live_of(
            self.stores[GATEWAY],
            HOME,
            home_slots,
            policy,
            try_elsewhere=try_elsewhere,
            nodes=of.get(HOME, ()),
            has_images=HOME in with_images,
        )
        self.sites = {
            name: live_of(self.stores[name], name, slots, nodes=of.get(name, ()), has_images=name in with_images)
            for name, slots in FAR.items()
        }
        self.lends = dict.fromkeys(FAR, True)
        self.on_the_line: list[Message] = []
        self.audits: dict[str, list[AuditLine]] = {name: [] for name in (HOME, *FAR)}
        self.outputs: dict[str, dict[int, tuple[str, str]]] = {name: {} for name in (HOME, *FAR)}
        """What the commands of leases had written that are gone, as machines keep it."""

    @property
    def lives(self) -> Iterator[Live]:
        yield self.gateway
        yield from self.sites.values()

    def close(self) -> None:
        for store in self.stores.values():
            store.close()

    # What people do

    def submit(
        self, lease_type: LeaseType, vms: int, duration_ms: int, wait_ms: int = 0, within_ms: int | None = None
    ) -> LeaseRow:
        ready_ms = self.gateway.now_ms + wait_ms if wait_ms else None
        deadline_ms = None if within_ms is None else self.gateway.now_ms + within_ms
        request = submit("physics", lease_type, vms, duration_ms, 64, ready_ms=ready_ms, deadline_ms=deadline_ms)
        [(row, _)] = self.gateway.do(request)
        found: LeaseRow = row
        return found

    def submit_at(self, name: str, vms: int, duration_ms: int) -> None:
        self.sites[name].do(submit("owner", LeaseType.NON_PREEMPTABLE, vms, duration_ms, 64, site=name))

    def cancel(self, lease_id: int) -> None:
        self.gateway.do(Cancel(lease_id))

    def extend(self, lease_id: int, by_ms: int) -> object:
        [answer] = self.gateway.do(Extend(lease_id, by_ms))
        return answer

    def extend_at(self, name: str, lease_id: int, by_ms: int) -> None:
        """An operator extends, at its site, what the gateway has sent there, if it is there."""
        for row in rows_of(self.sites[name]):
            if row.metadata.origin_id == lease_id and row.lease.id in self.sites[name].gateway.leases:
                self.sites[name].do(Extend(row.lease.id, by_ms))

    def drain_or_resume(self, name: str) -> None:
        """Its owner takes no new guests, or takes them again."""
        self.lends[name] = not self.lends[name]
        self.sites[name].do(Undrain(name, "operator") if self.lends[name] else Drain(name, "operator"))

    # What lines do

    def about(self, name: str) -> SiteStatus:
        live = self.sites[name]
        now = occupancies(live.gateway)[name]
        return SiteStatus(
            identity=identity_of(live.store, new_id), slots=FAR[name], speed_mips=1, reference_mips=1,
            driver="emulated",
            nodes=tuple(NodeOfSite(**asdict(node)) for node in live.gateway.sites[name].settings.nodes),
            can_suspend=True, can_migrate=True, hands_over=True, lends=self.lends[name],
            local_vms=now.local_vms, guest_vms=now.guest_vms,
            waiting_local=now.waiting_local, waiting_guests=now.waiting_guests,
            waiting_local_vms=now.waiting_local_vms, waiting_guest_vms=now.waiting_guest_vms,
        )  # fmt: skip

    def call(self, name: str) -> None:
        """A site writes: how it is, its messages, and how far it has read."""
        mail = replace(_written(self.sites[name], GATEWAY, name), status=self.about(name))
        self.on_the_line.append(Message(to_gateway=True, site=name, mail=mail))

    def interrupt(self, who: str, calling: str, *, lost: bool) -> None:
        """Kill one of them while a site calls, and lose what is on the line: all, or what follows two messages."""
        self.call(calling)
        if not lost:
            self.deliver(0)
            self.deliver(0)
        self.on_the_line.clear()
        self.restart(who)

    def restart(self, who: str) -> None:
        """Somebody is killed and comes back."""
        (self.gateway if who == GATEWAY else self.sites[who]).restart()

    def deliver(self, index: int, *, again: bool = False) -> None:
        """Something arrives; ``again``: and is still on the line. Whoever reads a call answers it."""
        message = self.on_the_line[index] if again else self.on_the_line.pop(index)
        if message.to_gateway:
            if _reads(self.gateway, message.mail):
                answer = _written(self.gateway, message.site, GATEWAY)
                after = message.mail.acknowledged
                fresh = tuple(one for one in answer.messages if one[0] > after)
                mail = replace(answer, messages=fresh)
                self.on_the_line.append(Message(to_gateway=False, site=message.site, mail=mail))
        else:
            _reads(self.sites[message.site], message.mail)

    def exchange(self, name: str) -> None:
        """A call and its answer over a whole line."""
        self.call(name)
        self.deliver(len(self.on_the_line) - 1)
        self.deliver(len(self.on_the_line) - 1)

    # Time

    def pass_time(self, for_ms: int) -> None:
        until_ms = self.gateway.now_ms + for_ms
        for live in self.lives:
            live.pass_time_until(until_ms)
        self._keep_audits()

    def _keep_audits(self) -> None:
        for live in self.lives:
            for name, one in live.sites.items():
                unwritten = one.machines.take_unwritten()
                self.audits[name] += unwritten.audit
                self.outputs[name] |= {lease_id: wrote[:2] for lease_id, wrote in unwritten.outputs.items()}

    def make_whole(self) -> None:
        """The line is whole again, what was on it is lost, and everything comes to its end."""
        self.on_the_line.clear()
        for name in FAR:
            if not self.lends[name]:
                self.drain_or_resume(name)
        for _ in range(_ROUNDS):
            before = [row for live in self.lives for row in rows_of(live)]
            for name in FAR:
                self.exchange(name)
            self.pass_time(1_000)
            if before == [row for live in self.lives for row in rows_of(live)] and self.is_quiet():
                break
        for name in FAR:
            self.exchange(name)

    def is_quiet(self) -> bool:
        """Whether everything is over."""
        return not any(live.gateway.leases for live in self.lives)

    # What must be so

    def guests_at(self, name: str) -> dict[int, list[LeaseRow]]:
        """What a site has of each of the gateway's leases, but for what it refused, never started or handed back."""
        found: dict[int, list[LeaseRow]] = {}
        for row in rows_of(self.sites[name]):
            is_elsewhere = row.lease.state == LeaseState.REFUSED or row.metadata.reason in _TAKEN_BACK
            if row.metadata.origin and not is_elsewhere:
                found.setdefault(row.metadata.origin_id, []).append(row)
        return found

    def check(self) -> None:
        """Every promise of each decision core; and every lease is in one place."""
        for live in self.lives:
            live.engine.check()
        at_sites = {name: self.guests_at(name) for name in FAR}
        for row in rows_of(self.gateway):
            where = [name for name in FAR for _ in at_sites[name].get(row.lease.id, [])]
            assert len(where) <= 1, f"lease {row.lease.id} was taken in more than once: {where}"
            assert not where or row.lease.site == where[0], (
                f"lease {row.lease.id} is at {where} and at {row.lease.site!r}"
            )

    def check_that_all_agree(self) -> None:
        """Once the line is whole and everything is quiet, both ends tell the same of every lease."""
        assert self.is_quiet()
        for name, store in self.stores.items():
            for other in (GATEWAY, *FAR):
                assert not store.messages(other, 0, 10), f"messages from {name} to {other} were never acknowledged"
        at_sites = {name: self.guests_at(name) for name in FAR}
        for row in rows_of(self.gateway):
            if row.lease.site in FAR and row.lease.state != LeaseState.REFUSED:
                there = at_sites[row.lease.site].get(row.lease.id, [])
                if there:
                    has_moved = row.lease.handed_back > 0  # its first start was at another site
                    assert _agreed(row, has_moved) == _agreed(there[0], has_moved), row.lease.id
                else:  # taken back before it came to anything
                    assert row.lease.state == LeaseState.CANCELLED
        known = {row.lease.id for row in rows_of(self.gateway)}
        for name in FAR:
            assert at_sites[name].keys() <= known

    def check_that_nothing_ran_twice(self) -> None:
        """By what the machines have written down: each lease booted once in all places together."""
        self._keep_audits()
        origin = {
            (name, row.lease.id): row.metadata.origin_id
            for name in FAR
            for row in rows_of(self.sites[name])
            if row.metadata.origin
        }
        boots: Counter[int] = Counter()
        for name, lines in self.audits.items():
            came_up = Counter((line.lease_id, line.incarnation) for line in lines if line.action in BRINGS_UP)
            assert max(came_up.values(), default=1) == 1, name
            booted = [line.lease_id for line in lines if line.action is Action.BOOT]
            boots.update(lease_id if name == HOME else origin.get((name, lease_id), -lease_id) for lease_id in booted)
        twice = [lease_id for lease_id, count in boots.items() if lease_id > 0 and count > 1]
        assert not twice, f"leases that were booted more than once: {twice}"
        completed = {row.lease.id for row in rows_of(self.gateway) if row.lease.state == LeaseState.COMPLETED}
        assert completed <= boots.keys(), "completed, and never booted"


def _agreed(row: LeaseRow, has_moved: bool) -> tuple[object, ...]:  # noqa: FBT001 - private
    return (
        row.lease.state,
        row.metadata.reason,
        row.lease.preemptions,
        row.lease.overhead_vm_ms,
        row.lease.migrations,
        row.lease.request.duration_ms,
        row.lease.wanted_ms,
        0 if has_moved else row.lease.first_start_ms,
    )


def _written(live: Live, to: str, by: str) -> MessageBatch:
    rows = live.store.messages(to, 0, _MANY)
    _, received = live.store.message_numbers(to)
    return MessageBatch(by, tuple((row.seq, row.body) for row in rows), received)


def _reads(live: Live, mail: Command) -> bool:
    """Whether the mail was taken in; what comes before its time is told again later."""
    [answer] = live.do(mail)
    return not isinstance(answer, Exception)
