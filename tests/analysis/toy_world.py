"""A crude federation, written only to fill run folders: it shares no code with Leasehold's own.

Locals start at once or are refused; guests wait in one list for each cluster and start greedily;
victims are dropped one by one until no one is superfluous. Good enough to keep every rule that the
validator knows, on random work.
"""

import heapq
import itertools
import random
from dataclasses import dataclass, field

from tests.analysis.builders import Row, Tables

RESUME_MS = 126_000
MIGRATE_MS = 372_500
GUEST_TYPES = ("cancelable", "suspendable", "suspendable", "migratable", "non-preemptable")


@dataclass(eq=False)
class _Lease:
    row: Row
    left: int
    overhead_ms: int = 0
    overhead_kind: str = ""
    since_ms: int = -1
    start_number: int = 0


@dataclass(eq=False)
class _Site:
    name: str
    slots: int
    speed: int
    running: list[_Lease] = field(default_factory=list)
    queue: list[_Lease] = field(default_factory=list)

    @property
    def free(self) -> int:
        return self.slots - sum(int(lease.row["vms"]) for lease in self.running)


class ToyWorld:
    """Run ``jobs`` random requests on some clusters and keep the rows in ``tables``."""

    def __init__(self, seed: int, jobs: int, guests: tuple[str, ...] = GUEST_TYPES) -> None:
        self.random = random.Random(seed)
        self.guests = guests
        self.tables = Tables()
        self.sites = [_Site("alpha", 64, 2000), _Site("beta", 128, 3000), _Site("gamma", 256, 2100)]
        for site in self.sites:
            self.tables.site(site.name, slots=site.slots, speed_mips=site.speed, reference_mips=600)
        self.tick = itertools.count()
        self.sets = itertools.count(1)
        self.events: list[tuple[int, int, int, _Lease, int]] = []
        self._submit(jobs)
        while self.events:
            now, kind, _, lease, number = heapq.heappop(self.events)
            self._arrive(lease, now) if kind else self._end(lease, now, number)

    def _submit(self, jobs: int) -> None:
        now = 0
        for lease_id in range(jobs):
            now += int(self.random.expovariate(1 / 14_000))
            actual_ms = min(int(self.random.lognormvariate(13.6, 1.4)), 20_000_000) + 1
            requested_ms = int(actual_ms * self.random.choice([0.9, 1, 1.5, 3])) + 1
            times = {"requested_ms": requested_ms, "actual_ms": actual_ms, "submit_ms": now}
            vms = min(2 ** self.random.randint(0, 5), 64)
            if self.random.random() < 0.4:
                home = self.random.choice(self.sites).name
                self.tables.local(lease_id, home, "running", vms=vms, **times)
            else:
                kind = self.random.choice(self.guests)
                deadline = now + 4 * requested_ms if kind == "migratable" else None
                self.tables.lease(lease_id, kind, "waiting", vms=vms, deadline_ms=deadline, **times)
            row = self.tables.leases[-1]
            self._at(now, 1, _Lease(row, min(actual_ms, requested_ms) * 600))

    def _at(self, now: int, kind: int, lease: _Lease) -> None:
        heapq.heappush(self.events, (now, kind, next(self.tick), lease, lease.start_number))

    def _arrive(self, lease: _Lease, now: int) -> None:
        row = lease.row
        if row["origin"] == "local":
            site = next(site for site in self.sites if site.name == row["home"])
            self._local(lease, site, now)
        else:
            site = self.random.choice(self.sites)
            row["site"] = site.name
            self.tables.decided(now, row["lease_id"], "dispatch", "routed", site=site.name)
            self._guest(lease, site, now)

    def _local(self, lease: _Lease, site: _Site, now: int) -> None:
        soft = [guest for guest in site.running if self._gives_way(guest)]
        if site.free + sum(guest.row["vms"] for guest in soft) < lease.row["vms"]:
            return self._final(lease, now, "refused", "local-queue-closed")
        self._make_room(site, soft, lease, now)
        self._start(lease, site, now, "room-free")
        self.tables.baseline.append({"lease_id": lease.row["lease_id"], "start_ms": now})
        return None

    @staticmethod
    def _gives_way(guest: _Lease) -> bool:
        return bool(guest.row["lease_type"] != "non-preemptable")

    def _make_room(self, site: _Site, soft: list[_Lease], local: _Lease, now: int) -> None:
        needed = local.row["vms"] - site.free
        if needed <= 0:
            return
        victims = list(soft)
        for guest in soft:
            if sum(v.row["vms"] for v in victims) - guest.row["vms"] >= needed:
                victims.remove(guest)
        number, total = next(self.sets), sum(v.row["vms"] for v in victims)
        for guest in victims:
            self.tables.preempted(
                now,
                guest.row["lease_id"],
                site.name,
                local.row["lease_id"],
                number,
                needed,
                set_leases=len(victims),
                set_vms=total,
            )
            self._preempt(guest, site, now)

    def _preempt(self, guest: _Lease, site: _Site, now: int) -> None:
        self._stop(guest, site, now, "preempted")
        guest.row["preemptions"] += 1
        guest.start_number += 1
        kind = guest.row["lease_type"]
        if kind == "cancelable":
            self._final(guest, now, "terminated", "terminated")
        elif kind == "suspendable":
            guest.row["overhead_vm_ms"] += guest.row["vms"] * (160_000 + RESUME_MS)
            guest.overhead_ms, guest.overhead_kind = RESUME_MS, "resume"
            site.queue.insert(0, guest)
        else:
            self._move(guest, site, now)

    def _move(self, guest: _Lease, site: _Site, now: int) -> None:
        other = self.random.choice([s for s in self.sites if s is not site])
        end_ms = now + MIGRATE_MS + -(-guest.left // other.speed)
        if other.free < guest.row["vms"] or end_ms > guest.row["deadline_ms"]:
            return self._final(guest, now, "failed", "deadline-lost")
        guest.row["overhead_vm_ms"] += guest.row["vms"] * MIGRATE_MS
        guest.row["migrations"] += 1
        guest.row["site"] = other.name
        guest.overhead_ms, guest.overhead_kind = MIGRATE_MS, "migrate"
        return self._start(guest, other, now, "room-free")

    def _guest(self, guest: _Lease, site: _Site, now: int) -> None:
        if guest.row["lease_type"] in {"cancelable", "suspendable"}:
            site.queue.append(guest)
            self._fill(site, now)
        elif guest.row["vms"] <= site.free:
            self._start(guest, site, now, "room-free")
        else:
            self.tables.decided(now, guest.row["lease_id"], "refuse", "no-room-at-ready-time", site=site.name)
            self._final(guest, now, "refused", "no-room-at-ready-time")

    def _fill(self, site: _Site, now: int) -> None:
        for guest in list(site.queue):
            if guest.row["vms"] <= site.free:
                site.queue.remove(guest)
                self._start(guest, site, now, "backfilled")

    def _start(self, lease: _Lease, site: _Site, now: int, reason: str) -> None:
        row = lease.row
        row["site"], row["state"] = site.name, "running"
        row["first_start_ms"] = now if row["first_start_ms"] is None else row["first_start_ms"]
        lease.since_ms = now
        site.running.append(lease)
        self.tables.decided(now, row["lease_id"], "start", reason, site=site.name)
        self._at(now + lease.overhead_ms + -(-lease.left // site.speed), 0, lease)

    def _stop(self, lease: _Lease, site: _Site, now: int, ended_by: str) -> None:
        site.running.remove(lease)
        lease_id, began = lease.row["lease_id"], lease.since_ms
        worked_from = began + lease.overhead_ms
        if lease.overhead_ms and now < worked_from:
            self.tables.held(lease_id, site.name, (began, now), ended_by, lease.overhead_kind)
            return
        if lease.overhead_ms:
            self.tables.held(lease_id, site.name, (began, worked_from), "phase", lease.overhead_kind)
        self.tables.held(lease_id, site.name, (worked_from, now), ended_by)
        lease.left -= (now - worked_from) * site.speed

    def _end(self, lease: _Lease, now: int, number: int) -> None:
        if number != lease.start_number:
            return
        site = next(site for site in self.sites if site.name == lease.row["site"])
        is_done = lease.row["actual_ms"] <= lease.row["requested_ms"]
        self._stop(lease, site, now, "completed" if is_done else "killed")
        state = ("completed", "completed") if is_done else ("killed", "walltime-reached")
        self._final(lease, now, *state)
        self._fill(site, now)

    @staticmethod
    def _final(lease: _Lease, now: int, state: str, reason: str) -> None:
        lease.row |= {"state": state, "reason": reason, "end_ms": now}
