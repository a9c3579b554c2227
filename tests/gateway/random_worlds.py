"""Random federations: sites of different size and speed, all lease types, users who change their minds.

A `Case` is plain data that Hypothesis draws; `unfold` runs it through the real decision code with every
invariant checked after every instant, and `Chronicle` keeps what each effect said at the time.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any, get_args

from hypothesis import strategies as st

from leasehold.forecasting.world import Handler
from leasehold.gateway.gateway import Gateway, Routing
from leasehold.gateway.invariants import Invariants
from leasehold.gateway.settings import SiteSettings
from leasehold.gateway.site import Site
from leasehold.leasing.overhead import OverheadModel
from leasehold.model.effect import (
    Decision,
    Effect,
    LeaseClosed,
    MigrateLease,
    OfferLease,
    RecallLease,
    ResumeLease,
    StartLease,
    StopLease,
    SuspendLease,
)
from leasehold.model.event import CancelRequested
from leasehold.model.lease import Lease, LeaseState
from leasehold.model.reason import Outcome, Reason
from leasehold.model.request import LeaseType, Request
from leasehold.routing.policy import Dispatch, Information, RoutingPolicy, RoutingView, Verdict
from leasehold.routing.registry import routing_policy
from leasehold.simulation.kernel import SimulatedWorld
from leasehold.simulation.workload.job import WorkloadJob
from leasehold.testing.worlds import site

# Seconds in which small cases have suspensions and migrations of the same order as their jobs.
QUICK = OverheadModel(suspend_ms_per_gib=2_000, resume_ms_per_gib=3_000, network_mbps=10_000, migrate_fixed_ms=1_141)
REFERENCE_MIPS = 2
SLOTS = {"a": 6, "b": 4, "c": 3}
SPEEDS = {"a": 2, "b": 3, "c": 1}
PREEMPTABLE = (LeaseType.CANCELABLE, LeaseType.SUSPENDABLE, LeaseType.MIGRATABLE)
ALL_TYPES = tuple(LeaseType)
HOLDS_VMS = (LeaseState.RUNNING, LeaseState.RESUMING, LeaseState.MIGRATING)

LeaseEffect = (
    StartLease
    | ResumeLease
    | MigrateLease
    | SuspendLease
    | StopLease
    | OfferLease
    | RecallLease
    | LeaseClosed
    | Decision
)
Watch = Callable[[Gateway, int], None]


class ByTheView(RoutingPolicy):
    """Do with each request what a function of request, view and time says."""

    name = "by-the-view"
    information = Information.LIVE

    def __init__(self, decide: Callable[[Request, RoutingView, int], Verdict]) -> None:
        super().__init__(Random(0))
        self._decide = decide

    def route(self, request: Request, view: RoutingView, now_ms: int) -> Verdict:
        return self._decide(request, view, now_ms)


def to_the_first() -> ByTheView:
    """Send everything to the first site that is offered."""
    return ByTheView(lambda _request, view, _now_ms: Dispatch(view.sites[0].name))


@dataclass(frozen=True, slots=True)
class Case:
    """What comes when: jobs in order of submission, and at what time (ms) whose user cancels."""

    jobs: tuple[WorkloadJob, ...]
    cancels: tuple[tuple[int, int], ...] = ()


@st.composite
def cases(
    draw: st.DrawFn, kinds: Sequence[LeaseType] = ALL_TYPES, most_jobs: int = 18, *, cancels: bool = True
) -> Case:
    """Up to ``most_jobs`` jobs within half a minute, most of them contended."""
    jobs, now_s = [], 0
    for _ in range(draw(st.integers(1, most_jobs))):
        now_s += draw(st.integers(0, 3))
        jobs.append(draw(job_at(now_s, kinds)))
    return Case(tuple(jobs), tuple(draw(_cancels(len(jobs), now_s))) if cancels else ())


@st.composite
def job_at(draw: st.DrawFn, now_s: int, kinds: Sequence[LeaseType]) -> WorkloadJob:
    """One job, local to a site or from outside, that may need less or more than it asks for."""
    home = draw(st.sampled_from([None, None, None, *SLOTS]))
    vms = draw(st.integers(1, 6 if home is None else SLOTS[home]))
    asked_ms, needed_ms = (1000 * draw(st.integers(1, 12)) for _ in range(2))
    job = WorkloadJob(now_s * 1000, vms, asked_ms, needed_ms, site=home)
    job.ready_ms += 1000 * draw(st.sampled_from([0, 0, 0, 4]))
    if home is not None:
        return job
    job.lease_type = draw(st.sampled_from(kinds))
    if not job.lease_type.is_best_effort and draw(st.booleans()):
        job.deadline_ms = job.ready_ms + job.requested_ms + draw(st.integers(0, 20)) * 1000
    return job


@st.composite
def moving_cases(draw: st.DrawFn) -> Case:
    """Guests come to a site with busy users of its own, and can go on at two that have none."""
    jobs, now_s = [], 0
    for _ in range(draw(st.integers(2, 14))):
        now_s += draw(st.integers(0, 3))
        job = WorkloadJob(now_s * 1000, draw(st.integers(1, 3)), 1000 * draw(st.integers(1, 20)), 1)
        job.actual_ms = job.requested_ms - draw(st.sampled_from([0, 0, 1, 1500, -1000]))
        job.actual_ms = max(1, job.actual_ms)
        if draw(st.booleans()):
            job.site, job.vms = "a", 2 * job.vms
        else:
            job.lease_type = draw(st.sampled_from([LeaseType.MIGRATABLE, LeaseType.MIGRATABLE, *PREEMPTABLE]))
            if job.lease_type is LeaseType.MIGRATABLE and draw(st.booleans()):
                job.deadline_ms = job.submit_ms + job.requested_ms + 1000 * draw(st.integers(0, 30))
        jobs.append(job)
    return Case(tuple(jobs))


def _cancels(jobs: int, last_s: int) -> st.SearchStrategy[list[tuple[int, int]]]:
    half_seconds = st.integers(0, 2 * last_s + 40).map(lambda half_s: half_s * 500)
    return st.lists(st.tuples(half_seconds, st.integers(1, jobs)), max_size=5, unique=True)


def three_sites(policy: str = "conservative", **settings: Any) -> list[SiteSettings]:
    """Sites a, b and c, with the same policy and settings."""
    return [site(n, SLOTS[n], policy, overhead=QUICK, speed_mips=SPEEDS[n], **settings) for n in SLOTS]


@dataclass(slots=True)
class Stay:
    """An interval in which a lease held its VMs: how it began and ended, and at which speed."""

    kind: str
    start_ms: int
    mips: int
    end_ms: int = -1
    ended_by: str = ""


_BEGINS = {StartLease: "start", ResumeLease: "resume", MigrateLease: "migrate"}
_ENDS = {SuspendLease: "suspend", MigrateLease: "migrate", StopLease: "stop", LeaseClosed: "close"}


@dataclass(slots=True)
class Chronicle:
    """Every effect with its time, and a picture of what it said then: leases change afterwards."""

    effects: list[tuple[int, Effect]] = field(default_factory=list)
    told: list[tuple[int, str]] = field(default_factory=list)
    _stays: dict[int, list[Stay]] = field(default_factory=dict)
    leases: dict[int, Lease] = field(default_factory=dict)
    sites: list[Site] = field(default_factory=list)
    """The sites at the end."""
    handlers: Mapping[type, Handler] = field(init=False)

    def __post_init__(self) -> None:
        self.handlers = dict.fromkeys(get_args(Effect), self._happened)

    def submitted(self, request: Request, job: WorkloadJob) -> None:
        pass

    def _happened(self, effect: Effect, now_ms: int) -> None:
        self.effects.append((now_ms, effect))
        self.told.append((now_ms, repr(effect)))
        if isinstance(effect, LeaseEffect):
            self.leases[effect.lease.id] = effect.lease
            self._stayed(effect, now_ms)

    def _stayed(self, effect: LeaseEffect, now_ms: int) -> None:
        lease, kind = effect.lease, type(effect)
        stays = self._stays.setdefault(lease.id, [])
        if kind in _ENDS and stays and not stays[-1].ended_by:
            stays[-1].end_ms, stays[-1].ended_by = now_ms, _ENDS[kind]
        if kind in _BEGINS:
            stays.append(Stay(_BEGINS[kind], now_ms, SPEEDS[lease.site]))

    def stays(self, lease_id: int) -> list[Stay]:
        """Every interval in which a lease held VMs."""
        return self._stays.get(lease_id, [])

    def decisions(self, *outcomes: Outcome) -> list[tuple[int, Decision]]:
        """Decisions with one of these outcomes, all without, with their times in milliseconds."""
        found = [(now_ms, effect) for now_ms, effect in self.effects if isinstance(effect, Decision)]
        return [(now_ms, made) for now_ms, made in found if not outcomes or made.outcome in outcomes]

    def ends(self) -> dict[int, tuple[int, Reason]]:
        """When (ms) and why each lease was over; each at most once."""
        closings = [(now_ms, e) for now_ms, e in self.effects if isinstance(e, LeaseClosed)]
        ends = {closing.lease.id: (now_ms, closing.reason) for now_ms, closing in closings}
        assert len(ends) == len(closings)
        return ends


def unfold(
    case: Case,
    sites: Sequence[SiteSettings],
    policy: str | RoutingPolicy = "rr",
    *,
    seed: int = 0,
    watch: Watch | None = None,
    **options: Any,
) -> Chronicle:
    """Run a case to its end at these sites."""
    chosen = routing_policy(policy)(Random(seed)) if isinstance(policy, str) else policy
    return drive(Gateway(sites, Routing(chosen, **options), REFERENCE_MIPS), case, watch)


def drive(gateway: Gateway, case: Case, watch: Watch | None = None) -> Chronicle:
    """Run a case to its end at this gateway; ``watch`` is shown the gateway after every instant."""
    chronicle = Chronicle()
    world = SimulatedWorld(gateway, enumerate(case.jobs, 1), chronicle, Invariants(gateway))
    for at_ms, lease_id in case.cancels:
        world._at(at_ms, CancelRequested(lease_id))
    for now_ms in world.run():
        if watch is not None:
            watch(gateway, now_ms)
    assert not gateway.leases, "somebody was forgotten"
    chronicle.sites = list(gateway.sites.values())
    return chronicle
