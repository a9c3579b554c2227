"""Planning by nodes: what is free of each node over time, and a queue with reservations over that.

A site whose configuration states its nodes is planned here; a site of plain slots by `leasehold.leasing.kernel`, which
knows nothing of this and is as fast as it was. `VectorBackfiller` answers as `leasehold.leasing.backfill.Backfiller`
does, by the same disciplines: with one node that has nothing but cores the two decide alike (and are tested to).

A booking is always of stated nodes and devices, from its start to its end. So what is planned can be carried out: free
cores here and a free GPU there are no room for a machine that needs both, and two halves of different devices are no
whole one. What does not fit on nodes now waits, although the site may have enough of everything.

Which nodes. Rule: an owner's machines go where least is left over, GPUs first, then cores, then memory; of nodes that
are alike at home from now on, one is taken on which fewest guests would have to give way, else the first. That cannot
change when any local request starts: were two such nodes exchanged in all home plans to come, these would be the same
plans with other names. Guests' machines go to the last node that has room. So the owner's fill the nodes from the
front, the guests' from the back, and they meet only where the site is full: `leasehold reproduce spot` has what that is
worth. A machine without a GPU goes where there is none, if it can, whosever it is.
"""

from bisect import bisect_right
from collections.abc import Container, Iterable, Iterator, Sequence
from heapq import heapify, heappop, heappush, merge, nsmallest
from operator import attrgetter
from typing import NamedTuple

from leasehold.leasing.backfill import Booking, Started
from leasehold.model.lease import UNPLANNED, Lease
from leasehold.model.reason import Reason
from leasehold.model.request import NEVER_MS
from leasehold.model.resources import MachineShape, NodeResources, Placed

CORES, MEMORY, DEVICES = 0, 1, 2
"""Positions in the vector of a node; from `DEVICES` on, the free shares of each device."""

_UNLIMITED = 1 << 60

NodeRoom = tuple[tuple[int, tuple[tuple[int, int], ...]], ...]
"""What a booking takes: of each node (its index), how much of which position."""

Key = tuple[int, int]
"""A node (its index), and a position in its vector."""


class _Want(NamedTuple):
    """What one machine takes of a certain node: cores, memory, devices, and the shares of each of them.

    ``most``        how many such machines the node may have at most
    ``is_by_steps`` whether as many have room for a while as have at each moment of it: not where a machine takes some
                    of several devices, since it needs the same ones all the time
    """

    cores: int
    memory_mib: int
    devices: int
    shares: int
    most: int
    is_by_steps: bool

    def fits(self, low: Sequence[int]) -> int:
        """How many machines have room where so much is free."""
        most = min(low[CORES] // self.cores, self.most)
        if self.memory_mib and most > 0:
            most = min(most, low[MEMORY] // self.memory_mib)
        if self.devices and most > 0:
            shares = self.shares
            most = min(most, sum([free // shares for free in low[DEVICES:] if free >= shares]) // self.devices)
        return max(0, most)


class _Run(NamedTuple):
    """A time at each moment of which one machine has room: the steps from ``first`` to before ``last``.

    ``counts``  how many machines have room in each of these steps
    """

    begin_ms: int
    end_ms: int
    first: int
    last: int
    counts: list[int]


class _Candidate(NamedTuple):
    """A node with room for so many machines: ``low`` is free of it, and ``rank`` says which nodes come first."""

    rank: tuple[int, ...]
    node: int
    want: _Want
    low: list[int]
    machines: int


class NodePlan:
    """What is free of one node over time: ``free[i]`` from ``times[i]`` until ``times[i + 1]``, the last for ever.

    A step may be negative where guests that still run overlap with a local reservation.

    Searches go over *runs*, which are kept until the plan changes: a queue asks about few shapes, and most nodes have
    no room for most of them, most of the time.
    """

    __slots__ = ("_runs", "free", "times")

    def __init__(self, capacity: Sequence[int], start_ms: int) -> None:
        self.times = [start_ms]
        self.free = [list(capacity)]
        self._runs: dict[_Want, list[_Run]] = {}

    def copy(self) -> "NodePlan":
        """An independent copy."""
        twin = NodePlan((), 0)
        twin.times = self.times.copy()
        twin.free = [step.copy() for step in self.free]
        return twin

    def _at(self, at_ms: int) -> int:
        """The index of the step at that time; the first where it is in the past."""
        return max(bisect_right(self.times, at_ms) - 1, 0)

    def _cut(self, at_ms: int) -> int:
        i = self._at(at_ms)
        if self.times[i] >= at_ms:
            return i
        self.times.insert(i + 1, at_ms)
        self.free.insert(i + 1, self.free[i].copy())
        return i + 1

    def change(self, start_ms: int, end_ms: int, amounts: Iterable[tuple[int, int]], sign: int) -> None:
        """Add so much, times ``sign``, in [start_ms, end_ms); equal neighbours are joined."""
        self._runs = {}
        first, last = self._cut(start_ms), self._cut(end_ms)
        for step in self.free[first:last]:
            for position, amount in amounts:
                step[position] += sign * amount
        for i in (last, first):
            if 0 < i < len(self.times) and self.free[i] == self.free[i - 1]:
                del self.times[i], self.free[i]

    def trim(self, now_ms: int) -> bool:
        """Forget the past; returns whether another step has begun."""
        if len(self.times) < 2 or self.times[1] > now_ms:  # noqa: PLR2004 - there is no second step
            return False
        past = self._at(now_ms)
        del self.times[:past], self.free[:past]
        self._runs = {}
        return True

    def low(self, start_ms: int, end_ms: int) -> list[int]:
        """The least that is free of each at any time in [start_ms, end_ms)."""
        i = self._at(start_ms)
        low = self.free[i]
        i += 1
        while i < len(self.times) and self.times[i] < end_ms:
            low = list(map(min, low, self.free[i]))
            i += 1
        return low

    def runs(self, want: _Want) -> list[_Run]:
        """All runs for such machines, the first to come first."""
        known = self._runs.get(want)
        if known is None:
            known = self._runs[want] = self._find_runs(want)
        return known

    def _find_runs(self, want: _Want) -> list[_Run]:
        found: list[_Run] = []
        counts: list[int] = []
        for i, step in enumerate(self.free):
            count = want.fits(step)
            if count:
                counts.append(count)
            elif counts:
                found.append(_Run(self.times[i - len(counts)], self.times[i], i - len(counts), i, counts))
                counts = []
        if counts:
            first = len(self.free) - len(counts)
            found.append(_Run(self.times[first], NEVER_MS, first, len(self.free), counts))
        return found

    def room(self, start_ms: int, end_ms: int, want: _Want) -> tuple[list[int], int] | None:
        """What is free in all of [start_ms, end_ms), and for how many machines that is; None where it is for none."""
        for run in self.runs(want):
            if run.end_ms < end_ms:
                continue
            if run.begin_ms > start_ms and run.first > 0:
                return None
            i = self._at(start_ms)
            if i + 1 == run.last or self.times[i + 1] >= end_ms:
                return self.free[i], run.counts[i - run.first]
            low = self.low(start_ms, end_ms)
            count = want.fits(low)
            return (low, count) if count else None
        return None

    def earliest(self, from_ms: int, span_ms: int, want: _Want, before_ms: int) -> int:
        """The first start in [from_ms, before_ms) at which one machine has room for ``span_ms``; NEVER_MS if none."""
        for run in self.runs(want):
            start_ms = max(run.begin_ms, from_ms)
            if start_ms >= before_ms:
                return NEVER_MS
            if run.end_ms - start_ms < span_ms:
                continue
            if not (want.is_by_steps or run.last - run.first == 1):
                start_ms = self._earliest_within(run, start_ms, span_ms, want)
            if start_ms < before_ms:
                return start_ms
        return NEVER_MS

    def _earliest_within(self, run: _Run, from_ms: int, span_ms: int, want: _Want) -> int:
        """The first start in a run at which the same devices are free for all of ``span_ms``; NEVER_MS if none."""
        times, free = self.times, self.free
        for i in range(self._at(from_ms), run.last):
            start_ms = max(times[i], from_ms)
            end_ms = start_ms + span_ms
            if end_ms > run.end_ms:
                return NEVER_MS
            low, k = free[i], i + 1
            while k < run.last and times[k] < end_ms and want.fits(low):
                low = list(map(min, low, free[k]))
                k += 1
            if want.fits(low):
                return start_ms
        return NEVER_MS

    def starts(self, from_ms: int, span_ms: int, want: _Want, before_ms: int) -> list[_Run]:
        """The runs in which one machine may start in [from_ms, before_ms), to have room for ``span_ms``."""
        return [
            run
            for run in self.runs(want)
            if run.begin_ms < before_ms and run.end_ms - max(run.begin_ms, from_ms) >= span_ms
        ]

    def counts(self, runs: Iterable[_Run], from_ms: int, span_ms: int, want: _Want) -> Iterator[tuple[int, int]]:
        """When from ``from_ms`` on the number of machines that have room for ``span_ms`` may change, and to what.

        ``runs`` are those of `starts`; outside them it is 0.
        """
        for run in runs:
            yield from self._counts_within(run, max(run.begin_ms, from_ms), span_ms, want)
            if run.end_ms < NEVER_MS:
                yield run.end_ms - span_ms + 1, 0

    def _counts_within(self, run: _Run, from_ms: int, span_ms: int, want: _Want) -> Iterator[tuple[int, int]]:
        """The same for one run.

        The steps of a window that moves on are a queue of two stacks: ``lows`` has the least of those from each of its
        steps to its last one, ``later`` the least of those that came after that. So each step is compared twice.
        """
        yield from_ms, want.fits(self.low(from_ms, from_ms + span_ms))
        times, free = self.times, self.free
        moments: set[int] = set()
        for at_ms in times[run.first : run.last]:
            moments |= {one for one in (at_ms, at_ms - span_ms + 1) if from_ms < one <= run.end_ms - span_ms}
        first = begin = end = max(self._at(from_ms), run.first)
        lows: list[list[int]] = []
        later: list[int] | None = None
        for start_ms in sorted(moments):
            while first + 1 < run.last and times[first + 1] <= start_ms:
                first += 1
            while end < run.last and (end <= first or times[end] < start_ms + span_ms):
                later = free[end] if later is None else list(map(min, later, free[end]))
                end += 1
            for _ in range(begin, first):
                if lows:
                    lows.pop()
            begin = first
            if not lows:
                low = free[end - 1]
                for step in reversed(free[begin:end]):
                    low = list(map(min, low, step))
                    lows.append(low)
                later = None
            yield start_ms, want.fits(lows[-1] if later is None else list(map(min, lows[-1], later)))


class VectorProfile:
    """What is free at a site of nodes, from now on.

    ``was_freed``  whether room was given back since a backfiller last looked, ``freed`` at which nodes
    ``begin_ms``   when the newest of the present steps began
    """

    __slots__ = ("_index", "_machines", "_wants", "begin_ms", "freed", "nodes", "plans", "was_freed")

    def __init__(self, nodes: Sequence[NodeResources], start_ms: int = 0) -> None:
        """Begin with empty nodes."""
        self.nodes = tuple(nodes)
        self.plans = [NodePlan(_capacity(node), start_ms) for node in self.nodes]
        self.begin_ms = start_ms
        self.was_freed = False
        self.freed: set[int] = set()
        self._index = {node.name: i for i, node in enumerate(self.nodes)}
        self._wants: dict[MachineShape, list[tuple[int, _Want]]] = {}
        self._machines: dict[MachineShape, int] = {}

    def copy(self) -> "VectorProfile":
        """An independent copy."""
        twin = VectorProfile(self.nodes)
        twin.plans = [plan.copy() for plan in self.plans]
        twin.begin_ms, twin.was_freed, twin.freed = self.begin_ms, self.was_freed, set(self.freed)
        return twin

    def trim(self, now_ms: int) -> None:
        """Forget the past."""
        for plan in self.plans:
            if plan.trim(now_ms):
                self.begin_ms = max(self.begin_ms, plan.times[0])

    def rebuild(self, start_ms: int, bookings: Iterable[Booking]) -> None:
        """Begin again from ``start_ms`` with these bookings."""
        self.plans = [NodePlan(_capacity(node), start_ms) for node in self.nodes]
        self.begin_ms, self.was_freed, self.freed = start_ms, False, set()
        for begin_ms, end_ms, room in bookings:
            self.take(max(begin_ms, start_ms), end_ms, room)

    def take(self, start_ms: int, end_ms: int, room: NodeRoom) -> None:
        """Book so much in [start_ms, end_ms)."""
        if start_ms < end_ms:
            for index, amounts in room:
                self.plans[index].change(start_ms, end_ms, amounts, -1)

    def give(self, start_ms: int, end_ms: int, room: NodeRoom) -> None:
        """Give so much back in [start_ms, end_ms)."""
        if start_ms < end_ms and room:
            for index, amounts in room:
                self.plans[index].change(start_ms, end_ms, amounts, 1)
                self.freed.add(index)
            self.was_freed = True

    # Shapes and places

    def wants(self, shape: MachineShape) -> list[tuple[int, _Want]]:
        """The nodes that can have a machine of this shape when they are empty, and what it takes there."""
        if shape.nodes:  # of one request, and of no other
            chosen = sorted(self._index[name] for name in shape.nodes if name in self._index)
            return [(i, _want(self.nodes[i], shape)) for i in chosen if self.nodes[i].machines(shape)]
        known = self._wants.get(shape)
        if known is None:
            able = [(i, node) for i, node in enumerate(self.nodes) if node.machines(shape)]
            known = self._wants[shape] = [(i, _want(node, shape)) for i, node in able]
        return known

    def machines(self, shape: MachineShape) -> int:
        """How many machines of this shape the empty site has room for."""
        known = self._machines.get(shape)
        if known is None:
            known = sum([self.nodes[i].machines(shape) for i, _ in self.wants(shape)])
            if not shape.nodes:  # see `wants`
                self._machines[shape] = known
        return known

    def room_of(self, shape: MachineShape, placed: Placed) -> NodeRoom:
        """What machines take that are placed so; nodes that the site no longer has are left out."""
        room: list[tuple[int, tuple[tuple[int, int], ...]]] = []
        for name, machines, devices in placed:
            index = self._index.get(name)
            if index is None:
                continue
            node = self.nodes[index]
            want = _want(node, shape)
            amounts = {CORES: machines * want.cores, MEMORY: machines * want.memory_mib}
            for device in devices:
                if device < node.gpus:
                    amounts[DEVICES + device] = amounts.get(DEVICES + device, 0) + want.shares
            room.append((index, tuple((position, amount) for position, amount in amounts.items() if amount)))
        return tuple(room)

    def nodes_of(self, placed: Placed) -> set[int]:
        """The nodes on which machines are placed."""
        return {self._index[name] for name, _, _ in placed if name in self._index}

    def lift(self, room: NodeRoom, start_ms: int, end_ms: int) -> list[tuple[int, NodePlan]]:
        """Show so much as free in [start_ms, end_ms), until what is returned is put back."""
        before = [(index, self.plans[index]) for index, _ in room]
        for index, amounts in room:
            lifted = self.plans[index].copy()
            lifted.change(start_ms, end_ms, amounts, 1)
            self.plans[index] = lifted
        return before

    def put_back(self, before: Iterable[tuple[int, NodePlan]]) -> None:
        """Undo `lift`."""
        for index, plan in before:
            self.plans[index] = plan

    def outage_room(self, node: str) -> NodeRoom:
        """All of a node; nothing where the site has none of that name."""
        index = self._index.get(node)
        if index is None:
            return ()
        capacity = _capacity(self.nodes[index])
        return ((index, tuple((i, amount) for i, amount in enumerate(capacity) if 0 < amount < _UNLIMITED)),)

    def place(
        self,
        shape: MachineShape,
        vms: int,
        start_ms: int,
        end_ms: int,
        *,
        beside: "VectorProfile | None" = None,
        last_first: bool = False,
    ) -> Placed | None:
        """Find nodes and devices for machines in [start_ms, end_ms); None where they do not fit.

        ``beside`` is the plan with the guests: of nodes that are alike here, one with most room there is taken.
        ``last_first`` is for guests: the last node with room is taken.
        """
        found: list[_Candidate] = []
        left = vms
        for index, want in self.wants(shape):
            room = self.plans[index].room(start_ms, end_ms, want)
            if room is not None:
                low, machines = room
                rank = _rank(low, want)
                found.append(_Candidate((rank[0], -index) if last_first else rank, index, want, low, machines))
                left -= machines
        if left > 0:
            return None
        placed: list[tuple[str, int, tuple[int, ...]]] = []
        left = vms
        while left:
            rank = min([one.rank for one in found])
            alike = [one for one in found if one.rank == rank]
            for one in self._in_turn(alike, left, start_ms, end_ms, beside):
                machines = min(one.machines, left)
                placed.append((self.nodes[one.node].name, machines, _devices(one.low, one.want, machines)))
                left -= machines
                if not left:
                    break
            found = [one for one in found if one.rank != rank] if left else found
        return tuple(placed)

    def place_at(
        self, shape: MachineShape, nodes: Iterable[tuple[str, int]], start_ms: int, end_ms: int
    ) -> Placed | None:
        """Find devices for so many machines on each of these nodes then; None where they do not fit."""
        wants = dict(self.wants(shape))
        placed: list[tuple[str, int, tuple[int, ...]]] = []
        for name, machines in nodes:
            index = self._index.get(name, -1)
            want = wants.get(index)
            if want is None:
                return None
            low = self.plans[index].low(start_ms, end_ms)
            if want.fits(low) < machines:
                return None
            placed.append((name, machines, _devices(low, want, machines)))
        return tuple(placed)

    def _in_turn(
        self, found: list[_Candidate], most: int, start_ms: int, end_ms: int, beside: "VectorProfile | None"
    ) -> list[_Candidate]:
        """The first of nodes that leave equally much: by what is planned on them, by guests, and as they are listed."""
        if len(found) == 1:
            return found

        def key(one: _Candidate) -> tuple[list[int], list[list[int]], int, int]:
            plan = self.plans[one.node]
            guests = 0 if beside is None else -one.want.fits(beside.plans[one.node].low(start_ms, end_ms))
            return plan.times[1:], plan.free, guests, one.node

        return nsmallest(most, found, key=key)

    def place_anyhow(self, shape: MachineShape, vms: int) -> Placed:
        """Place machines as if the site were empty: their room may be taken, and others must give way or move."""
        return VectorProfile(self.nodes).place(shape, vms, 0, 1) or ()

    def fits(self, shape: MachineShape, vms: int, start_ms: int, end_ms: int) -> bool:
        """Whether so many machines have room in [start_ms, end_ms)."""
        for index, want in self.wants(shape):
            room = self.plans[index].room(start_ms, end_ms, want)
            if room is not None:
                vms -= room[1]
                if vms <= 0:
                    return True
        return False

    def count(self, shape: MachineShape, start_ms: int, end_ms: int) -> int:
        """How many machines of this shape have room in [start_ms, end_ms)."""
        return sum(want.fits(self.plans[index].low(start_ms, end_ms)) for index, want in self.wants(shape))

    def earliest(
        self,
        shape: MachineShape,
        vms: int,
        from_ms: int,
        span_ms: int,
        *,
        before_ms: int = NEVER_MS,
        only: Container[int] | None = None,
    ) -> int:
        """The first start in [from_ms, before_ms) at which machines have room for ``span_ms``; NEVER_MS if none.

        Only these nodes are searched where stated.
        """
        wants = self.wants(shape)
        if only is not None:
            wants = [one for one in wants if one[0] in only]
        if vms > 1:
            return self._earliest_together(wants, vms, from_ms, span_ms, before_ms)
        best_ms = before_ms
        for index, want in wants:
            start_ms = self.plans[index].earliest(from_ms, span_ms, want, best_ms)
            if start_ms < best_ms:
                best_ms = start_ms
                if start_ms == from_ms:
                    break
        return best_ms if best_ms < before_ms else NEVER_MS

    def _earliest_together(
        self, wants: Sequence[tuple[int, _Want]], vms: int, from_ms: int, span_ms: int, before_ms: int
    ) -> int:
        """The same for several machines: how many have room changes at each node by itself, and is added up.

        Each node is looked at only as far as the search goes: most end soon, and many at once.
        """
        changes: list[Iterator[tuple[int, int, int]]] = []
        for index, want in wants:
            runs = self.plans[index].starts(from_ms, span_ms, want, before_ms)
            if runs:
                changes.append(self._counts(index, runs, from_ms, span_ms, want))
        counts = dict.fromkeys((index for index, _ in wants), 0)
        together, reached_ms = 0, from_ms
        for at_ms, index, count in merge(*changes):
            if at_ms > reached_ms:
                if together >= vms:
                    break
                reached_ms = at_ms
                if at_ms >= before_ms:
                    return NEVER_MS
            together += count - counts[index]
            counts[index] = count
        return reached_ms if together >= vms and reached_ms < before_ms else NEVER_MS

    def _counts(
        self, index: int, runs: Iterable[_Run], from_ms: int, span_ms: int, want: _Want
    ) -> Iterator[tuple[int, int, int]]:
        return ((at_ms, index, count) for at_ms, count in self.plans[index].counts(runs, from_ms, span_ms, want))

    # Over-booked time

    def is_overbooked(self) -> bool:
        """Whether more is booked than there is, of anything, at any time."""
        return any(min(step) < 0 for plan in self.plans for step in plan.free)

    def is_over(self, room: NodeRoom, start_ms: int, end_ms: int) -> bool:
        """Whether more is booked than there is, in [start_ms, end_ms), of what this booking takes."""
        return self.overbooked_from(room, start_ms, end_ms) < end_ms

    def overbooked_from(self, room: NodeRoom, start_ms: int, end_ms: int) -> int:
        """From when in [start_ms, end_ms) on that is so; ``end_ms`` if never."""
        first_ms = end_ms
        for index, amounts in room:
            plan = self.plans[index]
            ends_ms = [*plan.times[1:], NEVER_MS]
            for begin_ms, step, until_ms in zip(plan.times, plan.free, ends_ms, strict=True):
                is_over = until_ms > start_ms and any(step[position] < 0 for position, _ in amounts)
                if is_over:
                    first_ms = min(first_ms, max(begin_ms, start_ms))
                    break
        return first_ms

    def short_at(self, now_ms: int) -> dict[Key, int]:
        """How much is missing at that time, of what, at which node."""
        short: dict[Key, int] = {}
        for index, plan in enumerate(self.plans):
            step = plan.low(now_ms, now_ms + 1)
            if min(step) < 0:
                short |= {(index, position): -free for position, free in enumerate(step) if free < 0}
        return short

    def next_change_ms(self, after_ms: int) -> int:
        """When the first step begins that begins after this; NEVER_MS if none does."""
        return min((at_ms for plan in self.plans for at_ms in plan.times if at_ms > after_ms), default=NEVER_MS)


def _capacity(node: NodeResources) -> list[int]:
    return [node.cores, node.memory_mib or _UNLIMITED, *[node.shares] * node.gpus]


def _want(node: NodeResources, shape: MachineShape) -> _Want:
    whole = shape.gpu_milli // 1_000
    memory_mib = shape.memory_mib if node.memory_mib else 0
    most = 1 if shape.nodes else node.cores
    if not shape.gpu_milli:
        return _Want(shape.cores, memory_mib, 0, 0, most, is_by_steps=True)
    if whole:
        return _Want(shape.cores, memory_mib, whole, node.shares, most, is_by_steps=whole == node.gpus)
    shares = node.shares_for(shape.gpu_milli)
    return _Want(shape.cores, memory_mib, 1, shares, most, is_by_steps=node.gpus == 1)


def _rank(low: Sequence[int], want: _Want) -> tuple[int, ...]:
    """Where least is left over comes first; what needs no GPU goes where there is none."""
    devices = low[DEVICES:]
    return (0 if want.devices else len(devices), sum(devices), low[CORES], low[MEMORY])


def _devices(low: Sequence[int], want: _Want, machines: int) -> tuple[int, ...]:
    """Choose devices: each time the one with the least room that is enough."""
    free = list(low[DEVICES:])
    chosen: list[int] = []
    for _ in range(machines * want.devices):
        device = min((i for i, left in enumerate(free) if left >= want.shares), key=lambda i: (free[i], i))
        free[device] -= want.shares
        chosen.append(device)
    return tuple(chosen)


class _Freed:
    """The nodes of a plan where room was given back, for as long as the plan does not change."""

    __slots__ = ("_found", "_now_ms", "_plan", "nodes")

    def __init__(self, plan: VectorProfile, nodes: set[int], now_ms: int) -> None:
        self.nodes = nodes
        self._plan = plan
        self._now_ms = now_ms
        self._found: dict[MachineShape, list[tuple[int, int]]] = {}

    def may_help(self, shape: MachineShape, span_ms: int, before_ms: int) -> bool:
        """Whether one machine can start on one of these nodes before then, to have room for so long.

        Whatever has room for longer has it for less: what was not found for a shorter span is not looked for.
        """
        found = self._found.setdefault(shape, [])
        for known_ms, start_ms in found:
            if known_ms <= span_ms and start_ms >= before_ms:
                return False
        start_ms = self._plan.earliest(shape, 1, self._now_ms, span_ms, only=self.nodes)
        found.append((span_ms, start_ms))
        return start_ms < before_ms


class VectorBackfiller:
    """The queue and the reservations of leases over a plan of nodes; see `leasehold.leasing.backfill.Backfiller`.

    ``guests_last``  guests go to the last node with room; False only where that is compared with the tightest node
    """

    def __init__(self, plan: VectorProfile, depth: int | None, moved: dict[int, Lease] | None = None) -> None:
        """Begin empty over ``plan`` with the given reservation depth."""
        self.plan = plan
        self.depth = depth
        self.moved: dict[int, Lease] = {} if moved is None else moved
        self.books = [plan]
        self.guests_last = True
        self._reserved: dict[int, Lease] = {}
        self._others: dict[int, Lease] = {}
        self._due: list[tuple[int, int, int]] = []
        self._places = 0
        self._seen_places = 0
        self._looked_ms = -1

    def __len__(self) -> int:
        """How many wait."""
        return len(self._reserved) + len(self._others)

    def __contains__(self, lease: Lease) -> bool:
        """Whether a lease waits here."""
        return lease.id in self._reserved or lease.id in self._others

    def reserved(self) -> Iterator[Lease]:
        """Iterate over those that hold a reservation, in order of arrival."""
        return iter(self._reserved.values())

    def others(self) -> Iterator[Lease]:
        """Iterate over those that hold none, in order of arrival."""
        return iter(self._others.values())

    def waiting(self) -> list[Lease]:
        """All waiting leases, in order of arrival."""
        return [*self._reserved.values(), *self._others.values()]

    def waiting_vms(self) -> int:
        """How many slots they ask for: cores, at a site of nodes."""
        return sum(lease.vms * lease.request.cores for lease in self.waiting())

    # Rooms

    def shape(self, lease: Lease) -> MachineShape:
        """What each machine of a lease needs."""
        return MachineShape.of(lease.request)

    def room_of(self, lease: Lease) -> NodeRoom:
        """What a lease takes of the plan, where it is placed now."""
        return self.plan.room_of(self.shape(lease), lease.placed)

    def _place(self, lease: Lease, start_ms: int) -> None:
        """Choose nodes for a lease: for one of the owner's by the home plan, for a guest by that with everything."""
        shape, end_ms = self.shape(lease), start_ms + lease.span_ms
        is_local, everything = lease.request.is_local, self.books[-1]
        for plan in [self.plan] if is_local else self.books[::-1]:
            beside = everything if is_local and everything is not plan else None
            placed = plan.place(
                shape, lease.vms, start_ms, end_ms, beside=beside, last_first=self.guests_last and not is_local
            )
            if placed is not None:
                lease.placed = placed
                return
        lease.placed = self.plan.place_anyhow(shape, lease.vms)

    def fits(self, lease: Lease, start_ms: int, end_ms: int) -> bool:
        """Whether a lease that is not booked then would have room in [start_ms, end_ms)."""
        return self.plan.fits(self.shape(lease), lease.vms, start_ms, end_ms)

    def fits_longer(self, lease: Lease, from_ms: int, end_ms: int) -> bool:
        """Whether a lease could keep its machines where they are in [from_ms, end_ms)."""
        low = {index: self.plan.plans[index].low(from_ms, end_ms) for index, _ in self.room_of(lease)}
        return all(
            low[index][position] >= amount for index, amounts in self.room_of(lease) for position, amount in amounts
        )

    def fits_beside(self, lease: Lease, others: Iterable[Lease], start_ms: int, end_ms: int) -> bool:
        """Whether it would, were these others, which are not booked yet, all started then."""
        there = list(others)
        if not there:
            return self.fits(lease, start_ms, end_ms)
        plan = self.plan.copy()
        for other in there:
            placed = plan.place(self.shape(other), other.vms, start_ms, end_ms)
            if placed is None:
                return False
            plan.take(start_ms, end_ms, plan.room_of(self.shape(other), placed))
        return plan.fits(self.shape(lease), lease.vms, start_ms, end_ms)

    def is_wider_than_site(self, lease: Lease) -> bool:
        """Whether an empty site has no room for it: never here."""
        return self.plan.machines(self.shape(lease)) < lease.vms

    def is_promised_too_much(self, lease: Lease) -> bool:
        """Whether what a lease has booked is booked for others too."""
        return self.plan.is_over(self.room_of(lease), lease.reserved_ms, lease.end_ms)

    def overbooked_from(self, lease: Lease, start_ms: int, end_ms: int) -> int:
        """From when in [start_ms, end_ms) on that is so; ``end_ms`` if never."""
        return self.plan.overbooked_from(self.room_of(lease), start_ms, end_ms)

    def lengthen(self, lease: Lease, from_ms: int, end_ms: int) -> None:
        """Book what a lease holds in [from_ms, end_ms) too."""
        for profile in self.books:
            profile.take(from_ms, end_ms, self.room_of(lease))

    def shorten(self, lease: Lease, from_ms: int, end_ms: int) -> None:
        """Give back what a lease holds in [from_ms, end_ms)."""
        for profile in self.books:
            profile.give(from_ms, end_ms, self.room_of(lease))

    def book_outage(self, vms: int, node: str, from_ms: int, end_ms: int) -> None:  # noqa: ARG002 - all of the node
        """Let a node be used for nothing."""
        for profile in self.books:
            profile.take(from_ms, end_ms, profile.outage_room(node))

    def end_outage(self, vms: int, node: str, from_ms: int, end_ms: int) -> None:  # noqa: ARG002 - all of the node
        """Let it be used again."""
        for profile in self.books:
            profile.give(from_ms, end_ms, profile.outage_room(node))

    def why_waiting(self, lease: Lease, now_ms: int) -> Reason:
        """Say why a lease waits that could not start now."""
        if lease.earliest_ms > now_ms:
            return Reason.NOT_READY_YET
        return Reason.BEHIND_OTHERS if self.fits(lease, now_ms, now_ms + 1) else Reason.ROOM_IN_USE

    # The queue

    def submit(self, lease: Lease) -> None:
        """Put a lease at the end of the queue; the next pass plans it."""
        self._places += 1
        lease.place = self._places
        self._others[lease.id] = lease
        self.moved[lease.id] = lease

    def take_up(self, waiting: Iterable[Lease]) -> None:
        """Restore these waiting leases; those with a reservation are in the profiles already."""
        for lease in sorted(waiting, key=attrgetter("place")):
            self._places = max(self._places, lease.place)
            if lease.reserved_ms >= 0:
                self._reserved[lease.id] = lease
                heappush(self._due, (lease.reserved_ms, lease.order, lease.id))
            else:
                self._others[lease.id] = lease

    def book(self, start_ms: int, lease: Lease) -> None:
        """Book the room of a lease from ``start_ms`` on, in every profile concerned, and choose its nodes."""
        self._place(lease, start_ms)
        self._book_as_placed(start_ms, lease)

    def book_at(self, start_ms: int, lease: Lease, nodes: Sequence[tuple[str, int]]) -> bool:
        """Book the room of a lease on these nodes; False where it is not there."""
        placed = self.plan.place_at(self.shape(lease), nodes, start_ms, start_ms + lease.span_ms)
        if placed is None:
            return False
        lease.placed = placed
        self._book_as_placed(start_ms, lease)
        return True

    def move_to(self, lease: Lease, nodes: Sequence[tuple[str, int]], now_ms: int) -> bool:
        """Book what a lease still holds on these nodes instead; False, and nothing changed, where it is not there."""
        begin_ms, end_ms, before = max(now_ms, lease.reserved_ms), lease.end_ms, self.room_of(lease)
        if begin_ms >= end_ms:
            return False
        for profile in self.books:
            profile.give(begin_ms, end_ms, before)
        placed = self.plan.place_at(self.shape(lease), nodes, begin_ms, end_ms)
        lease.placed = placed or lease.placed
        room = self.room_of(lease)
        for profile in self.books:
            profile.take(begin_ms, end_ms, room)
        self.moved[lease.id] = lease
        return placed is not None

    def _book_as_placed(self, start_ms: int, lease: Lease) -> None:
        lease.reserved_ms = start_ms
        self.moved[lease.id] = lease
        room = self.room_of(lease)
        for profile in self.books:
            profile.take(start_ms, lease.end_ms, room)

    def release(self, lease: Lease, now_ms: int) -> None:
        """Give back what a lease still has booked from now on."""
        self.give_back([self.unbook(lease, now_ms)])

    def give_back(self, bookings: Iterable[Booking]) -> None:
        """Give back what leases had booked."""
        for start_ms, end_ms, room in bookings:
            for profile in self.books:
                profile.give(start_ms, end_ms, room)

    def unbook(self, lease: Lease, now_ms: int) -> Booking:
        """A lease has no booking any more; returns what it still had from now on, which is to be given back."""
        booking = max(now_ms, lease.reserved_ms), lease.end_ms, self.room_of(lease)
        lease.reserved_ms, lease.placed = UNPLANNED, ()
        return booking

    def withdraw(self, lease: Lease, now_ms: int) -> None:
        """Take a waiting lease out of the queue, with its reservation."""
        if self._others.pop(lease.id, None) is None:
            del self._reserved[lease.id]
            self.release(lease, now_ms)
        lease.reserved_ms = UNPLANNED

    def reserve(self, lease: Lease, start_ms: int) -> None:
        """Give a lease a reservation from ``start_ms`` on; one that has none yet comes after those that have."""
        self.book(start_ms, lease)
        if lease.id not in self._reserved:
            self._places += 1
            lease.place = self._places
            self._reserved[lease.id] = lease
        heappush(self._due, (start_ms, lease.order, lease.id))

    def earliest(self, lease: Lease, now_ms: int) -> int:
        """The earliest start that the plan has for a lease, on its present span."""
        return self.earliest_from(lease, max(now_ms, lease.earliest_ms), lease.span_ms)

    def earliest_from(self, lease: Lease, from_ms: int, span_ms: int) -> int:
        """The earliest start from then on, were its span this."""
        return self.plan.earliest(self.shape(lease), lease.vms, from_ms, span_ms)

    def step(self, now_ms: int) -> Started:
        """One pass: move reservations earlier, then start leases that are due, promoted or backfilled."""
        plan = self.plan
        plan.trim(now_ms)
        has_new_room = plan.was_freed or plan.begin_ms > self._looked_ms
        if plan.was_freed:
            self._compress(now_ms)
        started: Started = []
        while self._due and self._due[0][0] <= now_ms:
            start_ms, _, lease_id = heappop(self._due)
            lease = self._reserved.get(lease_id)
            if lease is not None and lease.reserved_ms == start_ms:
                del self._reserved[lease_id]
                started.append((lease, Reason.RESERVED_START))
        if self._others:
            self._promote(started, now_ms)
            if self._others and self.depth is not None and self.depth > 0:
                self._backfill(started, now_ms, all_of_them=has_new_room)
        self._seen_places, self._looked_ms = self._places, now_ms
        for lease, _ in started:
            self.moved[lease.id] = lease
        return started

    def _compress(self, now_ms: int) -> None:
        """Let each reservation, in order of arrival, use the room that was given back before it.

        A lease can start earlier only where one of its machines can on a node where room was given back. Moves give
        room back behind them: those looked at earlier may use it at the next pass.
        """
        plan = self.plan
        freed, plan.freed = _Freed(plan, plan.freed, now_ms), set()
        for lease in list(self._reserved.values()):
            booked_ms = lease.reserved_ms
            from_ms = max(lease.earliest_ms, now_ms)
            if booked_ms <= from_ms:
                continue
            shape, is_beside = self.shape(lease), freed.nodes.isdisjoint(plan.nodes_of(lease.placed))
            if is_beside and not freed.may_help(shape, lease.span_ms, booked_ms):
                continue
            room, end_ms = self.room_of(lease), lease.end_ms
            before = plan.lift(room, booked_ms, end_ms)
            start_ms = plan.earliest(shape, 1, from_ms, lease.span_ms, before_ms=booked_ms, only=freed.nodes)
            if lease.vms > 1 and start_ms < booked_ms:
                start_ms = plan.earliest(shape, lease.vms, start_ms, lease.span_ms, before_ms=booked_ms)
            plan.put_back(before)
            if start_ms < booked_ms:
                for profile in self.books:
                    profile.give(booked_ms, end_ms, room)
                self.book(start_ms, lease)
                heappush(self._due, (start_ms, lease.order, lease.id))
                freed = _Freed(plan, freed.nodes | plan.freed, now_ms)
        plan.was_freed = False
        if len(self._due) > 2 * len(self._reserved) + 64:
            self._due = [(lease.reserved_ms, lease.order, lease.id) for lease in self._reserved.values()]
            heapify(self._due)

    def _promote(self, started: Started, now_ms: int) -> None:
        """Give reservations in order of arrival, as many as the depth allows; FCFS stops at the first."""
        while self._others:
            lease = next(iter(self._others.values()))
            if self.depth is not None and self.depth > 0 and len(self._reserved) >= self.depth:
                return
            start_ms = self.earliest(lease, now_ms)
            if start_ms <= now_ms:
                self.book(start_ms, lease)
                started.append((lease, Reason.ROOM_FREE))
            elif self.depth == 0:
                return
            else:
                self.reserve(lease, start_ms)
            del self._others[lease.id]

    def _backfill(self, started: Started, now_ms: int, *, all_of_them: bool) -> None:
        """Start leases that fit now, beyond the depth, without touching a reservation.

        Those that did not fit before cannot fit until room is given back or a booking ends.
        """
        for lease in list(self._others.values()):
            is_new = lease.place > self._seen_places or lease.earliest_ms > self._looked_ms
            if lease.earliest_ms > now_ms or not (all_of_them or is_new):
                continue
            if self.fits(lease, now_ms, now_ms + lease.span_ms):
                self.book(now_ms, lease)
                started.append((lease, Reason.BACKFILLED))
                del self._others[lease.id]

    def replan(self, now_ms: int, *, all_of_them: bool = False) -> list[Lease]:
        """Plan those again that overlap with over-booked time, or all; returns those that start later now."""
        withdrawn: list[tuple[Lease, int]] = []
        if all_of_them or self.plan.is_overbooked():
            for lease in reversed(self._reserved.values()):
                begin_ms = max(lease.reserved_ms, now_ms)
                if all_of_them or self.plan.is_over(self.room_of(lease), begin_ms, lease.end_ms):
                    withdrawn.append((lease, lease.reserved_ms))
                    self.release(lease, now_ms)
        later: list[Lease] = []
        for lease, promised_ms in reversed(withdrawn):
            self.reserve(lease, self.earliest(lease, now_ms))
            if lease.reserved_ms > promised_ms:
                later.append(lease)
        return later

    def next_pass_ms(self) -> int | None:
        """When the next reservation is due, or a lease without one becomes ready; None without either."""
        ready_ms = [one.earliest_ms for one in self._others.values() if one.earliest_ms > self._looked_ms]
        pass_ms = min(ready_ms, default=NEVER_MS)
        while self._due:
            start_ms, _, lease_id = self._due[0]
            lease = self._reserved.get(lease_id)
            if lease is not None and lease.reserved_ms == start_ms:
                pass_ms = min(pass_ms, start_ms)
                break
            heappop(self._due)
        return None if pass_ms == NEVER_MS else pass_ms

    def is_due(self, now_ms: int) -> bool:
        """Whether the time for a pass has come, whatever else happened."""
        pass_ms = self.next_pass_ms()
        return pass_ms is not None and pass_ms <= now_ms
