"""Random federations in which everything happens that only a live one knows.

Owners close and open their doors, users ask for more time, machines break.

`Turmoil` is plain data that Hypothesis draws; `live_through` runs it with every invariant checked after
every instant.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import itemgetter
from random import Random

from hypothesis import strategies as st
from tests.gateway.random_worlds import REFERENCE_MIPS, SLOTS, Case, Chronicle, cases, moving_cases

from leasehold.gateway.gateway import Gateway, Routing
from leasehold.gateway.invariants import Invariants
from leasehold.gateway.settings import SiteSettings
from leasehold.model.effect import Decision, Effect
from leasehold.model.event import (
    CancelRequested,
    Event,
    ExtendRequested,
    LeaseContinues,
    LeaseEnded,
    LeaseFailed,
    LeaseSaved,
    LendingChanged,
    Submitted,
    Tick,
)
from leasehold.model.reason import Outcome
from leasehold.model.request import LeaseType
from leasehold.routing.policy import RoutingPolicy
from leasehold.routing.registry import routing_policy
from leasehold.simulation.kernel import SimulatedWorld
from leasehold.simulation.workload.job import WorkloadJob

NOW = -1
"""In a `LeaseFailed`: whichever incarnation there is at the time."""

Look = Callable[[Gateway, list[Effect], int], None]


@dataclass(frozen=True, slots=True)
class Turmoil:
    """Jobs in order of submission, and what else happens at what time (ms)."""

    jobs: tuple[WorkloadJob, ...]
    changes: tuple[tuple[int, Event], ...]

    def only(self, *kinds: type) -> "Turmoil":
        """The same without changes of other kinds than these."""
        return replace(self, changes=tuple(one for one in self.changes if isinstance(one[1], kinds)))

    def of_known_leases(self) -> "Turmoil":
        """The same without changes of leases that nobody can know of yet: the number is in the answer."""
        known = [
            (at_ms, change)
            for at_ms, change in self.changes
            if isinstance(change, LendingChanged) or self.jobs[change.lease_id - 1].submit_ms < at_ms  # type: ignore[union-attr]
        ]
        return replace(self, changes=tuple(known))

    def to_the_end(self) -> list[tuple[int, Event]]:
        """All changes in order of time; in the end every door is opened again."""
        last_ms = max([self.jobs[-1].submit_ms, *(at_ms for at_ms, _ in self.changes)])
        in_order = sorted(self.changes, key=itemgetter(0))
        return [*in_order, *((last_ms + 1, LendingChanged(name, lends=True)) for name in SLOTS)]


@st.composite
def turmoils(draw: st.DrawFn, kinds: Sequence[LeaseType] = tuple(LeaseType), *, most_jobs: int = 16) -> Turmoil:
    """Up to ``most_jobs`` jobs within half a minute, and up to ten changes."""
    return draw(_with_changes(draw(cases(kinds, most_jobs, cancels=False))))


@st.composite
def moving_turmoils(draw: st.DrawFn) -> Turmoil:
    """Guests that move between sites, and up to ten changes."""
    return draw(_with_changes(draw(moving_cases())))


def _with_changes(case: Case) -> st.SearchStrategy[Turmoil]:
    last_s = case.jobs[-1].submit_ms // 1000
    half_seconds = st.integers(0, 2 * last_s + 30).map(lambda half_s: half_s * 500)
    changes = st.lists(st.tuples(half_seconds, _change(len(case.jobs))), max_size=10)
    return changes.map(lambda some: Turmoil(case.jobs, tuple(some)))


def _change(jobs: int) -> st.SearchStrategy[Event]:
    lease = st.integers(1, jobs)
    return st.one_of(
        st.builds(LendingChanged, st.sampled_from(list(SLOTS)), st.booleans()),
        st.builds(ExtendRequested, lease, st.sampled_from([1, 500, 2_000, 9_000, 30_000])),
        st.builds(LeaseFailed, lease, st.sampled_from([NOW, NOW, NOW, 0, 1, 2])),
        st.builds(CancelRequested, lease),
    )


class LivingGateway(Gateway):
    """A gateway whose leases end when they really do: an end that was put off by an extension is none.

    What happens at an instant is told to it in the order of a service: news of machines, what is due, and
    then what is asked for.
    """

    def handle(self, events: Iterable[Event], now_ms: int) -> list[Effect]:
        told = [self._now(one) for one in events if self._counts(one, now_ms)]
        return super().handle(sorted(told, key=_turn), now_ms)

    def _counts(self, event: Event, now_ms: int) -> bool:
        lease = self.leases.get(event.lease_id) if isinstance(event, LeaseEnded) else None
        return lease is None or not event.killed or lease.reserved_ms + lease.span_ms <= now_ms  # type: ignore[union-attr]

    def _now(self, event: Event) -> Event:
        if isinstance(event, LeaseFailed) and event.incarnation == NOW:
            lease = self.leases.get(event.lease_id)
            return event if lease is None else LeaseFailed(lease.id, lease.incarnation)
        return event


def _turn(event: Event) -> int:
    if isinstance(event, LeaseSaved | LeaseContinues):
        return 0
    if isinstance(event, LeaseEnded):
        return 2 if event.killed else 0
    turns = [LeaseFailed, Tick, Submitted]
    return turns.index(type(event)) + 1 if type(event) in turns else 4


class LivingWorld(SimulatedWorld):
    """A world in which requests grow: who is extended works on."""

    def __init__(
        self, gateway: Gateway, jobs: Mapping[int, WorkloadJob], chronicle: Chronicle, look: Look | None
    ) -> None:
        super().__init__(gateway, iter(jobs.items()), chronicle, Invariants(gateway))
        self._look = look
        self._handlers[Decision] = (*self._handlers[Decision], self._decided)

    def _decided(self, effect: Decision, now_ms: int) -> None:  # noqa: ARG002
        if effect.outcome is Outcome.EXTEND and effect.lease.held_since_ms >= 0:
            self._schedule_end(effect.lease, effect.lease.held_since_ms + effect.lease.overhead_ms)

    def _apply(self, effects: list[Effect], now_ms: int) -> None:
        super()._apply(effects, now_ms)
        if self._look is not None:
            self._look(self.gateway, effects, now_ms)


def live_through(
    turmoil: Turmoil,
    sites: Sequence[SiteSettings],
    policy: str | RoutingPolicy = "most-free",
    look: Look | None = None,
    only: Callable[[WorkloadJob], bool] = lambda _job: True,
    chronicle: Chronicle | None = None,
    max_restarts: int = 0,
) -> Chronicle:
    """Run it to its end at these sites; ``only`` these jobs, under the numbers that they have among all."""
    chosen = routing_policy(policy)(Random(0)) if isinstance(policy, str) else policy
    gateway = LivingGateway(sites, Routing(chosen, max_restarts=max_restarts), REFERENCE_MIPS)
    chronicle = chronicle or Chronicle()
    jobs = {number: job for number, job in enumerate(turmoil.jobs, 1) if only(job)}
    world = LivingWorld(gateway, jobs, chronicle, look)
    for at_ms, change in turmoil.to_the_end():
        world._at(at_ms, change)
    for _ in world.run():
        pass
    assert not gateway.leases, "somebody was forgotten"
    chronicle.sites = list(gateway.sites.values())
    return chronicle
