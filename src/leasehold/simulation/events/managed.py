"""Clusters with managers of their own, which decide for themselves: a second gateway on the same clock.

The federation's gateway offers guests to such a cluster, and follows what its manager reports. Messages take time, wait
while the two are out of touch, and arrive in order. Of the cluster's own users the gateway knows nothing.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from heapq import heappop, heappush
from operator import itemgetter

from leasehold.forecasting.world import Handler
from leasehold.gateway.gateway import Gateway
from leasehold.gateway.peering import AskWhen, Terms
from leasehold.gateway.site import with_longer_request
from leasehold.gateway.sites import RemoteSite, carried_by, report_of
from leasehold.model.effect import Decision, ExtendLease, LeaseClosed, OfferLease, RecallLease
from leasehold.model.event import (
    CancelRequested,
    Event,
    ExtensionAnswered,
    ExtensionAsked,
    SiteFellSilent,
    SiteForgotten,
    SiteReported,
    Submitted,
    Tick,
)
from leasehold.model.lease import Lease, LeaseState
from leasehold.model.reason import Outcome, Reason
from leasehold.model.request import NEVER_MS, Request
from leasehold.routing.view import SiteLive
from leasehold.simulation.kernel import Observer, SimulatedWorld
from leasehold.simulation.scenario.events import TimelineEntry
from leasehold.simulation.workload.job import WorkloadJob

NumberedJobs = Iterator[tuple[int, WorkloadJob]]


_News = SiteReported | ExtensionAnswered | SiteLive
"""What a manager tells the gateway."""

_FEDERATION = "federation"
"""What a peer calls the gateway of the scenario."""


class _Shown:
    """What happens at a managed cluster, as the observer of the whole world is to see it.

    A guest is over when its gateway learns so; here it only leaves its machines.
    """

    def __init__(self, observer: Observer) -> None:
        self._observer = observer
        self.closed: dict[int, tuple[Lease, Reason]] = {}
        self.extensions: list[Decision] = []
        known = observer.handlers
        self._leaves, self._closes, self._decides = (known.get(kind) for kind in (SiteReported, LeaseClosed, Decision))
        self.handlers: Mapping[type, Handler] = {**known, LeaseClosed: self._close, Decision: self._decided}

    def submitted(self, request: Request, job: WorkloadJob) -> None:
        """A job of the cluster's own users came."""
        self._observer.submitted(request, job)

    def _close(self, effect: LeaseClosed, now_ms: int) -> None:
        is_local = effect.lease.request.is_local
        self.closed |= {} if is_local else {effect.lease.id: (effect.lease, effect.reason)}
        handler = self._closes if is_local else self._leaves
        if handler is not None:
            handler(effect, now_ms)

    def _decided(self, effect: Decision, now_ms: int) -> None:
        """An extension of a guest is decided for the run by its gateway, once that is told."""
        if effect.duration_ms is not None and not effect.lease.request.is_local:
            self.extensions.append(effect)
        elif self._decides is not None:
            self._decides(effect, now_ms)


class ManagedCluster:
    """One cluster, its manager, and the messages between that and the federation's gateway."""

    def __init__(
        self,
        gateway: Gateway,
        observer: Observer,
        delay_ms: int,
        silences: Iterable[tuple[int, int]],
        ask: AskWhen | None = None,
    ) -> None:
        """Begin empty; ``gateway`` is the manager's, which has this one site. It is out of touch in ``silences``.

        With ``ask`` it is a peer, which is asked then.
        """
        self.ask = ask
        [self.site] = gateway.sites.values()
        self.name = self.site.name
        self._shown = _Shown(observer)
        self.world = SimulatedWorld(gateway, iter(()), self._shown, may_extend=True)
        self.local_jobs: list[tuple[int, int, WorkloadJob]] = []
        self._silences = sorted(silences)
        self._delay_ms = delay_ms
        self._sequence = 0
        self._to_manager: list[tuple[int, int, Event]] = []
        self._to_gateway: list[tuple[int, int, _News]] = []
        self._offered: dict[int, SiteReported | None] = {}

    @property
    def is_busy(self) -> bool:
        """Whether its own users have leases or jobs to come."""
        return bool(self.local_jobs or self.world.gateway.leases)

    def next_ms(self) -> int:
        """When something happens here or on the way next."""
        queues = (self.local_jobs, self._to_manager, self._to_gateway)
        return min(self.world.due_ms, *(queue[0][0] if queue else NEVER_MS for queue in queues))

    def remote(self) -> RemoteSite:
        """Give the cluster as its gateway knows it."""
        settings = self.site.settings
        is_peer = self.ask is not None
        return RemoteSite(
            self.name,
            settings.slots,
            settings.speed_mips,
            hands_over=settings.hands_over,
            images=settings.images,
            is_peer=is_peer,
            live=self._live(),
        )

    def _live(self) -> SiteLive:
        allocations, guests = self.site.allocations, self.site.guests
        waiting = 0 if guests is None else guests.queued_vms()
        return SiteLive(max(0, self.site.free_vms), self.site.locals.waiting_vms(), waiting, allocations.guest_vms)

    def _arrives_ms(self, now_ms: int) -> int:
        for begin_ms, end_ms in self._silences:
            if begin_ms <= now_ms < end_ms:
                now_ms = end_ms
        return now_ms + self._delay_ms

    def send(self, event: Event, now_ms: int) -> None:
        """Send the manager an offer, or an order about a guest."""
        self._sequence += 1
        heappush(self._to_manager, (self._arrives_ms(now_ms), self._sequence, event))

    def _report(self, what: _News, now_ms: int) -> None:
        self._sequence += 1
        heappush(self._to_gateway, (self._arrives_ms(now_ms), self._sequence, what))

    def pass_time(self, now_ms: int, actual_ms: Callable[[int], int]) -> None:
        """Let the manager decide about what has come and what has happened by now, and report."""
        events: list[Event] = []
        while self._to_manager and self._to_manager[0][0] <= now_ms:
            event = heappop(self._to_manager)[2]
            events += self._offer(event, actual_ms, now_ms) if isinstance(event, Submitted) else [event]
        while self.local_jobs and self.local_jobs[0][0] <= now_ms:
            _, number, job = heappop(self.local_jobs)
            events.append(self.world.submission(number, job))
        if not events and self.world.due_ms > now_ms:
            return
        self.world.step(now_ms, events)
        self._report_changes(now_ms)

    def _offer(self, event: Submitted, actual_ms: Callable[[int], int], now_ms: int) -> list[Event]:
        request = event.request
        ready_ms = max(request.ready_ms, now_ms)
        if request.deadline_ms is not None and ready_ms + self._left_ms(event) > request.deadline_ms:
            refusal = SiteReported(request.id, self.name, LeaseState.REFUSED, Reason.DEADLINE_TOO_TIGHT)
            self._report(refusal, now_ms)
            return []
        self._offered[request.id] = None
        self.world.expect(request.id, actual_ms(request.id))
        from_peer = "" if self.ask is None else _FEDERATION
        offered = replace(request, submit_ms=now_ms, ready_ms=ready_ms, domain="", from_peer=from_peer, max_restarts=0)
        return [Submitted(replace(offered, goes_back=True), event.carried)]

    def _left_ms(self, event: Submitted) -> int:
        left = None if event.carried is None else event.carried.work_left
        return event.request.duration_ms if left is None else -(-left // self.world.gateway.reference_mips)

    def _report_changes(self, now_ms: int) -> None:
        """Report what has become of guests, and of their extensions, and how the cluster is now."""
        leases, closed = self.world.gateway.leases, self._shown.closed
        for decision in self._shown.extensions:
            refusal = None if decision.outcome is Outcome.EXTEND else decision.reason
            duration_ms = decision.lease.request.duration_ms if decision.duration_ms is None else decision.duration_ms
            self._report(ExtensionAnswered(decision.lease.id, self.name, duration_ms, refusal), now_ms)
        self._shown.extensions.clear()
        for number in list(self._offered):
            lease, reason = closed[number] if number in closed else (leases[number], Reason.ROUTED)
            report = report_of(lease, self.name, reason)
            if self._offered[number] != report:
                self._offered[number] = report
                self._report(report, now_ms)
            if number in closed:
                del self._offered[number]
        closed.clear()
        self._report(self._live(), now_ms)

    def unheard(self) -> list[SiteReported | ExtensionAnswered]:
        """Return what of guests is still on its way to the gateway."""
        return [what for _, _, what in sorted(self._to_gateway, key=itemgetter(0, 1)) if not isinstance(what, SiteLive)]

    def forget(self, now_ms: int) -> list[SiteReported | ExtensionAnswered]:
        """The gateway forgets this cluster: what it has offered ends here too. Returns what is still on the way.

        They count: nobody forgets a site before it is known what became of the guests there. The manager cancels these
        guests once the gateway has given them up, which is how they end.
        """
        reports = self.unheard()
        self._to_gateway.clear()
        self._to_manager = [(now_ms, number, CancelRequested(number)) for number in sorted(self._offered)]
        self._offered.clear()
        return reports

    def news(self, now_ms: int) -> list[_News]:
        """Take what arrives at the gateway now."""
        found = []
        while self._to_gateway and self._to_gateway[0][0] <= now_ms:
            found.append(heappop(self._to_gateway)[2])
        return found


class ManagedClusters:
    """All managed clusters of a gateway; ``counts`` says how often one was out of touch, or forgotten."""

    def __init__(self, gateway: Gateway, clusters: Mapping[str, ManagedCluster], told: Iterable[TimelineEntry]) -> None:
        """Let them join the gateway; ``told`` are entries of the timeline."""
        self.counts = Counter[str]()
        self._gateway = gateway
        self._clusters = dict(clusters)
        self._actual_ms: dict[int, int] = {}
        about = [one for one in told if one.site in clusters and one.kind in ("unreachable", "forget")]
        self._due = sorted(((one.at_ms, one.kind, one.site) for one in about), reverse=True)
        self.handlers: Mapping[type, Handler] = {
            OfferLease: self._offered,
            RecallLease: self._recalled,
            ExtendLease: self._extended,
            LeaseClosed: self._closed,
        }
        for cluster in self._clusters.values():
            if cluster.ask is not None:
                gateway.peering.agree(cluster.name, Terms(cluster.ask))
                gateway.peering.begin_to_count(cluster.name, 0)
            gateway.join(cluster.remote())

    @property
    def is_busy(self) -> bool:
        """Whether own users of a managed cluster have leases or jobs to come."""
        return any(cluster.is_busy for cluster in self._clusters.values())

    def without_their_jobs(self, jobs: NumberedJobs) -> NumberedJobs:
        """Pass the jobs on, but for those of the managed clusters' own users, which their managers get."""
        for number, job in jobs:
            if job.site in self._clusters:
                heappush(self._clusters[str(job.site)].local_jobs, (job.submit_ms, number, job))
            else:
                yield number, job

    def settle(self) -> None:
        """The run is over: leases whose manager cannot be heard now have what it knows of their starts and duration."""
        for cluster in self._clusters.values():
            for report in cluster.unheard():
                lease = self._gateway.leases.get(report.lease_id)
                if lease is None or lease.site != cluster.name:
                    continue
                if isinstance(report, ExtensionAnswered):
                    if report.refusal is None and report.duration_ms > lease.request.duration_ms:
                        with_longer_request(lease, report.duration_ms)
                    continue
                if lease.first_start_ms < 0:
                    lease.first_start_ms = report.first_start_ms
                lease.preemptions = max(lease.preemptions, report.preemptions)
                lease.overhead_vm_ms = max(lease.overhead_vm_ms, report.overhead_vm_ms)

    def open_locals(self) -> dict[int, Lease]:
        """Give the open leases of their own users."""
        return {
            number: lease
            for cluster in self._clusters.values()
            for number, lease in cluster.world.gateway.leases.items()
            if lease.request.is_local
        }

    def submitted(self, request: Request, job: WorkloadJob) -> None:
        """Remember how long a guest really takes, which its manager does not know."""
        if not request.is_local:
            self._actual_ms[request.id] = job.actual_ms

    def next_ms(self, *, idle: bool) -> int:  # noqa: ARG002 - there is an end to them
        """When something happens at one of them, or on the way."""
        told_ms = self._due[-1][0] if self._due else NEVER_MS
        return min(told_ms, *(cluster.next_ms() for cluster in self._clusters.values()))

    def events(self, now_ms: int) -> list[Event]:
        """Let their managers decide, and say what arrives from them."""
        found: list[Event] = []
        forgotten: list[str] = []
        while self._due and self._due[-1][0] <= now_ms:
            _, kind, name = self._due.pop()
            self.counts[kind] += 1
            if kind == "forget":
                forgotten.append(name)
            else:
                found.append(SiteFellSilent(name))
        for cluster in self._clusters.values():
            cluster.pass_time(now_ms, self._actual_ms.__getitem__)
            for news in cluster.news(now_ms):
                if isinstance(news, SiteLive):
                    found += self._update(cluster.name, news)
                else:
                    found.append(news)
        for name in forgotten:
            found += [*self._clusters[name].forget(now_ms), SiteForgotten(name)]
        return found

    def _update(self, name: str, live: SiteLive) -> list[Event]:
        remote = self._gateway.registry.remotes.get(name)
        if remote is None:
            return []
        if remote.silent:
            self._gateway.retry_all()
        remote.live, remote.silent = live, False
        self._gateway.mark_dirty()
        return [Tick()] if self._gateway.has_pending_work else []

    def _offered(self, effect: OfferLease, now_ms: int) -> None:
        request = replace(effect.lease.request, wait=effect.wait)
        self._clusters[effect.lease.site].send(Submitted(request, carried_by(effect.lease)), now_ms)

    def _recalled(self, effect: RecallLease, now_ms: int) -> None:
        self._clusters[effect.lease.site].send(CancelRequested(effect.lease.id), now_ms)

    def _extended(self, effect: ExtendLease, now_ms: int) -> None:
        self._clusters[effect.lease.site].send(ExtensionAsked(effect.lease.id, effect.duration_ms), now_ms)

    def _closed(self, effect: LeaseClosed, now_ms: int) -> None:  # noqa: ARG002 - one signature for all handlers
        self._actual_ms.pop(effect.lease.id, None)
