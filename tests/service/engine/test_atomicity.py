"""A batch is taken in as a whole or not at all, and one command that breaks something breaks nothing else."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.gateway.random_worlds import ByTheView
from tests.gateway.turbulence import Turmoil, moving_turmoils, turmoils
from tests.searching import examples
from tests.service.engine.conftest import NewStore
from tests.service.engine.examples import S, guest, journal, local, state, submitted, two_sites
from tests.service.engine.live_worlds import NEVER_MS, commands_by_instant, live_three

from leasehold.gateway.gateway import Gateway, Routing
from leasehold.model.errors import InvalidField, InvariantBroken, UnknownName
from leasehold.model.event import Tick
from leasehold.model.request import LeaseType
from leasehold.routing.policy import Dispatch
from leasehold.service.commands import Cancel, Command, Drain, Extend, Happened
from leasehold.service.engine.context import KNOWLEDGE
from leasehold.service.errors import Unavailable
from leasehold.service.store.errors import StoreUnavailable
from leasehold.service.store.store import Batch, Store
from leasehold.testing.live import BEGIN_MS, Live
from leasehold.testing.rows import submit
from leasehold.testing.worlds import live_site

SHARED_STORES = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow]


@contextmanager
def failing(store: Store) -> Iterator[None]:
    """The store takes everything, and fails when it has to commit."""
    writing = store.writing

    @contextmanager
    def full() -> Iterator[Batch]:
        with writing() as batch:
            yield batch
            raise StoreUnavailable("no space left on device")

    store.writing = full  # type: ignore[method-assign]
    try:
        yield
    finally:
        del store.writing


def contents(store: Store) -> dict[str, Any]:
    """Everything that a gateway goes on from, but for what policies have learnt."""
    snapshots = store.snapshots()
    snapshots.pop(KNOWLEDGE, None)
    return {
        "leases": store.live_leases(),
        "journal": store.journal(0, 10_000),
        "orders": store.open_orders(),
        "sites": store.sites(),
        "snapshots": snapshots,
    }


class TestAStoreThatFails:
    def test_nobody_is_answered_and_nothing_is_decided(self, live: Live) -> None:
        submitted(live, local(4, 60))
        before = contents(live.store)
        with failing(live.store), pytest.raises(Unavailable, match="no space left"):
            live.do(guest(1, 60), Cancel(1), Drain("b", "operator"), Extend(1, S))
        assert contents(live.store) == before
        assert (state(live, 1), live.sites["a"].machines.observe()[0].lease_id) == ("running", 1)

    def test_the_next_batch_finds_everything_as_it_was(self, live: Live) -> None:
        request = guest(2, 60, key="k", request_hash="h")
        with failing(live.store), pytest.raises(Unavailable):
            live.do(request, Drain("a", "operator"))
        [(row, is_new)] = live.do(request)
        assert (row.lease.id, row.lease.site, row.lease.state, is_new) == (1, "a", "starting", True)
        assert [line.seq for line in journal(live)] == [1, 2, 3, 4]
        assert live.engine.leases.requests.counts == {"physics": 1}

    def test_no_order_leaves_the_house_before_it_is_written(self, live: Live) -> None:
        with failing(live.store), pytest.raises(Unavailable):
            live.do(guest(2, 60))
        live.do()
        assert live.sites["a"].machines.observe() == []

    def test_what_came_due_is_decided_when_the_store_answers_again(self, live: Live) -> None:
        submitted(live, local(4, 10), local(4, 10))
        with failing(live.store), pytest.raises(Unavailable):
            live.pass_time(10 * S)
        live.pass_time_until(BEGIN_MS + 10 * S)
        assert [state(live, n) for n in (1, 2)] == ["completed", "running"]

    def test_a_store_that_does_not_answer_questions_fails_the_batch_too(self, live: Live) -> None:
        def away(_keys: object) -> None:
            raise StoreUnavailable("the server is away")

        live.store.idempotency_keys = away  # type: ignore[assignment,method-assign]
        with pytest.raises(Unavailable, match="away"):
            live.do(guest(1, 60), guest(1, 60, key="k"))
        del live.store.idempotency_keys
        assert submitted(live, guest(1, 60)) == [1]

    def test_an_answer_that_cannot_be_read_any_more_is_no_defect(self, live: Live) -> None:
        """It was over before, was found when the command was read, and the store went away while writing."""
        submitted(live, guest(1, 10))
        live.pass_time(10 * S)
        row, calls = live.store.lease(1), []

        def once(_lease_id: int) -> object:
            calls.append(1)
            if len(calls) > 1:
                raise StoreUnavailable("the server is away")
            return row

        live.store.lease = once  # type: ignore[assignment,method-assign]
        [answer] = live.do(Cancel(1))
        assert isinstance(answer, Unavailable)

    @given(
        turmoil=st.one_of(turmoils(most_jobs=10), moving_turmoils()),
        lost=st.sets(st.integers(0, 12), min_size=1, max_size=4),
    )
    @settings(max_examples=examples(25), suppress_health_check=SHARED_STORES)
    def test_a_batch_that_failed_might_as_well_never_have_come(
        self, new_store: NewStore, turmoil: Turmoil, lost: set[int]
    ) -> None:
        """Everything is decided as in a gateway that was never asked."""
        with new_store() as store, new_store() as other:
            play(turmoil, live_three(store), lost, fails=True)
            play(turmoil, live_three(other), lost, fails=False)
            assert contents(store) == contents(other)
            assert store.last_seq() == other.last_seq()

    @given(turmoil=turmoils(most_jobs=10), repeated=st.sets(st.integers(0, 12), min_size=1, max_size=4))
    @settings(max_examples=examples(25), suppress_health_check=SHARED_STORES)
    def test_a_batch_that_is_asked_again_after_it_failed_is_decided_as_if_nothing_had_been(
        self, new_store: NewStore, turmoil: Turmoil, repeated: set[int]
    ) -> None:
        with new_store() as store, new_store() as other:
            play(turmoil, live_three(store), repeated, fails=True, asks_again=True)
            play(turmoil, live_three(other), set(), fails=False)
            assert contents(store) == contents(other)


def play(turmoil: Turmoil, live: Live, special: set[int], *, fails: bool, asks_again: bool = False) -> None:
    """Of the batches with these numbers nothing is asked; or it is, and the store fails."""
    for number, (at_ms, commands) in enumerate(commands_by_instant(turmoil)):
        live.pass_time_until(at_ms - 1)
        live.now_ms = at_ms
        if number in special and fails:
            with failing(live.store), pytest.raises(Unavailable):
                live.do(*commands, Drain("a", "operator"))
        live.do(*(commands if asks_again or number not in special else ()))
    live.pass_time_until(NEVER_MS)
    assert not live.gateway.leases


class TestACommandThatBreaksSomething:
    """A routing policy that names a site which is not there, and an event that makes no sense."""

    @pytest.fixture
    def live(self, sqlite_store: Store) -> Live:
        def gateway() -> Gateway:
            policy = ByTheView(lambda request, _view, _now: Dispatch("mars" if request.vms == 3 else "a"))
            return Gateway([live_site(name, 4) for name in "ab"], Routing(policy))

        return two_sites(sqlite_store, make_gateway=gateway)

    BAD = (guest(3, 60), Happened(Tick("mars")))

    @pytest.mark.parametrize("bad", BAD)
    def test_it_alone_is_answered_with_the_error(self, live: Live, bad: Command) -> None:
        first, broken, last = live.do(guest(1, 60), bad, guest(2, 60))
        assert isinstance(broken, UnknownName | KeyError)
        assert [(row.lease.id, row.lease.state) for row, _ in (first, last)] == [
            (1, "starting"),
            (2, "starting"),
        ]
        assert [line.lease_id for line in journal(live)] == [1, 1, 1, 2, 2, 2, 1, 2]

    @pytest.mark.parametrize("bad", BAD)
    def test_alone_it_leaves_everything_as_it_was(self, live: Live, bad: Command) -> None:
        submitted(live, local(4, 60))
        before = contents(live.store)
        [broken] = live.do(bad)
        assert isinstance(broken, Exception)
        assert contents(live.store) == before
        assert submitted(live, local(1, 60)) == [2]

    def test_a_batch_with_a_key_twice_is_taken_apart_all_the_same(self, live: Live) -> None:
        request = guest(1, 60, key="k", request_hash="h")
        first, broken, again = live.do(request, guest(3, 60), request)
        assert isinstance(broken, UnknownName)
        assert [(row.lease.id, is_new) for row, is_new in (first, again)] == [(1, True), (1, False)]

    def test_what_is_merely_wrong_does_not_even_take_it_apart(self, live: Live) -> None:
        answers = live.do(guest(1, 60), submit("physics", LeaseType.CANCELABLE, 0, 1), guest(1, 60))
        assert isinstance(answers[1], InvalidField)
        [batches] = [
            sample.value
            for metric in live.metrics.registry.collect()
            for sample in metric.samples
            if sample.name == "leasehold_batch_commands_sum"
        ]
        assert batches == 3 + 2  # the three, and two machines' news

    def test_a_row_that_no_store_can_keep_breaks_only_itself(self, live: Live) -> None:
        first, broken, last = live.do(guest(1, 60), guest(1, 10**18), guest(2, 60))
        assert isinstance(broken, InvariantBroken)
        assert [row.lease.id for row, _ in (first, last)] == [1, 2]

    def test_where_nothing_was_asked_and_the_core_breaks_it_is_raised(self, live: Live) -> None:
        submitted(live, local(4, 10), local(4, 10))
        live.engine.gateway.sites["a"].serve_locals = _break  # type: ignore[assignment,method-assign]
        with pytest.raises(ZeroDivisionError):
            live.pass_time(10 * S)
        live.pass_time_until(BEGIN_MS + 10 * S)
        assert state(live, 2) == "running"


def _break(_now_ms: int) -> None:
    raise ZeroDivisionError
