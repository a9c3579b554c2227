"""What is known of nodes, and what of them can be promised to one more attempt?

Rule: a node has free what was seen to be free there, less what was promised to attempts and given to other
leases that were not there when it was seen, plus what other leases that were there have given back since;
and never more than it has in all less what all of them have there. So no core and no MiB is promised twice,
whatever a site says and however old that is. Machines whose node is unknown may be
on any node of their site, and are counted on each.

A node that *fell* is down until it was seen sound again, later than it fell. One that is *in doubt*, because
its site would not take what should have fitted, is there, and has no room until then.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, groupby
from typing import Any

from leasehold.jobs.events import RoomLeft, RoomTaken, SeenNode, Turn
from leasehold.jobs.job import NOT_YET, Fault, site_of
from leasehold.matching.choice import NodePool
from leasehold.matching.devices import have_shares, less, more
from leasehold.matching.needs import NOTHING, Amounts
from leasehold.matching.node_index import NodeIndex
from leasehold.matching.nodes import Network, Node, NodeCapabilities

_SIGHTINGS_KEPT = 8
"""Of how many looks at a site it is kept what they did not see."""

STALE_MS = -(10**18)
"""When a node was seen that is in doubt: longer ago than anything may be relied upon."""

Holder = tuple[int, int]
"""A job and the number of its attempt."""


@dataclass(slots=True)
class Promise:
    """What an attempt was promised on a node, and since when it uses it."""

    amounts: Amounts
    begun_ms: int = NOT_YET


@dataclass(frozen=True, slots=True)
class Returned:
    """What a lease gave back on a node that was last seen with it."""

    amounts: Amounts
    at_ms: int


@dataclass(slots=True)
class Sighting:
    """The nodes of a site that were last seen at the same time.

    ``unseen``     what leases on unknown nodes have that this look did not see, when its nodes were laid
    ``otherwise``  those of the nodes that were laid when that was more, or less
    """

    unseen: Amounts
    names: set[str] = field(default_factory=set)
    otherwise: set[str] = field(default_factory=set)


@dataclass(frozen=True, slots=True)
class Outage:
    """Since when a node is not used: it has fallen with a fault, or is in doubt where there is none."""

    fault: Fault | None
    since_ms: int


WAITS_REMEMBERED = 8
NOTICEABLE_MS = 5_000
"""What orders take to reach machines, and these to start, is no queue."""


@dataclass(slots=True)
class Waiting:
    """An attempt that was ordered and has not begun: when it should have, and when it will as its site has promised."""

    since_ms: int
    begins_ms: int = NOT_YET


class WaitingTimes:
    """How long would a job that comes now wait at a node until it begins (OWT)?

    Rule: the larger of two. What was measured: three in four of the last attempts there (`WAITS_REMEMBERED`, of the
    last ``lasts_ms``) waited no longer (upper quartile by nearest rank). And what is going on: an attempt that was
    ordered there and has not begun has waited so long already, or waits until its site has promised to begin it. A wait
    counts from when files and machines should have been there; less than `NOTICEABLE_MS` is none.
    Source: Thamarai Selvi et al., section 4.3, names the waiting time in the queue of the resource, and not how it is
    known.
    """

    def __init__(self, lasts_ms: int) -> None:
        self._lasts_ms = lasts_ms
        self._measured: dict[str, list[tuple[int, int]]] = {}
        self._waiting: dict[str, dict[Holder, Waiting]] = {}

    def ordered(self, holder: Holder, nodes: Iterable[str], since_ms: int) -> None:
        """An attempt is ordered on these nodes, and should begin then."""
        for name in nodes:
            self._waiting.setdefault(name, {})[holder] = Waiting(since_ms)

    def promised(self, holder: Holder, nodes: Iterable[str], begins_ms: int) -> None:
        """Its site has promised when it begins."""
        for name in nodes:
            if holder in self._waiting.get(name, {}):
                self._waiting[name][holder].begins_ms = begins_ms

    def begun(self, holder: Holder, nodes: Iterable[str], now_ms: int) -> None:
        """It has begun: so long did it wait."""
        for name in nodes:
            waiting = self._waiting.get(name, {}).get(holder)
            if waiting is not None:
                waited_ms = max(0, now_ms - waiting.since_ms)
                noted = [*self._measured.get(name, ()), (now_ms, waited_ms)][-WAITS_REMEMBERED:]
                if any(each_ms >= NOTICEABLE_MS for _, each_ms in noted):
                    self._measured[name] = noted
                else:
                    self._measured.pop(name, None)
        self.left(holder, nodes)

    def left(self, holder: Holder, nodes: Iterable[str]) -> None:
        """It waits no more."""
        for name in nodes:
            waiting = self._waiting.get(name)
            if waiting is not None:
                waiting.pop(holder, None)
                if not waiting:
                    del self._waiting[name]

    def of(self, name: str, now_ms: int) -> int:
        """Give it, in ms."""
        times_ms = [waited_ms for at_ms, waited_ms in self._measured.get(name, ()) if now_ms - at_ms < self._lasts_ms]
        usual_ms = sorted(times_ms)[-(-3 * len(times_ms) // 4) - 1] if times_ms else 0
        waiting = self._waiting.get(name, {}).values()
        present_ms = max((max(now_ms - one.since_ms, one.begins_ms - now_ms) for one in waiting), default=0)
        found_ms = max(usual_ms, present_ms)
        return found_ms if found_ms >= NOTICEABLE_MS else 0

    def names(self) -> set[str]:
        """Name the nodes of which anything is known."""
        return self._measured.keys() | self._waiting.keys()

    def snapshot(self) -> dict[str, Any]:
        """Give what was measured, and what waits, as plain JSON."""
        return {
            "measured": {name: [list(one) for one in noted] for name, noted in sorted(self._measured.items())},
            "waiting": [
                [name, *holder, one.since_ms, one.begins_ms]
                for name, waiting in sorted(self._waiting.items())
                for holder, one in sorted(waiting.items())
            ],
        }

    def restore(self, snapshot: Mapping[str, Any]) -> None:
        """Go on with it."""
        measured, waiting = snapshot.get("measured", {}), snapshot.get("waiting", [])
        self._measured |= {name: [(at_ms, waited_ms) for at_ms, waited_ms in noted] for name, noted in measured.items()}
        for name, job_id, number, since_ms, begins_ms in waiting:
            self._waiting.setdefault(name, {})[job_id, number] = Waiting(since_ms, begins_ms)


class SchedulableNodes:
    """All nodes of all sites."""

    def __init__(self, network: Network, waits_last_ms: int = 0) -> None:
        self._network = network
        self.waits = WaitingTimes(waits_last_ms)
        self._waiting_ms: dict[str, int] = {}
        """Of those nodes at which one would wait, as they are laid now."""
        self._whole = NodePool(NodeIndex((), network))
        self._sites: dict[str, NodePool] = {}
        self._turns: dict[str, Turn] = {}
        """When sites are considered that are not considered first."""
        self._seen: dict[str, SeenNode] = {}
        self._names: dict[str, dict[str, None]] = {}
        """Of all nodes that were seen, by site."""
        self._held: dict[str, dict[Holder, Promise]] = {}
        self.out: dict[str, Outage] = {}
        self.shrunk: set[str] = set()
        """Nodes that have less in all than was promised there when they had more."""
        self._lost: dict[str, tuple[frozenset[str], int]] = {}
        self._unusable: dict[str, set[str]] = {}
        """Nodes that are known and cannot be used now, by site."""
        self._down: dict[str, SeenNode] | None = None
        self._with_down: dict[str, NodePool] = {}
        self._others: dict[int, RoomTaken] = {}
        self._others_on: dict[str, dict[int, Promise]] = {}
        """By node; and by site, where the node is unknown."""
        self._unseen_at: dict[str, dict[int, Amounts]] = {}
        """By site and time: what leases of the second kind have that a look at that time did not see."""
        self._left: dict[str, list[Returned]] = {}
        self._sightings: dict[str, dict[int, Sighting]] = {}
        """By site and time; of a large one there are few, since its nodes are seen together."""
        self._stale: set[str] = set()
        """Nodes where something changed, which are updated together."""
        self._stale_sites: set[str] = set()
        """Sites where something changed on unknown nodes, which is looked into when it is needed."""
        self.complete: set[str] = set()
        """Sites that have reported all of their nodes."""
        self.roomier: set[str] = set()
        """Sites where some unknown node has more room than when this was last emptied."""

    @property
    def whole(self) -> NodePool:
        """All nodes that can be used and are considered first, with what can be promised there."""
        self._settle()
        return self._whole

    @property
    def sites(self) -> dict[str, NodePool]:
        """The same by site, all sites that are ever considered."""
        self._settle()
        if not self._turns:
            return self._sites
        return {site: ground for site, ground in self._sites.items() if self.turn(site) is not Turn.NEVER}

    def turn(self, site: str) -> Turn:
        """Say when the nodes of a site are considered."""
        return self._turns.get(site, Turn.FIRST)

    def sites_in(self, *turns: Turn) -> list[tuple[str, NodePool]]:
        """List the sites that are considered then, by name."""
        if not self._turns and Turn.FIRST not in turns:
            return []
        return sorted(one for one in self.sites.items() if self.turn(one[0]) in turns)

    def take_turn(self, site: str, turn: Turn) -> bool:
        """Consider the nodes of a site then from now on; whether that is new."""
        if turn is self.turn(site):
            return False
        if turn is Turn.FIRST:
            del self._turns[site]
            _lay(self._whole, [self._as_it_is(self._seen[name]) for name in self.names(site) if self.is_usable(name)])
        else:
            self._turns[site] = turn
            _take_out(self._whole, self.names(site))
        self._down, self._with_down = None, {}
        return True

    # --- what is seen --------------------------------------------------------------------------------------

    def see(self, nodes: Sequence[SeenNode], now_ms: int) -> set[str]:
        """Take in nodes as they were seen; which of them had fallen, and are back."""
        back = {seen.node.name for seen in nodes if self._note(seen, now_ms)}
        self._refresh([seen.node.name for seen in nodes])
        return back

    def _note(self, seen: SeenNode, now_ms: int) -> bool:
        """Remember how a node was seen; whether it had fallen, and is back."""
        node = seen.node if seen.node.seen_ms else replace(seen.node, seen_ms=now_ms)
        out = self.out.get(node.name)
        is_newer = out is not None and node.seen_ms > out.since_ms and seen.fault is None
        self._leave_sighting(node.name)
        node = self._without_lost(node)
        self._seen[node.name] = seen if node is seen.node else replace(seen, node=node)
        self._names.setdefault(site_of(node.name), {})[node.name] = None
        left = self._left.pop(node.name, ())
        if later := [one for one in left if one.at_ms > node.seen_ms]:
            self._left[node.name] = later
        self._note_shrunk(node.name)
        if is_newer:
            del self.out[node.name]
        return is_newer and out is not None and out.fault is not None

    def expect_no_more(self, site: str) -> None:
        """Note that a site has reported all of its nodes, even if it has none."""
        self._ground_of(site)
        self.complete.add(site)

    def names(self, site: str) -> list[str]:
        """List the nodes of a site that were seen, by name, whether they have fallen or not."""
        return sorted(self._names.get(site, ()))

    def names_but(self, site: str, names: Collection[str]) -> list[str]:
        """List those of a site's nodes that are not among these."""
        return sorted([name for name in self._names.get(site, ()) if name not in names])

    def has_all(self, site: str, names: Collection[str]) -> bool:
        """Whether all of these nodes of a site were seen."""
        there = self._names.get(site, {})
        return len(names) <= len(there) and all(name in there for name in names)

    def forget(self, name: str) -> None:
        """Know nothing of a node any more, but that it fell."""
        self._leave_sighting(name)
        self._seen.pop(name, None)
        self._names.get(site_of(name), {}).pop(name, None)
        self._unusable.get(site_of(name), set()).discard(name)
        self._down, self._with_down = None, {}
        self._left.pop(name, None)
        for ground in (self._whole, self._ground_of(site_of(name))):
            _take_out(ground, (name,))

    def is_usable(self, name: str) -> bool:
        """Whether anything new can run on a node: it was seen, has not fallen, and has no problem."""
        seen = self._seen.get(name)
        return seen is not None and seen.is_usable and not self.has_fallen(name)

    def down(self) -> dict[str, SeenNode]:
        """Give the nodes that are known and cannot be used now, by name."""
        if self._down is None:
            considered = (names for site, names in self._unusable.items() if self.turn(site) is not Turn.NEVER)
            names = sorted(chain.from_iterable(considered))
            self._down = {name: self._as_it_is(self._seen[name]) for name in names}
        return self._down

    def has_fallen(self, name: str) -> bool:
        """Whether a node fell, and was not seen since."""
        out = self.out.get(name)
        return out is not None and out.fault is not None

    def fall(self, name: str, fault: Fault, now_ms: int) -> None:
        """Do not use a node until it is seen again."""
        self.out[name] = Outage(fault, now_ms)
        self._refresh((name,))

    def doubt(self, name: str, now_ms: int) -> None:
        """Believe that a node has no room until it is seen again."""
        if not self.has_fallen(name):
            self.out[name] = Outage(None, now_ms)
            self._refresh((name,))

    def forget_software(self, name: str, software: frozenset[str], now_ms: int) -> None:
        """Believe that a node has not these pieces of software until it is seen again."""
        before, _ = self._lost.get(name, (frozenset(), now_ms))
        self._lost[name] = (before | software, now_ms)
        if name in self._seen:
            seen = self._seen[name]
            self._seen[name] = replace(seen, node=self._without_lost(seen.node))
            self._refresh((name,))

    def _without_lost(self, node: Node) -> Node:
        if node.name not in self._lost:
            return node  # as nearly all are
        lost, since_ms = self._lost[node.name]
        if node.seen_ms > since_ms:
            del self._lost[node.name]
            return node
        able = node.capabilities
        there = frozenset((name, number) for name, number in able.software if name not in lost)
        return replace(node, capabilities=replace(able, software=there))

    # --- what is promised ----------------------------------------------------------------------------------

    def hold(self, holder: Holder, nodes: Iterable[str], amounts: Amounts, begun_ms: int = NOT_YET) -> None:
        """Promise an attempt so much on each of these nodes."""
        for name in nodes:
            self._held.setdefault(name, {})[holder] = Promise(amounts, begun_ms)
            self._refresh((name,))

    def begins(self, holder: Holder, nodes: Iterable[str], now_ms: int) -> None:
        """Note that an attempt uses what it was promised: looks from now on will show it."""
        for name in nodes:
            self._held[name][holder].begun_ms = now_ms

    def release(self, holder: Holder, nodes: Iterable[str]) -> None:
        """Take back what an attempt was promised."""
        for name in nodes:
            del self._held[name][holder]
            if not self._held[name]:
                del self._held[name]
            self._refresh((name,))

    # --- how long one would wait ---------------------------------------------------------------------------

    def note_waiting(self, now_ms: int) -> None:
        """Lay the nodes anew at which a job would wait longer or shorter than was known."""
        known = self.waits.names() | self._waiting_ms.keys()
        now = {name: waiting_ms for name in known if (waiting_ms := self.waits.of(name, now_ms))}
        changed = {name for name in known if now.get(name) != self._waiting_ms.get(name)}
        self._waiting_ms = now
        if changed:
            self._refresh(sorted(changed))

    def waiting_ms(self, name: str) -> int:
        """How long a job that comes now would wait at a node, as it is laid now."""
        seen = self._seen.get(name)
        return max(self._waiting_ms.get(name, 0), 0 if seen is None else seen.node.waiting_ms)

    # --- what others have ----------------------------------------------------------------------------------

    def take(self, room: RoomTaken) -> list[str]:
        """Count what a lease that is not an attempt has at its site; the nodes that may have more room for it.

        Where it is not known on which nodes it was, its site is `roomier`.
        """
        before = self._forget_other(room.lease_id)
        self._others[room.lease_id] = room
        for name, vms in Counter(room.nodes).items():
            everything = _times(room.each, vms)
            self._others_on.setdefault(name, {})[room.lease_id] = Promise(everything, room.since_ms)
        if not room.nodes:
            everything = _times(room.each, room.vms)
            anywhere = self._others_on.setdefault(room.site, {})
            anywhere[room.lease_id] = Promise(everything, room.since_ms)
            self._count_unseen(room.site, room.since_ms, Amounts.__add__, everything)
        if before is not None:
            self._mark_stale(before)
        self._mark_stale(room)
        return _nodes_of(before)

    def leave(self, gone: RoomLeft) -> list[str]:
        """Release the room of a lease that is not an attempt; returns the nodes that may have more room now."""
        room = self._others.get(gone.lease_id)
        if room is None:
            return []
        for name, vms in Counter(room.nodes).items():
            seen = self._seen.get(name)
            if seen is not None and 0 <= room.since_ms < seen.node.seen_ms < gone.at_ms:
                self._left.setdefault(name, []).append(Returned(_times(room.each, vms), gone.at_ms))
        self._forget_other(gone.lease_id)
        self._mark_stale(room)
        return _nodes_of(room)

    def _forget_other(self, lease_id: int) -> RoomTaken | None:
        """Count no longer what a lease has; gives what it had. Its nodes are still to be updated."""
        room = self._others.pop(lease_id, None)
        if room is None:
            return None
        places = set(room.nodes) or {room.site}
        for place in places:
            held = self._others_on[place]
            del held[lease_id]
            if not held:
                del self._others_on[place]
        if not room.nodes:
            self.roomier.add(room.site)
            self._count_unseen(room.site, room.since_ms, _less, _times(room.each, room.vms))
        return room

    def _count_unseen(
        self, site: str, since_ms: int, count: Callable[[Amounts, Amounts], Amounts], amounts: Amounts
    ) -> None:
        """Count a lease in, or out again, wherever a look did not see it."""
        sums = self._unseen_at.get(site, {})
        for seen_ms, unseen in sums.items():
            if not 0 <= since_ms < seen_ms:
                sums[seen_ms] = count(unseen, amounts)

    def _unseen(self, site: str, seen_ms: int) -> Amounts:
        """Sum what leases on unknown nodes of a site have that a look at that time did not see.

        Kept, since the nodes of a site are seen together, and it would be summed for each of them.
        """
        sums = self._unseen_at.setdefault(site, {})
        if seen_ms not in sums:
            if len(sums) >= _SIGHTINGS_KEPT:
                sums.clear()
            anywhere = self._others_on.get(site, {}).values()
            sums[seen_ms] = _sum(one.amounts for one in anywhere if not 0 <= one.begun_ms < seen_ms)
        return sums[seen_ms]

    def _mark_stale(self, room: RoomTaken) -> None:
        """Note that the nodes of a lease are out of date; where they are unknown, any of the site's may be."""
        self._down, self._with_down = None, {}
        if not room.nodes:
            self._stale_sites.add(room.site)
            return
        self._stale.update(room.nodes)

    def update_stale(self) -> None:
        """Update the nodes of leases that have come and gone: to update many together takes less time than each."""
        if self._stale:
            self._refresh(sorted(self._stale))

    def _settle(self) -> None:
        """Update all nodes that are out of date; those of a site may be many."""
        if self._stale or self._stale_sites:
            sites, self._stale_sites = self._stale_sites, set()
            self._refresh(sorted(self._stale.union(*map(self._out_of_date, sites))))

    def _out_of_date(self, site: str) -> Iterator[str]:
        """Name the nodes that were laid when leases on unknown nodes had more that was not seen, or less."""
        for seen_ms, look in self._sightings.get(site, {}).items():
            unseen = self._unseen(site, seen_ms)
            yield from look.otherwise if unseen == look.unseen else look.names
            look.unseen = unseen

    def _leave_sighting(self, name: str) -> None:
        """A node is seen again, or forgotten."""
        seen, sightings = self._seen.get(name), self._sightings.get(site_of(name), {})
        look = None if seen is None else sightings.get(seen.node.seen_ms)
        if seen is None or look is None:
            return
        look.names.discard(name)
        look.otherwise.discard(name)
        if not look.names:
            del sightings[seen.node.seen_ms]

    def _judge(self, seen: SeenNode) -> SeenNode:
        """Give a node as it is to be laid, and remember what leases on unknown nodes are taken to have."""
        node, site = seen.node, site_of(seen.node.name)
        unseen = self._unseen(site, node.seen_ms)
        look = self._sightings.setdefault(site, {}).setdefault(node.seen_ms, Sighting(unseen))
        look.names.add(node.name)
        if unseen == look.unseen:
            look.otherwise.discard(node.name)
        else:
            look.otherwise.add(node.name)
        return self._as_it_is(seen)

    def held(self) -> Iterator[tuple[str, Mapping[Holder, Promise]]]:
        """Give each node on which something is promised, and to whom."""
        yield from self._held.items()

    # --- what is left --------------------------------------------------------------------------------------

    def nodes(self) -> list[Node]:
        """List all nodes that are known and ever considered, as they were seen."""
        never = [site for site, turn in self._turns.items() if turn is Turn.NEVER]
        hidden = frozenset(chain.from_iterable(map(self.names, never)))
        return [seen.node for name, seen in self._seen.items() if name not in hidden]

    def node(self, name: str) -> Node | None:
        """Give a node with what can be promised there; None for one that was never seen."""
        seen = self._seen.get(name)
        return None if seen is None else self._as_it_is(seen).node

    def kind(self, name: str) -> tuple[NodeCapabilities, bool, bool, bool] | None:
        """Give all about a node that does not change with use: what it is, what for, and whether it is there.

        None for one that was never seen.
        """
        seen = self._seen.get(name)
        if seen is None:
            return None
        return seen.node.capabilities, seen.runs, seen.is_host, name in self.out or not seen.is_usable

    def room(self, name: str) -> Amounts | None:
        """Give what a node has left that can be used; None for any other."""
        self._settle()
        ground = self._ground_of(site_of(name))
        there = ground.index.find(name) or ground.hosts.get(name)
        return None if there is None else there.free

    def total(self, name: str) -> Amounts | None:
        """Give what a node has in all; None for one that was never seen."""
        seen = self._seen.get(name)
        return None if seen is None else seen.node.capabilities.total

    def promised(self, name: str) -> Amounts:
        """Give what all open attempts on a node were promised."""
        return _sum(one.amounts for one in self._held.get(name, {}).values())

    def _note_shrunk(self, name: str) -> None:
        if self.has_room_for_promises(name):
            self.shrunk.discard(name)
        else:
            self.shrunk.add(name)

    def has_room_for_promises(self, name: str) -> bool:
        """Whether a node with nothing else on it has room for all that was promised there; so has an unknown one."""
        seen = self._seen.get(name)
        if seen is None:
            return True
        able, promised = seen.node.capabilities, self.promised(name)
        rest = replace(promised, gpus=())
        return able.total.holds(rest) and have_shares(able.total.gpus, promised.gpus, able.shares)

    def among(self, names: Iterable[str]) -> NodePool:
        """Give a few nodes alone, those of them that can be used."""
        there = (self._seen[name] for name in names if self.is_usable(name))
        return self._ground_with(map(self._as_it_is, there))

    def with_down(self, site: str) -> NodePool:
        """Give all nodes of a site, those that are down without room."""
        if not self._unusable.get(site):
            self._settle()
            return self._ground_of(site)
        if site not in self._with_down:
            there = (self._seen[name] for name in self.names(site))
            self._with_down[site] = self._ground_with(map(self._as_it_is, there))
        return self._with_down[site]

    def idle(self, turns: Collection[Turn] = (Turn.FIRST,), *, down: bool = False) -> NodePool:
        """Give all nodes that are considered then as if none were used; those that are down only if wanted too."""
        there = (
            seen
            for name, seen in self._seen.items()
            if (down or self.is_usable(name)) and (self.turn(site_of(name)) if self._turns else Turn.FIRST) in turns
        )
        return self._ground_with(replace(seen, node=_unused(seen.node)) for seen in there)

    def _ground_with(self, nodes: Iterable[SeenNode]) -> NodePool:
        ground = NodePool(NodeIndex((), self._network))
        _lay(ground, [*nodes])
        return ground

    def _refresh(self, names: Collection[str]) -> None:
        """Update nodes of which something has changed; some may never have been seen."""
        judged = {name: self._judge(self._seen[name]) for name in names if name in self._seen}
        self._stale.difference_update(names)
        self._down, self._with_down = None, {}
        changed = {name: seen for name, seen in judged.items() if not self._is_up_to_date(seen)}
        first = changed
        if self._turns:
            first = {name: seen for name, seen in changed.items() if site_of(name) not in self._turns}
        self._put_again(self._whole, first)
        for site, its_own in groupby(sorted(judged, key=site_of), key=site_of):
            here = [*its_own]
            its_changed = {name: changed[name] for name in here if name in changed}
            self._put_again(self._ground_of(site), its_changed)
            unusable = self._unusable.setdefault(site, set())
            unusable.difference_update(here)
            unusable.update(name for name in here if not self.is_usable(name))

    def _is_up_to_date(self, seen: SeenNode) -> bool:
        """Whether a node is up to date: to look is much quicker than to update it."""
        name, node = seen.node.name, seen.node if self.is_usable(seen.node.name) else None
        ground = self._whole if not self._turns else self._ground_of(site_of(name))
        as_node, as_host = ground.index.find(name), ground.hosts.get(name)
        return as_node == (node if seen.runs else None) and as_host == (node if seen.is_host else None)

    def _put_again(self, ground: NodePool, nodes: Mapping[str, SeenNode]) -> None:
        if nodes:
            _take_out(ground, nodes)
            _lay(ground, [seen for name, seen in nodes.items() if self.is_usable(name)])

    def _ground_of(self, site: str) -> NodePool:
        return self._sites.setdefault(site, NodePool(NodeIndex((), self._network)))

    def _as_it_is(self, seen: SeenNode) -> SeenNode:
        """Give a node with what can be promised there."""
        node = seen.node
        waiting_ms = max(node.waiting_ms, self._waiting_ms.get(node.name, 0))
        if waiting_ms != node.waiting_ms:
            node = replace(node, waiting_ms=waiting_ms)
            seen = replace(seen, node=node)
        held = self._held.get(node.name, {}).values()
        others = self._others_on.get(node.name, {}).values()
        anywhere = self._others_on.get(site_of(node.name))
        left = self._left.get(node.name, ())
        is_out = node.name in self.out or not seen.is_usable
        if not (held or others or anywhere or left or is_out) and node.capabilities.total.holds(node.free):
            return seen  # as nearly all are
        seen_ms = STALE_MS if is_out else node.seen_ms
        everything = _sum(one.amounts for one in (*held, *others))
        unseen = _sum(one.amounts for one in held if not 0 <= one.begun_ms <= node.seen_ms)
        unseen += _sum(one.amounts for one in others if not 0 <= one.begun_ms < node.seen_ms)
        if anywhere:
            unseen += self._unseen(site_of(node.name), node.seen_ms)
        total, shares = node.capabilities.total, node.capabilities.shares
        free = _more(node.free, _sum(one.amounts for one in left), shares) if left else node.free
        free = _lesser(_less(free, unseen, shares), _less(total, everything, shares))
        return replace(seen, node=replace(node, free=free, seen_ms=seen_ms))

    # --- what is kept --------------------------------------------------------------------------------------

    def snapshot(self) -> dict[str, Any]:
        """Give what does not come back by looking, as plain JSON."""
        names = sorted(chain(self.out.keys(), self._lost.keys() - self.out.keys()))
        return {name: self._remembered(name) for name in names}

    def _remembered(self, name: str) -> dict[str, Any]:
        kept: dict[str, Any] = {}
        if name in self.out:
            fault = self.out[name].fault
            kept |= {"out": "" if fault is None else fault.value, "since_ms": self.out[name].since_ms}
        if name in self._lost:
            software, since_ms = self._lost[name]
            kept |= {"lost": sorted(software), "lost_ms": since_ms}
        return kept

    def restore(self, snapshot: Mapping[str, Any]) -> None:
        """Restore the state that was kept."""
        for name, kept in snapshot.items():
            if "out" in kept:
                fault = Fault(kept["out"]) if kept["out"] else None
                self.out[name] = Outage(fault, kept["since_ms"])
            if "lost" in kept:
                self._lost[name] = (frozenset(kept["lost"]), kept["lost_ms"])
        self._refresh(snapshot)


def _lay(ground: NodePool, nodes: Sequence[SeenNode]) -> None:
    ground.index.put_all(seen.node for seen in nodes if seen.runs)
    ground.hosts.update((seen.node.name, seen.node) for seen in nodes if seen.is_host)


def _take_out(ground: NodePool, names: Iterable[str]) -> None:
    ground.index.drop_all([name for name in names if name in ground.index])
    for name in names:
        ground.hosts.pop(name, None)


def _nodes_of(room: RoomTaken | None) -> list[str]:
    return [] if room is None else sorted(set(room.nodes))


def _unused(node: Node) -> Node:
    return replace(node, free=node.capabilities.total, waiting_ms=0)


def _times(amounts: Amounts, count: int) -> Amounts:
    return Amounts(amounts.cores * count, amounts.memory_mib * count, amounts.disk_mib * count, amounts.gpus * count)


def _sum(amounts: Iterable[Amounts]) -> Amounts:
    return sum(amounts, NOTHING)


def _more(free: Amounts, back: Amounts, shares: int) -> Amounts:
    """Add what was given back, GPUs to the devices that may have had it."""
    return Amounts(
        free.cores + back.cores,
        free.memory_mib + back.memory_mib,
        free.disk_mib + back.disk_mib,
        more(free.gpus, back.gpus, shares),
    )


def _less(one: Amounts, other: Amounts, shares: int = 1) -> Amounts:
    """Subtract, and where there is not so much leave nothing; ``shares`` are those of each GPU."""
    return Amounts(
        max(0, one.cores - other.cores),
        max(0, one.memory_mib - other.memory_mib),
        max(0, one.disk_mib - other.disk_mib),
        less(one.gpus, other.gpus, shares),
    )


def _lesser(one: Amounts, other: Amounts) -> Amounts:
    return Amounts(
        min(one.cores, other.cores),
        min(one.memory_mib, other.memory_mib),
        min(one.disk_mib, other.disk_mib),
        tuple(map(min, one.gpus, other.gpus)),
    )
