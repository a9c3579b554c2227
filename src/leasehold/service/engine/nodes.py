"""The nodes of all sites: what was last seen of each, and how often it failed.

What a node is like is discovered, and kept with the time at which it was seen: after a restart that is what is
known until the next look. A failure counts once, however often the node is seen with it.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import lru_cache
from heapq import nsmallest
from itertools import chain
from operator import attrgetter

from leasehold.jobs.events import (
    JobEvent,
    NodeFell,
    NodeOffers,
    NodesSeen,
    RoomLeft,
    RoomTaken,
    SeenNode,
    Turn,
)
from leasehold.jobs.job import NOT_YET, Fault, behind, provider_of, site_of
from leasehold.jobs.state import NodeHistory
from leasehold.matching.needs import Amounts
from leasehold.matching.nodes import Node, NodeCapabilities
from leasehold.matching.software import Installed
from leasehold.model.lease import Lease, LeaseState
from leasehold.model.request import GPU_MILLI
from leasehold.service.commands import JobNodesOffered, JobNodesSeen, JobSiteSilent
from leasehold.service.drivers.facts import NodeFacts
from leasehold.service.drivers.protocol import Observation, Phase, PlacementConstraints
from leasehold.service.engine.outages import NodeOutages
from leasehold.service.engine.unit_of_work import UnitOfWork
from leasehold.service.messages.about_jobs import MOST_OF_A_PEER, NodesOffered, NodesTold, NodeTold
from leasehold.service.store.rows import NODES, NodeRow

NOT_LISTED = "is not among the nodes of its site any more"
SITE_SILENT = "the site does not answer"
SITE_CLOSED = "its site takes no leases now"
_IN_ROOM = frozenset({Phase.STARTING, Phase.RUNNING, Phase.RESUMING, Phase.RECEIVING})
_USUAL_BYTES_PER_S = 125_000_000
_FAULTS = {fault.value: fault for fault in Fault}

NAMED = 5
"""So many nodes of a kind are named."""

_OF_EACH = frozenset(
    ("name", "seen_ms", "first_ms", "fault", "failures", "failed_ms", "charged", "watched_ms", "well_ms")
)
_FACTS = tuple(column for column in NodeRow.__annotations__ if column not in _OF_EACH)
facts_of = attrgetter(*_FACTS)
"""All that is known of a node, but for its name, when it was seen, and how it failed before."""
_seen_facts_of = attrgetter("seen_ms", *_FACTS)

_LIGHT = ("free_cores", "free_memory_mib", "free_disk_mib", "free_gpus", "seen_ms", "charged", "watched_ms", "well_ms")
"""What may change of a node at each look."""

_heavy = attrgetter(*(each.name for each in fields(NodeRow) if each.name not in _LIGHT))
"""The rest of it."""

NODE_BATCH = 200
"""The engine takes in no more nodes in one step: requests come in between."""

_amounts = lru_cache(4_096)(Amounts)
"""Most nodes have as much as some other, and as much of it free."""


@dataclass(slots=True)
class Kind:
    """Nodes of a site of which the same was seen at the same time; ``row`` is one of them, as it was then."""

    key: object
    row: NodeRow
    names: set[str] = field(default_factory=set)
    first: tuple[str, ...] | None = None
    """The first few by name, computed on demand."""

    @property
    def count(self) -> int:
        """How many there are."""
        return len(self.names)

    @property
    def nodes(self) -> tuple[str, ...]:
        """The first few by name."""
        if self.first is None:
            self.first = first_of(self.names)
        return self.first


class Kinds:
    """All nodes, those together that differ in nothing but their names, and in how they failed before."""

    def __init__(self) -> None:
        """Begin without any."""
        self._of_node: dict[str, Kind] = {}
        self._kinds: dict[object, Kind] = {}

    def __iter__(self) -> Iterator[Kind]:
        return iter(self._kinds.values())

    def put(self, row: NodeRow) -> None:
        """Take in a node, in place of what was known of it."""
        name, key = row.name, _key(row)
        before = self._of_node.get(name)
        if before is not None:
            if before.key == key:
                return
            before.names.remove(name)
            before.first = None
            if not before.names:
                del self._kinds[before.key]
        kind = self._kinds.get(key)
        if kind is None:
            kind = self._kinds[key] = Kind(key, row)
        kind.names.add(name)
        kind.first = None
        self._of_node[name] = kind

    def drop(self, name: str) -> None:
        """Forget a node."""
        kind = self._of_node.pop(name)
        kind.names.remove(name)
        kind.first = None
        if not kind.names:
            del self._kinds[kind.key]


def _key(row: NodeRow) -> object:
    """Give all in which nodes of a kind are equal; of those that were missed also when that was."""
    seen = _seen_facts_of(row)
    return (seen, row.failed_ms) if row.problem == NOT_LISTED else seen


def first_of(names: Iterable[str]) -> tuple[str, ...]:
    """Give the first few names."""
    return tuple(nsmallest(NAMED, names))


@dataclass(frozen=True, slots=True)
class NodeSource:
    """Who tells of nodes: the manager of a site, or a peer, which tells of several sites.

    ``ages_ms``  the sites whose nodes are believed, as they are called here, and how old it is what is told of each
    ``turns``    when the sites of a peer are considered
    """

    name: str
    ages_ms: Mapping[str, int]
    turns: Mapping[str, Turn] = field(default_factory=dict)
    is_peer: bool = False

    def called(self, node: str) -> str:
        """Give the name here of a node that it calls so."""
        return behind(self.name, node) if self.is_peer else f"{self.name}/{node}"


class NodeRepository:
    """Takes in what is seen of nodes; ``rows`` are all that were ever seen.

    A node that its site does not list any more counts as dead, and for ``gone_after_ms`` as one that may come
    back; then it is permanently gone. A node that is listed as down may always come back.
    """

    def __init__(
        self,
        rows: Collection[NodeRow],
        unit: UnitOfWork,
        outages: NodeOutages,
        sites: Collection[str],
        gone_after_ms: int,
        now_ms: int,
    ) -> None:
        """Begin with those in the store; ``sites`` tell of theirs, and ``changes`` counts what is noted of any."""
        self._unit = unit
        self._outages = outages
        self._sites = sites
        self.changes = 0
        self.changes_of: Counter[str] = Counter()
        """The same for each site."""
        self._rooms: dict[int, tuple[int, RoomTaken]] = {}
        self.room_news: dict[int, RoomTaken | RoomLeft] = {}
        self._gone_after_ms = gone_after_ms
        self.rows: dict[str, NodeRow] = {row.name: row for row in rows}
        self._of_site: dict[str, set[str]] = {}
        self._missed: dict[str, set[str]] = {}
        """Of them, those that their site did not list when it was last asked."""
        self._listed: dict[str, tuple[frozenset[str], frozenset[str]]] = {}
        """What sites that report in parts list: as they call their nodes, and as these are called here."""
        self._able: dict[str, NodeCapabilities] = {}
        self._lost = {row.site for row in rows if _is_lost(row)}
        self._kinds = Kinds()
        for row in rows:
            self._note(row)
            if not self.is_gone(row, now_ms):
                self._say_if_down(row, now_ms)
        self._awaited: dict[str, Collection[str]] = {}
        """All nodes of a site that reports them in parts, until all have been reported."""
        self._held_back: dict[str, dict[str, NodeRow]] = {}
        """What is not written yet of such sites: a restart must not take a part for all."""

    def of_sites(self, sites: Iterable[str]) -> Iterator[NodeRow]:
        """Give the nodes of these sites."""
        return (self.rows[name] for site in sites for name in self._of_site.get(site, ()))

    def sites(self) -> list[str]:
        """List the sites that ever reported their nodes."""
        return sorted(self._of_site)

    def too_small(self, memory_mib: int, sites: Collection[str], now_ms: int) -> NodeRow | None:
        """Give the largest node of these sites where even that has too little; None where one may do."""
        there: list[NodeRow] = []
        for row in self.rows.values():
            if row.site not in sites or self.is_gone(row, now_ms):
                continue
            if row.memory_mib >= memory_mib:
                return None  # nearly always, and at the first look
            there.append(row)
        if not there or {row.site for row in there} != set(sites) or self._awaited.keys() & set(sites):
            return None
        return max(there, key=lambda row: (row.memory_mib, row.name))

    def remembered(self, site: str, now_ms: int) -> list[tuple[str, ...]]:
        """Name the nodes of a site that are there or may come back, in parts for `recall`; at least one."""
        names = sorted(self._known(site, now_ms))
        return [tuple(names[first : first + NODE_BATCH]) for first in range(0, len(names), NODE_BATCH)] or [()]

    def recall(
        self, site: str, names: Sequence[str], closed: Collection[str], now_ms: int, turn: Turn = Turn.FIRST
    ) -> NodesSeen:
        """Tell again what was last seen of some of a site's nodes; ``closed`` take no leases now.

        ``turn``  when they are considered
        """
        known = self._known(site, now_ms)
        seen = tuple(self._seen_node(self.rows[name], closed) for name in names if name in known)
        return NodesSeen(site, seen, frozenset(known).union(self._awaited.get(site, ())), turn)

    def _known(self, site: str, now_ms: int) -> Collection[str]:
        """Name the nodes of a site that are there or may come back."""
        there = self._of_site.get(site, set())
        gone = [name for name in self._missed.get(site, ()) if self.is_gone(self.rows[name], now_ms)]
        return there.difference(gone) if gone else there

    def kinds(self, now_ms: int) -> Iterator[Kind]:
        """Give all nodes that are not gone, those together of which the same is known."""
        return (kind for kind in self._kinds if not self.is_gone(kind.row, now_ms))

    def is_gone(self, row: NodeRow, now_ms: int) -> bool:
        """Whether a node was not listed for so long that it is not waited for any more."""
        since_ms = row.failed_ms
        return row.problem == NOT_LISTED and since_ms is not None and now_ms - since_ms >= self._gone_after_ms

    def see(self, command: JobNodesSeen, closed: Collection[str], now_ms: int) -> list[JobEvent]:
        """Take in nodes of a site, and miss those that it does not have any more."""
        site = command.site
        there = {f"{site}/{facts.name}": facts for facts in command.nodes}
        listed = there.keys() if command.names is None else self._as_listed(site, command.names)
        before = {name: self.rows[name] for name in there if name in self.rows}
        asked_ms = now_ms if command.asked_ms is None else min(command.asked_ms, now_ms)
        if listed - self._of_site.get(site, set()) <= there.keys():
            self._awaited.pop(site, None)
            for row in self._held_back.pop(site, {}).values():
                self._unit.put(NODES, row)
        else:
            self._awaited[site] = listed
        for name, facts in there.items():
            self._keep(_row(name, site, facts, before.get(name), asked_ms))
            self._say_if_down(self.rows[name], now_ms, facts.vm_cores, comes_up=facts.comes_up)
        missed = self._of_site.get(site, set()) - listed
        for name in missed:
            self._be_missed(self.rows[name], now_ms)
            if self.is_gone(self.rows[name], now_ms):
                self._outages.forget(site, name)
        known = frozenset(self._known(site, now_ms)).union(listed)
        reported = sorted((there.keys() | missed) & known)
        seen = NodesSeen(site, tuple(self._seen_node(self.rows[name], closed) for name in reported), known)
        return [seen]

    def offered(self, command: JobNodesOffered, closed: Collection[str], now_ms: int) -> list[JobEvent]:
        """Take in the offers of nodes that are known; of any other the next look tells."""
        site, asked_ms = command.site, min(command.asked_ms, now_ms)
        if site in closed or site in self._awaited:
            return []
        events: list[JobEvent] = []
        for facts in command.nodes:
            before = self.rows.get(f"{site}/{facts.name}")
            if before is None or before.problem == NOT_LISTED or facts.problem or before.seen_ms > asked_ms:
                continue
            self._keep(_row(before.name, site, facts, before, asked_ms))
            self._say_if_down(self.rows[before.name], now_ms, facts.vm_cores, comes_up=facts.comes_up)
            events.append(NodeOffers(self._seen_node(self.rows[before.name], closed), command.until_ms))
        return events

    def _as_listed(self, site: str, names: frozenset[str]) -> frozenset[str]:
        """Give the names under which the nodes of a site are known here; its parts all list the same ones."""
        known = self._listed.get(site)
        if known is None or known[0] is not names:
            known = self._listed[site] = names, frozenset([f"{site}/{name}" for name in names])
        return known[1]

    def hear(self, source: NodeSource, told: NodesTold, closed: Collection[str], now_ms: int) -> list[JobEvent]:
        """Take in what is told of nodes; those of an earlier listing are none any more.

        They count as seen just before the message came in, less its age: an attempt whose start is reported in a
        later message, or in the same step, is not in what they have free. The clocks of both sides do not matter.
        """
        before = self._of_provider(source.name)
        room = MOST_OF_A_PEER - sum(len(self._of_site[site]) for site in before)
        seen_ms = {site: now_ms - 1 - age_ms for site, age_ms in source.ages_ms.items()}
        there: dict[str, NodeTold] = {}
        for node in told.nodes:
            name = source.called(node.name)
            is_new = name not in self.rows
            if site_of(name) in seen_ms and (room > 0 or not (is_new and source.is_peer)):
                there[name] = node
                room -= is_new
        names = {*there}
        for name, node in there.items():
            known = self.rows.get(name)
            installed = frozenset[tuple[str, str]]() if known is None else known.software
            software = frozenset(told.software[node.software]) if node.software >= 0 else installed
            row = _row(name, site_of(name), _facts_told(node, software), known, seen_ms[site_of(name)])
            self._keep(replace(row, listing=told.listing))
        sites = sorted({*before, *source.ages_ms})
        own = set[str]().union(*(self._of_site.get(site, ()) for site in sites))
        missed = {*map(source.called, told.gone)} & own
        if told.complete:
            missed |= {name for name in own if self.rows[name].listing != told.listing}
            same = [row for name in own - missed - there.keys() if not _is_lost(row := self.rows[name])]
            for row in same:
                self._keep(replace(row, seen_ms=max(row.seen_ms, seen_ms.get(row.site, row.seen_ms))))
            names |= {row.name for row in same}
            if not any(_is_lost(self.rows[name]) for name in own):
                self._lost.difference_update(sites)
        for name in missed:
            self._be_missed(self.rows[name], now_ms)
        return [self._told_of(site, names | missed, closed, source, now_ms) for site in sites]

    def _told_of(
        self, site: str, names: Collection[str], closed: Collection[str], source: NodeSource, now_ms: int
    ) -> NodesSeen:
        """Give what is new of a site, of these of its nodes."""
        known = frozenset(self._known(site, now_ms))
        seen = tuple(self._seen_node(self.rows[name], closed) for name in sorted(known.intersection(names)))
        return NodesSeen(site, seen, known, source.turns.get(site, Turn.FIRST))

    def _of_provider(self, provider: str) -> list[str]:
        """List the sites that this one, or this peer, has told of."""
        return [site for site in self.sites() if provider_of(site) == provider]

    def hear_offers(
        self, source: NodeSource, told: NodesOffered, closed: Collection[str], now_ms: int
    ) -> list[JobEvent]:
        """Take in the offers that a manager, or a peer, passes on, of nodes that it has told; as in `hear`.

        What it tells of a node is believed even where nothing may start there now: it is not told again.
        """
        events: list[JobEvent] = []
        for offer in told.offers:
            before = self.rows.get(source.called(offer.node.name))
            if before is None or before.problem == NOT_LISTED or before.site not in source.ages_ms:
                continue
            facts = _facts_told(offer.node, before.software)
            row = replace(
                _row(before.name, before.site, facts, before, now_ms - 1 - offer.age_ms), listing=before.listing
            )
            self._keep(row)
            events.append(NodeOffers(self._seen_node(row, closed), now_ms + offer.lasts_ms))
        return events

    def is_lost(self, site: str) -> bool:
        """Whether nodes of a site, or of a peer, count as failed only because it did not answer."""
        return any(provider_of(one) == site for one in self._lost)

    def forget(self, site: str) -> list[JobEvent]:
        """Forget a site or peer that will not come back, with its nodes."""
        return [event for one in self._of_provider(site) for event in self._forget(one)]

    def _forget(self, site: str) -> list[JobEvent]:
        names = self._of_site.pop(site, set())
        self._missed.pop(site, None)
        self._lost.discard(site)
        for name in names:
            self._kinds.drop(name)
            self._able.pop(name, None)
            del self.rows[name]
        if names:
            self._unit.remove(NODES, site=site)
        return [NodesSeen(site, (), frozenset())] if names else []

    def lose(self, command: JobSiteSilent, now_ms: int) -> list[JobEvent]:
        """A site or peer does not answer: its nodes cannot be reached. Whether they are down is not known."""
        fault = Fault.NETWORK_FAILED
        events: list[JobEvent] = []
        for name in sorted(chain.from_iterable(self._of_site[site] for site in self._of_provider(command.site))):
            row = self.rows[name]
            if not row.fault:
                problem = f"{SITE_SILENT}: {command.why}"
                failed = replace(row, problem=problem, fault=fault.value, failures=row.failures + 1)
                self._keep(replace(failed, failed_ms=now_ms))
                self._lost.add(row.site)
                events.append(NodeFell(name, fault, problem))
        return events

    # What leases hold that are not attempts

    def follow(
        self, lease: Lease, constraints: PlacementConstraints, now_ms: int, *, after_a_restart: bool = False
    ) -> RoomTaken | None:
        """Note whether a lease that is not an attempt holds machines now; returns what it has released.

        After a restart those that run have been seen to. No node is known where anything is, but of an attempt that
        another gateway has sent to nodes here.
        """
        known = self._rooms.get(lease.id)
        if lease.held_since_ms < 0:
            if known is None:
                return None
            del self._rooms[lease.id]
            self.room_news[lease.id] = RoomLeft(lease.id, now_ms)
            return known[1]
        if lease.site in self._sites and (known is None or known[0] != lease.incarnation):
            was_seen = after_a_restart and lease.state is LeaseState.RUNNING
            since_ms = lease.held_since_ms if was_seen else NOT_YET
            each, names = _held_by(lease, constraints)
            nodes = tuple(f"{lease.site}/{name}" for name in names)
            self._know(lease.incarnation, RoomTaken(lease.id, lease.site, lease.vms, each, nodes, since_ms))
        return None

    def saw(self, site: str, seen: Observation, now_ms: int) -> RoomTaken | None:
        """Note where the machines of a lease are; gives what is new of one that is no attempt, None for nothing."""
        nodes = tuple(f"{site}/{name}" for name in seen.nodes)
        if seen.phase in _IN_ROOM:
            self._outages.place(site, seen.lease_id, seen.incarnation, nodes)
        incarnation, room = self._rooms.get(seen.lease_id, (-1, None))
        if room is None or incarnation != seen.incarnation or seen.phase not in _IN_ROOM:
            return None
        nodes = nodes or room.nodes
        since_ms = now_ms if room.since_ms < 0 else room.since_ms
        if (nodes, since_ms) == (room.nodes, room.since_ms):
            return None
        return self._know(incarnation, replace(room, nodes=nodes, since_ms=since_ms))

    def _know(self, incarnation: int, room: RoomTaken) -> RoomTaken:
        self._rooms[room.lease_id] = (incarnation, room)
        self.room_news[room.lease_id] = room
        return room

    def take_room_news(self) -> list[RoomTaken | RoomLeft]:
        """Take out what is new of such leases, of each only how it is now."""
        news = [*self.room_news.values()]
        self.room_news.clear()
        return news

    # How reliable they are

    def watched(self) -> dict[str, NodeHistory]:
        """Tell again how long nodes were watched, and how often they failed."""
        return {name: NodeHistory(row.charged, row.watched_ms, row.well_ms) for name, row in self.rows.items()}

    def note_watched(self, news: Mapping[str, NodeHistory]) -> None:
        """Keep with the nodes how long they were watched, and how often they failed."""
        for name, watched in news.items():
            row = self.rows.get(name)
            if row is None:
                continue
            noted = (watched.failures, watched.watched_ms, watched.well_ms)
            if noted != (row.charged, row.watched_ms, row.well_ms):
                row.charged, row.watched_ms, row.well_ms = noted  # nothing else is known by these
                self._write(row, is_light=True)

    # How

    def _keep(self, row: NodeRow) -> None:
        """Keep what is new; where only what is free has changed, no more than that is written."""
        self.changes += 1
        self.changes_of[row.site] += 1
        before = self.rows.get(row.name)
        self.rows[row.name] = row
        is_light = before is not None and _heavy(before) == _heavy(row)
        if not is_light:
            self._able.pop(row.name, None)
        self._note(row)
        self._write(row, is_light=is_light)

    def _note(self, row: NodeRow) -> None:
        self._of_site.setdefault(row.site, set()).add(row.name)
        if row.problem == NOT_LISTED:
            self._missed.setdefault(row.site, set()).add(row.name)
        elif row.site in self._missed:
            self._missed[row.site].discard(row.name)
        self._kinds.put(row)

    def _write(self, row: NodeRow, *, is_light: bool) -> None:
        if is_light and row.name not in self._held_back.get(row.site, ()):
            self._unit.change(NODES, row, _LIGHT)
        elif row.site in self._awaited:
            self._held_back.setdefault(row.site, {})[row.name] = row
        else:
            self._unit.put(NODES, row)

    def _be_missed(self, row: NodeRow, now_ms: int) -> None:
        if row.problem != NOT_LISTED:
            failures = row.failures if row.fault else row.failures + 1
            missed = replace(row, problem=NOT_LISTED, fault=Fault.NODE_DIED.value, failures=failures)
            self._keep(missed := replace(missed, failed_ms=now_ms))
            self._say_if_down(missed, now_ms)

    def _say_if_down(self, row: NodeRow, now_ms: int, vm_cores: int = 1, *, comes_up: bool = False) -> None:
        """Let plans do without a node that is down, but for one that ``comes_up`` when something starts there.

        Nodes of a silent site are not known to be down: no guest gives way to an owner who may find them free. Those
        of a site with a manager of its own are in no plan here.
        """
        if row.listing:
            return
        is_down = bool(row.problem) and not comes_up and not _is_lost(row)
        vms, idle_vms = row.cores // vm_cores, (row.cores if row.fault else row.free_cores) // vm_cores
        since_ms = now_ms if not row.fault or row.failed_ms is None else row.failed_ms
        self._outages.see(row.site, row.name, vms, idle_vms if is_down else None, since_ms)

    def _seen_node(self, row: NodeRow, closed: Collection[str]) -> SeenNode:
        """A node for the job scheduler; one of a closed site has a problem, so that no attempt is placed there."""
        able = self._able.get(row.name)
        if able is None:
            able = self._able[row.name] = _capabilities(row)
        problem = row.problem or (SITE_CLOSED if provider_of(row.site) in closed else "")
        fault = _FAULTS[row.fault] if row.fault else None
        return SeenNode(_node_as(able, row), row.is_host, row.runs, problem, fault)


def _held_by(lease: Lease, constraints: PlacementConstraints) -> tuple[Amounts, tuple[str, ...]]:
    """Say what each machine of a lease has, and on which nodes."""
    memory_mib = lease.request.memory_mib
    if not lease.placed:
        return Amounts(max(1, constraints.cores), memory_mib), constraints.nodes
    devices = sum(len(devices) for _, _, devices in lease.placed)
    names = tuple(name for name, machines, _ in lease.placed for _ in range(machines))
    gpus = (min(GPU_MILLI, lease.request.gpu_milli),) * -(-devices // lease.vms)
    return Amounts(lease.request.cores, memory_mib, 0, gpus), names


def node_of(row: NodeRow) -> Node:
    """Read a node as matching knows it."""
    return _node_as(_capabilities(row), row)


def _capabilities(row: NodeRow) -> NodeCapabilities:
    return NodeCapabilities(
        name=row.name,
        total=_amounts(row.cores, row.memory_mib, row.disk_mib, (GPU_MILLI,) * row.gpus),
        cpu_mhz=row.cpu_mhz,
        software=row.software,
        place=row.site,
        bytes_per_s=row.bytes_per_s or _USUAL_BYTES_PER_S,
        takes_files=row.takes_files,
        gets_images=False,  # each is built where it is used
        gpu_model=row.gpu_model,
        gpu_shares=row.gpu_shares,
    )


def _node_as(able: NodeCapabilities, row: NodeRow) -> Node:
    free = _amounts(row.free_cores, row.free_memory_mib, row.free_disk_mib, row.free_gpus)
    return Node(capabilities=able, free=free, seen_ms=row.seen_ms)


def _row(name: str, site: str, facts: NodeFacts, before: NodeRow | None, now_ms: int) -> NodeRow:
    fault = facts.fault if facts.fault in _FAULTS else ""
    has_failed = bool(fault) and (before is None or before.fault != fault)
    failed_ms = None if before is None else before.failed_ms
    return NodeRow(
        name=name,
        site=site,
        cores=facts.cores,
        memory_mib=facts.memory_mib,
        disk_mib=facts.disk_mib,
        free_cores=min(facts.free_cores, facts.cores),
        free_memory_mib=min(facts.free_memory_mib, facts.memory_mib),
        free_disk_mib=min(facts.free_disk_mib, facts.disk_mib),
        cpu_mhz=facts.cpu_mhz,
        bytes_per_s=facts.bytes_per_s,
        software=facts.software,
        is_host=facts.is_host,
        runs=facts.runs,
        takes_files=facts.takes_files,
        gpu_model=facts.gpu_model,
        gpus=facts.gpus,
        gpu_shares=facts.gpu_shares,
        free_gpus=facts.free_gpus,
        problem=facts.problem,
        fault=fault,
        seen_ms=now_ms,
        first_ms=now_ms if before is None else before.first_ms,
        failures=(0 if before is None else before.failures) + has_failed,
        failed_ms=now_ms if has_failed else failed_ms,
        charged=0.0 if before is None else before.charged,
        watched_ms=0 if before is None else before.watched_ms,
        well_ms=NOT_YET if before is None else before.well_ms,
        listing=0,
    )


def _facts_told(node: NodeTold, software: Installed) -> NodeFacts:
    """Give a node as its manager tells it."""
    return NodeFacts(**node.model_dump() | {"software": software})


def _is_lost(row: NodeRow) -> bool:
    """Whether a node counts as failed only because its site or peer did not answer."""
    return row.problem.startswith(SITE_SILENT)
