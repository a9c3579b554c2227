"""What the pages show, computed from what the API and the store give: bars, lanes, groups, charts.

Nothing here decides anything, and whatever is drawn is also given as numbers, for the table behind each chart.
"""

import asyncio
import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import add

from markupsafe import Markup
from starlette.concurrency import run_in_threadpool

from leasehold.model.reason import PREEMPTED, Outcome, Reason
from leasehold.model.request import LEASE_TYPES
from leasehold.protocol.activity import QueueGroup, Timeline
from leasehold.protocol.fields import unix_ms
from leasehold.protocol.leases import JournalEntry
from leasehold.service.accounting import StepUse, Window
from leasehold.service.federation import Federation
from leasehold.service.sites import FREE, GUESTS, LOCAL, OUT, Glance, Overview
from leasehold.service.store.filters import EVERYTHING, JournalFilter
from leasehold.service.store.reading import OutcomeGroup
from leasehold.service.store.rows import JournalRow
from leasehold.service.store.store import Store

KINDS = (LOCAL, *reversed(LEASE_TYPES), GUESTS, FREE, OUT)
"""Order of the bars: from the VMs that stay longest to those that are free or out of service."""

_NOT_LENT = frozenset({LOCAL, FREE, OUT})


# --- overview ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a bar: so many VMs of one kind, from ``begin`` on."""

    kind: str
    begin: int
    vms: int

    @property
    def css(self) -> str:
        """Its class in the style."""
        return "k-" + self.kind.replace(" ", "-")


@dataclass(frozen=True, slots=True)
class SiteBar:
    """A site as a bar, with the sums that are read first."""

    name: str
    status: str
    slots: int
    parts: tuple[Part, ...]
    own: int
    lent: int
    free: int
    kinds: Mapping[str, int]


def site_bar(site: Glance) -> SiteBar:
    """Give a site as a bar; parts without VMs are left out."""
    parts, begin = [], 0
    for kind in KINDS:
        vms = site.kinds.get(kind, 0)
        if vms:
            parts.append(Part(kind, begin, vms))
        begin += vms
    lent = sum(vms for kind, vms in site.kinds.items() if kind not in _NOT_LENT)
    own, free = site.kinds.get(LOCAL, 0), site.kinds.get(FREE, 0)
    return SiteBar(site.name, site.status, site.slots, tuple(parts), own, lent, free, dict(site.kinds))


@dataclass(frozen=True, slots=True)
class Loan:
    """What one consumer holds now: VMs by site; ``consumer`` is "" for all that the reader may not see."""

    consumer: str
    group: str
    vms: Mapping[str, int]
    leases: int


def loans_now(overview: Overview) -> list[Loan]:
    """Give the holders of machines by name, the largest first."""
    vms: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    leases: Counter[tuple[str, str]] = Counter()
    for site in overview.sites:
        for holder, (held, count) in site.holders.items():
            vms[holder][site.name] += held
            leases[holder] += count
    loans = [Loan(*holder, dict(by_site), leases[holder]) for holder, by_site in vms.items()]
    return sorted(loans, key=lambda loan: (not loan.consumer, -sum(loan.vms.values()), loan.consumer))


# --- today ---------------------------------------------------------------------------------------------------

_HOUR_MS, _DAY_MS = 3_600_000, 86_400_000
DELAY_MS = 1_000
"""Own users count as delayed if their machines came more than this later than their start."""

_PAGE = 20_000
_COUNTED = (Outcome.START.value, "started", Outcome.PREEMPT.value)


@dataclass(slots=True)
class Today:
    """What happened since midnight (UTC), counted as the journal grows: a look costs what is new.

    ``own_started``    own requests that got their machines
    ``own_delayed``    those of them that got them more than `DELAY_MS` after their start
    ``longest_ms``     the longest time between start and machines of any own request
    ``made_room``      own requests for which guests gave way
    ``preemptions``    leases preempted, by site
    ``is_complete``    False while lines of today have not been read yet
    """

    day: int = -1
    own_started: int = 0
    own_delayed: int = 0
    longest_ms: int = 0
    made_room: int = 0
    preemptions: Counter[str] = field(default_factory=Counter)
    is_complete: bool = False
    _seq: int = 0
    _starting: dict[int, int] = field(default_factory=dict)
    _lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def look(self, federation: Federation) -> None:
        """Read the lines that came since the last look, at most some ten thousand of them."""
        async with self._lock:
            await run_in_threadpool(self._read, federation.store, federation.clock())

    def _read(self, store: Store, now_ms: int) -> None:
        if self.day != now_ms // _DAY_MS:
            self.day = now_ms // _DAY_MS
            self.own_started = self.own_delayed = self.longest_ms = self.made_room = 0
            self.preemptions.clear()
            self._starting.clear()
            self._seq = store.seq_at(self.day * _DAY_MS)
        last_seq = store.last_seq()
        to_seq = min(last_seq, self._seq + _PAGE)
        which = JournalFilter(EVERYTHING, whats=_COUNTED)
        for line in store.lines_between(self._seq, to_seq, _PAGE, which=which):
            self._count(line)
        self._seq, self.is_complete = to_seq, to_seq == last_seq

    def _count(self, line: JournalRow) -> None:
        assert line.lease_id is not None
        if line.what == Outcome.PREEMPT:
            self.preemptions[line.site] += 1
        elif line.what == Outcome.START:
            if line.rule == HOME_FIRST:
                self._starting[line.lease_id] = line.at_ms
                self.made_room += line.reason == Reason.ROOM_MADE
        elif line.lease_id in self._starting:
            took_ms = line.at_ms - self._starting.pop(line.lease_id)
            self.own_started += 1
            self.own_delayed += took_ms > DELAY_MS
            self.longest_ms = max(self.longest_ms, took_ms)


HOME_FIRST = "home-first"
"""The rule by which a site starts its own users' requests."""


# --- queue ---------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class TypeGroup:
    """Queued leases of one consumer and type, with their reasons."""

    lease_type: str
    is_local: bool
    leases: int = 0
    vms: int = 0
    oldest_ms: int = 0
    next_start_ms: int | None = None
    reasons: list[QueueGroup] = field(default_factory=list)


@dataclass(slots=True)
class ConsumerGroup:
    """Queued leases of one consumer."""

    consumer: str
    leases: int = 0
    vms: int = 0
    oldest_ms: int = 0
    next_start_ms: int | None = None
    types: dict[tuple[str, bool], TypeGroup] = field(default_factory=dict)


def grouped(groups: Iterable[QueueGroup]) -> list[ConsumerGroup]:
    """Put the groups of a queue beneath their consumers and types, in the order in which they come."""
    consumers: dict[str, ConsumerGroup] = {}
    for group in groups:
        consumer = consumers.setdefault(group.consumer, ConsumerGroup(group.consumer))
        kind = consumer.types.setdefault((group.type, group.local), TypeGroup(group.type, group.local))
        kind.reasons.append(group)
        oldest_ms = unix_ms(group.oldest_at)
        for above in (consumer, kind):
            above.leases += group.leases
            above.vms += group.vms
            above.oldest_ms = min(above.oldest_ms or oldest_ms, oldest_ms)
            if group.next_start_at is not None:
                next_ms = unix_ms(group.next_start_at)
                above.next_start_ms = min(above.next_start_ms or next_ms, next_ms)
    return list(consumers.values())


# --- a lease's story -----------------------------------------------------------------------------------------

_HELD = frozenset({"starting", "running", "resuming", "suspending", "migrating"})


@dataclass(frozen=True, slots=True)
class Phase:
    """A time in which a lease was in one state at one place; ``share`` is of the whole story, in per mille."""

    state: str
    site: str
    begin_ms: int
    end_ms: int
    begin_share: int
    share: int


def phases(entries: Sequence[JournalEntry], end_ms: int) -> list[Phase]:
    """Give the states that a lease was in, in order, as parts of a bar of 1,000."""
    if not entries:
        return []
    moments = [(round(entry.at.timestamp() * 1000), entry.state, entry.site) for entry in entries]
    merged: list[tuple[int, str, str]] = []
    for at_ms, state, site in moments:
        if not merged or merged[-1][1:] != (state, site):
            merged.append((at_ms, state, site))
    begin_ms = merged[0][0]
    span_ms = max(1, end_ms - begin_ms)
    found = []
    for (at_ms, state, site), after in zip(merged, [*merged[1:], None], strict=True):
        until_ms = end_ms if after is None else after[0]
        begin = 1000 * (at_ms - begin_ms) // span_ms
        share = 1000 * (until_ms - begin_ms) // span_ms - begin
        if until_ms > at_ms:
            found.append(Phase(state, site, at_ms, until_ms, begin, share))
    return found


@dataclass(frozen=True, slots=True)
class Taken:
    """Room that was taken from guests: when, where, and from whom, as far as the reader may see them."""

    at_ms: int
    site: str
    victims: tuple[int, ...]
    hidden: int
    freed_vms: int | None
    needed_vms: int | None


def taken_for(lease_id: int, lines: Iterable[JournalRow]) -> dict[int, dict[str, object]]:
    """Give the preemptions for a lease among these lines, by moment: the record of each decision."""
    found: dict[int, dict[str, object]] = {}
    for line in lines:
        if line.what == Outcome.PREEMPT and line.reason in PREEMPTED:
            record = json.loads(line.detail).get("preemption", {})
            if record.get("for_lease") == lease_id:
                found.setdefault(line.at_ms, record | {"site": line.site})
    return found


# --- timeline ------------------------------------------------------------------------------------------------

MOST_SEGMENTS = 1_000
MOST_ROWS = 96
"""Rows of a lane: a larger site has several VMs in a row."""


@dataclass(frozen=True, slots=True)
class Segment:
    """A time in which a lease held machines: x and width in per ten thousand of the window, y and height in rows."""

    lease_id: int
    consumer: str
    kind: str
    vms: int
    begin_ms: int
    end_ms: int
    is_open: bool
    x: int
    width: int
    boxes: tuple[tuple[int, int], ...]

    @property
    def drawn(self) -> Markup:
        """Its boxes, in one piece: a template that wrote each number would take most of the time of the page."""
        css, is_own = "k-" + self.kind.replace(" ", "-"), int(self.kind == LOCAL)
        boxes = (
            f'<rect class="seg {css}" x="{self.x}" y="{y}" width="{self.width}" height="{height}"'
            f' data-vms="{0 if place else self.vms}" data-own="{is_own}"/>'
            for place, (y, height) in enumerate(self.boxes)
        )
        return Markup("".join(boxes))  # noqa: S704 - numbers, and the name of a type

    @property
    def middle(self) -> float:
        """The middle of its largest box."""
        y, height = max(self.boxes, key=lambda box: box[1])
        return y + height / 2


@dataclass(frozen=True, slots=True)
class Arrow:
    """A preemption: from the request that took the room to a guest that gave it."""

    x: int
    from_y: float
    to_y: float
    taker: int
    victim: int


@dataclass(slots=True)
class Lane:
    """One site in the timeline; ``rows`` high."""

    site: str
    slots: int
    rows: int
    segments: list[Segment] = field(default_factory=list)
    arrows: list[Arrow] = field(default_factory=list)


def lanes(timeline: Timeline) -> list[Lane]:
    """Draw what was held as lanes by site.

    Each lease gets rows that are free at its begin, together where that is possible, so that a lane is as full as
    its site was.
    """
    begin_ms, end_ms = unix_ms(timeline.since), unix_ms(timeline.until)
    span_ms = max(1, end_ms - begin_ms)
    found = {site.name: Lane(site.name, site.slots, min(MOST_ROWS, max(1, site.slots))) for site in timeline.sites}
    busy = {site: [0] * lane.rows for site, lane in found.items()}
    for held in timeline.held:
        lane = found.get(held.site)
        if lane is None:
            continue
        height = max(1, round(held.vms * lane.rows / max(1, lane.slots)))
        since_ms = unix_ms(held.begin)
        until_ms = end_ms if held.end is None else unix_ms(held.end)
        x = 10_000 * (max(since_ms, begin_ms) - begin_ms) // span_ms
        width = 10_000 * (min(until_ms, end_ms) - begin_ms) // span_ms - x
        lane.segments.append(
            Segment(
                held.lease,
                held.consumer,
                LOCAL if held.local else held.type or GUESTS,
                held.vms,
                since_ms,
                until_ms,
                held.end is None,
                x,
                max(width, 8),
                _boxes(busy[held.site], height, max(since_ms, begin_ms), until_ms),
            )
        )
    for one in timeline.preemptions:
        lane, at_ms = found.get(one.site), unix_ms(one.at)
        if lane is not None and begin_ms <= at_ms <= end_ms:
            x = 10_000 * (at_ms - begin_ms) // span_ms
            lane.arrows.extend(_arrows(lane, x, at_ms, one.for_lease, one.leases))
    return list(found.values())


def _boxes(busy_until_ms: list[int], height: int, begin_ms: int, end_ms: int) -> tuple[tuple[int, int], ...]:
    """Take rows that are free from ``begin_ms`` on: the first that lie together, else the first of all."""
    free = [row for row, until_ms in enumerate(busy_until_ms) if until_ms <= begin_ms]
    chosen = next(
        (
            free[place : place + height]
            for place in range(len(free) - height + 1)
            if free[place + height - 1] - free[place] == height - 1
        ),
        free[:height] or [min(range(len(busy_until_ms)), key=busy_until_ms.__getitem__)],
    )
    boxes: list[tuple[int, int]] = []
    for row in chosen:
        busy_until_ms[row] = end_ms
        if boxes and sum(boxes[-1]) == row:
            boxes[-1] = (boxes[-1][0], boxes[-1][1] + 1)
        else:
            boxes.append((row, 1))
    return tuple(boxes)


def _arrows(lane: Lane, x: int, at_ms: int, taker: int, victims: Sequence[int]) -> list[Arrow]:
    of_taker = [one for one in lane.segments if one.lease_id == taker and one.end_ms > at_ms]
    if not of_taker:
        return []
    from_y = of_taker[0].middle
    gave = [one for one in lane.segments if one.lease_id in victims and one.begin_ms < at_ms <= one.end_ms + 60_000]
    latest = {one.lease_id: one for one in gave}
    return [Arrow(x, from_y, one.middle, taker, one.lease_id) for one in latest.values()]


# --- loans ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Matrix:
    """Who lent how much to whom: VM-hours by provider and consumer, and VMs on average by provider and window.

    ``own``     VM-hours of the providers' own users
    ``most``    the largest of all cells
    ``series``  for each provider, VMs lent on average in each window
    """

    providers: list[str]
    consumers: list[str]
    hours: Mapping[tuple[str, str], float]
    own: Mapping[str, float]
    most: float
    begins_s: list[int]
    series: Mapping[str, list[float]]

    def lent(self, provider: str) -> float:
        """VM-hours that a provider lent."""
        return sum(self.hours.get((provider, consumer), 0.0) for consumer in self.consumers)

    def used(self, consumer: str) -> float:
        """VM-hours that a consumer used."""
        return sum(self.hours.get((provider, consumer), 0.0) for provider in self.providers)


def matrix(used: StepUse, steps: Sequence[Window], providers: Sequence[str]) -> Matrix:
    """Sum up use by provider (a virtual domain or site) and consumer; ``providers`` come first, and in this order."""
    hours: dict[tuple[str, str], float] = {}
    own: Counter[str] = Counter()
    totals: Counter[str] = Counter()
    lent: dict[str, list[int]] = {}
    for (provider, consumer, is_local), by_step in used.items():
        vm_ms = sum(by_step)
        if is_local:
            own[provider] += vm_ms
        else:
            hours[provider, consumer] = vm_ms / _HOUR_MS
            totals[consumer] += vm_ms
            lent[provider] = list(map(add, lent.get(provider, [0] * len(steps)), by_step))
    named = list(dict.fromkeys((*providers, *sorted(lent), *sorted(own))))
    lengths_ms = [end_ms - begin_ms for begin_ms, end_ms in steps]
    return Matrix(
        named,
        [name for name, _ in totals.most_common()],
        hours,
        {name: ms / _HOUR_MS for name, ms in own.items()},
        max(hours.values(), default=0.0),
        [begin_ms // 1000 for begin_ms, _ in steps],
        {
            name: [
                round(ms / length_ms, 2)
                for ms, length_ms in zip(lent.get(name, [0] * len(steps)), lengths_ms, strict=True)
            ]
            for name in named
        },
    )


# --- history -------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Waits:
    """The leases of one span of time and origin, and how long they waited for their first start."""

    leases: int = 0
    started: int = 0
    waited_ms: int = 0
    longest_ms: int = 0
    preemptions: int = 0
    migrations: int = 0

    def add(self, group: OutcomeGroup) -> None:
        """Count a group of leases in."""
        self.leases += group.leases
        self.started += group.started
        self.waited_ms += group.waited_ms
        self.longest_ms = max(self.longest_ms, group.longest_ms)
        self.preemptions += group.preemptions
        self.migrations += group.migrations

    @property
    def mean_ms(self) -> int:
        """The mean wait of those that started."""
        return self.waited_ms // self.started if self.started else 0


@dataclass(frozen=True, slots=True)
class History:
    """Waits by span of time, own users' and guests', and what became of each consumer's guests."""

    begins_ms: list[int]
    own: list[Waits]
    guests: list[Waits]
    consumers: Mapping[str, Waits]
    types: Mapping[str, Waits]
    all_own: Waits
    all_guests: Waits


def history(groups: Iterable[OutcomeGroup], begin_ms: int, end_ms: int, bucket_ms: int) -> History:
    """Put the groups of outcomes together; spans without leases are in it, too."""
    begins = list(range(begin_ms - begin_ms % bucket_ms, end_ms, bucket_ms))
    own, guests = {at: Waits() for at in begins}, {at: Waits() for at in begins}
    consumers: dict[str, Waits] = defaultdict(Waits)
    types: dict[str, Waits] = defaultdict(Waits)
    all_own, all_guests = Waits(), Waits()
    for group in groups:
        if group.bucket_ms not in own:
            continue
        (own if group.is_local else guests)[group.bucket_ms].add(group)
        (all_own if group.is_local else all_guests).add(group)
        if not group.is_local:
            consumers[group.consumer].add(group)
            types[group.lease_type].add(group)
    return History(begins, list(own.values()), list(guests.values()), consumers, types, all_own, all_guests)
