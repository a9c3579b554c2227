"""What is measured at a site changes what is planned there from then on, and nothing that is booked.

Sites a and b have 4 VMs; by their terms saving takes 2 s, loading 3 s, moving 7 s.
"""

from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.gateway.random_worlds import (
    PREEMPTABLE,
    QUICK,
    SLOTS,
    Case,
    Chronicle,
    cases,
    moving_cases,
)
from tests.gateway.telling import Told, decided, lent, own
from tests.gateway.test_restart import ForgetfulWorld, told
from tests.searching import examples

from leasehold.gateway.gateway import Routing
from leasehold.leasing.overhead import ONE
from leasehold.model.effect import MigrateLease, ResumeLease, SuspendLease
from leasehold.model.event import LeaseEnded, LeaseSaved, Operation, OverheadMeasured
from leasehold.model.lease import LeaseState
from leasehold.model.reason import Outcome
from leasehold.routing.registry import routing_policy
from leasehold.testing.worlds import site

GIB = 1024
SUSPEND, RESUME, MIGRATE, START = Operation.SUSPEND, Operation.RESUME, Operation.MIGRATE, Operation.START


def took(operation: Operation, seconds: float, where: str = "a") -> OverheadMeasured:
    return OverheadMeasured(where, operation, GIB, 1, round(seconds * 1000))


def two_sites(*measured: OverheadMeasured) -> Told:
    """Sites a and b, where each of these was measured five times."""
    both = Told(site("a", 4, overhead=QUICK), site("b", 4, overhead=QUICK), routing="most-free")
    for one in measured:
        both.at(0, *[one] * 5)
    return both


class TestPlans:
    def test_are_made_with_what_was_measured(self) -> None:
        both = two_sites(took(SUSPEND, 4), took(RESUME, 9))
        both.at(0, lent(1, 4, 20, "suspendable"))
        [saving] = [e for e in both.at(2, own(2, 4, 10)) if isinstance(e, SuspendLease)]
        assert saving.save_ms == 4_000
        both.at(6, LeaseSaved(1, 1))
        [loading] = [e for e in both.at(12, LeaseEnded(2, 1)) if isinstance(e, ResumeLease)]
        assert loading.resume_ms == 9_000
        assert both.lease(1).span_ms == 9_000 + 18_000
        assert both.lease(1).overhead_vm_ms == (4_000 + 9_000) * 4

    def test_count_what_was_measured_where_machines_would_go(self) -> None:
        both = two_sites(took(MIGRATE, 11, "b"), took(MIGRATE, 1_000, "a"))
        both.at(0, lent(1, 4, 20, "migratable"))
        [moving] = [e for e in both.at(2, own(2, 4, 10)) if isinstance(e, MigrateLease)]
        assert (moving.lease.site, moving.transfer_ms) == ("b", 11_000)

    def test_send_nobody_where_moving_takes_too_long_for_a_deadline(self) -> None:
        both = two_sites(took(MIGRATE, 60, "b"))
        both.at(0, lent(1, 4, 20, "migratable", deadline_s=40))
        effects = both.at(2, own(2, 4, 10))
        assert both.lease(1).state is LeaseState.SUSPENDING
        assert decided(effects, Outcome.PREEMPT) != []

    def test_are_not_changed_by_how_long_machines_take_to_start(self) -> None:
        both = two_sites(took(START, 500))
        both.at(0, lent(1, 4, 20))
        assert both.lease(1).span_ms == 20_000
        assert both.gateway.sites["a"].allocations.overheads is QUICK

    def test_what_is_booked_stays_booked(self) -> None:
        both = two_sites()
        both.at(0, lent(1, 4, 20))
        both.at(2, own(2, 4, 10))
        booked = (both.lease(1).reserved_ms, both.lease(1).span_ms)
        assert both.at(3, *[took(RESUME, 900), took(SUSPEND, 900)] * 5) == []
        assert (both.lease(1).reserved_ms, both.lease(1).span_ms) == booked

    def test_the_victim_that_costs_least_by_now_gives_way(self) -> None:
        def victims(*measured: OverheadMeasured) -> list[int]:
            one = Told(site("a", 4, overhead=QUICK, victims="mov"), site("b", 1, overhead=QUICK))
            one.at(0, *measured, lent(1, 2, 60, "suspendable"), lent(2, 2, 60, "migratable"))
            return [lease for lease, _, _ in decided(one.at(1, own(3, 2, 10)), Outcome.PREEMPT)]

        assert victims() == [1]
        assert victims(*[took(SUSPEND, 60)] * 5) == [2]

    def test_other_sites_have_not_learnt_anything(self) -> None:
        both = two_sites(took(SUSPEND, 60), took(RESUME, 60))
        assert both.gateway.sites["b"].allocations.overheads is QUICK


def test_the_owner_s_terms_stay_what_they_are() -> None:
    both = two_sites(took(SUSPEND, 60))
    assert both.gateway.sites["a"].settings.overhead is QUICK
    assert both.gateway.sites["a"].allocations.experience.factor(SUSPEND) == 30 * ONE


def test_a_memory_that_names_a_site_that_is_gone_is_no_problem() -> None:
    before, after = two_sites(took(SUSPEND, 60)), Told(site("b", 4, overhead=QUICK))
    after.gateway.restore_overheads(before.gateway.overheads_snapshot())
    assert after.gateway.sites["b"].allocations.overheads is QUICK


# Random worlds

Measured = tuple[tuple[int, OverheadMeasured], ...]

measurements: st.SearchStrategy[Measured] = st.lists(
    st.tuples(
        st.integers(0, 40_000),
        st.builds(
            OverheadMeasured,
            st.sampled_from(list(SLOTS)),
            st.sampled_from(list(Operation)),
            st.just(GIB),
            st.integers(1, 4),
            st.sampled_from([0, 1, 500, 2_000, 5_000, 20_000]),
        ),
    ),
    max_size=30,
).map(tuple)


def lived(
    case: Case,
    measured: Measured,
    *,
    restarts: frozenset[int] = frozenset(),
) -> Chronicle:
    """Run a case to its end, with these measurements on the way, and a new gateway after these instants."""
    routing = Routing(routing_policy("most-free")(Random(0)))
    world = ForgetfulWorld(case, routing, set(restarts), "conservative")
    for at_ms, one in measured:
        world._at(at_ms, one)
    for _ in world.run():
        pass
    assert not world.gateway.leases
    return world.chronicle


class TestInRandomWorlds:
    @settings(max_examples=examples(150))
    @given(case=st.one_of(cases(), moving_cases()), measured=measurements)
    def test_nothing_breaks_whatever_is_measured(self, case: Case, measured: Measured) -> None:
        assert len(lived(case, measured).ends()) == len(case.jobs)

    @settings(max_examples=examples(150))
    @given(
        case=st.one_of(cases(), moving_cases()),
        measured=measurements,
        restarts=st.frozensets(st.integers(1, 60), max_size=6),
    )
    def test_nobody_can_tell_that_there_was_a_restart(
        self, case: Case, measured: Measured, restarts: frozenset[int]
    ) -> None:
        assert told(lived(case, measured, restarts=restarts)) == told(lived(case, measured))

    @settings(max_examples=examples(100))
    @given(case=cases(PREEMPTABLE, cancels=False), measured=measurements)
    def test_nobody_at_home_notices_what_was_measured(self, case: Case, measured: Measured) -> None:
        learnt, stated = lived(case, measured), lived(case, ())
        at_home = [number for number, job in enumerate(case.jobs, 1) if job.site is not None]
        assert [learnt.stays(number) for number in at_home] == [stated.stays(number) for number in at_home]
