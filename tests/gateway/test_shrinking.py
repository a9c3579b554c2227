"""A site may be given fewer VMs, or more: guests give way, nothing new starts, and nobody is lost."""

from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.gateway.random_worlds import QUICK, SLOTS, SPEEDS, Case, cases, moving_cases
from tests.gateway.test_restart import ForgetfulWorld, request
from tests.searching import examples

from leasehold.gateway.gateway import Gateway, Routing
from leasehold.gateway.invariants import Invariants
from leasehold.gateway.restart import take_up
from leasehold.gateway.settings import SiteSettings
from leasehold.model.effect import Decision, Effect, LeaseClosed
from leasehold.model.event import LeaseEnded, Submitted
from leasehold.model.lease import Lease
from leasehold.model.reason import Outcome, Reason
from leasehold.model.request import LeaseType
from leasehold.routing.registry import routing_policy
from leasehold.testing.worlds import site

OWN, SUSPENDABLE, CANCELABLE = LeaseType.NON_PREEMPTABLE, LeaseType.SUSPENDABLE, LeaseType.CANCELABLE
Sizes = dict[str, int]


class ChangingWorld(ForgetfulWorld):
    """A world in which every restart finds sites of other sizes."""

    def __init__(self, case: Case, routing: Routing, changes: dict[int, Sizes], depth: str) -> None:
        self.changes, self.sizes, self.changed_ms = changes, dict(SLOTS), -1
        super().__init__(case, routing, set(changes), depth)

    def sites(self) -> list[SiteSettings]:
        sizes, speeds = self.sizes, SPEEDS
        return [site(n, sizes[n], self.depth, overhead=QUICK, speed_mips=speeds[n]) for n in sizes]

    def _apply(self, effects: list[Effect], now_ms: int) -> None:
        super()._apply(effects, now_ms)
        for one in self.gateway.sites.values():
            held = list(one.allocations.held.values())
            if sum(lease.vms for lease in held) > one.settings.slots:
                assert {lease.request.lease_type for lease in held} == {OWN}, "a guest should have given way"
                assert max(lease.held_since_ms for lease in held) <= self.changed_ms, "nothing was to start"

    def _restart(self, now_ms: int) -> None:
        self.sizes |= self.changes[self.instants]
        self.changed_ms = now_ms
        super()._restart(now_ms)


sizes = st.fixed_dictionaries({}, optional={name: st.integers(1, slots + 2) for name, slots in SLOTS.items()})


@given(
    st.one_of(cases(), moving_cases()),
    st.dictionaries(st.integers(1, 60), sizes, min_size=1, max_size=4),
    st.sampled_from(["conservative", "easy", "fcfs"]),
    st.sampled_from(["rr", "most-free", "bcf-rnd"]),
)
@settings(max_examples=examples(300))
def test_whatever_size_sites_are_given_every_promise_of_what_is_there_is_kept(
    case: Case, changes: dict[int, Sizes], depth: str, policy: str
) -> None:
    """`ForgetfulWorld` checks every invariant after every instant; in the end everybody has ended somehow."""
    world = ChangingWorld(case, Routing(routing_policy(policy)(Random(0))), changes, depth)
    for _ in world.run():
        pass
    assert not world.gateway.leases


class TestFromEightToFour:
    """Six VMs are held on eight slots; then the site has four."""

    def shrunk(self, *asked: tuple[int, LeaseType, str | None], to: int = 4) -> tuple[Gateway, list[Effect]]:
        before = Gateway([site("a", 8, overhead=QUICK)], Routing(routing_policy("rr")(Random(0))))
        before.handle([Submitted(request(n, vms, 60, kind, home)) for n, (vms, kind, home) in enumerate(asked, 1)], 0)
        leases = list(before.leases.values())
        after = Gateway([site("a", to, overhead=QUICK)], Routing(routing_policy("rr")(Random(0))))
        take_up(after, leases, 10_000)
        effects = after.handle([], 10_000)
        Invariants(after).check(effects, 10_000)
        return after, effects

    def test_as_few_guests_give_way_as_make_it_fit(self) -> None:
        after, effects = self.shrunk((2, OWN, "a"), (2, SUSPENDABLE, None), (2, SUSPENDABLE, None))
        gave_way = [one.lease.id for one in effects if isinstance(one, Decision) and one.outcome is Outcome.PREEMPT]
        assert len(gave_way) == 1
        assert {one.reason for one in effects if isinstance(one, Decision)} >= {Reason.SITE_SHRANK}
        assert sum(lease.vms for lease in after.sites["a"].allocations.held.values()) == 4

    def test_who_is_cancelable_is_terminated(self) -> None:
        _, effects = self.shrunk((4, OWN, "a"), (2, CANCELABLE, None))
        assert [one.reason for one in effects if isinstance(one, LeaseClosed)] == [Reason.TERMINATED]

    def test_what_cannot_give_way_stays_and_nothing_starts_meanwhile(self) -> None:
        after, _ = self.shrunk((3, OWN, "a"), (3, OWN, "a"))
        held = after.sites["a"].allocations.held
        assert set(held) == {1, 2}
        arrivals = [Submitted(request(8, 1, 5, OWN, "a")), Submitted(request(9, 1, 5, SUSPENDABLE))]
        effects = after.handle(arrivals, 11_000)
        Invariants(after).check(effects, 11_000)
        assert set(held) == {1, 2}
        first: Lease = after.leases[1]
        effects = after.handle([LeaseEnded(1, first.incarnation)], 12_000)
        Invariants(after).check(effects, 12_000)
        assert set(held) == {2, 8}

    def test_who_waits_for_more_than_there_is_is_told_so(self) -> None:
        _, effects = self.shrunk((8, OWN, "a"), (6, OWN, "a"), (6, SUSPENDABLE, None))
        closed = {one.lease.id: one.reason for one in effects if isinstance(one, LeaseClosed)}
        assert closed == {2: Reason.WIDER_THAN_SITE, 3: Reason.WIDER_THAN_ANY_SITE}
