"""What if? Two futures of the same snapshot side by side: as things stand, and with changes.

Both meet the same chance in each replication: the same requests come, and each needs the same time (common random
numbers). So what differs is due to the changes, and few replications say how much: the interval of a difference is
that of the paired differences (Law, "Simulation Modeling and Analysis", section 11.2).
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from math import floor, sqrt
from statistics import fmean, stdev

from leasehold.configuration.policies import find_routing_policy, find_victim_policy
from leasehold.configuration.tables import DomainSpec
from leasehold.forecasting.futures import Forecast, FutureWorld, confirming, learnt_by
from leasehold.forecasting.learnt import Arrivals, RunTimes
from leasehold.forecasting.snapshot import Snapshot, SnapshotSite, running
from leasehold.forecasting.world import Handler
from leasehold.gateway.sites import RemoteTold
from leasehold.leasing.backfill import reservation_depth
from leasehold.model.agreement import CPUS, EVERYBODY, Agreement, NoLimit
from leasehold.model.effect import Decision, StartLease, Used
from leasehold.model.errors import InvalidField
from leasehold.model.event import Event, LeaseStarted, LendingChanged
from leasehold.model.lease import Lease, LeaseState
from leasehold.model.reason import Outcome

ALL_SITES = ""
"""The scope of figures of all sites together."""

_MS_PER_H = 3_600_000

# --- changes -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Drain:
    """A site takes no new guests."""

    drain: str

    def apply(self, snapshot: Snapshot) -> Snapshot:
        """Give the snapshot with the change; raises UnknownName."""
        snapshot.slots_of(self.drain)
        return snapshot

    def events(self) -> list[Event]:
        """Say what the gateway is told right away."""
        return [LendingChanged(self.drain, lends=False)]


@dataclass(frozen=True, slots=True)
class AddSite:
    """There is one more site, with nothing on it, on the terms of the first site."""

    add_site: str
    slots: int

    def apply(self, snapshot: Snapshot) -> Snapshot:
        """Give the snapshot with the change; raises InvalidField for a name that is taken."""
        if not self.add_site:
            raise InvalidField("add_site", self.add_site, "the name of the new site")
        _check_slots(self.slots)
        first = snapshot.sites[0]
        added = replace(first, name=self.add_site, slots=self.slots, nodes=(), lends=True, is_silent=False, outages=())
        return _with_one_more(snapshot, added)

    def events(self) -> list[Event]:
        """Say what the gateway is told right away."""
        return []


@dataclass(frozen=True, slots=True)
class AddDescribedSite:
    """There is one more site, with nothing on it, as its owner describes it.

    ``agreements``  in force besides the others, or in the place of those of their names; about this site
    ``domain``      the virtual domain that it is in, "" for none
    """

    described: SnapshotSite
    agreements: tuple[Agreement, ...] = ()
    domain: str = ""

    def apply(self, snapshot: Snapshot) -> Snapshot:
        """Give the snapshot with the change; raises InvalidField for a name that is taken, or another's agreement."""
        name = self.described.name
        changed = _with_one_more(snapshot, self.described)
        if self.domain:
            changed = replace(changed, domains=_domains_with(changed, name, self.domain))
        for agreement in self.agreements:
            if agreement.provider not in (name, self.domain):
                expected = f"{name}, the site that is added{f', or {self.domain}' if self.domain else ''}"
                raise InvalidField("agreement.provider", agreement.provider, expected)
            changed = Agree(agreement).apply(changed)
        return changed

    def events(self) -> list[Event]:
        """Say what the gateway is told right away."""
        return []


@dataclass(frozen=True, slots=True)
class ChangeSite:
    """A site has another size, or other rules; None: as it is."""

    site: str
    slots: int | None = None
    local_policy: str | None = None
    guest_policy: str | None = None
    victims: str | None = None

    def apply(self, snapshot: Snapshot) -> Snapshot:
        """Give the snapshot with the change; raises InvalidField or UnknownName."""
        remote = snapshot.remote(self.site)
        if remote is not None:
            return self._apply_elsewhere(snapshot, remote)
        before: SnapshotSite = snapshot.site(self.site)
        if self.slots is not None:
            _check_slots(self.slots)
            if before.nodes:
                raise InvalidField("slots", self.slots, f"nothing: {self.site} is planned by its nodes")
        for name in (self.local_policy, self.guest_policy):
            if name is not None:
                reservation_depth(name)
        if self.victims is not None:
            find_victim_policy(self.victims)
        terms = replace(
            before.terms,
            local_policy=self.local_policy or before.terms.local_policy,
            guest_policy=self.guest_policy or before.terms.guest_policy,
            victims=self.victims or before.terms.victims,
        )
        return snapshot.with_site(replace(before, slots=self.slots or before.slots, terms=terms))

    def _apply_elsewhere(self, snapshot: Snapshot, before: RemoteTold) -> Snapshot:
        """Give a site with a manager of its own another size; the rules there are its manager's."""
        if self.slots is None or (self.local_policy, self.guest_policy, self.victims) != (None, None, None):
            raise InvalidField("site", self.site, "a site of the gateway's own; elsewhere only slots can be changed")
        if before.is_peer or before.nodes:
            kind = "a peer" if before.is_peer else "planned by its nodes"
            raise InvalidField("slots", self.slots, f"nothing: {self.site} is {kind}")
        _check_slots(self.slots)
        free_vms = max(0, before.free_vms + self.slots - before.slots)
        changed = replace(before, slots=self.slots, free_vms=free_vms, units={**before.units, CPUS: self.slots})
        return replace(snapshot, remotes=tuple(changed if one.name == self.site else one for one in snapshot.remotes))

    def events(self) -> list[Event]:
        """Say what the gateway is told right away."""
        return []


@dataclass(frozen=True, slots=True)
class Policy:
    """Guests are routed by another policy."""

    policy: str

    def apply(self, snapshot: Snapshot) -> Snapshot:
        """Give the snapshot with the change; raises UnknownName or InvalidField."""
        find_routing_policy(self.policy)
        return replace(snapshot, gateway=replace(snapshot.gateway, policy=self.policy))

    def events(self) -> list[Event]:
        """Say what the gateway is told right away."""
        return []


@dataclass(frozen=True, slots=True)
class Agree:
    """An agreement is in force besides the others, or in the place of the one of its name."""

    agreement: Agreement

    def apply(self, snapshot: Snapshot) -> Snapshot:
        """Give the snapshot with the change."""
        kept = tuple(one for one in snapshot.agreements or () if one.name != self.agreement.name)
        return replace(snapshot, agreements=(*kept, self.agreement))

    def events(self) -> list[Event]:
        """Say what the gateway is told right away."""
        return []


@dataclass(frozen=True, slots=True)
class Load:
    """Requests come so many times as often."""

    load: float

    def apply(self, snapshot: Snapshot) -> Snapshot:
        """Give the snapshot, which does not change; raises InvalidField."""
        if not 0 <= self.load <= 100:  # noqa: PLR2004 - beyond that nothing can be simulated
            raise InvalidField("load", self.load, "from 0 to 100")
        return snapshot

    def events(self) -> list[Event]:
        """Say what the gateway is told right away."""
        return []


@dataclass(frozen=True, slots=True)
class Lend:
    """A site lends at most this share of its slots at a time."""

    lend: str
    share: float

    def apply(self, snapshot: Snapshot) -> Snapshot:
        """Give the snapshot with the change: an agreement with everybody; raises UnknownName or InvalidField."""
        slots = snapshot.slots_of(self.lend)
        if not 0 <= self.share <= 1:
            raise InvalidField("share", self.share, "from 0 to 1")
        limit = Agreement(
            f"what-if-lend-{self.lend}", self.lend, EVERYBODY, NoLimit(), lending_limit=floor(self.share * slots)
        )
        return Agree(limit).apply(snapshot)

    def events(self) -> list[Event]:
        """Say what the gateway is told right away."""
        return []


Change = Drain | AddSite | AddDescribedSite | ChangeSite | Policy | Agree | Load | Lend


def _with_one_more(snapshot: Snapshot, site: SnapshotSite) -> Snapshot:
    if site.name in {*snapshot.sizes, *(one.name for one in snapshot.domains)}:
        raise InvalidField("add_site", site.name, "a name that no site has, and no domain")
    return replace(snapshot, sites=(*snapshot.sites, site))


def _domains_with(snapshot: Snapshot, site: str, domain: str) -> tuple[DomainSpec, ...]:
    """Put a site into a virtual domain, there before or not; raises InvalidField for the name of a site."""
    if domain in snapshot.sizes:
        raise InvalidField("domain", domain, "a name that no site has")
    before = next((one for one in snapshot.domains if one.name == domain), DomainSpec(domain, ()))
    with_it = replace(before, sites=tuple(dict.fromkeys([*before.sites, site])))
    return (*(one for one in snapshot.domains if one.name != domain), with_it)


def _check_slots(slots: int) -> None:
    if slots < 1:
        raise InvalidField("slots", slots, "a whole number of at least 1")


# --- figures -----------------------------------------------------------------------------------------------

FIGURES = (
    "own_wait_s",
    "own_delayed",
    "guest_wait_s",
    "guests_started",
    "preemptions",
    "guest_vm_h",
    "utilisation_pct",
)
"""What is compared, for each site and in all; `Figure` says what each means."""


@dataclass(frozen=True, slots=True)
class Figure:
    """One figure of both futures: means over the replications, and the 95 % interval of the difference.

    ``own_wait_s``       mean wait of own users' requests, until the horizon for those that have not started by then
    ``own_delayed``      own users' requests that had to wait
    ``guest_wait_s``     the same of guests; in all it includes those that wait at no site
    ``guests_started``   guests that started for the first time
    ``preemptions``      leases preempted, each time counted
    ``guest_vm_h``       VM-hours held by guests
    ``utilisation_pct``  share of the slots that is held by anybody
    ``is_clear``         whether the interval of the difference does not contain 0
    """

    site: str
    name: str
    as_is: float
    changed: float
    difference: float
    low: float
    high: float

    @property
    def is_clear(self) -> bool:
        """Whether the difference is more than chance."""
        return self.low > 0 or self.high < 0


@dataclass(frozen=True, slots=True)
class Comparison:
    """What came of it, over the same time in all futures.

    ``horizon_ms``    how far they go: less than was asked for (``is_shortened``) where too much happens until then
    """

    taken_ms: int
    horizon_ms: int
    replications: int
    is_shortened: bool
    figures: tuple[Figure, ...]

    def of(self, site: str, name: str) -> Figure:
        """Find a figure of a site, or (`ALL_SITES`) of all."""
        return next(one for one in self.figures if (one.site, one.name) == (site, name))


@dataclass(slots=True)
class _Count:
    waits_ms: list[int] = field(default_factory=list)
    own_delayed: int = 0
    guest_waits_ms: list[int] = field(default_factory=list)
    guests_started: int = 0
    preemptions: int = 0
    guest_vm_ms: int = 0
    vm_ms: int = 0

    def figures(self, slots: int, span_ms: int) -> dict[str, float]:
        capacity = max(1, slots * span_ms)
        return {
            "own_wait_s": fmean(self.waits_ms) / 1000 if self.waits_ms else 0.0,
            "own_delayed": float(self.own_delayed),
            "guest_wait_s": fmean(self.guest_waits_ms) / 1000 if self.guest_waits_ms else 0.0,
            "guests_started": float(self.guests_started),
            "preemptions": float(self.preemptions),
            "guest_vm_h": self.guest_vm_ms / _MS_PER_H,
            "utilisation_pct": 100 * self.vm_ms / capacity,
        }


class _Counter:
    """Counts in one future, by site and in all."""

    def __init__(self, since_ms: int, confirms: frozenset[str]) -> None:
        self._since_ms = since_ms
        self._confirms = confirms
        self.counts: dict[str, _Count] = {}
        self.handlers: Mapping[type, Handler] = {
            StartLease: self._ordered,
            LeaseStarted: self._started,
            Decision: self._decided,
            Used: self._used,
        }

    def _of(self, site: str) -> tuple[_Count, ...]:
        names = (ALL_SITES, site) if site else (ALL_SITES,)
        return tuple(self.counts.setdefault(name, _Count()) for name in names)

    def _ordered(self, effect: StartLease, now_ms: int) -> None:
        if effect.lease.site not in self._confirms:
            self._started(effect.lease, now_ms)

    def _started(self, lease: Lease, now_ms: int) -> None:
        self._waited(lease, now_ms, started=True)

    def _waited(self, lease: Lease, now_ms: int, *, started: bool) -> None:
        wait_ms = max(0, now_ms - lease.request.ready_ms)
        for count in self._of(lease.request.site or lease.site):
            if lease.request.is_local:
                count.waits_ms.append(wait_ms)
                count.own_delayed += wait_ms > 0
            else:
                count.guest_waits_ms.append(wait_ms)
                count.guests_started += started

    def _decided(self, effect: Decision, now_ms: int) -> None:  # noqa: ARG002 - when does not matter
        if effect.outcome is Outcome.PREEMPT:
            for count in self._of(effect.site):
                count.preemptions += 1

    def _used(self, effect: Used, now_ms: int) -> None:  # noqa: ARG002 - the effect has its own times
        self._hold(effect.lease, effect.site, effect.begin_ms, effect.end_ms)

    def _hold(self, lease: Lease, site: str, begin_ms: int, end_ms: int) -> None:
        vm_ms = lease.vms * max(0, end_ms - max(begin_ms, self._since_ms))
        for count in self._of(site):
            count.vm_ms += vm_ms
            count.guest_vm_ms += 0 if lease.request.is_local else vm_ms

    def finish(self, open_leases: Iterable[Lease], now_ms: int) -> None:
        """Count what is still open at the horizon."""
        for lease in open_leases:
            if lease.held_since_ms >= 0:
                self._hold(lease, lease.site, lease.held_since_ms, now_ms)
            if lease.first_start_ms < 0 and lease.state in (LeaseState.WAITING, LeaseState.HELD, LeaseState.SUBMITTED):
                self._waited(lease, now_ms, started=False)


_Figures = dict[tuple[str, str], float]
"""Of one future: by site and name."""

_FEWEST = 2
"""Pairs that an interval needs, however long they take."""

_LEEWAY = 0.8
"""How much of what the first futures reached the others, in which other things happen, are to reach as well."""


def compare(snapshot: Snapshot, changes: Sequence[Change], how: Forecast) -> Comparison:
    """Simulate both futures as often as asked for, until the horizon; raises InvalidField or UnknownName.

    Where one of them would take more instants than `Forecast.most_instants`, all end at the time that it had reached
    then: figures of different times could not be compared.
    """
    changed, load, first = snapshot, 1.0, list[Event]()
    for change in changes:
        changed = change.apply(changed)
        first += change.events()
        load = change.load if isinstance(change, Load) else load
    run_times, arrivals = learnt_by(snapshot)
    learnt = run_times.with_running(running(snapshot)), arrivals
    span_ms = how.horizon_ms
    as_is: list[_Figures] = []
    with_it: list[_Figures] = []
    while len(as_is) < how.replications and (len(as_is) < _FEWEST or how.may_go_on()):
        replication = len(as_is)
        before, reached_ms = _figures(snapshot, learnt, how, span_ms, replication)
        after: _Figures = {}
        if reached_ms == span_ms:
            after, reached_ms = _figures(changed, learnt, how, span_ms, replication, first=first, load=load)
        if reached_ms < span_ms:
            span_ms = max(1, round(reached_ms * _LEEWAY))
            as_is.clear()
            with_it.clear()
        else:
            as_is.append(before)
            with_it.append(after)
    sites = [ALL_SITES, *dict.fromkeys([*snapshot.sizes, *changed.sizes])]
    figures = tuple(_paired(site, name, as_is, with_it) for site in sites for name in FIGURES)
    return Comparison(snapshot.taken_ms, span_ms, len(as_is), span_ms < how.horizon_ms, figures)


def _figures(
    snapshot: Snapshot,
    learnt: tuple[RunTimes, Arrivals],
    how: Forecast,
    span_ms: int,
    replication: int,
    *,
    first: Sequence[Event] = (),
    load: float = 1.0,
) -> tuple[_Figures, int]:
    """Count in one future, and say how much of its time it reached."""
    counter = _Counter(snapshot.taken_ms, confirming(snapshot))
    world = FutureWorld(snapshot, *learnt, how.seed, replication, [counter], load=load)
    if first:
        world.step(snapshot.taken_ms, list(first))
    until_ms = snapshot.taken_ms + span_ms
    if sum(1 for _ in islice(world.run(until_ms), how.most_instants)) == how.most_instants:
        return {}, min(world.now_ms - snapshot.taken_ms, span_ms - 1)
    counter.finish(world.open_leases(), until_ms)
    sizes = {ALL_SITES: sum(snapshot.sizes.values()), **snapshot.sizes}
    empty = _Count()
    return {
        (site, name): value
        for site, size in sizes.items()
        for name, value in counter.counts.get(site, empty).figures(size, span_ms).items()
    }, span_ms


_T_975 = (
    *(12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131),
    *(2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042),
)
"""The 97.5 % quantiles of Student's distribution with 1 to 30 degrees of freedom."""


def _paired(
    site: str,
    name: str,
    as_is: Sequence[Mapping[tuple[str, str], float]],
    with_it: Sequence[Mapping[tuple[str, str], float]],
) -> Figure:
    before = [one.get((site, name), 0.0) for one in as_is]
    after = [one.get((site, name), 0.0) for one in with_it]
    differences = [b - a for a, b in zip(before, after, strict=True)]
    mean, half = fmean(differences), 0.0
    count = len(differences)
    if count > 1:
        degrees = count - 1
        quantile = _T_975[degrees - 1] if degrees <= len(_T_975) else 1.96 + 2.5 / degrees
        half = quantile * stdev(differences) / sqrt(count)
    return Figure(site, name, fmean(before), fmean(after), mean, mean - half, mean + half)
