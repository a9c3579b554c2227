"""What must be true, whatever happened: a model outside of the product, which shares no code with it.

It hears every call and its answer as the caller saw them, and in the end reads what is kept and what the
machines' own record says was done, and when. An answer that never came leaves open whether something was
done; everything else is held to it.
"""

import sqlite3
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from contextlib import closing
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from tests.storm.machines import Site

from leasehold.service.site_reconciler import ANSWER_WITHIN_S

FINAL = frozenset({"completed", "killed", "terminated", "failed", "refused", "cancelled"})
HOLDS = frozenset({"starting", "running", "resuming", "migrating"})
CREATES = ("/v1/leases", "/v1/jobs", "/v1/coallocations")
NEVER_CHANGES = (
    "id",
    "name",
    "type",
    "vms",
    "memory_mib",
    "consumer",
    "group",
    "local",
    "home",
    "submitted_at",
    "command",
)
ONLY_GROWS = ("preemptions", "migrations", "duration_s")
MAY_SEE = {
    "alice": lambda one: one["consumer"] == "alice",
    "bob": lambda one: one["consumer"] == "bob",
    "owner": lambda one: one["consumer"] == "owner",
    "carol": lambda one: one["consumer"] == "carol" or one["group"] == "atlas",
}
UP, DOWN = frozenset({"boot", "load", "receive"}), frozenset({"stop", "send", "saved", "end", "fail"})
BEGINS_AGAIN = frozenset({"machines-lost", "handed-back"})
"""Why a lease is over where it was lent while its own gateway lets it begin again, or go on, perhaps there."""
GRACE_MS = 5_000
"""Machines may come up so long after a lease is over, for an order that was under way."""
ON_ITS_WAY_MS = 5_000
"""What a site says of its nodes may need so long until a process has taken it in."""
LEAVING = frozenset({"suspend", "send", "stop"})


@dataclass(slots=True)
class Call:
    """One call, as its caller saw it; status 0: there was no answer. Times are true seconds."""

    who: str
    to: str
    method: str
    path: str
    body: Any
    key: str
    sent_s: float
    answered_s: float = 0.0
    status: int = 0
    answer: Any = None
    problem: str = ""


@dataclass(frozen=True, slots=True)
class View:
    """One thing as somebody saw it between two moments."""

    sent_s: float
    answered_s: float
    shown: dict[str, Any]


@dataclass(slots=True)
class Done:
    """One line of the machines' own record."""

    at_ms: int
    lease: int
    incarnation: int
    action: str


@dataclass(slots=True)
class Judge:
    """Says what is wrong by ``violated``; ``begin_ms`` is the true time at second 0."""

    violated: Callable[[str], None]
    slots: dict[str, dict[str, int]]
    sites: dict[str, Site]
    begin_ms: int
    by_key: dict[tuple[str, str], Call] = field(default_factory=dict)
    used: dict[str, str] = field(default_factory=dict)
    views: dict[tuple[str, str, int], list[View]] = field(default_factory=lambda: defaultdict(list))
    extended: dict[tuple[str, int], list[Call]] = field(default_factory=lambda: defaultdict(list))
    accepted: int = 0
    calls: int = 0

    # while it storms

    def heard(self, call: Call) -> None:
        """Take in one call and its answer."""
        self.calls += 1
        if call.key:
            self.used[call.key] = call.to
        if call.method == "POST" and call.path.endswith("/extension"):
            self.extended[call.to, int(call.path.split("/")[3])].append(call)
        if not call.status:
            return
        self._status(call)
        if call.method == "POST" and call.path in CREATES and call.status in {200, 201}:
            self._created(call)
        if call.status in {200, 201} and call.path.split("?")[0].startswith(CREATES):
            self._shown(call)

    def _status(self, call: Call) -> None:
        broken = call.path == "/healthz" and call.status != 200
        if broken or (call.status >= 500 and call.status != 503):
            self.violated(f"{call.method} {call.path} {call.body} at {call.to}: {call.status} {call.answer}"[:700])

    def _created(self, call: Call) -> None:
        """One key is one request, whoever heard of it and however often it was sent."""
        first = self.by_key.setdefault((call.to, call.key), call)
        if first is call:
            self.accepted += 1
        elif first.answer["id"] != call.answer["id"]:
            self.violated(f"key {call.key} has two: {first.answer['id']} and {call.answer['id']}")

    def _shown(self, call: Call) -> None:
        kind = call.path.partition("?")[0].split("/")[2]
        if isinstance(call.answer, dict) and "id" in call.answer:
            self._one(call, kind, call.answer)
            return
        listed: list[dict[str, Any]] = next(
            (call.answer[key] for key in ("leases", "jobs", "coallocations") if key in call.answer), []
        )
        for one in listed:
            self._one(call, kind, one)
            may_see = MAY_SEE.get(call.who)
            if may_see is not None and not may_see(one):
                self.violated(f"{call.who} sees {kind} {one['id']} of {one['consumer']}")
        if kind == "leases" and call.who == "admin" and call.method == "GET":
            self._room(call.to, listed)

    def _room(self, process: str, leases: list[dict[str, Any]]) -> None:
        """No site is said to hold more than it has."""
        held: Counter[str] = Counter()
        for one in leases:
            held[one["site"]] += one["vms"] if one["state"] in HOLDS else 0
        for site, slots in self.slots[process].items():
            if held[site] > slots:
                self.violated(f"{process} says that {held[site]} VMs are at {site}, which has {slots}")

    def _one(self, call: Call, kind: str, shown: dict[str, Any]) -> None:
        """What was seen before a call was made is not undone in its answer."""
        view = View(call.sent_s, call.answered_s, shown)
        known = self.views[call.to, kind, shown["id"]]
        for earlier in known:
            if earlier.answered_s < view.sent_s:
                self._follows(call, kind, earlier.shown, shown)
            elif view.answered_s < earlier.sent_s:
                self._follows(call, kind, shown, earlier.shown)
        if kind == "leases" and known and (known[-1].shown == shown):
            known[-1] = View(known[-1].sent_s, known[-1].answered_s, shown)  # nothing new
        else:
            known.append(view)

    def _follows(self, call: Call, kind: str, before: dict[str, Any], after: dict[str, Any]) -> None:
        what = f"{kind} {after['id']} at {call.to}"
        if before["state"] in FINAL:
            changed = [key for key in before if before[key] != after.get(key)]
            if kind == "leases" and changed:
                self.violated(f"{what} was {before['state']}, which is final, and then {after['state']}: {changed}")
            elif before["state"] != after["state"]:
                self.violated(f"{what} was {before['state']}, which is final, and then {after['state']}")
        if kind != "leases":
            return
        for key in NEVER_CHANGES:
            if before[key] != after[key]:
                self.violated(f"{what}: {key} was {before[key]!r}, and then {after[key]!r}")
        for key in ONLY_GROWS:
            if before[key] > after[key]:
                self.violated(f"{what}: {key} was {before[key]!r}, and then {after[key]!r}")

    # afterwards

    def kept(self, process: str, journal: list[dict[str, Any]]) -> None:
        """Compare what is kept with the journal, and with what callers were told."""
        self._gapless(process, journal)
        told: dict[int, list[dict[str, Any]]] = defaultdict(list)
        for line in journal:
            if line["lease"] is not None and line["state"]:
                told[line["lease"]].append(line)
        for lease, lines in told.items():
            for line in lines:
                if line["what"] == "reported" and line["site"] in self.slots[process]:
                    self.violated(f"{process}: its own site {line['site']} is said to have reported on lease {lease}")
            ours = [line for line in lines if line["what"] != "reported"]  # the others are the word of a site
            over = next((at for at, line in enumerate(ours) if line["state"] in FINAL), len(ours) - 1)
            if {line["state"] for line in ours[over:]} != {ours[over]["state"]}:
                story = " > ".join(f"{line['what']}:{line['state']}@{line['site']}({line['reason']})" for line in lines)
                self.violated(f"{process}: the journal of lease {lease} goes on after its end: {story}"[:900])
        for (to, kind, number), views in self.views.items():
            last = max(views, key=lambda view: view.answered_s).shown
            if to != process:
                continue
            said = told[number][-1]["state"] if kind == "leases" and told[number] else ""
            if kind == "leases" and said != last["state"]:
                self.violated(f"{process}: lease {number} is {last['state']}, and in the journal {said!r}")
        self._once(process)
        self._owners_first(process, told)
        self._nothing_lost(process)
        self._extensions(process)

    def _owners_first(self, process: str, told: dict[int, list[dict[str, Any]]]) -> None:
        """A local request that fits beside what may not be disturbed begins when it comes, if all nodes are up."""
        all_ = [views[-1].shown for (to, kind, _), views in self.views.items() if (to, kind) == (process, "leases")]
        firm = [one for one in all_ if one["local"] or one["type"] == "non-preemptable"]
        for one in (one for one in firm if one["local"] and one["state"] != "refused"):
            came = one["submitted_at"]
            beside = [
                other["vms"]
                for other in firm
                if (other["site"] or other["home"]) == one["home"]
                and other["submitted_at"] <= came
                and (other["ended_at"] is None or other["ended_at"] >= came)
            ]
            starts = [line["at"] for line in told[one["id"]] if line["what"] == "start"]
            fits = sum(beside) <= self.slots[process][one["home"]]
            if fits and starts[:1] != [came] and self._all_nodes_up(one["home"], _ms(came)):
                self.violated(f"{process}: local lease {one['id']} came at {came}, had room, and began {starts[:1]}")

    def _all_nodes_up(self, site: str, at_ms: int) -> bool:
        """Whether a gateway had no reason to take a node of its site for down; news may have been on its way."""
        told = self.sites[site].nodes_told
        before = [all_up for told_ms, all_up in told if told_ms <= at_ms - ON_ITS_WAY_MS][-1:]
        return all(before + [all_up for told_ms, all_up in told if abs(at_ms - told_ms) < ON_ITS_WAY_MS])

    def _once(self, process: str) -> None:
        """However often something was sent under its key, heard of or not, it is there once."""
        times = Counter(
            views[-1].shown["name"]
            for (to, kind, _), views in self.views.items()
            if to == process and not (kind == "leases" and (views[-1].shown["coallocation"] or views[-1].shown["job"]))
        )
        for name, count in times.items():
            if count > 1 and self.used.get(name) == process:
                self.violated(f"{process}: {name} is there {count} times")

        lent = Counter(
            views[-1].shown["name"]
            for (to, kind, _), views in self.views.items()
            if to == process and kind == "leases" and views[-1].shown["started_at"] is not None
            if views[-1].shown["reason"] not in BEGINS_AGAIN
        )
        for name, count in lent.items():
            if count > 1 and name.startswith("lease") and self.used.get(name, process) != process:
                self.violated(f"{process}: {name}, which came from {self.used[name]}, began {count} times")

    def _gapless(self, process: str, journal: list[dict[str, Any]]) -> None:
        numbers = [line["seq"] for line in journal]
        if numbers != list(range(1, len(numbers) + 1)):
            wrong = next(i for i, number in enumerate(numbers, 1) if number != i)
            self.violated(f"{process}: the journal has a gap at {wrong} of {len(numbers)}")

    def _nothing_lost(self, process: str) -> None:
        """Whatever was acknowledged is in the list that was read in the end, as it was asked for."""
        for (to, key), call in self.by_key.items():
            kind = call.path.split("/")[2]
            if to != process:
                continue
            last = max(self.views[to, kind, call.answer["id"]], key=lambda view: view.answered_s)
            if last.answered_s <= call.answered_s and last.shown["state"] not in FINAL:
                self.violated(f"{process}: {kind} {call.answer['id']} ({key}) was acknowledged, and is gone")

    def _extensions(self, process: str) -> None:
        """A lease lasts as long as was asked for and granted; perhaps longer, where nobody heard the answer."""
        for (to, number), calls in self.extended.items():
            views = self.views.get((to, "leases", number))
            if to != process or not views:
                continue
            asked = next(
                (
                    one.body
                    for (at, _), one in self.by_key.items()
                    if (at, one.path, one.answer["id"]) == (to, "/v1/leases", number)
                ),
                None,
            )
            if asked is None:
                continue
            granted = sum(call.body["by_s"] for call in calls if call.status == 200)
            perhaps = [call.body["by_s"] for call in calls if call.status in {0, 202, 503}]
            lasts = max(views, key=lambda view: view.answered_s).shown["duration_s"] - asked["duration_s"] - granted
            if lasts not in _sums(perhaps):
                self.violated(f"{to}: lease {number} was extended by {granted} s, and lasts {lasts} s more than that")

    def machines(self, process: str, sites: dict[str, tuple[Site, list[Done]]]) -> None:
        """Hold what was done to machines against what was promised."""
        lied_about = {lease for site, _ in sites.values() for lease in site.lied_about}
        self._never_twice(process, {name: done for name, (_, done) in sites.items()}, lied_about)
        for name, (site, done) in sites.items():
            self._all_down(name, done)
            self._room_was_made(site, done)
            self._over_is_over(process, site, done)

    def _never_twice(self, process: str, done: dict[str, list[Done]], lied_about: set[int]) -> None:
        """Each incarnation of a lease comes up once, in all the federation, and one after the other.

        A lease that is said to have failed starts elsewhere; if that was a lie, both may run for a moment.
        """
        times = Counter(
            (line.lease, line.incarnation) for lines in done.values() for line in lines if line.action in UP
        )
        for (lease, incarnation), count in times.items():
            if count > 1:
                self.violated(f"{process}: lease {lease}.{incarnation} came up {count} times")
        running: dict[int, dict[str, int]] = defaultdict(dict)
        lines = sorted(((line.at_ms, site, line) for site, all_ in done.items() for line in all_), key=lambda x: x[0])
        for at_ms, site, line in lines:
            if line.action == "run":
                running[line.lease][site] = line.incarnation
                if len(running[line.lease]) > 1 and line.lease not in lied_about:
                    self.violated(f"{process}: lease {line.lease} runs at {sorted(running[line.lease])} at {at_ms}")
            elif line.action in DOWN | {"save"}:
                running[line.lease].pop(site, None)

    def everywhere(self, done: dict[str, dict[str, list[Done]]]) -> None:
        """No lease runs in two processes at once, whoever passed it on to whom; ``done`` is by process and site.

        What one process calls differently than another is one lease by the name that its user gave it.
        """
        lied_about = {self._name(site.process, lease) for site in self.sites.values() for lease in site.lied_about}
        running: dict[str, set[tuple[str, str]]] = defaultdict(set)
        lines = [
            (line.at_ms, process, site, line)
            for process, sites in done.items()
            for site in sites
            for line in sites[site]
        ]
        for at_ms, process, site, line in sorted(lines, key=lambda one: one[0]):
            name = self._name(process, line.lease)
            if not name or name in lied_about:
                continue
            if line.action == "run":
                running[name].add((process, site))
                if len({where for where, _ in running[name]}) > 1:
                    at_s = (at_ms - self.begin_ms) / 1000
                    self.violated(f"{name} runs at {sorted(running[name])} at {at_s:.1f} s")
            elif line.action in DOWN | {"save"}:
                running[name].discard((process, site))

    def _name(self, process: str, lease: int) -> str:
        """The name of a lease that a user asked for as such, "" for others, and for what nobody has seen."""
        views = self.views.get((process, "leases", lease))
        name: str = views[-1].shown["name"] if views else ""
        return name if name.startswith("lease") else ""

    def reached(self) -> Counter[str]:
        """Count what of the federation the storm came to."""
        found: Counter[str] = Counter()
        for (process, kind, _), views in self.views.items():
            shown = views[-1].shown
            if kind == "leases" and shown["started_at"]:
                found["a lease over two gateways"] += len(shown["came_by"]) == 2
                found["a component at a manager"] += shown["coallocation"] is not None and shown["site"] == "far"
                found["a lease from a peer"] += bool(shown["came_by"])
            elif kind == "coallocations" and process == "home" and shown["state"] == "completed":
                found["a co-allocation over managers"] += any(part["site"] == "far" for part in shown["components"])
        return +found

    def _all_down(self, site: str, done: Iterable[Done]) -> None:
        """In the end nothing is left on any machine."""
        last = {line.lease: line for line in done}
        for lease, line in last.items():
            if line.action not in {"stop", "send"}:
                self.violated(f"{site}: the last that was done to lease {lease} is {line.action}")

    def _room_was_made(self, site: Site, done: list[Done]) -> None:
        """Who comes up finds room, or room that others have been told to leave."""
        up: dict[int, int] = {}
        leave: dict[int, int] = {}
        vms = {told.order.lease_id: told.order.vms for told in site.told}
        orders = site.told[::-1]
        for line in done:
            while orders and orders[-1].at_ms <= line.at_ms:
                order = orders.pop().order
                if order.verb.value in LEAVING:
                    leave[order.lease_id] = max(order.incarnation, leave.get(order.lease_id, 0))
            if line.action in UP:
                up[line.lease] = line.incarnation
                known = up.keys() - site.lied_about
                stay = {one: vms.get(one, 0) for one in sorted(known) if leave.get(one, 0) < up[one]}
                if sum(stay.values()) > site.slots:
                    self.violated(
                        f"{site.name}: {stay} VMs by lease are up, and told to stay, on {site.slots} slots"
                        f" when lease {line.lease} comes up at {line.at_ms - self.begin_ms} ms"
                    )
            elif line.action in DOWN:
                up.pop(line.lease, None)

    def _over_is_over(self, process: str, site: Site, done: list[Done]) -> None:
        """Machines of a lease that somebody saw end do not come up any more, but by an order that silence held up."""
        for line in done:
            views = self.views.get((process, "leases", line.lease), [])
            ends_s = [view.answered_s for view in views if view.shown["state"] in FINAL]
            if line.action not in UP or not ends_s:
                continue
            end_ms = self.begin_ms + round(1000 * min(ends_s))
            got_through = any(0 <= line.at_ms - let_go_ms <= GRACE_MS for let_go_ms in site.let_go_ms)
            was_on_its_way = got_through and any(
                told.order.lease_id == line.lease
                and told.order.incarnation == line.incarnation
                and told.order.verb.value not in LEAVING
                and end_ms - round(1000 * ANSWER_WITHIN_S) <= told.at_ms < end_ms
                for told in site.told
            )
            if line.at_ms > end_ms + GRACE_MS and not was_on_its_way:
                self.violated(f"{site.name}: lease {line.lease} came up at {line.at_ms - self.begin_ms} ms, long over")


def record_of(path: Path) -> list[Done]:
    """Read what the machines of a site have written down themselves."""
    with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as connection:
        rows = connection.execute("SELECT at_ms, lease_id, incarnation, action FROM audit ORDER BY number")
        return [Done(*row) for row in rows]


def _sums(parts: list[int]) -> set[int]:
    sums = {0}
    for part in parts:
        sums |= {one + part for one in sums}
    return sums


def _ms(moment: str) -> int:
    return round(datetime.fromisoformat(moment).timestamp() * 1000)
