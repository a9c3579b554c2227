"""Notice before a preemption, and checkpoints that end it: what is ordered when. Site a has 4 VMs, saving takes 2 s."""

from dataclasses import replace
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.searching import examples
from tests.service.engine.examples import S, end, guest, journal, lease, local, orders, state, story, submitted
from tests.service.stores import store_at

from leasehold.gateway.gateway import Gateway, Routing
from leasehold.gateway.settings import SiteSettings
from leasehold.leasing.overhead import OverheadModel
from leasehold.leasing.victims.registry import victim_policy
from leasehold.model.lease import LeaseState
from leasehold.model.request import LeaseType
from leasehold.routing.registry import routing_policy
from leasehold.service.commands import Cancel, Observed, ReportCheckpoint, Submit
from leasehold.service.drivers.emulated.fault_injection import FaultInjector, Faults
from leasehold.service.drivers.emulated.machines import EmulatedMachines
from leasehold.service.drivers.emulated.options import Hardware
from leasehold.service.drivers.protocol import Observation, Phase
from leasehold.service.errors import CannotCheckpoint, Closed, NoSuchLease
from leasehold.service.store.store import Store
from leasehold.testing.live import BEGIN_MS, Live

CANCELABLE, SUSPENDABLE, MIGRATABLE = LeaseType.CANCELABLE, LeaseType.SUSPENDABLE, LeaseType.MIGRATABLE
NOTICE_S = 30
OVERHEAD = OverheadModel(suspend_ms_per_gib=2_000, resume_ms_per_gib=3_000, network_mbps=100_000, migrate_fixed_ms=0)


def live_with(store: Store, notice_s: int = NOTICE_S, *, can_notify: bool = True, victims: str = "mov") -> Live:
    """A site whose owner allows so much notice."""
    site = SiteSettings(
        "a",
        4,
        victim_policy(victims),
        overhead=OVERHEAD,
        confirms_starts=True,
        notice_ms=notice_s * S,
        can_notify=can_notify,
    )

    def make() -> Gateway:
        return Gateway([site], Routing(routing_policy("rr")(Random(0))))

    return Live(store, make, {"a": EmulatedMachines(Hardware(4, 1, 1, OVERHEAD), FaultInjector(Faults(), "a"))})


@pytest.fixture
def told(sqlite_store: Store) -> Live:
    return live_with(sqlite_store)


def telling(request: Submit, how: str = "SIGUSR1") -> Submit:
    return replace(request, metadata=replace(request.metadata, notify=how))


def phase(live: Live, lease_id: int) -> Phase | None:
    return {one.lease_id: one.phase for one in live.sites["a"].machines.observe()}.get(lease_id)


class TestNotice:
    @pytest.mark.parametrize("kind", [CANCELABLE, SUSPENDABLE])
    def test_who_asked_for_it_goes_on_for_as_long_as_the_owner_allows(self, told: Live, kind: LeaseType) -> None:
        submitted(told, telling(guest(4, 600, kind, needed_s=500)))
        told.at(BEGIN_MS + 10 * S, local(2, 60, needed_s=50))
        assert (phase(told, 1), phase(told, 2)) == (Phase.RUNNING, None)
        told.pass_time(NOTICE_S * S - 1)
        assert (phase(told, 1), phase(told, 2)) == (Phase.RUNNING, None)
        told.pass_time(1)
        assert phase(told, 1) in {None, Phase.SAVING}
        assert phase(told, 2) is Phase.RUNNING
        assert lease(told, 2).lease.first_start_ms == BEGIN_MS + (10 + NOTICE_S) * S
        assert "notified" in story(told, 1)

    def test_who_did_not_ask_gives_way_at_once(self, told: Live) -> None:
        submitted(told, guest(4, 600, CANCELABLE))
        told.at(BEGIN_MS + 10 * S, local(2, 60))
        assert (phase(told, 1), phase(told, 2)) == (None, Phase.RUNNING)

    @pytest.mark.parametrize(("notice_s", "can_notify"), [(0, True), (NOTICE_S, False)])
    def test_an_owner_or_machines_that_give_none_delay_nothing(
        self,
        sqlite_store: Store,
        notice_s: int,
        can_notify: bool,  # noqa: FBT001 - a parameter of the test
    ) -> None:
        live = live_with(sqlite_store, notice_s, can_notify=can_notify)
        submitted(live, telling(guest(4, 600, CANCELABLE)))
        live.at(BEGIN_MS + 10 * S, local(2, 60))
        assert phase(live, 2) is Phase.RUNNING

    def test_a_webhook_needs_nothing_of_the_machines(self, sqlite_store: Store) -> None:
        live = live_with(sqlite_store, can_notify=False)
        submitted(live, telling(guest(4, 600, CANCELABLE), "https://hooks.example.org/one"))
        live.at(BEGIN_MS + 10 * S, local(2, 60))
        assert phase(live, 2) is None

    @pytest.mark.parametrize("kind", [CANCELABLE, SUSPENDABLE])
    def test_a_checkpoint_ends_it(self, told: Live, kind: LeaseType) -> None:
        submitted(told, telling(guest(4, 600, kind)))
        told.at(BEGIN_MS + 10 * S, local(2, 60))
        told.at(BEGIN_MS + 15 * S, ReportCheckpoint(1))
        assert phase(told, 2) is Phase.RUNNING
        assert lease(told, 2).lease.first_start_ms == BEGIN_MS + 15 * S
        assert story(told, 1)[-1] == "checkpointed" or kind is SUSPENDABLE

    def test_what_needs_the_room_of_two_waits_for_both(self, told: Live) -> None:
        submitted(told, telling(guest(2, 600, CANCELABLE)), telling(guest(2, 600, CANCELABLE)))
        told.at(BEGIN_MS + 10 * S, local(4, 60))
        told.at(BEGIN_MS + 12 * S, ReportCheckpoint(1))
        assert (phase(told, 1), phase(told, 2), phase(told, 3)) == (None, Phase.RUNNING, None)
        told.at(BEGIN_MS + 15 * S, ReportCheckpoint(2))
        assert (phase(told, 2), phase(told, 3)) == (None, Phase.RUNNING)

    def test_a_command_that_ends_meanwhile_ends_it(self, told: Live) -> None:
        submitted(told, telling(guest(4, 600, CANCELABLE, needed_s=20)))
        told.at(BEGIN_MS + 10 * S, local(2, 60))
        told.pass_time(10 * S)
        assert lease(told, 2).lease.first_start_ms == BEGIN_MS + 20 * S

    def test_a_user_who_cancels_ends_it(self, told: Live) -> None:
        submitted(told, telling(guest(4, 600, SUSPENDABLE)))
        told.at(BEGIN_MS + 10 * S, local(2, 60))
        told.at(BEGIN_MS + 12 * S, Cancel(1))
        assert (end(told, 1), phase(told, 1)) == (("cancelled", "cancelled-by-user"), None)

    def test_it_outlives_a_restart_and_is_not_longer_for_that(self, told: Live) -> None:
        submitted(told, telling(guest(4, 600, SUSPENDABLE)))
        told.at(BEGIN_MS + 10 * S, local(2, 60))
        told.pass_time(5 * S)
        told.restart()
        told.look()
        told.pass_time((NOTICE_S - 5) * S - 1)
        assert (phase(told, 1), phase(told, 2)) == (Phase.RUNNING, None)
        told.pass_time(1)
        assert (phase(told, 1), phase(told, 2)) == (Phase.SAVING, Phase.RUNNING)

    def test_a_suspended_guest_comes_back_and_ends(self, told: Live) -> None:
        submitted(told, telling(guest(4, 600, SUSPENDABLE, needed_s=60)))
        told.at(BEGIN_MS + 10 * S, local(4, 60, needed_s=20))
        told.pass_time(1_000 * S)
        told.look()
        assert end(told, 1) == ("completed", "completed")
        assert orders(told) == []


class TestCheckpoints:
    def test_it_is_known_and_written_down(self, told: Live) -> None:
        submitted(told, guest(2, 600, CANCELABLE))
        [row] = told.at(BEGIN_MS + 10 * S, ReportCheckpoint(1))
        assert row.lease.checkpointed_ms == BEGIN_MS + 10 * S
        told.restart()
        assert told.gateway.leases[1].checkpointed_ms == BEGIN_MS + 10 * S
        assert story(told, 1)[-1] == "checkpointed"

    def test_victims_are_chosen_by_it(self, sqlite_store: Store) -> None:
        live = live_with(sqlite_store, victims="least-lost")
        submitted(live, guest(2, 600, CANCELABLE))
        live.at(BEGIN_MS + 10 * S, guest(2, 600, CANCELABLE))
        live.at(BEGIN_MS + 50 * S, ReportCheckpoint(1))
        live.at(BEGIN_MS + 60 * S, local(2, 60))
        assert (state(live, 1), state(live, 2)) == ("terminated", "running")

    def test_it_is_refused_where_there_is_nothing_to_save(self, told: Live) -> None:
        submitted(told, guest(4, 600, CANCELABLE), guest(4, 600, CANCELABLE))
        told.do(Cancel(1))
        waiting = [one for one in (1, 2) if state(told, one) == LeaseState.WAITING]
        answers = told.do(ReportCheckpoint(1), ReportCheckpoint(99), *map(ReportCheckpoint, waiting))
        assert [type(one) for one in answers] == [Closed, NoSuchLease, *[CannotCheckpoint] * len(waiting)]

    def test_the_word_of_machines_counts_once_and_not_for_the_future(self, told: Live) -> None:
        submitted(told, guest(4, 600, CANCELABLE))
        told.pass_time(100 * S)
        for said_ms in (BEGIN_MS + 50 * S, BEGIN_MS + 50 * S, BEGIN_MS + 10_000 * S, BEGIN_MS - 5):
            told.do(Observed("a", (Observation(1, 1, Phase.RUNNING, BEGIN_MS, checkpointed_ms=said_ms),)))
        assert told.gateway.leases[1].checkpointed_ms == BEGIN_MS + 100 * S
        assert [line.what for line in journal(told, 1)].count("checkpointed") == 2

    def test_a_file_from_before_the_notice_does_not_end_it(self, told: Live) -> None:
        submitted(told, telling(guest(4, 600, CANCELABLE)))
        told.at(BEGIN_MS + 10 * S, local(2, 60))
        for said_s, is_there in ((9, True), (11, False)):
            told.at(
                BEGIN_MS + (11 + said_s - 9) * S,
                Observed("a", (Observation(1, 1, Phase.RUNNING, BEGIN_MS, checkpointed_ms=BEGIN_MS + said_s * S),)),
            )
            assert (phase(told, 1) is Phase.RUNNING) is is_there


@st.composite
def stories(draw: st.DrawFn) -> list[tuple[int, str, int, LeaseType, str]]:
    """Guests, local requests and checkpoints at some second of the first two minutes."""
    kinds = st.sampled_from([CANCELABLE, SUSPENDABLE])
    what = st.tuples(
        st.integers(0, 120),
        st.sampled_from(["guest", "local", "checkpoint"]),
        st.integers(1, 4),
        kinds,
        st.sampled_from(["", "SIGUSR1", "file"]),
    )
    return sorted(draw(st.lists(what, min_size=1, max_size=12)), key=lambda one: one[0])


@given(stories(), st.integers(0, 40))
@settings(max_examples=examples(60), deadline=None)
def test_no_local_start_is_later_than_its_plan_by_more_than_the_notice(
    happenings: list[tuple[int, str, int, LeaseType, str]], notice_s: int
) -> None:
    """The owner's promise, kept: local requests start when they would without guests, or so much later at most."""
    starts: dict[bool, list[int]] = {}
    for with_guests in (False, True):
        with TemporaryDirectory() as folder, store_at(Path(folder) / "store.db") as store:
            live = live_with(store, notice_s)
            mine: list[int] = []
            for at_s, what, number, kind, how in happenings:
                command: Submit | ReportCheckpoint
                if what == "local":
                    command = local(number, 40)
                elif not with_guests:
                    continue
                elif what == "guest":
                    command = telling(guest(number, 50, kind), how)
                else:
                    command = ReportCheckpoint(number)
                [answer] = live.at(BEGIN_MS + at_s * S, command)
                if what == "local":
                    mine.append(answer[0].lease.id)
            live.pass_time(3_000 * S)
            assert all(lease(live, one).lease.state.is_final for one in mine)
            starts[with_guests] = [lease(live, one).lease.first_start_ms for one in mine]
            live.look()
            assert orders(live) == []
    busy_s = notice_s * len(starts[False])
    for without_ms, with_ms in zip(starts[False], starts[True], strict=True):
        assert 0 <= with_ms - without_ms <= busy_s * S
