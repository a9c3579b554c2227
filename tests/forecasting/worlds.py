"""Random federations that a snapshot can be taken of, and what was decided after one."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from random import Random

from hypothesis import strategies as st

from leasehold.configuration.tables import DomainSpec, GatewaySpec
from leasehold.configuration.terms import ClusterTerms
from leasehold.forecasting.file import Recording, snapshot_bytes, snapshot_of
from leasehold.forecasting.replay import Recorder
from leasehold.forecasting.snapshot import (
    GatewayMemory,
    PastRequest,
    Snapshot,
    SnapshotSite,
    copied,
    empty_gateway,
    memory_of,
    rebuild,
)
from leasehold.gateway.gateway import Gateway
from leasehold.leasing.overhead import OverheadModel
from leasehold.model.agreement import Agreement, Commitment
from leasehold.model.effect import Effect, WakeAt
from leasehold.model.event import Event
from leasehold.model.request import LeaseType
from leasehold.simulation.kernel import SimulatedWorld
from leasehold.simulation.workload.job import WorkloadJob
from leasehold.testing.worlds import History

QUICK = OverheadModel(suspend_ms_per_gib=2_000, resume_ms_per_gib=3_000, network_mbps=10_000, migrate_fixed_ms=1_141)
NOTHING = GatewayMemory({}, {}, {})
CONSUMERS = ("physics/ada", "physics/bo", "climate/cy", "dee")
SLOTS = {"alpha": 6, "beta": 4, "gamma": 3}
POLICIES = ("rr", "pap-rtdp", "pap-rnd", "most-free", "wait-for-idle", "selective")


@dataclass(frozen=True, slots=True)
class Story:
    """Terms, jobs in order of submission, and after which instant the snapshot is taken."""

    terms: Snapshot
    jobs: tuple[WorkloadJob, ...]
    taken_after: int


def terms(policy: str = "rr", depth: str = "conservative", *agreements: Agreement, free_room: bool = False) -> Snapshot:
    """Three sites and nothing in them."""
    cluster = ClusterTerms(local_policy=depth, guest_policy=depth, overhead=QUICK)
    return Snapshot(
        0,
        1,
        GatewaySpec(policy=policy, use_free_room=free_room),
        tuple(SnapshotSite(name, slots, cluster, confirms_starts=False) for name, slots in SLOTS.items()),
        (),
        NOTHING,
        domains=(DomainSpec("west", ("alpha", "beta")),),
        agreements=agreements,
    )


AGREED = Agreement("physics-at-west", "west", "physics", Commitment(300_000, 20_000, 600_000, 5_000))


@st.composite
def stories(draw: st.DrawFn) -> Story:
    """Up to 25 jobs within a minute, most of them contended."""
    jobs, now_s = [], 0
    for _ in range(draw(st.integers(3, 25))):
        now_s += draw(st.integers(0, 3))
        home = draw(st.sampled_from([None, None, *SLOTS]))
        vms = draw(st.integers(1, 6 if home is None else SLOTS[home]))
        asked_ms, needed_ms = (1000 * draw(st.integers(1, 15)) for _ in range(2))
        group, _, consumer = draw(st.sampled_from(CONSUMERS)).rpartition("/")
        kind = LeaseType.NON_PREEMPTABLE if home else draw(st.sampled_from(list(LeaseType)))
        jobs.append(
            WorkloadJob(
                now_s * 1000, vms, asked_ms, needed_ms, consumer, lease_type=kind, site=home, group=group, wait=True
            )
        )
    made = terms(
        draw(st.sampled_from(POLICIES)),
        draw(st.sampled_from(["conservative", "easy", "hybrid:2"])),
        *([AGREED] if draw(st.booleans()) else []),
        free_room=draw(st.booleans()),
    )
    return Story(made, tuple(jobs), draw(st.integers(1, len(jobs))))


def taken(made: Snapshot, gateway: Gateway, now_ms: int, seed: int) -> Snapshot:
    """Take a snapshot of a gateway, through its bytes."""
    found = replace(made, taken_ms=now_ms, leases=copied(gateway.leases.values()), memory=memory_of(gateway), seed=seed)
    return snapshot_of(snapshot_bytes(found))


class Listening:
    """A gateway of which everything that it is told and answers is recorded."""

    def __init__(self, gateway: Gateway, recorder: Recorder) -> None:
        self._gateway, self._recorder = gateway, recorder

    def __getattr__(self, name: str) -> object:
        return getattr(self._gateway, name)

    def handle(self, events: list[Event], now_ms: int) -> list[Effect]:
        effects = self._gateway.handle(events, now_ms)
        self._recorder.note(events, effects, now_ms)
        return effects


def recorded(story: Story) -> Recording:
    """Let a story happen; from its snapshot on, the world goes on with a gateway made of that, and is recorded."""
    gateway = empty_gateway(story.terms, Random(1))
    jobs: Iterator[tuple[int, WorkloadJob]] = enumerate((replace(job) for job in story.jobs), 1)
    world = SimulatedWorld(gateway, jobs, History())
    recorder = None
    for index, now_ms in enumerate(world.run()):
        if recorder is None and index + 1 >= story.taken_after:
            snapshot = taken(story.terms, gateway, now_ms, seed=7)
            recorder = Recorder(snapshot, 10_000)
            world.gateway = Listening(rebuild(snapshot), recorder)  # type: ignore[assignment]
            if snapshot.leases:
                world.wake(WakeAt("", now_ms + 1), now_ms)  # as a restarted service looks at everything at once
    assert recorder is not None
    return recorder.recording()


def past_of(story: Story) -> list[PastRequest]:
    """Give the jobs of a story as if all of them were over."""
    return [
        PastRequest(
            job.submit_ms,
            job.site or "",
            job.vms,
            job.requested_ms,
            min(job.actual_ms, job.requested_ms),
            job.consumer,
            job.group,
            job.lease_type,
        )
        for job in story.jobs
    ]


def snapshot_after(
    made: Snapshot, jobs: Iterable[WorkloadJob], until_ms: int
) -> tuple[Snapshot, SimulatedWorld, History]:
    """Let jobs come until a time, and take a snapshot there; also give the world, which can go on."""
    gateway, history = empty_gateway(made, Random(3)), History()
    world = SimulatedWorld(gateway, enumerate(jobs, 1), history)
    for now_ms in world.run(until_ms):
        if now_ms == until_ms:
            break
    snapshot = replace(made, taken_ms=until_ms, leases=copied(gateway.leases.values()), memory=memory_of(gateway))
    return snapshot, world, history
