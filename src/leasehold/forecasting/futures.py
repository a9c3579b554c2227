"""Possible futures of a snapshot: the same decision code, with run times and arrivals drawn from what was learnt.

In each replication the gateway of the snapshot goes on by itself: leases run for as long as was drawn, others come. The
draws of a lease depend on the seed, the replication, its number and its user alone, those of arrivals on seed and
replication: two snapshots with the same seed meet the same chance (common random numbers), so that their differences
are theirs.

A site that decides for itself, and a peer, is a gateway of its own there, with one site that confirms starts, as large
as was last reported. Of what it has, others keep as much as they hold now: its own users are not known. What can be
had through a peer counts as if it were at the peer.

What is not foreseen: failures, what users cancel or extend, and what other gateways send.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from random import Random

from leasehold.forecasting.elsewhere import Elsewhere, elsewhere
from leasehold.forecasting.learnt import Arrivals, Coming, RunTimes
from leasehold.forecasting.snapshot import (
    UNKNOWN_MS,
    Snapshot,
    done_ms,
    holds_since_ms,
    outages,
    rebuild,
    running,
)
from leasehold.forecasting.world import Follower, Handler, World
from leasehold.gateway.gateway import Gateway
from leasehold.gateway.invariants import Invariants
from leasehold.gateway.sites import RemoteTold, carried_by, report_of
from leasehold.model.effect import (
    CommitLease,
    Decision,
    LeaseClosed,
    MigrateLease,
    OfferLease,
    PartLeased,
    RecallLease,
    ResumeLease,
    StartLease,
    SuspendLease,
)
from leasehold.model.event import (
    CancelRequested,
    Event,
    LeaseCommitted,
    LeaseContinues,
    LeaseSaved,
    LeaseStarted,
    Operation,
    SiteReported,
    Submitted,
    Tick,
)
from leasehold.model.lease import ON_THE_WAY, Lease, LeaseState
from leasehold.model.reason import Outcome, Reason
from leasehold.model.request import NEVER_MS, Request

FIRST_ARRIVAL = 1 << 40
"""The number of the first request that is not there yet; numbers of a gateway are smaller."""

MOST_INSTANTS = 20_000
"""After so many instants a replication is given up: what has not happened by then is not known."""


def stream(seed: int, *names: object) -> Random:
    """Make a random stream of its own for whatever these names name."""
    digest = blake2b(repr((seed, *names)).encode(), digest_size=8).digest()
    return Random(int.from_bytes(digest, "big"))


@dataclass(slots=True)
class Fate:
    """What became of a lease in a future; None where it did not happen.

    ``continues_ms``  when a lease that was suspended at the snapshot continued
    ``end_ms``        when it was over, ``state`` in which final state
    ``preempted``     how often it was preempted since the snapshot, ``taken_by`` for whom at the first time
    """

    start_ms: int | None = None
    continues_ms: int | None = None
    end_ms: int | None = None
    state: LeaseState | None = None
    site: str = ""
    preempted: int = 0
    taken_by: int | None = None


@dataclass(slots=True)
class Future:
    """One replication.

    ``fates``      of the leases that were asked about
    ``taken_ms, until_ms``  from when until when it was simulated
    ``left``       by site: VM-ms that the leases there had still to run, as drawn
    ``own``        by site: VM-ms of own users' requests that came, ``guests`` of guests anywhere
    """

    fates: dict[int, Fate] = field(default_factory=dict)
    taken_ms: int = 0
    until_ms: int = 0
    left: dict[str, int] = field(default_factory=dict)
    own: dict[str, int] = field(default_factory=dict)
    guests: int = 0


class FutureWorld(World):
    """A gateway that goes on from a snapshot; ``followers`` are told of what happens."""

    def __init__(  # noqa: PLR0913, PLR0917 - what a replication consists of
        self,
        snapshot: Snapshot,
        run_times: RunTimes,
        arrivals: Arrivals,
        seed: int,
        replication: int,
        followers: Sequence[Follower] = (),
        extra: Sequence[Request] = (),
        *,
        check: bool = False,
        load: float = 1.0,
        is_elsewhere: bool = False,
    ) -> None:
        """Rebuild the gateway; ``extra`` are requests made right now, ``load`` multiplies what comes.

        Where it ``is_elsewhere`` its leases that are over stay in `closed` until another gateway has learnt of it.
        Raises as `rebuild` does.
        """
        gateway = rebuild(snapshot, stream(seed, replication, "routing"))
        invariants = Invariants(gateway) if check else None
        carried_out: dict[type, Handler] = {
            PartLeased: self._take_in_part,
            OfferLease: self._offer,
            RecallLease: self._recall,
            CommitLease: self._commit,
        }
        super().__init__(gateway, followers, invariants, carried_out, may_extend=False)
        self._remotes: dict[str, RemoteFuture] = {}
        self.closed: dict[int, tuple[Lease, Reason]] = {}
        self._is_elsewhere = is_elsewhere
        self.future = Future(taken_ms=snapshot.taken_ms)
        self._snapshot, self._run_times = snapshot, run_times
        self._seed, self._replication = seed, replication
        self._common: dict[tuple[str, str], float] = {}
        self._coming = _coming(arrivals, seed, replication, load)
        self._next = next(self._coming, None)
        self._number = FIRST_ARRIVAL
        self.now_ms = snapshot.taken_ms
        for told in snapshot.remotes:
            there = elsewhere(snapshot, told)
            world = FutureWorld(
                there.snapshot,
                run_times,
                _NO_ARRIVALS,
                seed,
                replication,
                [_AsElsewhere(one) for one in followers],
                check=check,
                is_elsewhere=True,
            )
            self._remotes[told.name] = RemoteFuture(told, there, world, gateway)
        first: list[Event] = [*outages(snapshot.sites), Tick()]
        for lease in list(gateway.leases.values()):
            self._take_up(lease)
        for request in extra:
            self._know(request)
            first.append(Submitted(request))
        self.step(self.now_ms, first)

    def run(self, until_ms: int) -> Iterator[int]:
        """Let time pass until then, or until nothing is left to happen; yields after each instant."""
        while (now_ms := self._next_instant_ms()) <= until_ms and now_ms != NEVER_MS:
            self.now_ms = now_ms
            events: list[Event] = []
            for remote in self._remotes.values():
                events += remote.pass_time(now_ms)
            while self._next is not None and self._next.at_ms <= now_ms:
                events.append(self._arrive(self._next))
                self._next = next(self._coming, None)
            self.step(now_ms, events)
            yield now_ms
        self.now_ms = min(until_ms, max(self.now_ms, until_ms if self._next is not None else self.now_ms))

    def _next_instant_ms(self) -> int:
        now_ms = min(self.due_ms, self._next_ms())
        for remote in self._remotes.values():
            now_ms = min(now_ms, remote.next_ms())
        return now_ms

    def open_leases(self) -> Iterator[Lease]:
        """Give the open leases, each as it is known where it is."""
        for lease in self.gateway.leases.values():
            remote = self._remotes.get(lease.site)
            yield lease if remote is None else remote.world.gateway.leases.get(lease.id, lease)

    def _next_ms(self) -> int:
        return NEVER_MS if self._next is None else self._next.at_ms

    def _arrive(self, coming: Coming) -> Event:
        past, number = coming.past, self._number
        self._number += 1
        if past.home and past.home not in self.gateway.sites:
            past = replace(past, home="")
        request = past.again(number, coming.at_ms)
        if past.ran_ms == UNKNOWN_MS:
            self._know(request)
        else:
            self.expect(number, past.ran_ms)
        work = request.vms * past.requested_ms
        if request.site is None:
            self.future.guests += work
        else:
            self.future.own[request.site] = self.future.own.get(request.site, 0) + work
        return Submitted(request)

    def _know(self, request: Request, age_ms: int = 0) -> int:
        """Draw how long a request takes; returns ms at the reference speed."""
        rng = stream(self._seed, self._replication, "runs", request.id)
        user = request.path, request.site or ""
        taken_ms = self._run_times.draw(*user, request.duration_ms, age_ms, rng, self._common_of(*user))
        self.expect(request.id, taken_ms)
        return taken_ms

    def _common_of(self, path: str, home: str) -> float:
        """Draw what the leases of a user have in common in this future."""
        common = self._common.get((path, home))
        if common is None:
            common = stream(self._seed, self._replication, "user", path, home).gauss(0.0, 1.0)
            self._common[path, home] = common
        return common

    def _take_in_part(self, effect: PartLeased, now_ms: int) -> None:  # noqa: ARG002 - all are carried out alike
        self._know(effect.lease.request)

    def _offer(self, effect: OfferLease, now_ms: int) -> None:
        lease = effect.lease
        took_ms = self._actual_work[lease.id] // self.gateway.reference_mips
        self._remotes[lease.site].offer(lease, took_ms, now_ms, wait=effect.wait)

    def _recall(self, effect: RecallLease, now_ms: int) -> None:
        self._remotes[effect.lease.site].tell(CancelRequested(effect.lease.id), now_ms)

    def _commit(self, effect: CommitLease, now_ms: int) -> None:
        self._remotes[effect.lease.site].tell(LeaseCommitted(effect.lease.id), now_ms)

    def _take_up(self, lease: Lease) -> None:
        """Go on with a lease that was there."""
        now_ms = self._snapshot.taken_ms
        age_ms = done_ms(lease, self._snapshot)
        taken_ms = self._know(lease.request, age_ms)
        if holds_since_ms(lease) >= 0:
            left_ms = max(0, taken_ms - age_ms)
            self.future.left[lease.site] = self.future.left.get(lease.site, 0) + lease.vms * left_ms
        remote = self._remotes.get(lease.site)
        if remote is not None:
            if lease.state is LeaseState.WAITING:
                remote.offer(lease, taken_ms, now_ms, wait=True)
            if lease.id in self.gateway.dispatcher.recalled:
                remote.tell(CancelRequested(lease.id), now_ms)
            return
        match lease.state:
            case LeaseState.RUNNING:
                self._schedule_end(lease, lease.held_since_ms + lease.overhead_ms)
            case LeaseState.STARTING:
                self._expect_machines(lease, now_ms)
            case LeaseState.RESUMING | LeaseState.MIGRATING:
                at_ms = max(now_ms + 1, lease.held_since_ms + lease.overhead_ms)
                self._at(at_ms, LeaseContinues(lease.id, lease.incarnation))
                if not self.gateway.sites[lease.site].settings.confirms_starts:
                    self._schedule_end(lease, lease.held_since_ms + lease.overhead_ms)
            case LeaseState.SUSPENDING:
                self._at(max(now_ms + 1, lease.earliest_ms), LeaseSaved(lease.id, lease.incarnation))
            case _:
                pass

    def _at(self, at_ms: int, event: Event) -> None:
        super()._at(max(at_ms, self.now_ms), event)  # what was over before the snapshot is over now

    def _close(self, effect: LeaseClosed, now_ms: int) -> None:
        super()._close(effect, now_ms)
        if self._is_elsewhere:
            self.closed[effect.lease.id] = (effect.lease, effect.reason)

    def _start(self, effect: StartLease, now_ms: int) -> None:
        super()._start(effect, now_ms)
        if self.gateway.sites[effect.lease.site].settings.confirms_starts:
            self._expect_machines(effect.lease, now_ms)

    def _expect_machines(self, lease: Lease, now_ms: int) -> None:
        """Machines are seen after a time drawn from those that were measured at the site, longer than it is since."""
        allocations, since_ms = self.gateway.sites[lease.site].allocations, lease.held_since_ms
        longer = [
            took_ms for took_ms in allocations.experience.times_ms(Operation.START) if since_ms + took_ms > now_ms
        ]
        rng = stream(self._seed, self._replication, "starts", lease.id, lease.incarnation)
        took_ms = longer[int(rng.random() * len(longer))] if longer else allocations.start_ms()
        at_ms = max(now_ms + 1, since_ms + took_ms)
        self._at(at_ms, LeaseStarted(lease.id, lease.incarnation, at_ms))

    def _suspend(self, effect: SuspendLease, now_ms: int) -> None:
        lease = effect.lease
        save_ms = self._drawn_ms(lease, Operation.SUSPEND, effect.save_ms)
        self._at(now_ms + save_ms, LeaseSaved(lease.id, lease.incarnation))

    def _resume(self, effect: ResumeLease, now_ms: int) -> None:
        self._continue_after(effect.lease, self._drawn_ms(effect.lease, Operation.RESUME, effect.resume_ms), now_ms)

    def _migrate(self, effect: MigrateLease, now_ms: int) -> None:
        self._continue_after(effect.lease, self._drawn_ms(effect.lease, Operation.MIGRATE, effect.transfer_ms), now_ms)

    def _drawn_ms(self, lease: Lease, operation: Operation, planned_ms: int) -> int:
        """Draw how long something takes that is planned with the upper quartile of what was measured at the site."""
        site = self.gateway.sites[lease.site]
        experience = site.allocations.experience
        ratios = experience.ratios(operation) if site.settings.confirms_starts else ()
        if not ratios:
            return planned_ms
        rng = stream(self._seed, self._replication, operation, lease.id, lease.incarnation)
        return max(1, planned_ms * ratios[int(rng.random() * len(ratios))] // experience.factor(operation))


class RemoteFuture:
    """A site that decides for itself, or a peer, in one future: a gateway of its own, and messages to and from it."""

    def __init__(self, told: RemoteTold, there: Elsewhere, world: FutureWorld, gateway: Gateway) -> None:
        """Begin as it was reported; ``gateway`` is the one that it reports to."""
        self.world = world
        self._told, self._gateway = told, gateway
        self._outside = there.outside
        self._first_ms = world.now_ms + 1
        self._inbox: list[tuple[int, Event]] = []
        self._reported: dict[int, SiteReported | None] = dict.fromkeys(there.leases)

    def next_ms(self) -> int:
        """When something happens here next, or arrives."""
        arrives_ms = self._inbox[0][0] if self._inbox else NEVER_MS
        return min(self.world.due_ms, self._first_ms, arrives_ms)

    def offer(self, lease: Lease, took_ms: int, now_ms: int, *, wait: bool) -> None:
        """Offer it a lease that takes so long."""
        request = self._outside(lease.request, now_ms, wait=wait)
        self.world.expect(request.id, took_ms)
        self._reported[request.id] = None
        self.tell(Submitted(request, carried_by(lease)), now_ms)

    def tell(self, event: Event, now_ms: int) -> None:
        """Send it something, which takes a moment."""
        self._inbox.append((now_ms + 1, event))

    def pass_time(self, now_ms: int) -> list[Event]:
        """Let it decide about what has come and what has happened there by now; gives what it reports."""
        if self.next_ms() > now_ms:
            return []
        self._first_ms = NEVER_MS
        events = [event for at_ms, event in self._inbox if at_ms <= now_ms]
        self._inbox = [one for one in self._inbox if one[0] > now_ms]
        self.world.now_ms = now_ms
        self.world.step(now_ms, events)
        found: list[Event] = []
        leases, closed = self.world.gateway.leases, self.world.closed
        for number in list(self._reported):
            if number in closed:
                lease, reason = closed[number]
            elif number in leases:
                lease, reason = leases[number], Reason.ROUTED
            else:
                continue  # it is still on its way there
            report = report_of(lease, self._told.name, reason)
            until_ms = lease.request.prepared_until_ms
            report.prepared_until_ms = -1 if until_ms is None else until_ms
            if self._reported[number] != report:
                self._reported[number] = report
                found.append(report)
            if number in closed:
                del self._reported[number]
        closed.clear()
        if not self._told.silent:
            self._gateway.hear(self._as_it_is())
        return found

    def _as_it_is(self) -> RemoteTold:
        [site] = self.world.gateway.sites.values()
        free_vms = max(0, site.free_vms)
        return replace(
            self._told,
            free_vms=min(free_vms, self._told.slots),
            guest_waiting_vms=0 if site.guests is None else site.guests.queued_vms(),
            running_guest_vms=site.allocations.guest_vms,
            beyond=tuple(replace(one, free_vms=min(free_vms, one.slots)) for one in self._told.beyond),
        )


class _AsElsewhere:
    """A follower as it sees a site that decides for itself: a lease is over when its gateway learns that."""

    def __init__(self, follower: Follower) -> None:
        self.handlers: Mapping[type, Handler] = {
            kind: handler for kind, handler in follower.handlers.items() if kind is not LeaseClosed
        }


_NO_ARRIVALS = Arrivals((), 0)


def learnt_by(snapshot: Snapshot) -> tuple[RunTimes, Arrivals]:
    """Learn run times and arrivals from the history of a snapshot."""
    return RunTimes(snapshot.history), Arrivals(snapshot.history, snapshot.taken_ms)


def _coming(arrivals: Arrivals, seed: int, replication: int, load: float) -> Iterator[Coming]:
    """Draw what comes; more of it by drawing further futures, less by leaving some out, each by chance of its own."""
    if load == 1:
        return arrivals.draw(stream(seed, replication, "arrivals"))
    return _merged(
        [
            _thinned(
                arrivals.draw(stream(seed, replication, "arrivals", *([turn] if turn else []))),
                min(1.0, load - turn),
                stream(seed, replication, "kept", turn),
            )
            for turn in range(int(-(-load // 1)))
        ]
    )


def _merged(streams: Sequence[Iterator[Coming]]) -> Iterator[Coming]:
    heads = [(head.at_ms, index, head) for index, one in enumerate(streams) if (head := next(one, None)) is not None]
    while heads:
        at_ms, index, head = min(heads, key=lambda one: one[:2])
        heads.remove((at_ms, index, head))
        yield head
        if (following := next(streams[index], None)) is not None:
            heads.append((following.at_ms, index, following))


def _thinned(coming: Iterator[Coming], share: float, rng: Random) -> Iterator[Coming]:
    return (one for one in coming if share >= 1 or rng.random() < share)


class FateRecorder:
    """Follows what becomes of some leases; ``confirms`` are the sites that say when machines are there."""

    def __init__(self, fates: dict[int, Fate], confirms: frozenset[str]) -> None:
        self._fates = fates
        self._confirms = confirms
        self.open = self.to_start = len(fates)
        self.handlers: Mapping[type, Handler] = {
            StartLease: self._ordered,
            LeaseStarted: self._started,
            ResumeLease: self._resumed,
            MigrateLease: self._resumed,
            LeaseContinues: self._continued,
            Decision: self._decided,
            LeaseClosed: self._closed,
        }

    def _ordered(self, effect: StartLease, now_ms: int) -> None:
        if effect.lease.site not in self._confirms:
            self._started(effect.lease, now_ms)

    def _started(self, lease: Lease, now_ms: int) -> None:
        fate = self._fates.get(lease.id)
        if fate is not None and fate.start_ms is None:
            fate.start_ms, fate.site = now_ms, lease.site
            self.to_start -= 1

    def _resumed(self, effect: ResumeLease | MigrateLease, now_ms: int) -> None:
        if effect.lease.site not in self._confirms:
            self._continued(effect.lease, now_ms)

    def _continued(self, lease: Lease, now_ms: int) -> None:
        fate = self._fates.get(lease.id)
        if fate is not None and fate.continues_ms is None:
            fate.continues_ms, fate.site = now_ms, lease.site

    def _decided(self, effect: Decision, now_ms: int) -> None:  # noqa: ARG002 - when does not matter
        fate = self._fates.get(effect.lease.id) if effect.outcome is Outcome.PREEMPT else None
        if fate is not None:
            fate.preempted += 1
            if fate.taken_by is None and effect.preemption is not None:
                fate.taken_by = effect.preemption.beneficiary

    def _closed(self, effect: LeaseClosed, now_ms: int) -> None:
        fate = self._fates.get(effect.lease.id)
        if fate is not None:
            fate.end_ms, fate.state = now_ms, effect.lease.state
            self.to_start -= fate.start_ms is None
            self.open -= 1


@dataclass(frozen=True, slots=True)
class Forecast:
    """What is simulated, and how often.

    ``replications``  how many futures
    ``seed``          of all chance
    ``horizon_ms``    how far beyond the snapshot; what has not happened by then is not known
    ``to_the_end``    until the leases are over; else until each has started
    ``most_instants`` after so many instants a future is over, whatever has not happened by then
    ``may_go_on``     asked between replications: whether there is time for one more; the first is always made
    """

    replications: int = 30
    seed: int = 0
    horizon_ms: int = 30 * 86_400_000
    to_the_end: bool = True
    most_instants: int = MOST_INSTANTS
    may_go_on: Callable[[], bool] = lambda: True


def confirming(snapshot: Snapshot) -> frozenset[str]:
    """Name the sites that say when machines are there: what is elsewhere always does."""
    return frozenset(
        [*(site.name for site in snapshot.sites if site.confirms_starts), *(one.name for one in snapshot.remotes)]
    )


def simulate(
    snapshot: Snapshot,
    about: Iterable[int],
    how: Forecast,
    *,
    extra: Sequence[Request] = (),
    learnt: tuple[RunTimes, Arrivals] | None = None,
) -> list[Future]:
    """Simulate futures of a snapshot and say what becomes of some leases; ``extra`` are requests made right now.

    ``learnt`` is used instead of learning from the history of the snapshot again. Raises as `rebuild` does.
    """
    run_times, arrivals = learnt or learnt_by(snapshot)
    run_times = run_times.with_running(running(snapshot))
    wanted, confirms = list(about), confirming(snapshot)
    until_ms = snapshot.taken_ms + how.horizon_ms
    futures: list[Future] = []
    for replication in range(how.replications):
        if futures and not how.may_go_on():
            break
        fates = {number: Fate() for number in wanted}
        recorder = FateRecorder(fates, confirms)
        world = FutureWorld(snapshot, run_times, arrivals, how.seed, replication, [recorder], extra)
        _note_what_holds(world.gateway, snapshot, fates, recorder)
        for instants, _ in enumerate(world.run(until_ms)):
            left = recorder.open if how.to_the_end else recorder.to_start
            if not left or instants >= how.most_instants:
                break
        world.future.fates, world.future.until_ms = fates, world.now_ms
        futures.append(world.future)
    return futures


def _note_what_holds(gateway: Gateway, snapshot: Snapshot, fates: dict[int, Fate], recorder: FateRecorder) -> None:
    """What has started before the snapshot has its start."""
    for lease in snapshot.leases:
        fate = fates.get(lease.id)
        if fate is None:
            continue
        if lease.first_start_ms >= 0 and fate.start_ms is None:
            fate.start_ms = lease.first_start_ms
            if fate.end_ms is None:
                recorder.to_start -= 1
        if lease.state is LeaseState.RUNNING or (lease.state in ON_THE_WAY and lease.id in gateway.leases):
            fate.site = fate.site or lease.site
